//! The systems that programs are built for, and how.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest C library that the programs for Linux run with: that of the wheels' `manylinux2014`.
pub(crate) const GLIBC: (u32, u32) = (2, 17);

/// What builds a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    /// `cargo zigbuild`, against an old C library.
    Zig,
    /// `cargo build`, with a C compiler of this name.
    Cargo(&'static str),
    /// `cargo build` on macOS itself, whose libraries may not be copied elsewhere.
    Mac,
}

/// A system.
#[derive(Debug)]
pub(crate) struct System {
    /// The name in commands and files.
    pub(crate) name: &'static str,
    pub(crate) triple: &'static str,
    pub(crate) features: &'static [&'static str],
    tool: Tool,
    /// Where its wheel runs, as Python says it.
    pub(crate) wheel: Option<&'static str>,
    /// What Debian calls it.
    pub(crate) debian: Option<&'static str>,
}

/// Binaries support buckets, since their users cannot add a feature.
const CLOUD: &[&str] = &["--features", "cloud"];

/// The oldest macOS, which is the first with Metal 3.
const MACOS: &str = "13.0";

/// The first writes completions and manual pages for those that do not run where artefacts are made.
pub(crate) const ALL: [System; 6] = [
    System {
        name: "linux-x86-64",
        triple: "x86_64-unknown-linux-gnu",
        features: CLOUD,
        tool: Tool::Zig,
        wheel: Some("manylinux_2_17_x86_64.manylinux2014_x86_64"),
        debian: Some("amd64"),
    },
    System {
        name: "linux-aarch64",
        triple: "aarch64-unknown-linux-gnu",
        features: CLOUD,
        tool: Tool::Zig,
        wheel: Some("manylinux_2_17_aarch64.manylinux2014_aarch64"),
        debian: Some("arm64"),
    },
    // A static program cannot load Vulkan.
    System {
        name: "linux-x86-64-static",
        triple: "x86_64-unknown-linux-musl",
        features: &["--no-default-features", "--features", "cloud,serve"],
        tool: Tool::Cargo("musl-gcc"),
        wheel: None,
        debian: None,
    },
    System {
        name: "windows-x86-64",
        triple: "x86_64-pc-windows-gnu",
        features: CLOUD,
        tool: Tool::Cargo("x86_64-w64-mingw32-gcc"),
        wheel: Some("win_amd64"),
        debian: None,
    },
    System {
        name: "macos-aarch64",
        triple: "aarch64-apple-darwin",
        features: CLOUD,
        tool: Tool::Mac,
        wheel: Some("macosx_13_0_arm64"),
        debian: None,
    },
    System {
        name: "macos-x86-64",
        triple: "x86_64-apple-darwin",
        features: CLOUD,
        tool: Tool::Mac,
        wheel: Some("macosx_13_0_x86_64"),
        debian: None,
    },
];

impl System {
    pub(crate) fn is_windows(&self) -> bool {
        self.triple.contains("windows")
    }

    /// The C library, or what stands for one, that is inside its programs, and its licences.
    pub(crate) fn runtime(&self) -> Option<(&'static str, &'static str)> {
        match self.triple.rsplit('-').next() {
            Some("musl") => Some(("musl", include_str!("runtime/musl.txt"))),
            _ if self.is_windows() => Some(("mingw-w64", include_str!("runtime/mingw-w64.txt"))),
            _ => None,
        }
    }

    /// True if its programs run on this machine.
    pub(crate) fn runs_here(&self) -> bool {
        use std::env::consts::{ARCH, OS};
        let os = if OS == "macos" { "darwin" } else { OS };
        self.triple.starts_with(ARCH) && self.triple.contains(os)
    }

