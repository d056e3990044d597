//! Tests that the gate's own run leaves out. The reason of each starts with a word that says what runs it, as in
//! `#[ignore = "nightly: minutes on a software device"]`. `cargo xtask ignored WORD` runs those of a word, and a step of
//! `.ci/run` does that for every word but the last, so that no test is forgotten.

use std::path::Path;

use crate::workspace::sources;
use crate::{Outcome, suite};

/// The words. A child is started by another test.
const WORDS: [&str; 9] =
    ["nightly", "ffmpegs", "moto", "seaweedfs", "rclone", "openjd", "kubernetes", "vapoursynth", CHILD];
const CHILD: &str = "child";

/// One test that is ignored.
#[derive(Debug, PartialEq)]
struct Ignored {
    word: String,
    test: String,
}

/// Every test that is ignored has a word, and every word a step.
pub(crate) fn check(root: &Path) -> Outcome {
    let found = find(root)?;
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
        let word = reason.strip_prefix(" = \"").and_then(|reason| Some(reason.split_once(": ")?.0));
        let Some(word) = word.filter(|word| WORDS.contains(word)) else {
            return Err(format!("the reason of `{}` starts with none of: {}", line.trim(), WORDS.join(", ")));
        };
        let name = |line: &str| Some(line.trim_start().strip_prefix("fn ")?.split_once('(')?.0.to_owned());
        let test =
            lines.by_ref().take(4).find_map(name).ok_or_else(|| format!("no test follows `{line}`"))?;
        found.push(Ignored { word: word.to_owned(), test });
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
        assert_eq!(found, [Ignored { word: "moto".into(), test: "it_runs".into() }]);
        for bad in
            ["#[ignore]\nfn a() {", "#[ignore = \"slow\"]\nfn a() {", "#[ignore = \"later: x\"]\nfn a() {"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
