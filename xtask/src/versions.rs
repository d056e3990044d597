//! One number for everything that a release publishes.

use std::path::Path;

use crate::Outcome;

/// Files that name the version, and what stands before it; a quote ends it.
const PLACES: [(&str, &str); 4] = [
    ("Cargo.toml", "version = \"="),
    ("pyproject.toml", "\nversion = \""),
    ("integrations/comfyui/pyproject.toml", "\nversion = \""),
    ("integrations/comfyui/pyproject.toml", "\"remaster-video>="),
];

pub(crate) fn check(root: &Path) -> Outcome {
    let own = env!("CARGO_PKG_VERSION");
    let mut wrong = Vec::new();
    for (file, before) in PLACES {
        let found = named(&crate::site::links::read(root, file)?, before);
        if found.is_empty() {
            wrong.push(format!("{file} names no version"));
        }
        wrong
            .extend(found.iter().filter(|v| *v != own).map(|v| format!("{file} says {v}, Cargo.toml {own}")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// What stands between a text and a quote, everywhere.
fn named(text: &str, before: &str) -> Vec<String> {
    text.split(before).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_places_say_the_same() {
        check(&crate::root()).unwrap();
    }

    #[test]
    fn every_place_of_a_file_counts() {
        let text = "a = { version = \"=1.2.3\" }\nb = { version = \"=1.2.4\" }\nc = \"2\"\n";
        assert_eq!(named(text, PLACES[0].1), ["1.2.3", "1.2.4"]);
    }
}
