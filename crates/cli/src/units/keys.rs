//! The keys that pause a run and go on with it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use remaster_compute::CancelToken;

use crate::error::CliError;
use crate::interrupt::Interrupt;
#[cfg(unix)]
use crate::interrupt::Pending;
use crate::output::Output;
use crate::progress::Pause;
use crate::stdin::Hearing;

/// Whether a person wants the run to wait.
#[derive(Clone, Default)]
pub(super) struct Paused {
    flag: Arc<AtomicBool>,
    cancel: Option<CancelToken>,
}

/// What a parent tells its children through their stdin, a byte each. The end of it means to end at once.
pub(super) mod word {
    pub(in crate::units) const PAUSE: u8 = b'p';
    pub(in crate::units) const RESUME: u8 = b'r';
    /// To stop behind the piece at work.
    pub(in crate::units) const STOP: u8 = b's';
}

impl Paused {
    /// Listens to the terminal: `p` pauses, and `p` again goes on. Without a terminal nobody can press a key.
    pub(super) fn listen(
        cancel: &CancelToken,
        interrupt: &Interrupt,
        pause: Pause,
        out: &Output,
    ) -> (Self, Option<Keys>) {
        let paused = Paused { flag: Arc::default(), cancel: Some(cancel.clone()) };
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return (paused, None);
        }
        let (flag, screen) = (Arc::clone(&paused.flag), out.screen());
        let pressed = move |key: u8| {
            if key.eq_ignore_ascii_case(&b'p') {
                let waits = !flag.fetch_xor(true, Relaxed);
                pause.set(waits);
                screen.line("note", if waits { "paused; press p to resume" } else { "resumed" });
            }
        };
        let keys = Keys::start(pressed, interrupt);
        (paused, keys)
    }

    /// Listens to the process that started this one, and sets `stop` if it says so.
    pub(super) fn obey(
        cancel: &CancelToken,
        interrupt: &Interrupt,
        pause: Pause,
        stop: Arc<AtomicBool>,
    ) -> Result<(Self, Hearing), CliError> {
        let paused = Paused { flag: Arc::default(), cancel: Some(cancel.clone()) };
        let flag = Arc::clone(&paused.flag);
        let heard = move |byte| match byte {
            word::PAUSE | word::RESUME => {
                flag.store(byte == word::PAUSE, Relaxed);
                pause.set(byte == word::PAUSE);
            }
            word::STOP => {
                // A run that waits cannot stop.
                flag.store(false, Relaxed);
                stop.store(true, Relaxed);
            }
            _ => {}
        };
        let hearing = interrupt.stdin().hear(heard);
        let hearing = hearing.map_err(|source| CliError::Handler { source: ctrlc::Error::System(source) })?;
        Ok((paused, hearing))
    }

    /// Whether the run shall wait.
    pub(super) fn is_set(&self) -> bool {
        self.flag.load(Relaxed)
    }

    /// Waits while the run is paused. When it is time to stop, the piece at work is finished all the same.
    pub(super) fn wait(&self, stop: &dyn Fn() -> bool) {
        let cancelled = || self.cancel.as_ref().is_some_and(CancelToken::is_cancelled);
        while self.is_set() && !cancelled() && !stop() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Single keys from a terminal; dropped, it is as it was.
#[cfg(unix)]
pub(super) struct Keys {
    before: rustix::termios::Termios,
    _pending: Pending,
    _hearing: Option<Hearing>,
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
        let hearing = interrupt.stdin().hear(pressed).ok();
        let again = before.clone();
        let _pending = interrupt.pending(move || {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &again);
        });
        Some(Keys { before, _pending, _hearing: hearing })
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
