//! GPU drivers: their libraries print to our stderr, and crash when they are asked for their devices.

#![expect(
    unsafe_code,
    reason = "the standard library cannot change the environment safely once there are threads"
)]

#[cfg(feature = "gpu")]
use std::ffi::OsString;
use std::path::Path;
#[cfg(feature = "gpu")]
use std::process::ExitCode;

#[cfg(feature = "gpu")]
use remaster::machine::drivers;

/// If this process was started to list devices, does that. Otherwise such a process is started before the first driver is asked.
#[cfg(feature = "gpu")]
pub(crate) fn listed(typed: &[OsString]) -> Option<ExitCode> {
    let word = |word: &OsString| word.to_string_lossy().into_owned();
    match typed {
        [_, first, apis @ ..] if first == drivers::LIST => {
            let apis: Vec<String> = apis.iter().map(word).collect();
            let listed = drivers::list(&apis, &mut std::io::stdout().lock());
            Some(if listed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        _ => {
            drivers::list_first_in(crate::commands::worker());
            None
        }
    }
}

/// Mesa asks the Wayland compositor for its GPU, and libwayland complains on stderr if it cannot tell where the
/// compositor is: once for every instance that is made. An absolute name needs no folder, and a compositor that is
/// not there is no error.
pub(crate) fn silence() {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = set("XDG_RUNTIME_DIR").is_some_and(|value| Path::new(&value).is_absolute());
    let named = set("WAYLAND_DISPLAY").is_some_and(|value| Path::new(&value).is_absolute());
    if cfg!(target_os = "linux") && !folder && !named && set("WAYLAND_SOCKET").is_none() {
        // SAFETY: this is the first thing that `main` does, so no other thread reads the environment.
        unsafe { std::env::set_var("WAYLAND_DISPLAY", "/nonexistent/wayland") };
    }
}
