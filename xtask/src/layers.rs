//! Which crate leans on which, and what it stays free of: the table in ARCHITECTURE.md against manifests and sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Outcome;
use crate::workspace::{Package, code, sources, table};

const HEADING: &str = "## Which crate leans on which";

/// Built with tests only.
const TESTS_ONLY: &str = "testkit";

/// What a crate can stay free of, and what it would write if it did not.
const FREE_OF: [(&str, &[&str]); 5] = [
    ("files", &["std::fs", "File::open", "File::create"]),
    ("clock", &["Instant::now", "SystemTime"]),
    ("threads", &["std::thread", "thread::spawn", "rayon"]),
    ("environment", &["env::var", "env::args", "env::current", "env::temp_dir"]),
    ("processes", &["process::Command", "Command::new", "process::exit"]),
];

/// Calls that make or remove files past `disk`, which follows no link and where a test can end the process.
const PAST_DISK: [&str; 14] = [
    "fs::rename",
    "fs::remove_file",
    "fs::remove_dir",
    "fs::write(",
    "fs::create_dir",
    "fs::hard_link",
    "fs::copy",
    " File::create",
    "fs::File::create",
    "(File::create",
    "tempfile::tempdir",
    ".tempdir_in(",
    "NamedTempFile",
    "TempPath",
];

/// Calls that open a file past `disk`, which waits for no pipe.
const PAST_READ: [&str; 7] = [
    " File::open(",
    "(File::open(",
    "fs::File::open(",
    "fs::read(",
    "fs::read_to_string(",
    "File::options(",
    "OpenOptions",
];

/// Files that read what the system says of itself, and one that tests of kills write.
const SYSTEM: [&str; 4] =
    ["media/src/resident.rs", "machine/memory/kernel.rs", "bench/src/card/mod.rs", "cli/src/kill.rs"];

/// Who may: `disk` itself, and what is no part of the product.
const MAY_GO_PAST: [&str; 4] = ["disk", "testkit", "isa", "xtask"];

