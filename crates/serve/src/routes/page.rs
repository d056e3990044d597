//! The page and its parts, which are inside the program.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::Words;
use crate::problem::Problem;

/// Files of the page by name.
macro_rules! parts {
    ($($name:literal)*) => {
        &[$(($name, include_bytes!(concat!("../../page/", $name)))),*]
    };
}

/// All parts of the page.
const PARTS: &[(&str, &[u8])] = parts!(
    "actions.js" "address.js" "api.js" "compare.js" "cost.js" "dom.js" "drop.js" "film.js" "folders.js" "format.js" "gestures.js"
    "icon.svg" "index.html" "main.js" "preview.js" "queue.js" "result.js" "settings.js" "setup.js" "state.js" "status.js"
    "style.css" "timeline.js" "token.js" "upload.js" "zoom.js"
);

pub(super) async fn index() -> Result<Response, Problem> {
    part("index.html")
}

pub(super) async fn icon() -> Result<Response, Problem> {
    part("icon.svg")
}

pub(super) async fn asset(Words(words): Words) -> Result<Response, Problem> {
    part(words.get("name").map_or("", String::as_str))
}

fn part(name: &str) -> Result<Response, Problem> {
    let (name, bytes) =
        PARTS.iter().find(|(known, _)| *known == name).ok_or_else(|| Problem::missing("page"))?;
    let kind = match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        _ => "image/svg+xml",
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        // Another program may answer here tomorrow.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    Ok((headers, *bytes).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_inside_the_program() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        assert_eq!(PARTS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), files);
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere() {
        for (name, bytes) in PARTS {
            let text = String::from_utf8_lossy(bytes);
            // The name of a language is no address that is loaded.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for word in [
                "http://",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!text.contains(word), "{name} has {word}");
            }
        }
    }
}
