//! Links of documents: that they lead somewhere, and where they lead inside a book.

use std::collections::BTreeSet;
use std::path::Path;

use crate::Outcome;

/// Where files are shown that are no pages of the site.
pub(crate) const FILES: &str = "https://github.com/remaster-video/remaster/blob/main/";

/// A place in a document that names another one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    /// Where its target begins in the text.
    pub(crate) at: usize,
    pub(crate) target: &'a str,
}

/// Links, pictures and `href` and `src` of a document, outside of code.
pub(crate) fn links(text: &str) -> Vec<Link<'_>> {
    let (mut found, mut at, mut fenced) = (Vec::new(), 0, false);
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            in_line(line, start, &mut found);
        }
    }
    found
}

fn in_line<'a>(line: &'a str, start: usize, found: &mut Vec<Link<'a>>) {
    // Code is every second part; a link's words may hold some, its target never does.
    let mut at = 0;
    for (i, part) in line.split('`').enumerate() {
        if i % 2 == 0 {
            for (before, after) in [("](", ')'), ("href=\"", '"'), ("src=\"", '"')] {
                for (place, _) in part.match_indices(before) {
                    let from = place + before.len();
                    if let Some(length) = part[from..].find(after) {
                        found.push(Link { at: start + at + from, target: &part[from..from + length] });
                    }
                }
            }
        }
        at += part.len() + 1;
    }
}

/// The names of a document's headings in addresses, as GitHub and mdBook make them, and of `id="..."`.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let (mut found, mut fenced) = (BTreeSet::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && let Some(heading) = line.strip_prefix('#') {
            let name = slug(heading.trim_start_matches('#').trim());
            let twice = (1..).map(|n| format!("{name}-{n}"));
            found.extend([name.clone()].into_iter().chain(twice).find(|name| !found.contains(name)));
        }
        found
            .extend(line.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    }
    found
}

pub(crate) fn slug(heading: &str) -> String {
    // The words of a link, without its target.
    let mut words = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        words += before;
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    words += rest;
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    words.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// What a target means to a document of the repository.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Another site, or a mail.
    Elsewhere,
    /// A path from the root, and an anchor.
    Here { path: String, anchor: Option<String> },
}

/// `from` is the path of the document, from the root.
pub(crate) fn resolve(from: &str, target: &str) -> Target {
    let (target, base) = match target.strip_prefix(FILES) {
        Some(path) => (path, ""),
        None => (target, from.rsplit_once('/').map_or("", |(folder, _)| folder)),
    };
    if target.contains("://") || target.starts_with("mailto:") {
        return Target::Elsewhere;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, name)| (path, Some(name)));
    let path = if path.is_empty() { from.to_owned() } else { join(base, path) };
    Target::Here { path, anchor: anchor.map(str::to_owned) }
}

