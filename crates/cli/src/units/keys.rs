//! The keys that pause a run and go on with it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use remaster_compute::CancelToken;

use crate::interrupt::Interrupt;
#[cfg(unix)]
use crate::interrupt::Pending;
use crate::output::Output;

/// Whether a person wants the run to wait.
#[derive(Clone, Default)]
pub(super) struct Paused {
    flag: Arc<AtomicBool>,
    cancel: Option<CancelToken>,
}

impl Paused {
    /// Listens to the terminal: `p` pauses, and `p` again goes on. Without a terminal nobody can press a key.
    pub(super) fn listen(cancel: &CancelToken, interrupt: &Interrupt, out: &Output) -> (Self, Option<Keys>) {
        let paused = Paused { flag: Arc::default(), cancel: Some(cancel.clone()) };
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return (paused, None);
        }
        let (flag, screen) = (Arc::clone(&paused.flag), out.screen());
        let pressed = move |key: u8| {
            if key.eq_ignore_ascii_case(&b'p') {
                let waits = !flag.fetch_xor(true, Relaxed);
                screen.line("note", if waits { "paused; press p to resume" } else { "resumed" });
            }
        };
        let keys = Keys::start(pressed, interrupt);
        (paused, keys)
    }

    /// Waits while the run is paused.
    pub(super) fn wait(&self) {
        let cancelled = || self.cancel.as_ref().is_some_and(CancelToken::is_cancelled);
        while self.flag.load(Relaxed) && !cancelled() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Single keys from a terminal; dropped, it is as it was.
#[cfg(unix)]
pub(super) struct Keys {
    before: rustix::termios::Termios,
    _pending: Pending,
}

#[cfg(unix)]
impl Keys {
    fn start(pressed: impl Fn(u8) + Send + 'static, interrupt: &Interrupt) -> Option<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok()?;
        let mut single = before.clone();
        // Keys come at once and are not shown; Ctrl-C stays what it is.
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Now, &single).ok()?;
        let read = move || {
            let mut key = [0];
            while matches!(std::io::Read::read(&mut std::io::stdin(), &mut key), Ok(1)) {
                pressed(key[0]);
            }
        };
        // The thread ends with the process: nothing else reads stdin meanwhile.
        drop(std::thread::Builder::new().name("keys".into()).spawn(read));
        let again = before.clone();
        let _pending = interrupt.pending(move || {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &again);
        });
        Some(Keys { before, _pending })
    }
}

#[cfg(unix)]
impl Drop for Keys {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Elsewhere a console has no such mode that works everywhere.
#[cfg(not(unix))]
pub(super) struct Keys;

#[cfg(not(unix))]
impl Keys {
    fn start(_pressed: impl Fn(u8) + Send + 'static, _interrupt: &Interrupt) -> Option<Self> {
        None
    }
}