pub(crate) fn check(root: &Path, workspace: &[Package]) -> Outcome {
    let file = root.join("ARCHITECTURE.md");
    let document = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    compare(&document, workspace)?;
    let mut wrong = Vec::new();
    for row in table(&document, HEADING) {
        let (Some(name), Some(words)) = (row.first().and_then(|c| code(c).first().copied()), row.get(2))
        else {
            continue;
        };
        let folder =
            if name == "xtask" { root.join("xtask/src") } else { root.join("crates").join(name).join("src") };
        let sources = product(&folder)?;
        wrong.extend(not_free(name, words, &sources));
        if !MAY_GO_PAST.contains(&name) {
            wrong.extend(uses(&sources, &PAST_DISK, &format!("`{name}` makes or removes files past `disk`")));
            let (rule, named) = (format!("`{name}` opens files past `disk::read_named`"), of_paths(sources));
            wrong.extend(uses(&named, &PAST_READ, &rule));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Names and texts of the sources below a folder, without what is only there for tests.
fn product(folder: &Path) -> Result<Vec<(String, String)>, String> {
    let mut all = sources(folder)?;
    let is_test = |path: &Path| path.iter().any(|word| word == "tests" || word == "tests.rs");
    all.retain(|(path, _)| !is_test(path.strip_prefix(folder).unwrap_or(path)));
    let product = |text: String| text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    Ok(all.into_iter().map(|(path, text)| (path.display().to_string(), product(text))).collect())
}

/// Sources whose paths may come from a person.
fn of_paths(mut sources: Vec<(String, String)>) -> Vec<(String, String)> {
    let is_system = |file: &str| SYSTEM.iter().any(|end| file.replace('\\', "/").ends_with(end));
    sources.retain(|(file, _)| !is_system(file));
    sources
}

/// Where a crate writes what it should stay free of.
fn not_free(name: &str, words: &str, sources: &[(String, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for word in words.split(',').map(str::trim).filter(|word| !word.is_empty() && *word != "nothing") {
        let Some((_, patterns)) = FREE_OF.iter().find(|(known, _)| *known == word) else {
            wrong.push(format!("`{name}` stays free of {word}, which xtask cannot check"));
            continue;
        };
        wrong.extend(uses(sources, patterns, &format!("`{name}` stays free of {word}")));
    }
    wrong
}

/// Lines with one of the patterns, comments aside.
fn uses(sources: &[(String, String)], patterns: &[&str], rule: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, text) in sources {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        let uses = lines.filter(|(_, line)| patterns.iter().any(|pattern| line.contains(pattern)));
        wrong.extend(uses.map(|(i, _)| format!("{file}:{}: {rule}", i + 1)));
    }
    wrong
}

fn compare(document: &str, workspace: &[Package]) -> Outcome {
    let mut said: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in table(document, HEADING) {
        let owned = |cell: Option<&String>| -> Vec<String> {
            cell.map(|c| code(c).into_iter().map(str::to_owned).collect()).unwrap_or_default()
        };
        for name in owned(row.first()) {
            said.insert(name, owned(row.get(1)).into_iter().collect());
        }
    }
    let mut wrong = Vec::new();
    for package in workspace {
        let name = &package.name;
        let real: BTreeSet<String> = package.leans_on().into_iter().map(str::to_owned).collect();
        if real.contains(TESTS_ONLY) {
            wrong.push(format!("`{name}` is built with `{TESTS_ONLY}`, which is for tests only"));
        }
        match said.remove(name) {
            None => wrong.push(format!("`{name}` is not in the table of ARCHITECTURE.md")),
            Some(said) if said != real => {
                wrong.push(format!("`{name}` leans on {real:?}, but ARCHITECTURE.md says {said:?}"));
            }
            Some(_) => {}
        }
    }
    wrong.extend(said.keys().map(|name| format!("ARCHITECTURE.md lists `{name}`, which is no crate")));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, read};

    fn package(name: &str, on: &[(&str, bool)]) -> Package {
        let dependency = |&(name, dev): &(&str, bool)| Dependency {
            name: name.into(),
            version: "*".into(),
            ours: true,
            dev,
        };
        Package { name: name.into(), dependencies: on.iter().map(dependency).collect() }
    }

    #[test]
    fn every_crate_leans_on_what_the_architecture_says() {
        let root = crate::root();
        check(&root, &read(&root).unwrap()).unwrap();
    }

    #[test]
    fn a_wrong_direction_a_new_crate_and_a_lost_one_are_named() {
        let document = format!("{HEADING}\n| `plan` | nothing of ours |\n| `model` | `compute` |\n");
        let good = [package("plan", &[("testkit", true)]), package("model", &[("compute", false)])];
        compare(&document, &good).unwrap();
        let error =
            compare(&document, &[package("plan", &[("model", false)]), package("new", &[])]).unwrap_err();
        assert!(error.contains("`plan` leans on {\"model\"}"), "{error}");
        assert!(
            error.contains("`new` is not in the table") && error.contains("`model`, which is no crate"),
            "{error}"
        );
    }

    #[test]
    fn what_a_crate_stays_free_of_is_looked_for() {
        let source = |text: &str| [("a.rs".to_owned(), text.to_owned())];
        let clean = source("// std::thread is not used here\nfn plan() {}");
        assert!(not_free("plan", "files, clock, threads, environment, processes", &clean).is_empty());
        let found = not_free("plan", "clock, threads", &source("fn a() {}\nlet t = Instant::now();"));
        assert_eq!(found, ["a.rs:2: `plan` stays free of clock"]);
        assert_eq!(not_free("plan", "magic", &clean).len(), 1);
    }

    #[test]
    fn files_are_opened_where_no_pipe_is_waited_for() {
        let source = |file: &str, text: &str| vec![(file.to_owned(), text.to_owned())];
        let found = |file: &str, text: &str| uses(&of_paths(source(file, text)), &PAST_READ, "rule").len();
        assert_eq!(found("crates/cli/src/config.rs", "let file = std::fs::File::open(path)?;"), 1);
        assert_eq!(found("crates/cli/src/config.rs", "let file = PipelineFile::open(path)?;"), 0);
        assert_eq!(found("crates/media/src/resident.rs", "std::fs::read_to_string(path)"), 0);
    }

    #[test]
    fn the_test_kit_never_ships() {
        let document = format!("{HEADING}\n| `cli` | `testkit` |\n");
        let error = compare(&document, &[package("cli", &[("testkit", false)])]).unwrap_err();
        assert!(error.contains("for tests only"), "{error}");
    }
}
