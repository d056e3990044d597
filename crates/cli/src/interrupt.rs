//! Ctrl-C: the first asks the work to stop, the second ends the process. Either way no half file stays.
//!
//! Only commands that ask the token watch for it; the others keep the system's way, which is to end at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use remaster_compute::CancelToken;
use remaster_media::place;

use crate::error::CliError;
use crate::stdin::Stdin;

/// Exit code of an interrupted run, as a shell gives it to SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// How long the work may take to stop. The engine stops within 100 ms; loading weights, planning and writing
/// do not ask the token and are cut off. People expect an end within a second.
const PATIENCE: Duration = Duration::from_millis(700);

type Cleanup = Box<dyn Fn() + Send>;
type Cleanups = Arc<Mutex<Vec<(u64, Cleanup)>>>;

/// The one handler of the process. Made in `main`, watched by a command that can stop.
#[derive(Clone)]
pub(crate) struct Interrupt {
    token: CancelToken,
    cleanups: Cleanups,
    farewell: Arc<dyn Fn() + Send + Sync>,
    stdin: Stdin,
    /// The end of stdin counts as Ctrl-C.
    with_stdin: bool,
}

/// While this lives, something must be cleaned up should the process end at once.
#[must_use = "dropping it calls the cleanup off"]
pub(crate) struct Pending {
    id: u64,
    cleanups: Cleanups,
}

impl Interrupt {
    /// `farewell` says that it was interrupted, if the work cannot say so itself.
    pub(crate) fn new(farewell: impl Fn() + Send + Sync + 'static) -> Self {
        Interrupt {
            token: CancelToken::default(),
            cleanups: Cleanups::default(),
            farewell: Arc::new(farewell),
            stdin: Stdin::default(),
            with_stdin: false,
        }
    }

    /// The end of stdin shall cancel, too. Signals do not reach everywhere: Windows has none, and a shell's background
    /// ignores SIGINT. Only [`Interrupt::stdin`] may read it then.
    pub(crate) fn also_on_stdin_close(&mut self) {
        self.with_stdin = true;
    }

    /// The reader of stdin.
    pub(crate) fn stdin(&self) -> &Stdin {
        &self.stdin
    }

    /// From now on Ctrl-C, SIGTERM and SIGHUP cancel the token that is given. Ask for it once in a command,
    /// before the work. What is ignored stays ignored: `nohup` must go on working.
    pub(crate) fn watch(&self) -> Result<CancelToken, CliError> {
        let this = self.clone();
        let ignored = ignored::now();
        ctrlc::set_handler(move || this.cancel()).map_err(|source| CliError::Handler { source })?;
        ignored::again(&ignored);
        if self.with_stdin {
            let this = self.clone();
            let watched = self.stdin.at_end(move || this.cancel());
            watched.map_err(|source| CliError::Handler { source: ctrlc::Error::System(source) })?;
        }
        Ok(self.token.clone())
    }

    /// Asks the work to stop, and ends the process if it was asked before or does not.
    fn cancel(&self) {
        if self.token.is_cancelled() {
            self.leave();
        }
        self.token.cancel();
        let this = self.clone();
        let wait = move || {
            std::thread::sleep(PATIENCE);
            this.leave();
        };
        // Without the thread it ends when the work stops, or at the next signal.
        drop(std::thread::Builder::new().name("interrupt".into()).spawn(wait));
    }

    /// Whether somebody asked to stop.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// `cleanup` runs if the process has to end at once while the answer lives: it ends a child, say.
    pub(crate) fn pending(&self, cleanup: impl Fn() + Send + 'static) -> Pending {
        let mut list = lock(&self.cleanups);
        let id = list.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
        list.push((id, Box::new(cleanup)));
        Pending { id, cleanups: self.cleanups.clone() }
    }

    /// Cleans up and ends the process: the work does not stop by itself, and a person waits. The list stays
    /// locked, so that nothing is begun meanwhile.
    fn leave(&self) {
        let list = lock(&self.cleanups);
        list.iter().for_each(|(_, cleanup)| cleanup());
        // Behind the children, who write there.
        place::abandon();
        (self.farewell)();
        std::process::exit(i32::from(INTERRUPTED));
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        lock(&self.cleanups).retain(|(id, _)| *id != self.id);
    }
}

fn lock(cleanups: &Cleanups) -> MutexGuard<'_, Vec<(u64, Cleanup)>> {
    cleanups.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signals that whoever started us wants ignored: SIGHUP under `nohup`, SIGINT in a script's background.
#[cfg(unix)]
mod ignored {
    #![expect(unsafe_code, reason = "the standard library cannot ask for or set the handling of a signal")]

    pub(super) fn now() -> Vec<i32> {
        let is_ignored = |signal: &i32| {
            // SAFETY: ignoring a signal installs no code, and the handling it had is put back right after; no
            // other thread of ours changes it.
            let before = unsafe { libc::signal(*signal, libc::SIG_IGN) };
            if before != libc::SIG_IGN && before != libc::SIG_ERR {
                // SAFETY: `before` is what the system just said the handling was.
                unsafe { libc::signal(*signal, before) };
            }
            before == libc::SIG_IGN
        };
        [libc::SIGHUP, libc::SIGINT].into_iter().filter(is_ignored).collect()
    }

    pub(super) fn again(signals: &[i32]) {
        for signal in signals {
            // SAFETY: ignoring a signal installs no code.
            unsafe { libc::signal(*signal, libc::SIG_IGN) };
        }
    }
}

#[cfg(not(unix))]
mod ignored {
    pub(super) fn now() -> Vec<i32> {
        Vec::new()
    }

    pub(super) fn again(_: &[i32]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_needs_no_cleanup() {
        let interrupt = Interrupt::new(|| {});
        let first = interrupt.pending(|| {});
        let second = interrupt.pending(|| {});
        drop(first);
        let third = interrupt.pending(|| {});
        assert_eq!(lock(&interrupt.cleanups).len(), 2);
        drop((second, third));
        assert!(lock(&interrupt.cleanups).is_empty());
    }
}
