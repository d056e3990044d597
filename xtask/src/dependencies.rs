//! Every crate of others that ours name is explained in docs/dependencies.md, and no other.

use std::collections::BTreeSet;
use std::path::Path;

use crate::Outcome;
use crate::workspace::{Package, code, table};

const HEADING: &str = "## Crates we use";

pub(crate) fn check(root: &Path, workspace: &[Package]) -> Outcome {
    let file = root.join("docs/dependencies.md");
    let document = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    compare(&document, workspace)
}

/// A row is `| name | version | licence | used by | what for |`. Name, version and users must be those of
/// the manifests; a user that needs it in tests only is marked so.
fn compare(document: &str, workspace: &[Package]) -> Outcome {
    type Row = (String, String, BTreeSet<(String, bool)>);
    let mut real: Vec<Row> = Vec::new();
    for package in workspace {
        for d in package.dependencies.iter().filter(|d| !d.ours) {
            let user = (package.name.clone(), d.dev);
            match real.iter_mut().find(|(name, version, _)| (name, version) == (&d.name, &d.version)) {
                Some(row) => drop(row.2.insert(user)),
                None => real.push((d.name.clone(), d.version.clone(), BTreeSet::from([user]))),
            }
        }
    }
    let cell = |row: &[String], i: usize| row.get(i).cloned().unwrap_or_default();
    let said: Vec<Row> = table(document, HEADING)
        .iter()
        .map(|row| {
            let users = cell(row, 3);
            let users = users.split(',').flat_map(|user| {
                let dev = user.contains("(tests)");
                code(user).into_iter().map(move |name| (name.to_owned(), dev)).collect::<Vec<_>>()
            });
            (cell(row, 0).trim_matches('`').to_owned(), cell(row, 1), users.collect())
        })
        .collect();
    let missing = real.iter().filter(|row| !said.contains(row)).map(|row| format!("not listed: {row:?}"));
    let stale = said.iter().filter(|row| !real.contains(row)).map(|row| format!("not true: {row:?}"));
    let wrong: Vec<String> = missing.chain(stale).collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "docs/dependencies.md (name, version, users and whether in tests)\n{}",
            wrong.join("\n")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, read};

    #[test]
    fn every_direct_dependency_is_explained() {
        let root = crate::root();
        check(&root, &read(&root).unwrap()).unwrap();
    }

    #[test]
    fn a_missing_row_and_a_stale_one_are_named() {
        let half = |dev| Dependency { name: "half".into(), version: "2.7".into(), ours: false, dev };
        let workspace = |dev| [Package { name: "compute".into(), dependencies: vec![half(dev)] }];
        let document = format!("{HEADING}\n| `half` | 2.7 | MIT | `compute` | f16 |\n");
        compare(&document, &workspace(false)).unwrap();
        assert!(compare(&document, &workspace(true)).unwrap_err().contains("not listed"));
        assert!(compare(&document, &[]).unwrap_err().contains("not true"));
        compare(&document.replace("`compute`", "`compute` (tests)"), &workspace(true)).unwrap();
        assert!(compare(&document.replace("2.7", "2.6"), &workspace(false)).is_err());
    }
}
