//! The files of `testdata` against the hashes in its manifest.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::Outcome;

/// Describes the folder and is described by nobody. Clips in `media` are inputs, not results: LICENSES.md there
/// says what they are.
const PROSE: [&str; 4] = ["MANIFEST.toml", "WEIGHTS.md", "nano.md", "media"];

pub(crate) fn check(folder: &Path) -> Outcome {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut said = manifest(&std::fs::read_to_string(folder.join(PROSE[0])).map_err(failed)?)?;
    let mut wrong = Vec::new();
    for name in names(folder).map_err(failed)? {
        let hash = sha256(&std::fs::read(folder.join(&name)).map_err(failed)?);
        match said.remove(&name) {
            None => wrong.push(format!("{name} is not in the manifest; its sha256 is {hash}")),
            Some(said) if said != hash => {
                wrong.push(format!("{name} has sha256 {hash}, the manifest says {said}"))
            }
            Some(_) => {}
        }
    }
    wrong.extend(said.keys().map(|name| format!("{name} is in the manifest but not in the folder")));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The copies inside the program against the files they are copies of.
pub(crate) fn check_copies(folder: &Path, copies: &Path) -> Outcome {
    let failed = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    let originals = names(folder).map_err(|e| failed(folder, e))?;
    let mut wrong = Vec::new();
    for copy in names(copies).map_err(|e| failed(copies, e))? {
        let read = |path: &Path| std::fs::read(path).map_err(|e| failed(path, e));
        let original = originals.iter().find(|name| name.rsplit('/').next() == Some(&copy));
        match original {
            None => wrong.push(format!("{copy} is a copy of no file in {}", folder.display())),
            Some(name) if read(&folder.join(name))? != read(&copies.join(&copy))? => {
                wrong.push(format!("{copy} differs from {name}"));
            }
            Some(_) => {}
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Files of the folder and of the folders in it.
fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if PROSE.contains(&name.as_str()) {
            continue;
        }
        if !entry.file_type()?.is_dir() {
            names.push(name);
            continue;
        }
        for inner in std::fs::read_dir(entry.path())? {
            names.push(format!("{name}/{}", inner?.file_name().to_string_lossy()));
        }
    }
    Ok(names)
}

/// Names and hashes. The manifest is TOML of one form, one `key = "value"` a line, so that this needs no
/// parser for the rest of the language; what is not of that form is refused.
fn manifest(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut files = BTreeMap::new();
    let mut name: Option<String> = None;
    for line in text.lines() {
        let quoted = |key: &str| -> Option<String> {
            let value = line.strip_prefix(key)?.trim_start().strip_prefix('=')?.trim();
            Some(value.strip_prefix('"')?.strip_suffix('"')?.to_owned())
        };
        if let Some(file) = quoted("name") {
            if let Some(before) = name.replace(file) {
                return Err(format!("MANIFEST.toml: {before} has no sha256"));
            }
        } else if let Some(hash) = quoted("sha256") {
            let file = name.take().ok_or_else(|| format!("MANIFEST.toml: sha256 {hash} has no name"))?;
            if files.insert(file.clone(), hash).is_some() {
                return Err(format!("MANIFEST.toml: {file} is there twice"));
            }
        }
    }
    match name {
        Some(name) => Err(format!("MANIFEST.toml: {name} has no sha256")),
        None => Ok(files),
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_golden_is_the_one_in_the_manifest() {
        check(&crate::root().join("testdata")).unwrap();
    }

    #[test]
    fn a_changed_a_new_and_a_lost_file_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let entry = |name: &str, hash: &str| format!("[[file]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n");
        put("a", "golden");
        put("MANIFEST.toml", &entry("a", &sha256(b"golden")));
        check(folder.path()).unwrap();

        put("a", "golden, changed");
        put("b", "new");
        put("MANIFEST.toml", &(entry("a", &sha256(b"golden")) + &entry("c", "0")));
        let error = check(folder.path()).unwrap_err();
        for word in ["a has sha256", "b is not in the manifest", "c is in the manifest but not"] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn copies_are_those_of_the_program_and_a_changed_one_is_named() {
        let root = crate::root();
        check_copies(&root.join("testdata"), &root.join("crates/doctor/goldens")).unwrap();

        let [folder, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        std::fs::create_dir(folder.path().join("dit")).unwrap();
        for name in ["a", "dit/b"] {
            std::fs::write(folder.path().join(name), "golden").unwrap();
        }
        for (name, text) in [("a", "golden"), ("b", "changed"), ("c", "new")] {
            std::fs::write(copies.path().join(name), text).unwrap();
        }
        let error = check_copies(folder.path(), copies.path()).unwrap_err();
        assert!(
            error.contains("b differs from dit/b") && error.contains("c is a copy of no file"),
            "{error}"
        );
        assert!(!error.contains("a differs"), "{error}");
    }

    #[test]
    fn an_entry_without_a_hash_is_refused() {
        assert!(manifest("name = \"a\"\nname = \"b\"\nsha256 = \"0\"").is_err());
        assert!(manifest("name = \"a\"").is_err() && manifest("sha256 = \"0\"").is_err());
    }
}