/// A path without `.` and `..`; those that lead out of the root keep them.
fn join(base: &str, path: &str) -> String {
    let mut parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// From one page to another, both from the root.
pub(crate) fn relative(from: &str, to: &str) -> String {
    let folders: Vec<&str> = from.split('/').collect();
    let folders = &folders[..folders.len() - 1];
    let parts: Vec<&str> = to.split('/').collect();
    let shared = folders.iter().zip(&parts[..parts.len() - 1]).take_while(|(a, b)| a == b).count();
    "../".repeat(folders.len() - shared) + &parts[shared..].join("/")
}

/// Every link of every document of the repository leads to a file that is there, and to a heading that it has.
pub(crate) fn check(root: &Path) -> Outcome {
    let mut wrong = Vec::new();
    for path in documents(root)? {
        let text = read(root, &path)?;
        for link in links(&text) {
            if let Some(reason) = refused(root, &path, &text, link.target)? {
                let line = text[..link.at].lines().count();
                wrong.push(format!("{path}:{line}: {}: {reason}", link.target));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn refused(root: &Path, from: &str, text: &str, target: &str) -> Result<Option<&'static str>, String> {
    let Target::Here { path, anchor } = resolve(from, target) else { return Ok(None) };
    let place = root.join(&path);
    if path.starts_with("..") || !place.exists() {
        return Ok(Some("there is no such file"));
    }
    let Some(anchor) = anchor.filter(|_| path.ends_with(".md")) else { return Ok(None) };
    let known = if path == from { anchors(text) } else { anchors(&read(root, &path)?) };
    Ok((!known.contains(&anchor)).then_some("there is no such heading"))
}

/// The documents of the repository, in the order of their names.
pub(crate) fn documents(root: &Path) -> Result<Vec<String>, String> {
    // Built things, and parts of documents that tests put together.
    const WITHOUT: [&str; 5] = ["target", ".git", "node_modules", "out", "tests"];
    let (mut folders, mut found) = (vec![String::new()], Vec::new());
    while let Some(folder) = folders.pop() {
        let failed = |e: std::io::Error| format!("{folder}: {e}");
        for entry in std::fs::read_dir(root.join(&folder)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            match entry.file_type().map_err(failed)?.is_dir() {
                true if !WITHOUT.contains(&name.as_str()) => folders.push(path),
                false if name.ends_with(".md") => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

pub(crate) fn read(root: &Path, path: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(path)).map_err(|e| format!("{path}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_every_document_leads_somewhere() {
        check(&crate::root()).unwrap();
    }

    #[test]
    fn links_in_code_are_none() {
        let text = "a [b](c.md) `[d](e)` ![f](g.png)\n```\n[h](i)\n```\n<a href=\"j\">\n[`k`](l#m)\n";
        let targets: Vec<&str> = links(text).iter().map(|link| link.target).collect();
        assert_eq!(targets, ["c.md", "g.png", "j", "l#m"]);
        assert!(links(text).iter().all(|link| text[link.at..].starts_with(link.target)));
    }

    #[test]
    fn headings_have_the_names_of_github() {
        let text = "# The `--ram` limit\n## A, b & c\n```sh\n# no\n```\n## A, b & c\n<p id=\"own\">\n## [One](two.md) more\n";
        let names = ["a-b--c", "a-b--c-1", "one-more", "own", "the---ram-limit"];
        assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), names.map(str::to_owned).to_vec());
    }

    #[test]
    fn targets_are_paths_from_the_root() {
        let here = |path: &str, anchor: Option<&str>| Target::Here {
            path: path.into(),
            anchor: anchor.map(str::to_owned),
        };
        assert_eq!(resolve("docs/a.md", "../b.md#c"), here("b.md", Some("c")));
        assert_eq!(resolve("docs/a.md", "#c"), here("docs/a.md", Some("c")));
        assert_eq!(resolve("docs/a.md", "decisions/"), here("docs/decisions", None));
        assert_eq!(resolve("a.md", "../x"), here("../x", None));
        assert_eq!(resolve("docs/a.md", &format!("{FILES}README.md")), here("README.md", None));
        assert_eq!(resolve("docs/a.md", "https://example.org/a.md"), Target::Elsewhere);
        assert_eq!(relative("docs/a.md", "b.md"), "../b.md");
        assert_eq!(relative("docs/a.md", "docs/b/c.md"), "b/c.md");
        assert_eq!(relative("a.md", "docs/b.md"), "docs/b.md");
    }

    #[test]
    fn a_lost_file_and_a_lost_heading_are_named_with_their_line() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        put("a.md", "# A\n\n[b](b.md#b) [c](b.md#c)\n[d](d.md)\n[e](../e)\n");
        put("b.md", "# B\n");
        let error = check(folder.path()).unwrap_err();
        assert_eq!(error.lines().count(), 3, "{error}");
        for words in ["a.md:3: b.md#c: there is no such heading", "a.md:4: d.md", "a.md:5: ../e"] {
            assert!(error.contains(words), "{error}");
        }
    }
}
