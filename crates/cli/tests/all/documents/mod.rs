//! The commands of the documents: those of README.md and docs/tutorial.md are run, those of all documents are parsed
//! (`parsed`).
//!
//! In blocks fenced as `console` or `sh`, lines that start with `$ remaster` are run in order, each document in a folder
//! of its own with `testdata` beside. Each must succeed. Lines below a command, up to the next one, must be among what it
//! prints, in this order. `...` in a line stands for anything, and a line of `...` for any lines.

mod parsed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::desk::Desk;

/// A command and the lines that it should print.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    line: String,
    expected: Vec<String>,
}

fn steps(document: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut inside, mut open, mut ours) = (false, false, false);
    for line in document.lines() {
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            inside = !open && ["console", "sh"].contains(&fence.trim());
            open = !open;
            ours = false;
            continue;
        }
        if !inside {
            continue;
        }
        let continues = ours && steps.last().is_some_and(|s| s.expected.is_empty() && s.line.ends_with('\\'));
        if continues {
            let step = steps.last_mut().unwrap();
            step.line.truncate(step.line.len() - 1);
            step.line += line.trim_start().trim_start_matches("> ");
        } else if let Some(command) = line.strip_prefix("$ ") {
            ours = command.split_whitespace().next() == Some("remaster");
            if ours {
                steps.push(Step { line: command.trim_end().to_owned(), expected: Vec::new() });
            }
        } else if let (true, Some(step)) = (ours, steps.last_mut()) {
            step.expected.push(line.trim_end().to_owned());
        }
    }
    for step in &mut steps {
        step.expected.retain(|line| !line.is_empty() && line != "...");
    }
    steps
}

/// Whether a printed line is an expected one, in which `...` stands for anything.
fn is(expected: &str, printed: &str) -> bool {
    let mut parts = expected.split("...");
    let Some(mut rest) = printed.trim_end().strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The first expected line that was not printed behind those before it.
fn missing<'a>(expected: &'a [String], printed: &str) -> Option<&'a String> {
    let mut lines = printed.lines();
    expected.iter().find(|want| !lines.any(|line| is(want, line)))
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[cfg(unix)]
fn run(document: &str) {
    let text = fs::read_to_string(repository().join(document)).unwrap();
    let desk = Desk::bare();
    std::os::unix::fs::symlink(repository().join("testdata"), desk.join("testdata")).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_remaster"));
    let path =
        format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    for step in steps(&text) {
        let out = Command::new("sh")
            .args(["-c", &format!("{{ {}\n}} 2>&1", step.line)])
            .current_dir(&*desk)
            .env("PATH", &path)
            .envs(["XDG_CONFIG_HOME", "XDG_CACHE_HOME"].map(|name| (name, &*desk)))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{document}: {}\n{printed}", step.line);
        let missing = missing(&step.expected, &printed);
        assert_eq!(missing, None, "{document}: {}\n{printed}", step.line);
    }
}

#[test]
#[cfg(unix)]
fn the_commands_of_the_readme_work() {
    run("README.md");
}

#[test]
#[cfg(unix)]
fn the_commands_of_the_tutorial_work() {
    let tutorial = "docs/tutorial.md";
    if repository().join(tutorial).exists() {
        run(tutorial);
    }
}

#[test]
fn blocks_commands_and_outputs_are_told_apart() {
    let text = "$ remaster outside\n\n```console\n$ cargo build\nnoise\n$ remaster a \\\n  --b\none\n...\ntwo ... four\n\
                $ remaster c\n```\n```toml\n$ remaster no\n```\n```sh\nremaster not run\n$ remasterer\n```\n";
    let step = |line: &str, expected: &[&str]| Step {
        line: line.into(),
        expected: expected.iter().map(|e| (*e).to_owned()).collect(),
    };
    assert_eq!(steps(text), [step("remaster a --b", &["one", "two ... four"]), step("remaster c", &[])]);

    let expected = ["one".to_owned(), "two ... four".to_owned()];
    assert_eq!(missing(&expected, "zero\none\n1\ntwo 3 four\n"), None);
    assert_eq!(missing(&expected, "two 3 four\none\n"), Some(&expected[1]));
    assert_eq!(missing(&expected, "one\ntwo four\n"), Some(&expected[1]));
    for (want, line, same) in [
        ("a...b...c", "a1b2c", true),
        ("a...b...c", "abc", true),
        ("a...b...c", "a1c2b", false),
        ("a", "ab", false),
        ("...", "", true),
        ("a...", "a", true),
        ("...a", "ba", true),
    ] {
        assert_eq!(is(want, line), same, "{want} {line}");
    }
}
