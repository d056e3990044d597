//! Tests that this machine cannot run. Each line is collected by `cargo xtask tests` and named again at its end.

/// Says that `test` was not run.
#[expect(clippy::print_stdout, reason = "a check of tests")]
pub fn not_run(test: &str, why: &str) {
    println!("NOT RUN: {test} ({why})");
}

/// Says that `test` was not run for want of a device. Where one is required (`REMASTER_REQUIRE_GPU`) that is a
/// failure: a test that passes because it did nothing shows nothing.
pub fn no_gpu(test: &str) {
    required("1", test, "this machine has no GPU and no software Vulkan");
}

/// Says that `test` was not run because the device has no matrix units. `REMASTER_REQUIRE_GPU=units` requires them, too.
pub fn no_units(test: &str) {
    required("units", test, "this device has no matrix units that the kernels can use");
}

/// Says that `test` was not run because the layer that it needs could not be compiled. That is a failure where a device
/// is required.
#[cfg(target_os = "linux")]
pub(crate) fn no_layer(test: &str) {
    required("1", test, "cc, and the headers of libvulkan-dev, are needed to compile the layer");
}

fn required(least: &str, test: &str, why: &str) {
    let given = std::env::var("REMASTER_REQUIRE_GPU").unwrap_or_default();
    let is_required = given == "units" || given == least;
    assert!(!is_required, "{test} was not run ({why}), but REMASTER_REQUIRE_GPU={given}");
    not_run(test, why);
}

/// Says that `test` was not run because no small disk could be mounted. In CI root must be able to.
#[cfg(unix)]
pub fn no_disk(test: &str) {
    use std::os::unix::fs::MetadataExt;
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    let in_ci = std::env::var_os("CI").is_some_and(|v| v == "true");
    assert!(!(is_root && in_ci), "{test} was not run (no disk can be mounted), but this is CI and root");
    not_run(test, "mounting a small disk needs root");
}

/// How much of a random suite to do: all of it at night (`REMASTER_NIGHTLY=1`), the first part of it in the gate.
pub fn nightly<T>(gate: T, night: T) -> T {
    if std::env::var_os("REMASTER_NIGHTLY").is_some_and(|v| v == "1") { night } else { gate }
}
