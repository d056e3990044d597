//! `cargo xtask dist`: builds all release artefacts into one folder.

mod crates;
mod deb;
mod entry;
mod install;
mod licences;
mod sbom;
mod systems;
mod wheel;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use self::entry::Files;
use self::systems::{ALL, GLIBC, System};
use crate::{Outcome, not_run};

/// Parts beside the archives of the systems.
const OTHERS: [&str; 5] = ["wheel", "deb", "image", "installers", "packages"];

/// Shells, and how their completions are called.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "remaster.bash"),
    ("zsh", "_remaster"),
    ("fish", "remaster.fish"),
    ("powershell", "_remaster.ps1"),
    ("elvish", "remaster.elv"),
];

/// Files of the repository in every archive.
const TEXTS: [(&str, &str); 6] = [
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("crates/anime/LICENSE-Real-ESRGAN", "licenses/realesr-animevideov3.txt"),
    ("crates/metrics/src/draw/letters.LICENSE", "licenses/letters.txt"),
];

/// How a script ends if what it works on is not there.
const INPUT_MISSING: i32 = 3;

/// Where the list of hashes is.
const SUMS: &str = "SHA256SUMS";

/// Names of all parts.
fn parts() -> Vec<&'static str> {
    ALL.iter().map(|system| system.name).chain(OTHERS).collect()
}

/// Makes the parts that are named, or all of them.
pub(crate) fn run(root: &Path, words: &[&str]) -> Outcome {
    let wanted = wanted(words)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = target.join("dist");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut dist = Dist {
        root,
        folder,
        version: env!("CARGO_PKG_VERSION"),
        bundles: BTreeMap::new(),
        made: Vec::new(),
        not_run: Vec::new(),
    };
    // What cannot be made keeps nothing else from being made.
    let mut failed = Vec::new();
    for part in wanted {
        if let Err(error) = dist.part(part) {
            eprintln!("error: {part}: {error}");
            failed.push(part);
        }
    }
    dist.sums()?;
    for (name, bytes) in &dist.made {
        println!("{:>7.1} MB  {name}", *bytes as f64 / 1e6);
    }
    let not_run = dist.not_run.iter().map(|(part, reason)| not_run::say(&format!("{part} ({reason})")));
    let not_run = not_run.fold(Ok(()), Result::and);
    println!("in {}", dist.folder.display());
    if failed.is_empty() { not_run } else { Err(format!("not made: {}", failed.join(", "))) }
}

fn wanted<'a>(words: &[&'a str]) -> Result<Vec<&'a str>, String> {
    let list: Vec<&str> = match words {
        [] => parts(),
        ["--only", list] => list.split(',').filter(|word| !word.is_empty()).collect(),
        _ => return Err("usage: cargo xtask dist [--only PART,...]".into()),
    };
    match list.iter().find(|part| !parts().contains(part)) {
        Some(unknown) => Err(format!("`{unknown}` is no part; parts are {}", parts().join(", "))),
        // The hashes of archives are in installers and packages.
        None => Ok(parts()
            .into_iter()
            .filter_map(|part| list.iter().find(|word| **word == part).copied())
            .collect()),
    }
}

struct Dist<'a> {
    root: &'a Path,
    folder: PathBuf,
    version: &'static str,
    /// What the archives have inside, by the name of the system; `None` if it cannot be built here.
    bundles: BTreeMap<&'static str, Option<Files>>,
    /// Names and sizes.
    made: Vec<(String, usize)>,
    not_run: Vec<(String, String)>,
}

