//! Gives the program a name that changes whenever its code does: kept work counts for the same build only.

#![allow(clippy::print_stdout, reason = "cargo reads it")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Crates that are no part of the program.
const OTHERS: [&str; 2] = ["isa", "testkit"];

fn main() {
    let own = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = own.ancestors().nth(2).unwrap_or(&own);
    // A package of the registry has no workspace around it. Its parts are of exactly its own version, which stands
    // beside this name wherever the name is used.
    let places = places(root).unwrap_or_default();
    places.iter().for_each(|place| println!("cargo:rerun-if-changed={}", place.display()));
    println!("cargo:rustc-env=REMASTER_BUILD={:032x}", build(root, &places));
}

/// The name: a hash of the names and contents of all files.
pub(crate) fn build(root: &Path, places: &[PathBuf]) -> u128 {
    let mut files = Vec::new();
    for place in places {
        let _ = collect(place, &mut files);
    }
    files.sort();
    let mut hash = Hash::new();
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        let mut bytes = fs::read(&path).unwrap_or_default();
        if path.extension().is_none_or(|ending| ending != "safetensors") {
            // The same text with the line ends of another system is the same code.
            bytes.retain(|byte| *byte != b'\r');
        }
        hash.add(name.as_bytes());
        hash.add(&(bytes.len() as u64).to_le_bytes());
        hash.add(&bytes);
    }
    hash.0
}

/// Where the code of the program is.
pub(crate) fn places(root: &Path) -> io::Result<Vec<PathBuf>> {
    // A small network is inside the program.
    let own = ["Cargo.lock", "Cargo.toml", "crates/anime/realesr-animevideov3.safetensors"];
    let mut places = own.map(|name| root.join(name)).to_vec();
    for entry in fs::read_dir(root.join("crates"))? {
        let entry = entry?;
        if entry.path().is_dir() && !OTHERS.iter().any(|name| entry.file_name() == *name) {
            places.extend(["src", "Cargo.toml"].map(|name| entry.path().join(name)));
        }
    }
    places.sort();
    Ok(places)
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
    } else if path.is_file() {
        files.push(path.to_owned());
    }
    Ok(())
}

/// FNV-1a of 128 bits. It tells builds apart and protects nothing, so it needs no crate.
struct Hash(u128);

impl Hash {
    fn new() -> Self {
        Hash(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
}
