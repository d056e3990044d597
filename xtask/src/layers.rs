//! Which crate leans on which: the table in ARCHITECTURE.md against the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Outcome;
use crate::workspace::{Package, code, table};

const HEADING: &str = "## Which crate leans on which";

/// Built with tests only.
const TESTS_ONLY: &str = "testkit";

pub(crate) fn check(root: &Path, workspace: &[Package]) -> Outcome {
    let file = root.join("ARCHITECTURE.md");
    let document = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    compare(&document, workspace)
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
    fn the_test_kit_never_ships() {
        let document = format!("{HEADING}\n| `cli` | `testkit` |\n");
        let error = compare(&document, &[package("cli", &[("testkit", false)])]).unwrap_err();
        assert!(error.contains("for tests only"), "{error}");
    }
}
