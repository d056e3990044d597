//! Work in a process of its own: a driver that crashes ends a job, not the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use remaster::units::told;
use remaster::{Task, WorkerProgram};
use serde_json::Value;

/// How often the wish to stop is looked for.
const POLL: Duration = Duration::from_millis(100);

/// How long a restoration may take to save its work when it is to stop. Until then it is not cancelled.
const SAVES: Duration = Duration::from_secs(10);

/// How long a child may take to end. It ends itself within a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a pipe is read on once the child is gone. Its own words are read by then; what it started may hold the pipe for as
/// long as it likes.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes of a line that a child tells, and of its result, at most.
const MOST_LINE: u64 = 1 << 20;
const MOST_RESULT: u64 = 16 << 20;

/// The kind of an error that says that no process could be started.
pub(crate) const NO_PROCESS: &str = "no-process";

/// How a child ended without a result.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// As it was told to.
    Stopped,
    /// With an error: the words of the command line, and a kind for programs.
    Failed {
        /// For people.
        error: String,
        /// For programs.
        kind: String,
    },
}

impl Ended {
    fn failed(error: impl Into<String>, kind: &str) -> Self {
        Ended::Failed { error: error.into(), kind: kind.to_owned() }
    }
}

/// Runs a task. `stop` is asked ten times a second; `line` gets each line of its progress.
pub(crate) fn run(
    worker: &WorkerProgram,
    task: &Task,
    limit: Option<Duration>,
    stop: &dyn Fn() -> bool,
    line: &mut dyn FnMut(&str),
) -> Result<Value, Ended> {
    let lost = |error: std::io::Error| {
        Ended::failed(format!("cannot start {}: {error}", worker.program.display()), NO_PROCESS)
    };
    let mut child = worker.start(&["work"]).map_err(lost)?;
    let (mut stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut words = serde_json::to_vec(task).unwrap_or_default();
    words.push(b'\n');
    // A child that is gone already says why in its result.
    if let Some(stdin) = &mut stdin {
        let _ = stdin.write_all(&words);
    }
    let lines = follow(stderr.map(BufReader::new), |from, tell| {
        let mut text = Vec::new();
        while let Ok(1..) = from.by_ref().take(MOST_LINE).read_until(b'\n', &mut text) {
            if tell(String::from_utf8_lossy(&text).trim_end().to_owned()).is_none() {
                break;
            }
            text.clear();
        }
    });
    let document = Arc::new(Mutex::new(Vec::new()));
    let result = follow(stdout, {
        let document = Arc::clone(&document);
        move |from, _| collect(from, &document)
    });
    let saves = if matches!(task, Task::Restore(_)) { SAVES } else { Duration::ZERO };
    let (begun, mut told) = (Instant::now(), None::<Instant>);
    let late = || limit.is_some_and(|limit| begun.elapsed() > limit);
    let mut ended = None::<(ExitStatus, Instant)>;
    loop {
        match lines.recv_timeout(POLL) {
            Ok(text) => line(&text),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if told.is_none() && (stop() || late()) {
            told = Some(Instant::now());
            // Only a restoration has something to save.
            let word = stdin.as_mut().filter(|_| saves > Duration::ZERO);
            // One that cannot be told any more is ending.
            let _ = word.map(|stdin| stdin.write_all(&[told::STOP]).and_then(|()| stdin.flush()));
        }
        if told.is_some_and(|told| told.elapsed() >= saves) {
            // The end of stdin cancels it.
            stdin = None;
        }
        if ended.is_none() {
            if told.is_some_and(|told| told.elapsed() > saves + PATIENCE) {
                WorkerProgram::end(&mut child);
            }
            let status = WorkerProgram::reap(&mut child).ok().flatten();
            ended = status.map(|status| (status, Instant::now()));
        }
        if ended.is_some_and(|(_, at)| at.elapsed() > GRACE) {
            break;
        }
    }
    let status = ended.map(|(status, _)| status).or_else(|| wait(&mut child, told.map(|told| told + saves)));
    drop(stdin);
    // It is disconnected when all was read.
    let _ = result.recv_timeout(GRACE);
    let text = String::from_utf8_lossy(&document.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
    match serde_json::from_str::<Value>(&text) {
        _ if told.is_some() && late() => {
            let limit = limit.unwrap_or_default().as_secs();
            let error = format!(
                "this took longer than {limit} s and was stopped; try again when the machine has less to do, or with a smaller size"
            );
            Err(Ended::failed(error, "too-slow"))
        }
        _ if told.is_some() => Err(Ended::Stopped),
        Ok(document) if status.is_some_and(|status| status.success()) => Ok(document),
        Ok(document) => {
            let word = |name: &str| document.get(name).and_then(Value::as_str);
            match word("kind") {
                // A signal reached the child directly: a service manager stops the server and its children together.
                Some("interrupted") => Err(Ended::Stopped),
                kind => Err(Ended::failed(word("error").unwrap_or(&text), kind.unwrap_or("internal"))),
            }
        }
        Err(_) => Err(Ended::failed(crashed(status), "crashed")),
    }
}

/// A thread that reads, and what it tells. It ends with what it reads from, or when it is not listened to any more.
fn follow<R: Read + Send + 'static>(
    from: Option<R>,
    read: impl FnOnce(&mut R, &dyn Fn(String) -> Option<()>) + Send + 'static,
) -> Receiver<String> {
    let (tell, told) = sync_channel(64);
    if let Some(mut from) = from {
        let reader = move || read(&mut from, &|text| tell.send(text).ok());
        // Without the thread nothing is told, and the child is taken for crashed.
        drop(std::thread::Builder::new().name("child".into()).spawn(reader));
    }
    told
}

/// Reads the result of a child, as far as it may be long.
fn collect(from: &mut impl Read, document: &Mutex<Vec<u8>>) {
    let mut from = from.take(MOST_RESULT);
    let mut piece = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        document.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..read]);
    }
}

