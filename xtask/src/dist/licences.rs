//! The licences of all crates in a program, as their packages have them, in one text.

use std::collections::BTreeMap;
use std::path::Path;

use super::crates::Crate;

/// How files with a licence are named.
const NAMES: [&str; 6] = ["licen", "copying", "copyright", "notice", "unlicense", "authors"];

/// Bytes of such a file at most.
const MOST: u64 = 256 << 10;

/// One text: the crates and their licences, then each text once with the crates that have it.
pub(crate) fn text(crates: &[Crate]) -> Result<String, String> {
    let mut out = String::from(
        "Remaster is licensed under MIT or Apache-2.0, at your option. It has these crates of others inside.\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for c in crates.iter().filter(|c| c.published) {
        let name = format!("{} {}", c.name, c.version);
        let found = found(&c.folder)?;
        let note = match (found.is_empty(), c.authors.as_str()) {
            (false, _) => String::new(),
            (true, "") => " (its package has no text of it)".to_owned(),
            (true, authors) => format!(" (its package has no text of it; it is by {authors})"),
        };
        out.push_str(&format!("{name}: {}{note}\n", c.licence));
        for text in found {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut texts: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, names)| (names, text)).collect();
    texts.sort();
    for (names, text) in texts {
        out.push_str(&format!("\n{}\n{}\n\n{}\n", "=".repeat(80), names.join(", "), text.trim_end()));
    }
    Ok(out)
}

/// Texts of licences in the folder of a crate.
fn found(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let about = entry.metadata().map_err(failed)?;
        if NAMES.iter().any(|start| name.starts_with(start)) && about.is_file() && about.len() <= MOST {
            let bytes = std::fs::read(entry.path()).map_err(failed)?;
            texts.push(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"));
        }
    }
    texts.sort();
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_several_crates_have_is_there_once() {
        let folder = tempfile::tempdir().unwrap();
        let one = |name: &str, files: &[(&str, &str)]| {
            let own = folder.path().join(name);
            std::fs::create_dir(&own).unwrap();
            files.iter().for_each(|(file, text)| std::fs::write(own.join(file), text).unwrap());
            let (licence, version) = ("MIT".into(), "1.0.0".into());
            let (uses, checksum) = (Default::default(), None);
            let authors = if name == "c" { "Somebody" } else { "" }.to_owned();
            Crate {
                name: name.into(),
                version,
                licence,
                authors,
                folder: own,
                published: true,
                checksum,
                uses,
            }
        };
        let crates = [
            one("a", &[("LICENSE-MIT", "the same\r\n"), ("README.md", "not this")]),
            one("b", &[("licence.txt", "the same\n"), ("NOTICE", "another")]),
            one("c", &[]),
        ];
        let text = text(&crates).unwrap();
        assert_eq!(text.matches("the same").count(), 1);
        assert!(
            text.contains("a 1.0.0, b 1.0.0\n\nthe same\n") && text.contains("\nb 1.0.0\n\nanother\n"),
            "{text}"
        );
        assert!(
            text.contains("c 1.0.0: MIT (its package has no text of it; it is by Somebody)\n")
                && !text.contains("not this")
        );
    }
}
