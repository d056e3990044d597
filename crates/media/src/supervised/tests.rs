//! Children that hang, flood, die or leave others behind.

use super::*;

#[cfg(unix)]
fn shell(script: &str, patience: u64, stop: &Stop) -> Supervised {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::piped());
    Supervised::spawn(command, "sh", patience, stop.clone(), Gauge::default()).unwrap()
}

/// A child that neither reads nor writes for a minute.
#[cfg(unix)]
fn silent(patience: u64, stop: &Stop) -> Supervised {
    shell("exec sleep 60", patience, stop)
}

#[cfg(windows)]
fn silent(patience: u64, stop: &Stop) -> Supervised {
    let mut command = Command::new("cmd");
    command.args(["/c", "ping -n 60 127.0.0.1 > nul"]).stdin(Stdio::piped());
    Supervised::spawn(command, "cmd", patience, stop.clone(), Gauge::default()).unwrap()
}

fn read(watched: &mut Supervised) -> Vec<u8> {
    let mut out = Vec::new();
    let mut stdout = watched.stdout.take().unwrap();
    watched.waiting(|| stdout.read_to_end(&mut out)).unwrap();
    out
}

#[test]
fn a_silent_child_is_ended_and_so_is_one_that_is_stopped() {
    let asked = Arc::new(AtomicBool::new(false));
    let ask = Arc::clone(&asked);
    let stop = Stop::when(move || ask.load(Ordering::Relaxed));
    let mut child = silent(1, &stop);
    let started = Instant::now();
    assert!(read(&mut child).is_empty());
    assert!(matches!(child.finish(), Err(MediaError::Stalled { seconds: 1, .. })));
    let mut child = silent(60, &stop);
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        asked.store(true, Ordering::Relaxed);
    });
    assert!(read(&mut child).is_empty());
    assert!(matches!(child.finish(), Err(MediaError::Cancelled)));
    thread.join().unwrap();
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[cfg(target_os = "linux")]
fn lives(id: &str) -> bool {
    // The number of a process that ended but was not waited for is still there, as a zombie.
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

#[test]
#[cfg(target_os = "linux")]
fn a_dropped_child_is_gone_and_so_is_what_it_started() {
    let mut child = shell("sleep 60 & echo $!; exec sleep 60", 60, &Stop::never());
    let id = lock(&child.shared.child).child.id();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    child.waiting(|| stdout.read_line(&mut line)).unwrap();
    assert!(lives(line.trim()));
    let started = Instant::now();
    drop(child);
    assert!(!lives(&id.to_string()));
    assert!(!lives(line.trim()), "the grandchild lives on");
    assert!(started.elapsed() < GRACE);
}

#[test]
#[cfg(unix)]
fn who_holds_a_pipe_open_from_the_background_is_not_waited_for() {
    // In the child's group, and in a session of its own.
    for before in ["", "setsid "] {
        let started = Instant::now();
        let mut child =
            shell(&format!("{before}sleep 30 & echo out; echo trouble >&2; exit 3"), 60, &Stop::never());
        assert_eq!(read(&mut child), b"out\n");
        let error = child.finish().unwrap_err();
        assert_eq!(error.to_string(), "sh failed: trouble", "`{before}`");
        let child = shell(&format!("{before}sleep 30 & exec sleep 60"), 60, &Stop::never());
        drop(child);
        assert!(started.elapsed() < Duration::from_secs(8), "`{before}`: {:?}", started.elapsed());
    }
}

#[test]
fn writing_to_a_child_that_does_not_read_has_a_limit() {
    let write = |mut child: Supervised| {
        let started = Instant::now();
        let mut stdin = child.stdin.take().unwrap();
        assert!(child.waiting(|| stdin.write_all(&[0; 1 << 22])).is_err());
        drop(stdin);
        assert!(matches!(child.finish(), Err(MediaError::Stalled { .. })));
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    };
    write(silent(1, &Stop::never()));
    // Another process has the pipe, too.
    #[cfg(unix)]
    write(shell("setsid sleep 30 <&0 & exec sleep 60", 1, &Stop::never()));
}

#[test]
#[cfg(unix)]
fn a_child_that_was_killed_is_not_one_that_failed() {
    for script in ["kill -9 $$", "kill -SEGV $$", "exit 255", "exit 137"] {
        let error = shell(script, 60, &Stop::never()).finish().unwrap_err();
        assert!(matches!(error, MediaError::Died { .. }), "{script}: {error}");
    }
    for script in ["exit 1", "exit 183", "exit 234", "exit 8"] {
        let error = shell(script, 60, &Stop::never()).finish().unwrap_err();
        assert!(matches!(error, MediaError::Child { .. }), "{script}: {error}");
    }
}

#[test]
fn crashes_of_windows_are_told_from_the_codes_of_ffmpeg() {
    // An access violation, a damaged heap, a missing library.
    for code in [0xC000_0005_u32, 0xC000_0374, 0xC000_0135] {
        assert!(is_end_by_others(code as i32), "{code:x}");
    }
    // AVERROR(EINVAL), AVERROR_INVALIDDATA, AVERROR_FILTER_NOT_FOUND.
    for code in [-22, -0x4144_4E49, -0x4C49_46F8, 1, 8] {
        assert!(!is_end_by_others(code), "{code}");
    }
}

#[test]
#[cfg(unix)]
fn complaints_are_kept_and_a_flood_of_them_does_not_block() {
    let flood = "i=0; while [ $i -lt 30000 ]; do echo line $i >&2; i=$((i+1)); done; echo out";
    let mut child = shell(flood, 60, &Stop::never());
    assert_eq!(read(&mut child), b"out\n");
    let lines = child.finish().unwrap();
    assert_eq!(lines.len(), LINES);
    assert_eq!(lines[0], "line 0");
    let child = shell("echo '[h264 @ 0x1] bad thing' >&2; exit 3", 60, &Stop::never());
    assert_eq!(child.finish().unwrap_err().to_string(), "sh failed: h264: bad thing");
}
