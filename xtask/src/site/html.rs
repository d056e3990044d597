//! The links of the built site: each leads to a file that is there and to a name that it has, once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::links::{Target, resolve};
use crate::Outcome;

/// mdBook writes it for servers, with addresses from the root of the server.
const MISSING: &str = "404.html";

pub(crate) fn check(site: &Path) -> Outcome {
    let mut pages = BTreeMap::new();
    let mut files = BTreeSet::new();
    collect(site, "", &mut files)?;
    for path in files.iter().filter(|path| path.ends_with(".html") && *path != MISSING) {
        let text = std::fs::read_to_string(site.join(path)).map_err(|e| format!("{path}: {e}"))?;
        pages.insert(path.clone(), text);
    }
    let names: BTreeMap<&str, BTreeSet<&str>> =
        pages.iter().map(|(path, text)| (path.as_str(), values(text, "id").collect())).collect();
    let mut wrong = BTreeSet::new();
    for (path, text) in &pages {
        let mut ids = BTreeSet::new();
        let twice = values(text, "id").filter(|id| !ids.insert(*id));
        wrong.extend(twice.map(|id| format!("{path}: two places are called {id}")));
        for target in values(text, "href").chain(values(text, "src")) {
            if target.contains("://") || target.starts_with("data:") {
                continue;
            }
            let Target::Here { path: to, anchor } = resolve(path, target) else { continue };
            let known = names.get(to.as_str());
            if !files.contains(&to) {
                wrong.insert(format!("{path}: {target}: there is no such file"));
            } else if let (Some(name), Some(known)) = (anchor, known)
                && !name.is_empty()
                && !known.contains(name.as_str())
            {
                wrong.insert(format!("{path}: {target}: there is no such place"));
            }
        }
    }
    match wrong.is_empty() {
        true if pages.is_empty() => Err(format!("{} has no pages", site.display())),
        true => Ok(()),
        false => Err(wrong.into_iter().collect::<Vec<_>>().join("\n")),
    }
}

/// Values of an attribute; mdBook quotes all of them.
fn values<'a>(text: &'a str, name: &'static str) -> impl Iterator<Item = &'a str> {
    text.split('<').skip(1).filter_map(|tag| tag.split('>').next()).flat_map(move |tag| {
        let found = tag.match_indices(name).filter_map(move |(at, _)| {
            let before = tag[..at].chars().next_back()?;
            let value = tag[at + name.len()..].strip_prefix("=\"")?;
            before.is_whitespace().then(|| value.split('"').next())?
        });
        found.collect::<Vec<_>>()
    })
}

fn collect(site: &Path, folder: &str, files: &mut BTreeSet<String>) -> Outcome {
    let failed = |e: std::io::Error| format!("{}/{folder}: {e}", site.display());
    for entry in std::fs::read_dir(site.join(folder)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type().map_err(failed)?.is_dir() {
            collect(site, &path, files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_pages_places_and_pictures_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        put(
            "a.html",
            "<a id=\"x\" href=\"docs/b.html#y\"> <a href=\"#x\"> <a href=\"https://x.org/z\"> <img src=\"p.png\">",
        );
        put("docs/b.html", "<h1 id=\"y\"><a class=\"header\" href=\"../a.html#x\"></a>");
        put("p.png", "");
        check(folder.path()).unwrap();
        put(
            "docs/b.html",
            "<h1 id=\"z\"><a href=\"../a.html#w\"><a href=\"c.html\"><img data-src=\"no\" src=\"q.png\">",
        );
        let error = check(folder.path()).unwrap_err();
        assert_eq!(error.lines().count(), 4, "{error}");
    }
}
