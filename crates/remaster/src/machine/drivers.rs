//! Drivers are first asked for their devices in a process of its own: some crash on that, and take the process with them.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use remaster_compute::gpu::{Api, Unlisted, devices_of, examine_drivers};

use crate::worker::WorkerProgram;

/// The first argument of a program that is started to list devices; names of APIs follow.
pub const LIST: &str = "__list-devices";

/// What such a program says first. What says something else is another program.
const HELLO: &str = "remaster lists devices";

/// How long drivers may take. They answer in well under a second; one that loads from a slow disk takes a few.
const LIMIT: Duration = Duration::from_secs(30);

/// Interval at which the child process is polled.
const STEP: Duration = Duration::from_millis(5);

/// Bytes that it says at most, and how long these may take behind its end.
const MOST: u64 = 1 << 12;
const GRACE: Duration = Duration::from_secs(1);

/// Lists the devices of these APIs, and says after each that it survived. For a process that may die.
pub fn list(apis: &[String], out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{HELLO}")?;
    out.flush()?;
    for api in Api::ALL.into_iter().filter(|api| apis.iter().any(|name| name == api.name())) {
        devices_of(api);
        writeln!(out, "{}", api.name())?;
        out.flush()?;
    }
    Ok(())
}

/// From now on, a process of this program asks drivers before this process does. APIs whose drivers it does not survive are
/// left out.
pub fn list_first_in(program: WorkerProgram) {
    examine_drivers(move || examine(&program, LIMIT));
}

/// The APIs that a process of this program does not survive.
fn examine(program: &WorkerProgram, limit: Duration) -> Vec<Unlisted> {
    let (mut unlisted, mut left) = (Vec::new(), &Api::ALL[..]);
    while !left.is_empty() {
        let Some((survived, Some(reason))) = asked(program, left, limit) else { break };
        let [api, behind @ ..] = left.get(survived..).unwrap_or_default() else { break };
        unlisted.push(Unlisted { api: *api, reason });
        left = behind;
    }
    unlisted
}

/// How many APIs a process survived, and how it ended if not by itself. `None` if it is no program of ours: then nothing is known.
fn asked(program: &WorkerProgram, apis: &[Api], limit: Duration) -> Option<(usize, Option<String>)> {
    let mut command = program.command();
    command.arg(LIST).args(apis.iter().map(|api| api.name()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = remaster_media::spawn_tied(&mut command).ok()?;
    let stdout = child.stdout.take()?;
    let (to, said) = channel();
    // By a thread, as what a driver started may keep the pipe open for ever.
    std::thread::spawn(move || {
        let lines = BufReader::new(stdout.take(MOST)).lines().map_while(Result::ok);
        lines.map_while(|line| to.send(line).ok()).for_each(drop);
    });
    let ended = wait(&mut child, limit);
    let lines = std::iter::from_fn(|| said.recv_timeout(GRACE).ok()).take(1 + apis.len());
    let lines: Vec<String> = lines.collect();
    let survived = lines.strip_prefix(&[HELLO.to_owned()])?.len();
    let reason = match ended {
        None => Some(format!("did not answer within {} s", limit.as_secs())),
        Some(status) if status.success() && survived == apis.len() => None,
        Some(status) if status.success() => Some("ended the process".into()),
        Some(status) => Some(format!("crashed ({})", how(status))),
    };
    Some((survived, reason))
}

/// Waits for a process, and ends it at its limit.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if started.elapsed() < limit => std::thread::sleep(STEP),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// How a process ended, in a word or two.
fn how(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("signal {signal}");
    }
    status.code().map_or_else(|| "unknown".into(), |code| format!("exit code {code:#x}"))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that does this when it is asked to list devices; `$@` are the APIs.
    fn program(folder: &tempfile::TempDir, script: &str) -> WorkerProgram {
        let path = folder.path().join("lists");
        std::fs::write(&path, format!("#!/bin/sh\nshift\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        WorkerProgram { program: path, without: Vec::new(), with: Vec::new() }
    }

    fn examined(script: &str) -> Vec<(&'static str, String)> {
        let folder = tempfile::tempdir().unwrap();
        let found = examine(&program(&folder, script), Duration::from_secs(2));
        found.into_iter().map(|left| (left.api.name(), left.reason)).collect()
    }

    const EACH: &str =
        "echo remaster lists devices; for api; do [ $api = BAD ] && kill -SEGV $$; echo $api; done";

    #[test]
    fn drivers_that_answer_are_kept() {
        assert_eq!(examined(EACH), []);
    }

    #[test]
    fn a_driver_that_crashes_is_left_out_and_the_others_are_asked() {
        for api in ["vulkan", "dx12", "metal"] {
            assert_eq!(examined(&EACH.replace("BAD", api)), [(api, "crashed (signal 11)".to_owned())]);
        }
        assert_eq!(examined("echo remaster lists devices; exit 0")[0].1, "ended the process");
        let all = examined("echo remaster lists devices; kill -ABRT $$");
        assert_eq!(all.iter().map(|(api, _)| *api).collect::<Vec<_>>(), ["vulkan", "dx12", "metal"]);
    }

    #[test]
    fn a_driver_that_never_answers_is_not_waited_for() {
        let script = "echo remaster lists devices; [ $1 = vulkan ] && exec sleep 60; echo $1; echo $2";
        assert_eq!(examined(script), [("vulkan", "did not answer within 2 s".to_owned())]);
    }

    #[test]
    fn another_program_says_nothing_about_drivers() {
        for script in ["exit 2", "kill -SEGV $$", "echo hello; exit 1", "yes | head -c 100000"] {
            assert_eq!(examined(script), [], "{script}");
        }
        let nowhere = WorkerProgram { program: "/nonexistent".into(), without: Vec::new(), with: Vec::new() };
        assert_eq!(examine(&nowhere, LIMIT), []);
    }

    #[test]
    fn each_api_is_named_once_it_was_asked() {
        let mut said = Vec::new();
        // No system here has this one, so no driver is asked.
        list(&["metal".into(), "opengl".into()], &mut said).unwrap();
        assert_eq!(String::from_utf8(said).unwrap(), "remaster lists devices\nmetal\n");
    }
}
