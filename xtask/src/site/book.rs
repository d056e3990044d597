//! The documents of the repository as the pages of a book: the same files, in the same folders, with links that lead to other
//! pages where there are such.

use std::collections::BTreeSet;
use std::path::Path;

use super::links::{FILES, Target, links, read, relative, resolve};
use crate::Outcome;

/// The list of pages, with paths as seen from its own folder.
pub(crate) const LIST: &str = "site/SUMMARY.md";

/// Pages that are made, in the list: a line of its own for each.
pub(crate) const MADE: [&str; 2] = ["<!-- commands -->", "<!-- json -->"];

/// What a page of documents may show.
const PICTURES: [&str; 4] = [".png", ".jpg", ".svg", ".webp"];

/// The documents that the list names, as paths from the root.
pub(crate) fn documents(root: &Path) -> Result<BTreeSet<String>, String> {
    let list = read(root, LIST)?;
    let paths = links(&list).into_iter().filter_map(|link| match resolve(LIST, link.target) {
        Target::Here { path, .. } => Some(path),
        Target::Elsewhere => None,
    });
    Ok(paths.collect())
}

/// Where a document is in the book. A folder's page is its index, and the site's own pages are at the root.
pub(crate) fn place(path: &str) -> String {
    let path = path.strip_prefix("site/").unwrap_or(path);
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => path.to_owned(),
    }
}

/// A document with the links of the book, and the pictures that it shows.
pub(crate) fn page(root: &Path, from: &str, text: &str, book: &BTreeSet<String>) -> (String, Vec<String>) {
    let (mut page, mut pictures, mut at) = (String::new(), Vec::new(), 0);
    for link in links(text) {
        if link.at < at {
            continue;
        }
        let Target::Here { path, anchor } = resolve(from, link.target) else { continue };
        // Pages that are made are there when the book is.
        if !root.join(&path).exists() {
            continue;
        }
        let folder = format!("{path}/README.md");
        let path = if book.contains(&folder) { folder } else { path };
        let picture = PICTURES.iter().any(|ending| path.ends_with(ending));
        let mut target = match book.contains(&path) || picture {
            true => relative(&place(from), &place(&path)),
            false => format!("{FILES}{path}"),
        };
        if picture {
            pictures.push(path);
        }
        target += &anchor.map(|name| format!("#{name}")).unwrap_or_default();
        page += &text[at..link.at];
        page += &target;
        at = link.at + link.target.len();
    }
    (page + &text[at..], pictures)
}

/// Every document of `docs` is in the list, and no document twice.
pub(crate) fn check(root: &Path) -> Outcome {
    let listed = documents(root)?;
    let all = super::links::documents(root)?;
    let ours = |path: &&String| path.starts_with("docs/") || path.starts_with("site/") || !path.contains('/');
    let missing: Vec<&str> =
        all.iter().filter(ours).filter(|p| *p != LIST && !listed.contains(*p)).map(String::as_str).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("{LIST} lacks {}", missing.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_has_a_place_in_the_book() {
        check(&crate::root()).unwrap();
    }

    #[test]
    fn links_lead_to_pages_pictures_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        for name in
            ["README.md", "docs/a.md", "docs/p.png", "docs/d/README.md", "crates/x.rs", "site/tour.md"]
        {
            put(name);
        }
        let book = ["README.md", "docs/a.md", "docs/d/README.md", "site/tour.md"].map(str::to_owned).into();
        let text = "[r](../README.md#x) ![p](p.png) [d](d) [x](../crates/x.rs) [t](../site/tour.md) [e](https://e.org) [s](#s)";
        let (page, pictures) = page(folder.path(), "docs/a.md", text, &book);
        let file = format!("{FILES}crates/x.rs");
        assert_eq!(
            page,
            format!(
                "[r](../index.md#x) ![p](p.png) [d](d/index.md) [x]({file}) [t](../tour.md) [e](https://e.org) [s](a.md#s)"
            )
        );
        assert_eq!(pictures, ["docs/p.png"]);
    }
}
