//! Tests that the gate's own run leaves out. The reason of each starts with a word that says what runs it, as in
//! `#[ignore = "nightly: minutes on a software device"]`. `cargo xtask ignored WORD` runs those of a word, and a step of
//! `.ci/run` does that for every word but the last, so that no test is forgotten.

use std::path::Path;

use crate::workspace::sources;
use crate::{Outcome, suite};

/// The words. A child is started by another test.
const WORDS: [&str; 11] = [
    "nightly",
    "published",
    "rrdb",
    "ffmpegs",
    "moto",
    "seaweedfs",
    "rclone",
    "openjd",
    "kubernetes",
    "vapoursynth",
    CHILD,
];
const CHILD: &str = "child";

/// In front of each test that a run leaves to the nightly one.
const LEFT: &str = "left to nightly: ";

/// One test that is ignored.
#[derive(Debug, PartialEq)]
struct Ignored {
    word: String,
    /// What stands behind the word.
    why: String,
    test: String,
}

/// Every test that is ignored has a word, and every word a step. No test is left out in another way.
pub(crate) fn check(root: &Path) -> Outcome {
    let found = find(root)?;
    let runner = ".config/nextest.toml";
    let text = std::fs::read_to_string(root.join(runner)).map_err(|e| format!("{runner}: {e}"))?;
    if text.contains("default-filter") {
        return Err(format!(
            "{runner} leaves tests out by a filter; mark them where they stand: #[ignore = \"nightly: why\"]"
        ));
    }
    let steps = std::fs::read_to_string(root.join(".ci/run")).map_err(|e| format!(".ci/run: {e}"))?;
    for word in WORDS {
        let is_run = |line: &str| {
            line.split_once("ignored ").is_some_and(|(_, rest)| rest.split(' ').any(|w| w == word))
        };
        let is_run = steps.lines().any(is_run);
        let is_used = found.iter().any(|test| test.word == word);
        if is_used && word != CHILD && !is_run {
            return Err(format!("no step of .ci/run runs `ignored {word}`"));
        }
    }
    Ok(())
}

/// Runs the tests of some words.
pub(crate) fn run(root: &Path, words: &[&str]) -> Outcome {
    if let Some(word) = words.iter().find(|word| !WORDS.contains(word)) {
        return Err(format!("{word} is not one of {}", WORDS.join(", ")));
    }
    let found = find(root)?;
    let tests = found.iter().filter(|test| words.contains(&test.word.as_str()));
    let filter = tests.map(|test| format!("test(/(^|::){}$/)", test.test)).collect::<Vec<_>>().join(" | ");
    if filter.is_empty() {
        return Err(format!("no test is marked {}", words.join(" or ")));
    }
    suite::run(root, &["--run-ignored", "only", "-E", &filter])
}

/// Names the tests that a run of the tests of some words leaves out, one a line, with the reason of each.
pub(crate) fn left(root: &Path, words: &[&str]) -> Result<Vec<String>, String> {
    let left = find(root)?.into_iter().filter(|test| test.word != CHILD && !words.contains(&&*test.word));
    let mut lines: Vec<String> =
        left.map(|it| format!("{LEFT}{} ({}: {})", it.test, it.word, it.why)).collect();
    lines.sort();
    Ok(lines)
}

fn find(root: &Path) -> Result<Vec<Ignored>, String> {
    let mut found = Vec::new();
    for (path, text) in sources(&root.join("crates"))?.into_iter().chain(sources(&root.join("xtask"))?) {
        found.extend(read(&text).map_err(|e| format!("{}: {e}", path.display()))?);
    }
    Ok(found)
}

/// The ignored tests of a source file.
fn read(text: &str) -> Result<Vec<Ignored>, String> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(reason) = line.trim_start().strip_prefix("#[ignore") else { continue };
        let reason = reason.strip_prefix(" = \"").and_then(|reason| reason.split_once(": "));
        let Some((word, why)) = reason.filter(|(word, _)| WORDS.contains(word)) else {
            return Err(format!("the reason of `{}` starts with none of: {}", line.trim(), WORDS.join(", ")));
        };
        let name = |line: &str| Some(line.trim_start().strip_prefix("fn ")?.split_once('(')?.0.to_owned());
        let test =
            lines.by_ref().take(4).find_map(name).ok_or_else(|| format!("no test follows `{line}`"))?;
        let why = why.trim_end().trim_end_matches("\"]").to_owned();
        found.push(Ignored { word: word.to_owned(), why, test });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_without_a_word_of_the_list_is_refused() {
        let good = "#[test]\n    #[ignore = \"moto: a server\"]\n    #[cfg(unix)]\n    fn it_runs() {\n";
        let found = read(good).unwrap();
        assert_eq!(found, [Ignored { word: "moto".into(), why: "a server".into(), test: "it_runs".into() }]);
        for bad in
            ["#[ignore]\nfn a() {", "#[ignore = \"slow\"]\nfn a() {", "#[ignore = \"later: x\"]\nfn a() {"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
