//! What could not be run is said in one way, so that it is found at the end of a run, and is a failure in CI.

use std::path::Path;

use crate::Outcome;

/// In front of it.
pub(crate) const NOT_RUN: &str = "NOT RUN: ";

/// Where it is spelled: by the helper of the tests, by the function of the gate, and here.
const SPELLED: [&str; 3] = ["crates/testkit/src/not_run.rs", ".ci/run", "xtask/src/not_run.rs"];

/// Places whose lines reach a person while something is checked.
const PLACES: [&str; 6] = ["crates", "xtask", ".ci", "scripts", "tools", "integrations"];

/// Says what was not run. With `CI=true` that is a failure.
pub(crate) fn say(what: &str) -> Outcome {
    println!("{NOT_RUN}{what}");
    match std::env::var_os("CI").is_some_and(|value| value == "true") {
        true => Err(format!("{what} was not run, but CI is set")),
        false => Ok(()),
    }
}

/// Nothing else spells it: what another function prints is neither found nor a failure.
pub(crate) fn check(root: &Path) -> Outcome {
    let mut found = Vec::new();
    for place in PLACES {
        look(root, &root.join(place), &mut found)?;
    }
    let others: Vec<String> =
        found.iter().filter(|path| !SPELLED.contains(&path.as_str())).cloned().collect();
    match (others.is_empty(), SPELLED.iter().find(|path| !found.iter().any(|other| other == *path))) {
        (false, _) => {
            Err(format!("{} says in its own words what was not run; use not_run", others.join(", ")))
        }
        (true, Some(path)) => Err(format!("{path} does not say any more what was not run")),
        (true, None) => Ok(()),
    }
}

fn look(root: &Path, folder: &Path, found: &mut Vec<String>) -> Outcome {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries.flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) {
            look(root, &path, found)?;
        } else if kind.is_ok_and(|kind| kind.is_file())
            && let Ok(text) = std::fs::read_to_string(&path)
            && text.lines().any(prints)
        {
            let below = path.strip_prefix(root).unwrap_or(&path);
            found.push(below.display().to_string().replace('\\', "/"));
        }
    }
    Ok(())
}

/// Whether a line of a source prints it. A comment does not.
fn prints(line: &str) -> bool {
    let line = line.trim_start();
    !line.starts_with("//") && !line.starts_with('#') && line.to_ascii_lowercase().contains("\"not run: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_prints_is_found_and_a_comment_is_none() {
        let own = format!("eprintln!(\"{}no root\")", NOT_RUN.to_lowercase());
        assert!(prints(&own) && prints(&format!("  echo \"{NOT_RUN}$1\"")));
        assert!(!prints(&format!("// {own}")) && !prints("this was not run"));
    }
}
