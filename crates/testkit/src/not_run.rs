//! Tests that this machine cannot run. Each line is collected by `cargo xtask tests` and named again at its end.

/// Says that `test` was not run. In CI, and wherever else `CI=true`, that is a failure: a test that passes because it did
/// nothing shows nothing.
pub fn not_run(test: &str, why: &str) {
    say(test, why, std::env::var_os("CI").is_some_and(|value| value == "true"));
}

/// Says that `test` was not run because this machine lacks a part: a GPU, its matrix units, the tile units of a CPU.
/// `REMASTER_LACKS` lists what is known to be missing and cannot be installed, and that is no failure in CI.
pub fn no_part(part: &str, test: &str, why: &str) {
    match lacks(&std::env::var("REMASTER_LACKS").unwrap_or_default(), part) {
        true => say(test, why, false),
        false => not_run(test, why),
    }
}

fn lacks(list: &str, part: &str) -> bool {
    list.split_whitespace().any(|word| word == part)
}

/// The one place that spells it.
#[expect(clippy::print_stdout, reason = "a check of tests")]
fn say(test: &str, why: &str, is_failure: bool) {
    println!("NOT RUN: {test} ({why})");
    assert!(!is_failure, "{test} was not run ({why}), but CI is set");
}

/// Says that `test` was not run for want of a device. Where one is required (`REMASTER_REQUIRE_GPU`) that is a
/// failure.
pub fn no_gpu(test: &str) {
    required("1", "gpu", test, "this machine has no GPU and no software Vulkan");
}

/// Says that `test` was not run because the device has no matrix units. `REMASTER_REQUIRE_GPU=units` requires them, too.
pub fn no_units(test: &str) {
    required("units", "units", test, "this device has no matrix units that the kernels can use");
}

/// Says that `test` was not run because the CPU has no tile units (AMX).
pub fn no_tiles(test: &str) {
    no_part("amx", test, "this CPU has no tile units");
}

/// Says that `test` was not run because the layer that it needs could not be compiled. That is a failure where a device
/// is required.
#[cfg(target_os = "linux")]
pub(crate) fn no_layer(test: &str) {
    required("1", "gpu", test, "cc, and the headers of libvulkan-dev, are needed to compile the layer");
}

fn required(least: &str, part: &str, test: &str, why: &str) {
    let given = std::env::var("REMASTER_REQUIRE_GPU").unwrap_or_default();
    let is_required = given == "units" || given == least;
    assert!(!is_required, "{test} was not run ({why}), but REMASTER_REQUIRE_GPU={given}");
    no_part(part, test, why);
}

/// Says that `test` was not run because no small disk could be mounted. Only Linux has such disks.
pub fn no_disk(test: &str) {
    no_part("tmpfs", test, "mounting a small disk needs root, or sudo without a password");
}

/// How much of a random suite to do: all of it at night (`REMASTER_NIGHTLY=1`), the first part of it in the gate.
pub fn nightly<T>(gate: T, night: T) -> T {
    if std::env::var_os("REMASTER_NIGHTLY").is_some_and(|v| v == "1") { night } else { gate }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_a_machine_lacks_is_a_list_of_words() {
        assert!(lacks("gpu units", "units") && lacks("amx", "amx"));
        assert!(!lacks("", "amx") && !lacks("gpus", "gpu"));
    }

    #[test]
    #[ignore = "child: started by the test below"]
    fn it_lacks_tiles_and_a_tool() {
        no_tiles("the first");
        not_run("the second", "no tool");
    }

    #[test]
    fn a_test_that_was_not_run_is_a_failure_in_ci_unless_the_machine_is_known_to_lack_a_part() {
        for (ci, known, reached, passes) in [
            (None, "", "the second (no tool)", true),
            (Some("true"), "", "the first (this CPU", false),
            (Some("true"), "gpu amx", "the second (no tool)", false),
        ] {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "not_run::tests::it_lacks_tiles_and_a_tool", "--ignored", "--nocapture"]);
            child.env_remove("CI").envs(ci.map(|ci| ("CI", ci))).env("REMASTER_LACKS", known);
            let out = child.output().unwrap();
            let text = String::from_utf8_lossy(&out.stdout);
            let last = text.lines().rfind(|line| line.contains("NOT RUN: ")).unwrap_or_default();
            assert!(last.contains(reached), "{text}");
            assert_eq!(out.status.success(), passes, "{text}");
        }
    }
}
