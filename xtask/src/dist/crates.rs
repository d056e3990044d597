//! The crates that a program is made of, as cargo resolves them for a system: for licences and for the bill of materials.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A crate in the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An expression of SPDX, as its manifest says it.
    pub(crate) licence: String,
    /// Who made it, as its manifest says it.
    pub(crate) authors: String,
    /// Where its sources are.
    pub(crate) folder: PathBuf,
    /// Of the registry, and not of this repository.
    pub(crate) published: bool,
    /// SHA-256 of its package.
    pub(crate) checksum: Option<String>,
    /// Names and versions of those that it is built with.
    pub(crate) uses: BTreeSet<(String, String)>,
}

/// The crates of the command for a system. The first is the command itself.
pub(crate) fn of(root: &Path, triple: &str, features: &[&str]) -> Result<Vec<Crate>, String> {
    // Metadata has what all crates of the workspace could ask for, the tree what the command does.
    let metadata = ["metadata", "--format-version", "1", "--locked", "--all-features"];
    let metadata = cargo(root, &[&metadata[..], &["--filter-platform", triple]].concat())?;
    let json: Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    // What is run by the compiler is no part of the program.
    let edges = "normal,no-proc-macro";
    let tree = ["tree", "--locked", "--package", "remaster-cli", "--edges", edges, "--prefix", "none"];
    let tree = cargo(root, &[&tree[..], &["--format", "{p}", "--target", triple], features].concat())?;
    let lock = root.join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).map_err(|e| format!("{}: {e}", lock.display()))?;
    resolved(&json, &listed(&tree), &checksums(&lock))
}

fn cargo(root: &Path, args: &[&str]) -> Result<String, String> {
    let out = Command::new(crate::tool()).args(args).current_dir(root).output();
    let out = out.map_err(|e| format!("cargo cannot be run: {e}"))?;
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        false => Err(format!("cargo {}: {}", args[0], String::from_utf8_lossy(&out.stderr))),
    }
}

/// Names and versions in lines like `clap v4.6.0 (...)`.
fn listed(tree: &str) -> BTreeSet<(String, String)> {
    let line = |line: &str| {
        let (name, rest) = line.split_once(" v")?;
        Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
    };
    tree.lines().filter_map(line).collect()
}

type Checksums = BTreeMap<(String, String), String>;

/// Checksums by name and version.
fn checksums(lock: &str) -> Checksums {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let of =
        |block: &str| Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?));
    lock.split("[[package]]").filter_map(of).collect()
}

/// Walks from the command along what is built into it: not what builds or tests it.
fn resolved(
    json: &Value,
    listed: &BTreeSet<(String, String)>,
    checksums: &Checksums,
) -> Result<Vec<Crate>, String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> =
        list(&json["packages"]).into_iter().map(|p| (text(&p["id"]), p)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&json["resolve"]["nodes"]).into_iter().map(|n| (text(&n["id"]), n)).collect();
    let is_command = |(_, p): &(&String, &Value)| p["name"] == "remaster-cli";
    let (first, _) = packages.iter().find(is_command).ok_or("cargo metadata does not name remaster-cli")?;
    let (mut order, mut next) = (vec![first.clone()], 0);
    let mut crates = Vec::new();
    while let Some(id) = order.get(next).cloned() {
        next += 1;
        let package = packages.get(&id).ok_or_else(|| format!("cargo metadata does not describe {id}"))?;
        let built_in = |dep: &Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let deps = nodes.get(&id).map(|node| list(&node["deps"])).unwrap_or_default();
        let key = |p: &Value| (text(&p["name"]), text(&p["version"]));
        let is_listed = |id: &String| packages.get(id).is_some_and(|p| listed.contains(&key(p)));
        let deps = deps.iter().filter(|dep| built_in(dep)).map(|dep| text(&dep["pkg"]));
        let deps: Vec<String> = deps.filter(is_listed).collect();
        let uses = deps.iter().filter_map(|id| packages.get(id).map(key)).collect();
        let (name, version) = key(package);
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        crates.push(Crate {
            licence: text(&package["license"]).replace('/', " OR "),
            authors: list(&package["authors"]).iter().map(text).collect::<Vec<_>>().join(", "),
            folder: manifest.parent().unwrap_or(&manifest).to_owned(),
            published: !package["source"].is_null(),
            checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
            uses,
            name,
            version,
        });
        for id in deps {
            if !order.contains(&id) {
                order.push(id);
            }
        }
    }
    let found: BTreeSet<_> = crates.iter().map(|c| (c.name.clone(), c.version.clone())).collect();
    if let Some((name, version)) = listed.difference(&found).next() {
        return Err(format!("{name} {version} is in the program, and cargo metadata has no way to it"));
    }
    crates[1..].sort();
    Ok(crates)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_built_in_counts_and_what_builds_does_not() {
        let package = |name: &str, source: Option<&str>| {
            json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0",
                "manifest_path": format!("/src/{name}/Cargo.toml"), "source": source })
        };
        let dep = |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let json = json!({
            "packages": [package("remaster-cli", None), package("a", Some("registry")), package("b", Some("registry")),
                package("c", Some("registry"))],
            "resolve": { "nodes": [
                { "id": "remaster-cli", "deps": [dep("a", None), dep("c", Some("build"))] },
                { "id": "a", "deps": [dep("b", None), dep("c", Some("dev"))] },
                { "id": "b", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"12ab\"\n";
        let tree = "remaster-cli v1.0.0 (/src)\na v1.0.0\nb v1.0.0 (proc-macro)\na v1.0.0 (*)\n";
        let crates = resolved(&json, &listed(tree), &checksums(lock)).unwrap();
        let names: Vec<&str> = crates.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["remaster-cli", "a", "b"]);
        let without = resolved(&json, &listed("remaster-cli v1.0.0\na v1.0.0\n"), &checksums(lock)).unwrap();
        assert_eq!(without.len(), 2, "a feature that is off leaves its crate out");
        let unreached = resolved(&json, &listed("remaster-cli v1.0.0\nc v1.0.0\n"), &checksums(lock));
        assert!(unreached.is_err_and(|error| error.contains("c 1.0.0")));
        assert_eq!(
            (crates[1].licence.as_str(), crates[1].checksum.as_deref()),
            ("MIT OR Apache-2.0", Some("12ab"))
        );
        assert!(!crates[0].published && crates[1].uses.contains(&("b".into(), "1.0.0".into())));
    }

    #[test]
    fn the_command_has_its_own_crates_and_those_of_others() {
        let crates = of(&crate::root(), "x86_64-unknown-linux-musl", &["--no-default-features"]).unwrap();
        let names: Vec<&str> = crates.iter().map(|c| c.name.as_str()).collect();
        assert!(
            names[0] == "remaster-cli" && names.contains(&"remaster") && names.contains(&"clap"),
            "{names:?}"
        );
        assert!(
            !names.contains(&"wgpu") && !names.contains(&"windows-sys") && !names.contains(&"proptest"),
            "{names:?}"
        );
        assert!(!names.contains(&"syn") && !names.contains(&"serde_derive"), "{names:?}");
        assert!(crates.iter().all(|c| !c.licence.is_empty()));
        for system in super::super::systems::ALL {
            let crates = of(&crate::root(), system.triple, system.features).unwrap();
            assert!(crates.iter().any(|c| c.name == "reqwest"), "{}: buckets need it", system.name);
        }
    }
}
