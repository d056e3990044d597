//! ffmpeg and ffprobe as children: found, watched, and never left behind.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::MediaError;
use crate::resident::Gauge;

/// What `-fps_mode` needs.
const OLDEST: (u32, u32) = (5, 1);

/// How often a waiting thread looks up.
const TICK: Duration = Duration::from_millis(20);

/// A description takes a second at most, also of a film; a file that needs longer is built to.
const DESCRIBE_SECONDS: u64 = 20;

/// Descriptions are some KiB; chapters and tags can make it more.
const DESCRIBE_BYTES: usize = 16 << 20;

/// Ticks between two looks at the memory of a child.
const LOOK: u32 = 10;

/// Lines of complaint that are kept.
const LINES: usize = 24;

/// Tells whether to stop what is under way; asked from any thread.
#[derive(Clone)]
pub struct Stop(Arc<dyn Fn() -> bool + Send + Sync>);

impl Stop {
    /// Everything ends with `Cancelled` as soon as `asked` says so.
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Stop(Arc::new(asked))
    }

    /// Nobody will ask.
    pub fn never() -> Self {
        Stop::when(|| false)
    }

    /// Whether somebody asked.
    pub fn is_stopped(&self) -> bool {
        (self.0)()
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stop").field(&self.is_stopped()).finish()
    }
}

/// Where ffmpeg and ffprobe are.
#[derive(Clone, Debug)]
pub struct Tools {
    ffmpeg: PathBuf,
    ffprobe: PathBuf,
    stop: Stop,
    children: Children,
    gauge: Gauge,
}

/// Children that live.
type Children = Arc<Mutex<Vec<Weak<Shared>>>>;

impl Tools {
    /// ffmpeg at `path`, or the one that the system finds; ffprobe lies beside it.
    pub fn find(path: Option<&Path>, stop: Stop) -> Result<Self, MediaError> {
        let ffmpeg = path.map_or_else(|| PathBuf::from("ffmpeg"), Path::to_owned);
        let ffprobe = match path.and_then(Path::file_name).and_then(OsStr::to_str) {
            Some(name) => ffmpeg.with_file_name(name.replacen("ffmpeg", "ffprobe", 1)),
            None => PathBuf::from("ffprobe"),
        };
        let (children, gauge) = (Children::default(), Gauge::default());
        let tools = Tools { ffmpeg, ffprobe, stop, children, gauge };
        for program in [&tools.ffmpeg, &tools.ffprobe] {
            let text = tools.run(program, "ffmpeg", &[OsStr::new("-version")], false)?.0;
            check_version(program, &String::from_utf8_lossy(&text))?;
        }
        Ok(tools)
    }

    /// What stops the children of these tools.
    pub fn stopper(&self) -> &Stop {
        &self.stop
    }

    /// The most memory that all children together held so far.
    pub fn children_peak(&self) -> u64 {
        self.gauge.most()
    }

    /// Ends all children now: for a process that has to end itself without going back.
    pub fn kill_all(&self) {
        for child in lock(&self.children).iter().filter_map(Weak::upgrade) {
            let _ = lock(&child.child).kill();
        }
    }

    /// What ffprobe says, and its complaints. An exit code other than 0 is an error with those.
    pub(crate) fn ffprobe(&self, args: &[&OsStr]) -> Result<(Vec<u8>, Vec<String>), MediaError> {
        self.run(&self.ffprobe, "ffprobe", args, false)
    }

    /// The same for questions that need a whole film to be decoded.
    pub(crate) fn ffprobe_patiently(&self, args: &[&OsStr]) -> Result<(Vec<u8>, Vec<String>), MediaError> {
        self.run(&self.ffprobe, "ffprobe", args, true)
    }

    /// What ffmpeg says.
    pub(crate) fn ffmpeg(&self, args: &[&OsStr]) -> Result<(Vec<u8>, Vec<String>), MediaError> {
        self.run(&self.ffmpeg, "ffmpeg", args, false)
    }

