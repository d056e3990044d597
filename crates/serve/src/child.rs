//! Work in a process of its own: a driver that crashes ends a job, not the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use remaster::{Task, WorkerProgram};
use serde_json::Value;

/// How often the wish to stop is looked for.
const POLL: Duration = Duration::from_millis(100);

/// How long a child may take to end. It ends itself within a second.
const PATIENCE: Duration = Duration::from_secs(5);

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
    let result = follow(stdout, |from, tell| {
        let mut bytes = Vec::new();
        let _ = from.take(MOST_RESULT).read_to_end(&mut bytes);
        tell(String::from_utf8_lossy(&bytes).into_owned());
    });
    let (begun, mut told) = (Instant::now(), None::<Instant>);
    let late = || limit.is_some_and(|limit| begun.elapsed() > limit);
    loop {
        match lines.recv_timeout(POLL) {
            Ok(text) => line(&text),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if told.is_none() && (stop() || late()) {
            // The end of stdin cancels it.
            (stdin, told) = (None, Some(Instant::now()));
        }
        if told.is_some_and(|told| told.elapsed() > PATIENCE) {
            let _ = child.kill();
        }
    }
    let status = wait(&mut child, told);
    drop(stdin);
    let text = result.recv_timeout(PATIENCE).unwrap_or_default();
    match serde_json::from_str::<Value>(&text) {
        _ if told.is_some() && late() => {
            Err(Ended::failed("this took too long and was stopped; try again", "too-slow"))
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

fn wait(child: &mut Child, told: Option<Instant>) -> Option<ExitStatus> {
    // It has closed its stderr, so it is about to end; one that does not is ended.
    let begun = told.unwrap_or_else(Instant::now);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                return child.wait().ok();
            }
        }
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
    fn a_child_ends_when_it_is_told_to_and_when_its_time_is_up() {
        let begun = Instant::now();
        let (done, _) = ended("read task; read more; exit 5", None, true);
        assert!(matches!(done, Err(Ended::Stopped)));
        let (done, _) = ended("read task; read more; exit 5", Some(Duration::from_millis(200)), false);
        assert!(matches!(done, Err(Ended::Failed { kind, .. }) if kind == "too-slow"));
        assert!(begun.elapsed() < PATIENCE);
        // One that does not listen is killed, and what it started does not keep us.
        let (done, _) = ended("exec sleep 60", None, true);
        assert!(matches!(done, Err(Ended::Stopped)));
        assert!(begun.elapsed() < 2 * PATIENCE + Duration::from_secs(2));
    }
}
