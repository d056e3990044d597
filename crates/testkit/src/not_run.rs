//! Tests that this machine cannot run.

/// Says that `test` was not run. Where a GPU is required (`REMASTER_REQUIRE_GPU=1`) that is a failure: a test that
/// passes because it did nothing shows nothing.
#[expect(clippy::print_stdout, reason = "a check of tests")]
pub fn not_run(test: &str, why: &str) {
    let required = std::env::var_os("REMASTER_REQUIRE_GPU").is_some_and(|v| v == "1");
    assert!(!required, "{test} was not run ({why}), but REMASTER_REQUIRE_GPU=1");
    println!("NOT RUN: {test} ({why})");
}

/// Why most of them cannot.
pub const NO_GPU: &str = "this machine has no GPU and no software Vulkan";

/// Says that `test` was not run because no small disk could be mounted. In CI root must be able to.
#[cfg(unix)]
#[expect(clippy::print_stdout, reason = "a check of tests")]
pub fn no_disk(test: &str) {
    use std::os::unix::fs::MetadataExt;
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    let in_ci = std::env::var_os("CI").is_some_and(|v| v == "true");
    assert!(!(is_root && in_ci), "{test} was not run (no disk can be mounted), but this is CI and root");
    println!("NOT RUN: {test} (mounting a small disk needs root)");
}