    fn run(
        &self,
        program: &Path,
        what: &'static str,
        args: &[&OsStr],
        patient: bool,
    ) -> Result<(Vec<u8>, Vec<String>), MediaError> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        let mut watched = self.watched(command, what, DESCRIBE_SECONDS)?;
        watched.shared.endless.store(patient, Ordering::Relaxed);
        let mut out = Vec::new();
        if let Some(stdout) = watched.stdout.take() {
            let read = watched.waiting(|| stdout.take(DESCRIBE_BYTES as u64 + 1).read_to_end(&mut out));
            read.map_err(|source| MediaError::Io { doing: format!("read from {what}"), source })?;
        }
        if out.len() > DESCRIBE_BYTES {
            return Err(MediaError::TooMuch { what, limit: DESCRIBE_BYTES });
        }
        let lines = watched.finish()?;
        Ok((out, lines))
    }

    /// Starts ffmpeg with pipes. `patience` is how long a read or a write may take.
    pub(crate) fn spawn(
        &self,
        what: &'static str,
        args: &[impl AsRef<OsStr>],
        patience: u64,
        input: bool,
    ) -> Result<Watched, MediaError> {
        let mut command = Command::new(&self.ffmpeg);
        command.args(args).stdin(if input { Stdio::piped() } else { Stdio::null() });
        self.watched(command, what, patience)
    }

    fn watched(&self, command: Command, what: &'static str, patience: u64) -> Result<Watched, MediaError> {
        let watched = Watched::spawn(command, what, patience, self.stop.clone(), self.gauge.clone())?;
        let mut children = lock(&self.children);
        children.retain(|c| c.strong_count() > 0);
        children.push(Arc::downgrade(&watched.shared));
        Ok(watched)
    }
}

fn check_version(program: &Path, text: &str) -> Result<(), MediaError> {
    let first = text.lines().next().unwrap_or_default();
    let found = first.split_whitespace().nth(2).unwrap_or_default();
    // Builds from git are named N-12345-gabcdef; there is none that is both in use and too old.
    let mut parts = found.trim_start_matches('n').split(['.', '-']).map_while(|p| p.parse::<u32>().ok());
    let old = parts.next().is_some_and(|major| (major, parts.next().unwrap_or(0)) < OLDEST);
    if old || !first.contains("version") {
        let (program, found) = (program.display().to_string(), first.to_owned());
        return Err(MediaError::OldTool { program, found });
    }
    Ok(())
}

/// What the threads of a child share.
struct Shared {
    child: Mutex<Child>,
    lines: Mutex<Vec<String>>,
    /// Since when somebody waits for the child.
    waiting: Mutex<Option<Instant>>,
    /// Somebody waited for too long.
    stalled: AtomicBool,
    over: AtomicBool,
    /// The child is allowed to take as long as it likes.
    endless: AtomicBool,
    stop: Stop,
    gauge: Gauge,
}

/// A lock whose holder panicked is still a lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A child with somebody who looks after it. Dropping it ends the child.
pub(crate) struct Watched {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    shared: Arc<Shared>,
    what: &'static str,
    patience: u64,
    watcher: Option<JoinHandle<()>>,
    listener: Option<JoinHandle<()>>,
}

impl Watched {
    fn spawn(
        mut command: Command,
        what: &'static str,
        patience: u64,
        stop: Stop,
        gauge: Gauge,
    ) -> Result<Self, MediaError> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C in a terminal goes to the whole group: the children would die before we can say why.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|e| MediaError::NoTool {
            program: command.get_program().to_string_lossy().into_owned(),
            reason: e.to_string(),
        })?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let shared = Arc::new(Shared {
            child: Mutex::new(child),
            lines: Mutex::default(),
            waiting: Mutex::default(),
            stalled: AtomicBool::new(false),
            over: AtomicBool::new(false),
            endless: AtomicBool::new(false),
            stop,
            gauge,
        });
        let listener = stderr.map(|stderr| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || listen(stderr, &shared))
        });
        let watcher = {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || watch(&shared, Duration::from_secs(patience)))
        };
        Ok(Watched { stdin, stdout, shared, what, patience, watcher: Some(watcher), listener })
    }

    /// Runs `f`, which waits for the child: it is ended if that takes too long.
    pub(crate) fn waiting<T>(&self, f: impl FnOnce() -> T) -> T {
        *lock(&self.shared.waiting) = Some(Instant::now());
        let result = f();
        *lock(&self.shared.waiting) = None;
        result
    }

    /// What the child complained about so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        lock(&self.shared.lines).clone()
    }

    /// The error behind an end that came too early.
    pub(crate) fn trouble(&self) -> Option<MediaError> {
        if self.shared.stop.is_stopped() {
            return Some(MediaError::Cancelled);
        }
        let stalled = self.shared.stalled.load(Ordering::Relaxed);
        stalled.then_some(MediaError::Stalled { what: self.what, seconds: self.patience })
    }

    /// Waits for the end. Complaints of a child that ended well are returned.
    pub(crate) fn finish(mut self) -> Result<Vec<String>, MediaError> {
        drop(self.stdin.take());
        drop(self.stdout.take());
        let ended = self.waiting(|| wait(&self.shared));
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        if let Some(trouble) = self.trouble() {
            return Err(trouble);
        }
        let lines = self.lines();
        match ended {
            Some(status) if status.success() => Ok(lines),
            status => Err(MediaError::Child { what: self.what, reason: reason(&lines, status) }),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        {
            let mut child = lock(&self.shared.child);
            let _ = child.kill();
            let _ = child.wait();
        }
        drop(self.stdin.take());
        drop(self.stdout.take());
        for thread in [self.watcher.take(), self.listener.take()].into_iter().flatten() {
            let _ = thread.join();
        }
    }
}

