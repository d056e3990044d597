//! Keeps the libraries of a GPU driver from printing to our stderr.

#![expect(
    unsafe_code,
    reason = "the standard library cannot change the environment safely once there are threads"
)]

use std::path::Path;

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
