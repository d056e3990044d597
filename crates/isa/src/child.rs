//! Other programs, each in a process of its own with a limit: a compiler once hung for ten minutes.

use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A program that takes longer hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// What a program said, and how it ended.
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program within the limit.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<Said, String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    // Both are larger than a pipe.
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let began = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break status,
            None if began.elapsed() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it took longer than {} s", limit.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let text = |thread: JoinHandle<String>| thread.join().map_err(|_| "the reader ended".to_owned());
    Ok(Said { status, stdout: text(stdout)?, stderr: text(stderr)? })
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a failure is still worth showing.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_ended() {
        let ended = run(Command::new("sleep").arg("60"), Duration::from_millis(50));
        assert!(ended.is_err_and(|reason| reason.contains("longer")));
    }

    #[test]
    fn both_streams_are_read() {
        let said = run(Command::new("sh").args(["-c", "echo a; echo b >&2; exit 3"]), LIMIT);
        let told = said.map(|s| (s.status.code(), s.stdout, s.stderr));
        assert_eq!(told, Ok((Some(3), "a\n".to_owned(), "b\n".to_owned())));
    }
}