impl Dist<'_> {
    fn part(&mut self, part: &str) -> Outcome {
        println!("== {part}");
        match part {
            "wheel" => self.each(|system| system.wheel.is_some(), "wheel", Dist::wheel),
            "deb" => self.each(|system| system.debian.is_some(), "deb", Dist::deb),
            "image" => self.script("image", &["scripts/image", self.version], &["mmdebstrap", "umoci"]),
            "installers" => self.installers(),
            "packages" => self.script("packages", &["scripts/packages", self.version], &["bash"]),
            name => self.each(|system| system.name == name, "archive", Dist::archive),
        }
    }

    /// Makes something for each of these systems that can be built here.
    fn each(
        &mut self,
        is: impl Fn(&System) -> bool,
        what: &str,
        make: fn(&mut Self, &System, &Files) -> Outcome,
    ) -> Outcome {
        for system in ALL.iter().filter(|system| is(system)) {
            match self.bundle(system)? {
                Some(files) => make(self, system, &files)?,
                None => {
                    let first = || format!("its completions need the program of {}", ALL[0].name);
                    let reason = system.missing().unwrap_or_else(first);
                    self.not_run.push((format!("{what} of {}", system.name), reason));
                }
            }
        }
        Ok(())
    }

    /// What the archive of a system has inside.
    fn bundle(&mut self, system: &'static System) -> Result<Option<Files>, String> {
        if let Some(known) = self.bundles.get(system.name) {
            return Ok(known.clone());
        }
        // A program of another system cannot write its completions here: it has those of the first system.
        let files = match system.missing() {
            Some(_) => None,
            None if !system.runs_here() && self.bundle(&ALL[0])?.is_none() => None,
            None => Some(self.collect(system)?),
        };
        self.bundles.insert(system.name, files.clone());
        Ok(files)
    }

    fn collect(&mut self, system: &'static System) -> Result<Files, String> {
        let path = system.build(self.root)?;
        let program = read(&path)?;
        if let Some(needs) = systems::glibc_of(&program).filter(|needs| *needs > GLIBC) {
            let (major, minor) = GLIBC;
            return Err(format!("{} needs glibc {needs:?}; {major}.{minor} was asked for", path.display()));
        }
        let mut files = Files::default();
        files.add_program(system.program(), program);
        for (from, to) in TEXTS {
            files.add(to, read(&self.root.join(from))?);
        }
        if let Some((name, text)) = system.runtime() {
            files.add(format!("licenses/{name}.txt"), text);
        }
        files.add("licenses/rust-library.html", systems::rust_licences()?);
        let crates = crates::of(self.root, system.triple, system.features)?;
        files.add("licenses/crates.txt", licences::text(&crates)?);
        files.add("remaster.cdx.json", sbom::document(&crates, system.triple)?);
        match system.runs_here() {
            true => self.spoken(&path, &mut files)?,
            false => self.borrowed(&mut files)?,
        }
        Ok(files)
    }

    /// Completions and manual pages of the first system, for a program that does not run here.
    fn borrowed(&mut self, files: &mut Files) -> Outcome {
        let first = self
            .bundle(&ALL[0])?
            .ok_or("completions need the program of linux-x86-64, which cannot be built here")?;
        for (path, entry) in first.iter() {
            if path.starts_with("completions/") || path.starts_with("man/") {
                files.add(path, entry.bytes.clone());
            }
        }
        Ok(())
    }

    /// Completions and manual pages, which the program writes itself.
    fn spoken(&self, program: &Path, files: &mut Files) -> Outcome {
        let said = |args: &[&str]| {
            let out = Command::new(program)
                .args(args)
                .output()
                .map_err(|e| format!("{}: {e}", program.display()))?;
            match out.status.success() {
                true => Ok(out.stdout),
                false => Err(format!("`remaster {}` ended with {}", args.join(" "), out.status)),
            }
        };
        for (shell, name) in SHELLS {
            files.add(format!("completions/{name}"), said(&["completions", shell])?);
        }
        let pages = self.folder.join("man1");
        said(&["man", "--dir", &pages.to_string_lossy()])?;
        let listed = std::fs::read_dir(&pages).map_err(|e| format!("{}: {e}", pages.display()))?;
        for page in listed.flatten() {
            files.add(format!("man/man1/{}", page.file_name().to_string_lossy()), read(&page.path())?);
        }
        std::fs::remove_dir_all(&pages).map_err(|e| format!("{}: {e}", pages.display()))
    }

    fn archive(&mut self, system: &System, files: &Files) -> Outcome {
        let name = format!("remaster-{}-{}", self.version, system.name);
        match system.is_windows() {
            true => {
                let mut all = Files::default();
                all.add_below(&name, files);
                self.put(&format!("{name}.zip"), &all.zip()?)
            }
            false => self.put(&format!("{name}.tar.gz"), &files.tar_gz(&format!("{name}/"))?),
        }
    }

    fn wheel(&mut self, system: &System, files: &Files) -> Outcome {
        // Its links work outside of the repository.
        let readme = read(&self.root.join("crates/cli/README.md"))?;
        let wheel = wheel::Wheel {
            version: self.version,
            platform: system.wheel.unwrap_or_default(),
            readme: &String::from_utf8_lossy(&readme),
            archive: files,
            package: &package(&self.root.join("integrations/python/remaster_video"))?,
        };
        self.put(&wheel.name(), &wheel.bytes()?)
    }

    fn deb(&mut self, system: &System, files: &Files) -> Outcome {
        let architecture = system.debian.unwrap_or_default();
        let about = deb::About { version: self.version, architecture, glibc: GLIBC };
        let name = format!("remaster_{}-1_{architecture}.deb", self.version);
        self.put(&name, &deb::package(&deb::layout(files, self.version), &about)?)
    }

    /// Runs a script of the repository with the folder of artefacts as its last argument.
    fn script(&mut self, part: &str, words: &[&str], tools: &[&str]) -> Outcome {
        if let Some(tool) = tools.iter().find(|tool| systems::output(tool, &["--version"]).is_none()) {
            self.not_run.push((part.to_owned(), format!("{tool} is missing")));
            return Ok(());
        }
        let mut command = Command::new(self.root.join(words[0]));
        let status = command.args(&words[1..]).arg(&self.folder).current_dir(self.root).status();
        match status {
            Ok(status) if status.success() => {
                let made = self.folder.join(if part == "image" { self.image() } else { part.to_owned() });
                let bytes = std::fs::metadata(&made).map_err(|e| format!("{}: {e}", made.display()))?.len();
                let name = made.file_name().unwrap_or_default().to_string_lossy().into_owned();
                self.made.push((name, bytes as usize));
                Ok(())
            }
            Ok(status) if status.code() == Some(INPUT_MISSING) => {
                self.not_run.push((part.to_owned(), "not all that it is made of is there".to_owned()));
                Ok(())
            }
            Ok(status) => Err(format!("{} ended with {status}", words[0])),
            Err(error) => Err(format!("{} cannot be run: {error}", words[0])),
        }
    }

    fn image(&self) -> String {
        format!("remaster-{}-image.tar", self.version)
    }

    fn installers(&mut self) -> Outcome {
        let sums = self.hashes(&|name| name.ends_with(".tar.gz") || name.ends_with(".zip"))?;
        for name in ["install.sh", "install.ps1"] {
            let template = read(&self.root.join("scripts").join(name))?;
            let text = install::filled(&String::from_utf8_lossy(&template), self.version, &sums)?;
            self.put(name, text.as_bytes())?;
        }
        Ok(())
    }

    fn put(&mut self, name: &str, bytes: &[u8]) -> Outcome {
        let path = self.folder.join(name);
        std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        self.made.push((name.to_owned(), bytes.len()));
        Ok(())
    }

    /// Hashes of this version's files in the folder, by their names.
    fn hashes(&self, is: &dyn Fn(&str) -> bool) -> Result<Vec<(String, String)>, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", self.folder.display());
        let mut sums = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let ours = name.contains(self.version) || name.starts_with("install.");
            if ours && is(&name) && entry.path().is_file() {
                let hash = Sha256::digest(read(&entry.path())?);
                sums.push((name, hash.iter().map(|byte| format!("{byte:02x}")).collect()));
            }
        }
        sums.sort();
        Ok(sums)
    }

    /// The list of hashes of all that is there.
    fn sums(&mut self) -> Outcome {
        let text: String =
            self.hashes(&|_| true)?.iter().map(|(name, hash)| format!("{hash}  {name}\n")).collect();
        self.put(SUMS, text.as_bytes())
    }
}

/// Sources of the Python package around the program; none where there is none.
fn package(folder: &Path) -> Result<Files, String> {
    let mut files = Files::default();
    let Ok(listed) = std::fs::read_dir(folder) else { return Ok(files) };
    for entry in listed.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && name != "__pycache__" {
            files.add_below(&name, &package(&entry.path())?);
        } else if name.ends_with(".py") || name == "py.typed" {
            files.add(name, read(&entry.path())?);
        }
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_made_in_one_order_and_unknown_ones_are_named() {
        assert_eq!(
            wanted(&["--only", "packages,deb,windows-x86-64"]).unwrap(),
            ["windows-x86-64", "deb", "packages"]
        );
        assert_eq!(wanted(&[]).unwrap(), parts());
        assert!(wanted(&["--only", "rpm"]).unwrap_err().contains("`rpm` is no part; parts are linux-x86-64"));
        assert!(wanted(&["deb"]).is_err());
    }

    #[test]
    fn what_goes_into_every_archive_is_there() {
        for (from, _) in TEXTS {
            assert!(crate::root().join(from).is_file(), "{from}");
        }
    }
}
