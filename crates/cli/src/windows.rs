//! What Windows has to be told: before anything else, and when the console goes away.
#![expect(unsafe_code, reason = "the standard library has no call for these")]

use std::sync::OnceLock;
use std::time::Duration;

use windows_sys::Win32::System::Console::{CTRL_CLOSE_EVENT, SetConsoleCtrlHandler};
use windows_sys::Win32::System::Diagnostics::Debug::{
    SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SetErrorMode,
};
use windows_sys::Win32::System::LibraryLoader::SetDllDirectoryW;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, TerminateProcess};
use windows_sys::core::{BOOL, w};

/// Removes the current folder from the search for libraries: a downloaded folder of films could contain a `vulkan-1.dll`. Turns
/// off the dialogs that Windows shows after a crash and that wait for a click, for this process and its children.
pub(crate) fn settle() {
    // SAFETY: the text ends in a zero; the other call takes numbers.
    unsafe {
        SetDllDirectoryW(w!(""));
        SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
    }
}

type AtClose = Box<dyn Fn() + Send + Sync>;

static AT_CLOSE: OnceLock<AtClose> = OnceLock::new();

/// Calls `stop` when the console's window is closed. Windows gives the process five seconds then, and ends it at once if the
/// handler returns: it waits for `stop` to end the process. False if the system refuses it. Programs that have loaded user32, as
/// those with GPU support have, are not told when the user logs off or the machine shuts down.
pub(crate) fn at_close(stop: impl Fn() + Send + Sync + 'static) -> bool {
    let _ = AT_CLOSE.set(Box::new(stop));
    // SAFETY: `closing` has the signature that is asked for and lives as long as the process.
    unsafe { SetConsoleCtrlHandler(Some(closing), 1) != 0 }
}

/// Runs in a thread that the system makes, before the handlers that were set earlier.
unsafe extern "system" fn closing(event: u32) -> BOOL {
    // Ctrl-C and Ctrl-Break are for the other handler.
    if event < CTRL_CLOSE_EVENT {
        return 0;
    }
    if let Some(stop) = AT_CLOSE.get() {
        stop();
    }
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// Ends the process without asking its libraries: one that is told of the end while its threads are gone may wait for ever.
pub(crate) fn end(code: u8) -> ! {
    // SAFETY: the handle stands for this process and needs no closing.
    unsafe { TerminateProcess(GetCurrentProcess(), u32::from(code)) };
    std::process::abort()
}
