//! Files of a crate do not import each other in a circle; a parent and its own children may.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Outcome;
use crate::workspace::sources;

/// Crates in which this holds.
const CRATES: [&str; 4] = ["cli", "remaster", "restore", "units"];

/// The modules of a crate by their paths, such as `units::local`, each with those that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn check(root: &Path) -> Outcome {
    for name in CRATES {
        let modules = modules(&root.join("crates").join(name).join("src"))?;
        if let Some(circle) = circle(&imports(&modules)) {
            return Err(format!("`{name}` has files that import each other: {}", circle.join(" -> ")));
        }
    }
    Ok(())
}

/// Sources by module. `mod.rs` and `NAME.rs` beside a folder NAME are both the module NAME; tests are no part of it.
fn modules(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut modules = BTreeMap::new();
    for (path, text) in sources(folder)? {
        let place = path.strip_prefix(folder).unwrap_or(&path).with_extension("");
        let mut words: Vec<_> = place.iter().map(|word| word.to_string_lossy()).collect();
        words.pop_if(|last| matches!(&**last, "lib" | "main" | "mod"));
        let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        // The root only gathers.
        if !words.is_empty() && !product.starts_with("#![cfg(test)]") {
            modules.insert(words.join("::"), product.to_owned());
        }
    }
    Ok(modules)
}

fn imports(sources: &BTreeMap<String, String>) -> Imports {
    let known: BTreeSet<&str> = sources.keys().map(String::as_str).collect();
    let mut imports = Imports::new();
    for (module, text) in sources {
        let (parent, grandparent) = (above(module), above(above(module)));
        let mut found = BTreeSet::new();
        for (start, base) in [("crate::", ""), ("super::super::", grandparent), ("super::", parent)] {
            for (at, _) in text.match_indices(start) {
                // A path in a word, or the second half of `super::super::`.
                let before = text[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                    continue;
                }
                for path in paths(&text[at + start.len()..]) {
                    found.extend(longest(base, &path, &known).map(str::to_owned));
                }
            }
        }
        let family = |other: &String| {
            let inside = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with("::"));
            *other == *module || inside(other, module) || inside(module, other)
        };
        found.retain(|other| !family(other));
        imports.insert(module.clone(), found);
    }
    imports
}

/// The module that one is in.
fn above(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// The paths of an import behind its first word: one, or those in braces.
fn paths(text: &str) -> Vec<String> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
    let (head, rest) = text.split_at(end);
    let Some(inside) = rest.strip_prefix('{').filter(|_| head.is_empty() || head.ends_with("::")) else {
        return vec![head.to_owned()];
    };
    let inside = inside.split('}').next().unwrap_or_default();
    inside.split(',').map(|name| format!("{head}{}", name.trim())).collect()
}

/// The module that a path is in: as many of its words as name one.
fn longest<'a>(base: &str, path: &str, known: &BTreeSet<&'a str>) -> Option<&'a str> {
    let whole = if base.is_empty() { path.to_owned() } else { format!("{base}::{path}") };
    let mut words: Vec<&str> = whole.split("::").collect();
    while !words.is_empty() {
        if let Some(found) = known.get(words.join("::").as_str()) {
            return Some(found);
        }
        words.pop();
    }
    None
}

/// One circle, if there is any.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    let (mut done, mut way) = (BTreeSet::new(), Vec::new());
    imports.keys().find_map(|module| follow(module, imports, &mut done, &mut way))
}

fn follow(
    module: &str,
    imports: &Imports,
    done: &mut BTreeSet<String>,
    way: &mut Vec<String>,
) -> Option<Vec<String>> {
    if let Some(at) = way.iter().position(|other| other == module) {
        return Some(way[at..].iter().cloned().chain([module.to_owned()]).collect());
    }
    if done.contains(module) {
        return None;
    }
    way.push(module.to_owned());
    let found = imports.get(module)?.iter().find_map(|next| follow(next, imports, done, way));
    way.pop();
    done.insert(module.to_owned());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_and_families_may_be_one() {
        let of = |files: &[(&str, &str)]| {
            let sources = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            circle(&imports(&sources))
        };
        assert_eq!(of(&[("a", "use crate::b::B;"), ("b", "use crate::c;"), ("c", "")]), None);
        let found =
            of(&[("a", "use crate::b::{B, C};"), ("b", "fn f() { crate::c::g() }"), ("c", "use super::a;")]);
        assert_eq!(found.unwrap(), ["a", "b", "c", "a"]);
        assert_eq!(of(&[("a", "use b::B;"), ("a::b", "use super::A;")]), None);
        assert!(of(&[("a::x", "use super::{y, z};"), ("a::y", "use super::x::X;"), ("a::z", "")]).is_some());
    }
}
