//! The crates of the workspace and what their manifests ask for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// One crate.
#[derive(Debug)]
pub(crate) struct Package {
    /// Its folder below `crates`, or its own name.
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a manifest.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// For our own crates the folder, as in `Package`.
    pub(crate) name: String,
    /// As written in the manifest, without a caret.
    pub(crate) version: String,
    pub(crate) ours: bool,
    pub(crate) dev: bool,
}

impl Package {
    /// Crates of ours that this one is built with.
    pub(crate) fn leans_on(&self) -> BTreeSet<&str> {
        self.dependencies.iter().filter(|d| d.ours && !d.dev).map(|d| d.name.as_str()).collect()
    }
}

/// Asks cargo. Reads manifests only: nothing is downloaded.
pub(crate) fn read(root: &Path) -> Result<Vec<Package>, String> {
    let out = Command::new(crate::tool())
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cargo metadata cannot be run: {e}"))?;
    if !out.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr)));
    }
    let json: Value = serde_json::from_slice(&out.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = json["packages"].as_array().into_iter().flatten();
    let mut packages: Vec<Package> = packages
        .map(|p| Package {
            name: folder(text(&p["manifest_path"])),
            dependencies: p["dependencies"].as_array().into_iter().flatten().map(dependency).collect(),
        })
        .collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    match packages.is_empty() {
        true => Err("cargo metadata names no crate".into()),
        false => Ok(packages),
    }
}

/// The Rust sources below a folder, with their paths.
pub(crate) fn sources(folder: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            found.push((path, text));
        }
    }
    Ok(found)
}

fn dependency(json: &Value) -> Dependency {
    let path = json["path"].as_str();
    Dependency {
        name: path.map_or_else(|| text(&json["name"]).to_owned(), |p| last(p).to_owned()),
        version: text(&json["req"]).trim_start_matches('^').to_owned(),
        ours: path.is_some(),
        dev: json["kind"] == "dev",
    }
}

fn text(json: &Value) -> &str {
    json.as_str().unwrap_or_default()
}

/// Name of the folder a manifest lies in.
fn folder(manifest: &str) -> String {
    let parent = Path::new(manifest).parent().and_then(Path::to_str).unwrap_or_default();
    last(parent).to_owned()
}

fn last(path: &str) -> &str {
    Path::new(path).file_name().and_then(|n| n.to_str()).unwrap_or(path)
}

/// The cells of the Markdown tables of `document` below the heading `heading`, row by row, without the
/// backticks.
pub(crate) fn table(document: &str, heading: &str) -> Vec<Vec<String>> {
    let below = document.lines().skip_while(|l| *l != heading).skip(1).take_while(|l| !l.starts_with('#'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect();
    below.filter(|l| l.starts_with("| `")).map(cells).collect()
}

/// The words in backticks of a cell.
pub(crate) fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_below_their_heading_only() {
        let text =
            "# a\n| `x` | 1 |\n## b\n\n| Crate | n |\n|---|---|\n| `y` | `p`, `q` |\n## c\n| `z` | |\n";
        let rows = table(text, "## b");
        assert_eq!(rows, [["`y`", "`p`, `q`"]]);
        assert_eq!(code(&rows[0][1]), ["p", "q"]);
    }
}