    /// Name of the program's file.
    pub(crate) fn program(&self) -> &'static str {
        if self.is_windows() { "remaster.exe" } else { "remaster" }
    }

    /// Why it cannot be built here.
    pub(crate) fn missing(&self) -> Option<String> {
        let installed = output("rustup", &["target", "list", "--installed"]);
        if installed.is_some_and(|list| !list.lines().any(|line| line == self.triple)) {
            return Some(format!(
                "the standard library of {0} is missing; run `rustup target add {0}`",
                self.triple
            ));
        }
        let there = match self.tool {
            Tool::Zig => output("cargo-zigbuild", &["--version"]).map(drop),
            Tool::Cargo(compiler) => output(compiler, &["--version"]).map(drop),
            Tool::Mac => cfg!(target_os = "macos").then_some(()),
        };
        match (there, self.tool) {
            (Some(()), _) => None,
            (None, Tool::Zig) => {
                Some("cargo-zigbuild is missing; run `pip install cargo-zigbuild ziglang`".into())
            }
            (None, Tool::Cargo(compiler)) => Some(format!("{compiler} is missing")),
            (None, Tool::Mac) => Some("programs for macOS are built on macOS".into()),
        }
    }

    /// Builds the program and gives its path.
    pub(crate) fn build(&self, root: &Path) -> Result<PathBuf, String> {
        let mut command = Command::new(crate::tool());
        let (word, triple) = match self.tool {
            Tool::Zig => ("zigbuild", format!("{}.{}.{}", self.triple, GLIBC.0, GLIBC.1)),
            Tool::Cargo(_) | Tool::Mac => ("build", self.triple.to_owned()),
        };
        command.args([word, "--release", "--locked", "--package", "remaster-cli", "--target", &triple]);
        command.args(self.features).current_dir(root).env("CARGO_ENCODED_RUSTFLAGS", self.flags(root));
        if self.tool == Tool::Mac {
            command.env("MACOSX_DEPLOYMENT_TARGET", MACOS);
        }
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("`cargo {word} --target {triple}` ended with {status}")),
            Err(error) => return Err(format!("`cargo {word}` cannot be run: {error}")),
        }
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Ok(target.join(self.triple).join("release").join(self.program()))
    }

    /// Paths of the machine that builds, and the time, are no part of a program. In cargo's encoding, as folders may have spaces.
    fn flags(&self, root: &Path) -> String {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).unwrap_or_default();
        let sources = home.join("registry/src");
        let mut flags = vec![
            format!("--remap-path-prefix={}=/registry", sources.display()),
            format!("--remap-path-prefix={}=/remaster", root.display()),
        ];
        if self.is_windows() {
            flags.push("-Clink-arg=-Wl,--no-insert-timestamp".to_owned());
        }
        flags.join("\u{1f}")
    }
}

/// The licences of Rust's standard library, as the compiler brings them.
pub(crate) fn rust_licences() -> Result<Vec<u8>, String> {
    let sysroot = output("rustc", &["--print", "sysroot"]).ok_or("rustc does not say where it is")?;
    let path = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// What a program says; `None` if it cannot be run or fails.
pub(crate) fn output(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The newest version of the C library that a program asks for, by the names of versions in it.
pub(crate) fn glibc_of(program: &[u8]) -> Option<(u32, u32)> {
    const WORD: &[u8] = b"GLIBC_";
    let found = program.windows(WORD.len()).enumerate().filter(|(_, window)| *window == WORD);
    let version = |(at, _): (usize, &[u8])| {
        let rest = &program[at + WORD.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(rest.len());
        let text = std::str::from_utf8(&rest[..end]).ok()?;
        let mut numbers = text.split('.').map(|n| n.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    found.filter_map(version).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_the_c_library_counts() {
        assert_eq!(glibc_of(b"\0GLIBC_2.2.5\0GLIBC_2.17\0GLIBC_2.9\0GLIBC_PRIVATE\0"), Some((2, 17)));
        assert_eq!(glibc_of(b"static"), None);
    }

    #[test]
    fn one_system_at_least_runs_where_it_is_built() {
        let here: Vec<&str> =
            ALL.iter().filter(|system| system.runs_here()).map(|system| system.name).collect();
        assert!(!here.is_empty());
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        assert_eq!(here, ["linux-x86-64", "linux-x86-64-static"]);
    }

    #[test]
    fn names_are_single_and_wheels_say_the_c_library_that_is_built_for() {
        let names: std::collections::BTreeSet<&str> = ALL.iter().map(|system| system.name).collect();
        assert_eq!(names.len(), ALL.len());
        for system in ALL.iter().filter(|system| system.tool == Tool::Zig) {
            let tag = format!("manylinux_{}_{}_", GLIBC.0, GLIBC.1);
            assert!(system.wheel.is_some_and(|wheel| wheel.starts_with(&tag)), "{system:?}");
        }
        for system in ALL.iter().filter(|system| system.tool == Tool::Mac) {
            let tag = format!("macosx_{}_", MACOS.replace('.', "_"));
            assert!(system.wheel.is_some_and(|wheel| wheel.starts_with(&tag)), "{system:?}");
        }
    }
}