fn wait(shared: &Shared) -> Option<ExitStatus> {
    loop {
        match lock(&shared.child).try_wait() {
            Ok(None) => {}
            Ok(status) => return status,
            Err(_) => return None,
        }
        std::thread::sleep(TICK / 10);
    }
}

/// Ends the child when it is time to.
fn watch(shared: &Shared, patience: Duration) {
    // A child leads a process group of its own.
    let group = lock(&shared.child).id();
    watch_group(shared, patience, group);
    shared.gauge.forget(group);
}

fn watch_group(shared: &Shared, patience: Duration, group: u32) {
    for tick in 0u32.. {
        if shared.over.load(Ordering::Relaxed) {
            return;
        }
        if tick % LOOK == LOOK - 1 {
            shared.gauge.sample(group);
        }
        let late = lock(&shared.waiting).is_some_and(|since| since.elapsed() > patience)
            && !shared.endless.load(Ordering::Relaxed);
        if late {
            shared.stalled.store(true, Ordering::Relaxed);
        }
        if late || shared.stop.is_stopped() {
            let _ = lock(&shared.child).kill();
            return;
        }
        std::thread::sleep(TICK);
    }
}

/// Keeps the first complaints. The rest is read and dropped: a full pipe would stop the child.
fn listen(stderr: impl Read, shared: &Shared) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(4096).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        let mut lines = lock(&shared.lines);
        if !text.is_empty() && lines.len() < LINES {
            lines.push(text);
        }
    }
}

/// Why a child failed, in one line.
pub(crate) fn reason(lines: &[String], status: Option<ExitStatus>) -> String {
    match (lines.last(), status) {
        (Some(_), _) => plain(lines),
        (None, Some(status)) => format!("it ended with {status} and said nothing"),
        (None, None) => "it could not be waited for".into(),
    }
}

/// Complaints without the addresses that ffmpeg puts in front: `[h264 @ 0x55d]`.
pub(crate) fn plain(lines: &[String]) -> String {
    let strip = |line: &String| match (line.strip_prefix('['), line.find("] ")) {
        (Some(rest), Some(end)) => {
            let name = rest.split(" @").next().unwrap_or_default();
            format!("{name}: {}", &line[end + 2..])
        }
        _ => line.clone(),
    };
    let mut seen: Vec<String> = Vec::new();
    for line in lines.iter().map(strip) {
        if !seen.contains(&line) && seen.len() < 3 {
            seen.push(line);
        }
    }
    seen.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: u64, stop: &Stop) -> Watched {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        Watched::spawn(command, "sh", patience, stop.clone(), Gauge::default()).unwrap()
    }

    fn read(watched: &mut Watched) -> Vec<u8> {
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
        let mut child = shell("exec sleep 60", 1, &stop);
        let started = Instant::now();
        assert!(read(&mut child).is_empty());
        assert!(matches!(child.finish(), Err(MediaError::Stalled { seconds: 1, .. })));
        let mut child = shell("exec sleep 60", 60, &stop);
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            asked.store(true, Ordering::Relaxed);
        });
        assert!(read(&mut child).is_empty());
        assert!(matches!(child.finish(), Err(MediaError::Cancelled)));
        thread.join().unwrap();
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_dropped_child_is_gone() {
        let child = shell("exec sleep 60", 60, &Stop::never());
        let id = lock(&child.shared.child).id();
        drop(child);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn complaints_are_kept_and_a_flood_of_them_does_not_block() {
        let mut child = shell(
            "i=0; while [ $i -lt 30000 ]; do echo line $i >&2; i=$((i+1)); done; echo out",
            60,
            &Stop::never(),
        );
        assert_eq!(read(&mut child), b"out\n");
        let lines = child.finish().unwrap();
        assert_eq!(lines.len(), LINES);
        assert_eq!(lines[0], "line 0");
        let child = shell("echo '[h264 @ 0x1] bad thing' >&2; exit 3", 60, &Stop::never());
        assert_eq!(child.finish().unwrap_err().to_string(), "sh failed: h264: bad thing");
    }

    #[test]
    fn versions_as_they_are_written() {
        let check = |text| check_version(Path::new("ffmpeg"), text).is_ok();
        assert!(check("ffmpeg version 5.1.9-0+deb12u1 Copyright"));
        assert!(check("ffmpeg version n7.0.2 Copyright"));
        assert!(check("ffmpeg version N-118000-gabc Copyright"));
        assert!(!check("ffmpeg version 4.4.2-0ubuntu Copyright"));
        assert!(!check("something else"));
    }
}
