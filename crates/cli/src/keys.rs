//! The keys that pause a run and go on with it.

use std::io::IsTerminal;

#[cfg(unix)]
use remaster::Pending;
use remaster::units::told;

use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Screen;
use crate::progress::Pause;
use crate::stdin::Hearing;

/// Listens to the terminal: `p` pauses, and `p` again goes on. Without a terminal there are no keys.
pub(crate) fn listen(interrupt: &Interrupt, pause: Pause, screen: Screen) -> Option<Keys> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    let control = interrupt.control().clone();
    let pressed = move |key: u8| {
        if key.eq_ignore_ascii_case(&b'p') {
            let waits = !control.is_paused();
            control.pause(waits);
            pause.set(waits);
            screen.line("note", if waits { "paused; press p to resume" } else { "resumed" });
        }
    };
    Keys::start(pressed, interrupt)
}

/// Obeys the process that started this one; `pause` stops and starts a clock.
pub(crate) fn obey(interrupt: &Interrupt, pause: Option<Pause>) -> Result<Hearing, CliError> {
    let control = interrupt.control().clone();
    let heard = move |byte| match byte {
        told::PAUSE | told::RESUME => {
            control.pause(byte == told::PAUSE);
            if let Some(pause) = &pause {
                pause.set(byte == told::PAUSE);
            }
        }
        told::STOP => {
            // A run that waits cannot stop.
            control.pause(false);
            control.stop();
        }
        _ => {}
    };
    let hearing = interrupt.stdin().hear(heard);
    hearing.map_err(|source| CliError::Handler { source: ctrlc::Error::System(source) })
}

/// Single keys from a terminal; dropped, it is as it was.
#[cfg(unix)]
pub(crate) struct Keys {
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
        let _pending = interrupt.control().on_abort(move || {
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
pub(crate) struct Keys;

#[cfg(not(unix))]
impl Keys {
    fn start(_pressed: impl Fn(u8) + Send + 'static, _interrupt: &Interrupt) -> Option<Self> {
        None
    }
}