/// Waits for a child that has closed its stderr, so it is about to end. One that does not is ended; one that does not even end
/// then is left behind.
fn wait(child: &mut Child, told: Option<Instant>) -> Option<ExitStatus> {
    let begun = told.unwrap_or_else(Instant::now);
    loop {
        match WorkerProgram::reap(child) {
            Ok(Some(status)) => return Some(status),
            Ok(None) if begun.elapsed() < PATIENCE => {}
            Ok(None) if begun.elapsed() < 2 * PATIENCE => WorkerProgram::end(child),
            _ => return None,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that said nothing.
fn crashed(status: Option<ExitStatus>) -> String {
    let how = status.map_or_else(|| "in an unknown way".to_owned(), |status| format!("with {status}"));
    format!(
        "the process that did the work ended {how}; if it was killed, lower --ram, else try --device cpu and report it"
    )
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that is a shell script.
    fn program(folder: &tempfile::TempDir, script: &str) -> WorkerProgram {
        let path = folder.path().join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        WorkerProgram { program: path, without: Vec::new(), with: Vec::new() }
    }

    fn ended(script: &str, limit: Option<Duration>, stop: bool) -> (Result<Value, Ended>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let mut lines = Vec::new();
        let mut line = |text: &str| lines.push(text.to_owned());
        let done = run(&program(&folder, script), &Task::Devices, limit, &|| stop, &mut line);
        (done, lines)
    }

    #[test]
    fn a_child_gets_its_task_and_says_what_it_made() {
        let (done, lines) =
            ended("read task; echo one >&2; echo two >&2; echo \"{\\\"got\\\":$task}\"", None, false);
        assert_eq!(done.unwrap(), serde_json::json!({"got": "devices"}));
        assert_eq!(lines, ["one", "two"]);
    }

    #[test]
    fn errors_keep_their_words_and_crashes_get_some() {
        let (done, _) = ended("echo '{\"error\":\"no disk\",\"kind\":\"disk-full\"}'; exit 3", None, false);
        assert!(
            matches!(done, Err(Ended::Failed { error, kind }) if error == "no disk" && kind == "disk-full")
        );
        let (done, _) = ended("kill -9 $$", None, false);
        assert!(
            matches!(done, Err(Ended::Failed { error, kind }) if error.contains("signal: 9") && kind == "crashed")
        );
        let none = WorkerProgram { program: "/nowhere/at/all".into(), without: Vec::new(), with: Vec::new() };
        let lost = run(&none, &Task::Devices, None, &|| false, &mut |_| ());
        assert!(matches!(lost, Err(Ended::Failed { kind, .. }) if kind == NO_PROCESS));
        let (done, _) =
            ended("echo '{\"error\":\"stopped\",\"kind\":\"interrupted\"}'; exit 130", None, false);
        assert!(matches!(done, Err(Ended::Stopped)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_leads_a_group_of_its_own_so_that_ctrl_c_is_not_for_it() {
        let (done, _) =
            ended("read task; read -r _ _ _ _ group _ </proc/$$/stat; echo \"[$group,$$]\"", None, false);
        let done = done.unwrap();
        assert!(done[0].is_u64() && done[0] == done[1], "{done}");
    }

    #[test]
    fn a_restoration_is_told_to_save_its_work_and_is_cancelled_only_if_it_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let restore = Task::Restore(Box::new(remaster::Request::restore("film.mkv")));
        let stopped = |task: &Task, script: &str| {
            let begun = Instant::now();
            let mut lines = Vec::new();
            let mut line = |text: &str| lines.push(text.to_owned());
            let done = run(&program(&folder, script), task, None, &|| true, &mut line);
            assert!(matches!(done, Err(Ended::Stopped)));
            (lines, begun.elapsed())
        };
        let script = "read task; word=$(dd bs=1 count=1 2>/dev/null); echo \"word <$word>\" >&2";
        let (lines, took) = stopped(&restore, script);
        assert_eq!(lines, ["word <s>"]);
        assert!(took < SAVES);
        // Other work has nothing to save: its stdin ends at once.
        let (lines, took) = stopped(&Task::Devices, script);
        assert_eq!(lines, ["word <>"]);
        assert!(took < PATIENCE);
        // One that goes on is cancelled after a while.
        let (lines, took) = stopped(&restore, "read task; cat >/dev/null; echo cancelled >&2");
        assert_eq!(lines, ["cancelled"]);
        assert!(took >= SAVES && took < SAVES + PATIENCE, "{took:?}");
    }

    #[test]
    fn a_child_ends_when_it_is_told_to_and_when_its_time_is_up() {
        let begun = Instant::now();
        let (done, _) = ended("read task; read more; exit 5", None, true);
        assert!(matches!(done, Err(Ended::Stopped)));
        let (done, _) = ended("read task; read more; exit 5", Some(Duration::from_millis(200)), false);
        assert!(matches!(done, Err(Ended::Failed { kind, .. }) if kind == "too-slow"));
        assert!(begun.elapsed() < PATIENCE);
        // One that does not listen is killed.
        let (done, _) = ended("exec sleep 60", None, true);
        assert!(matches!(done, Err(Ended::Stopped)));
        assert!(begun.elapsed() < 2 * PATIENCE + Duration::from_secs(2));
    }

    /// Waits for the end of a process.
    #[track_caller]
    fn ends(id: &str) {
        let begun = Instant::now();
        loop {
            let out = std::process::Command::new("ps").args(["-o", "stat=", "-p", id]).output().unwrap();
            let state = String::from_utf8_lossy(&out.stdout).trim().to_owned();
            // A zombie has ended, whoever looks after it.
            if state.is_empty() || state.starts_with('Z') {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "a process is left behind: {state}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn what_a_child_started_does_not_keep_us_and_ends_with_it() {
        let begun = Instant::now();
        let (done, lines) = ended("read task; sleep 60 & echo $! >&2; wait", None, true);
        assert!(matches!(done, Err(Ended::Stopped)));
        assert!(begun.elapsed() < PATIENCE + Duration::from_secs(4), "{:?}", begun.elapsed());
        ends(&lines[0]);
        // A child that ends well leaves a process that holds both pipes.
        let begun = Instant::now();
        let (done, lines) = ended("read task; sleep 60 & echo $! >&2; echo '{\"frames\":1}'", None, false);
        assert_eq!(done.unwrap(), serde_json::json!({"frames": 1}));
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        ends(&lines[0]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_with_a_session_of_its_own_does_not_keep_us() {
        let script =
            "read task; setsid sh -c 'echo $$ >&2; exec sleep 60' & sleep 0.5; echo '{\"frames\":1}'";
        let begun = Instant::now();
        let (done, lines) = ended(script, None, false);
        assert_eq!(done.unwrap(), serde_json::json!({"frames": 1}));
        assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
        // No group holds it, so it is this test that ends it.
        std::process::Command::new("kill").arg(&lines[0]).status().unwrap();
    }
}
