//! The tests, by cargo-nextest: each in a process of its own, with the limits of `.config/nextest.toml`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::not_run::NOT_RUN;
use crate::{Outcome, cargo, ignored, tool};

/// Everything is built with these, so that one set of dependencies is built: all crates, with buckets.
pub(crate) const WHAT: [&str; 4] = ["--workspace", "--features", "remaster-cli/cloud", "--locked"];

/// The program without the GPU, as `install.sh` takes it where there is no other, and the tests of the command line.
pub(crate) const CPU_ONLY: [&str; 6] =
    ["--package", "remaster-cli", "--no-default-features", "--features", "cloud,serve", "--locked"];

/// Runs tests of all crates as they are built for everything.
pub(crate) fn run(root: &Path, words: &[&str]) -> Outcome {
    run_of(root, &WHAT, words)
}

/// Runs tests, and names the slowest and those that could not run. With `REMASTER_CI_REPORT` these lines are added to
/// the file of that name, too.
pub(crate) fn run_of(root: &Path, what: &[&str], words: &[&str]) -> Outcome {
    let found = Command::new(tool()).args(["nextest", "--version"]).output();
    if !found.is_ok_and(|out| out.status.success()) {
        return Err("cargo-nextest is missing; `.ci/run tools` installs it, or `cargo install --locked cargo-nextest`"
            .into());
    }
    let report = report_file(root);
    let _ = std::fs::remove_file(&report);
    let outcome = cargo(&[&["nextest", "run", "--no-fail-fast"], what, words].concat());
    let xml = match std::fs::read_to_string(&report) {
        Ok(xml) => xml,
        // The build failed.
        Err(_) if outcome.is_err() => return outcome,
        Err(e) => return Err(format!("{}: {e}", report.display())),
    };
    let Report { mut times, not_run } = read(&xml);
    // A run of some tests leaves out nothing that was asked for.
    let is_all = what == WHAT && words.is_empty();
    let left = if is_all { ignored::left(root, &[])? } else { Vec::new() };
    times.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut text = String::new();
    for (seconds, name) in times.iter().take(10) {
        let _ = writeln!(text, "{seconds:8.1} s  {name}");
    }
    for line in &not_run {
        let _ = writeln!(text, "{line}");
    }
    // The report gets them once all steps are known.
    print!("{text}");
    left.iter().for_each(|line| println!("{line}"));
    if let Some(file) = std::env::var_os("REMASTER_CI_REPORT") {
        let before = std::fs::read_to_string(&file).unwrap_or_default();
        std::fs::write(&file, before + &text).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    outcome
}

/// Programs that the tests of a crate may have. Each is linked with everything, which takes seconds.
const MOST_PROGRAMS: usize = 3;

/// The tests of a crate are modules of few programs.
pub(crate) fn check(root: &Path) -> Outcome {
    let crates = std::fs::read_dir(root.join("crates")).map_err(|e| format!("crates: {e}"))?;
    for tests in crates.flatten().map(|entry| entry.path().join("tests")) {
        let entries = std::fs::read_dir(&tests).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_program =
            |path: &PathBuf| path.extension().is_some_and(|e| e == "rs") || path.join("main.rs").exists();
        let programs = entries.filter(is_program).count();
        if programs > MOST_PROGRAMS {
            let tests = tests.display();
            return Err(format!(
                "{tests} has {programs} programs, at most {MOST_PROGRAMS} may be: use modules of `all`"
            ));
        }
    }
    Ok(())
}

/// Where nextest writes it: below the workspace, wherever cargo builds.
fn report_file(root: &Path) -> PathBuf {
    let profile = std::env::var("NEXTEST_PROFILE").unwrap_or_else(|_| "default".into());
    root.join("target/nextest").join(profile).join("report.xml")
}

struct Report {
    /// Seconds and names.
    times: Vec<(f64, String)>,
    /// What tests said that were not run.
    not_run: Vec<String>,
}

/// Reads the JUnit report, of which each test's name, its time and what it printed count.
fn read(xml: &str) -> Report {
    let mut report = Report { times: Vec::new(), not_run: Vec::new() };
    for case in xml.split("<testcase ").skip(1) {
        let value = |name: &str| {
            let (_, rest) = case.split_once(&format!("{name}=\""))?;
            Some(plain(rest.split_once('"')?.0))
        };
        // The name is the first attribute, which no space is in front of.
        let test = case.strip_prefix("name=\"").and_then(|rest| Some(plain(rest.split_once('"')?.0)));
        let seconds = value(" time").and_then(|time| time.parse().ok()).unwrap_or(0.0);
        let program = value(" classname").unwrap_or_default();
        report.times.push((seconds, format!("{program} {}", test.unwrap_or_default())));
        let said = case.split("<system-").skip(1).flat_map(str::lines);
        let lines = said.filter_map(|line| Some(plain(&line[line.find(NOT_RUN)?..])));
        report.not_run.extend(lines.map(|line| line.split("</").next().unwrap_or_default().to_owned()));
    }
    report.not_run.sort();
    report.not_run.dedup();
    report
}

fn plain(text: &str) -> String {
    let marks = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    marks.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_what_was_not_run_are_read() {
        let xml = r#"<testsuite name="a" tests="2" time="9"><testcase name="x::y" classname="a::all" timestamp="t" time="1.5">
<system-out>
NOT RUN: it (no &lt;disk&gt;)
</system-out></testcase><testcase name="z" classname="a" timestamp="t" time="0.25"></testcase></testsuite>"#;
        let report = read(xml);
        assert_eq!(report.times, [(1.5, "a::all x::y".into()), (0.25, "a z".into())]);
        assert_eq!(report.not_run, [format!("{NOT_RUN}it (no <disk>)")]);
    }
}
