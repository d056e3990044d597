//! Ctrl-C: the first asks the work to stop, the second ends the process. Either way no half file stays.
//!
//! Only commands that ask the token watch for it; the others keep the system's way, which is to end at once.

use std::sync::Arc;
use std::time::Duration;

use remaster::{Class, Control};

use crate::error::CliError;
use crate::stdin::Stdin;

/// How long the work may take to stop. The engine stops within 100 ms; loading weights, planning and writing
/// do not ask the token and are cut off. People expect an end within a second.
const PATIENCE: Duration = Duration::from_millis(700);

/// Says notes of the work, and that it was interrupted.
type Farewell = Arc<dyn Fn(&[String]) + Send + Sync>;

/// The one handler of the process. Made in `main`, watched by a command that can stop.
#[derive(Clone)]
pub(crate) struct Interrupt {
    control: Control,
    farewell: Farewell,
    stdin: Stdin,
    /// The end of stdin counts as Ctrl-C.
    with_stdin: bool,
}

impl Interrupt {
    /// `farewell` says that it was interrupted, if the work cannot say so itself. With `with_stdin` the end of stdin
    /// cancels, too: signals do not reach everywhere, Windows has none, and a shell's background ignores SIGINT. Only
    /// [`Interrupt::stdin`] may read it then.
    pub(crate) fn new(farewell: impl Fn(&[String]) + Send + Sync + 'static, with_stdin: bool) -> Self {
        let (control, stdin) = (Control::default(), Stdin::default());
        Interrupt { control, farewell: Arc::new(farewell), stdin, with_stdin }
    }

    /// The reader of stdin.
    pub(crate) fn stdin(&self) -> &Stdin {
        &self.stdin
    }

    /// What the work obeys.
    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// From now on Ctrl-C, SIGTERM and SIGHUP, and on Windows the end of the console, cancel the work. Ask for it once in a command, before the work. What is
    /// ignored stays ignored: `nohup` must go on working.
    pub(crate) fn watch(&self) -> Result<&Self, CliError> {
        let this = self.clone();
        let ignored = ignored::now();
        ctrlc::set_handler(move || this.cancel()).map_err(|source| CliError::Handler { source })?;
        #[cfg(windows)]
        {
            let this = self.clone();
            if !crate::windows::at_close(move || this.cancel()) {
                let source = ctrlc::Error::System(std::io::Error::last_os_error());
                return Err(CliError::Handler { source });
            }
        }
        ignored::again(&ignored);
        if self.with_stdin {
            let this = self.clone();
            let watched = self.stdin.at_end(move || this.cancel());
            watched.map_err(|source| CliError::Handler { source: ctrlc::Error::System(source) })?;
        }
        Ok(self)
    }

    /// Asks the work to stop, and ends the process if it was asked before or does not.
    fn cancel(&self) {
        if self.control.is_cancelled() {
            self.leave();
        }
        self.control.cancel();
        let this = self.clone();
        let wait = move || {
            std::thread::sleep(PATIENCE);
            this.leave();
        };
        // Without the thread it ends when the work stops, or at the next signal.
        drop(std::thread::Builder::new().name("interrupt".into()).spawn(wait));
    }

    /// True once cancellation was requested.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.control.is_cancelled()
    }

    /// Cleans up and ends the process: the work does not stop by itself, and a person waits.
    fn leave(&self) {
        let notes = self.control.abort();
        (self.farewell)(&notes);
        #[cfg(windows)]
        crate::windows::end(Class::Stopped.exit_code());
        #[cfg(not(windows))]
        std::process::exit(i32::from(Class::Stopped.exit_code()));
    }
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
