//! A package for Debian and Ubuntu: an `ar` of a version and two tars.

use super::entry::Files;

/// As LICENSE-MIT says it.
const HOLDER: &str = "Copyright (c) 2026 The Remaster contributors";

const MAINTAINER: &str = "Remaster <remaster-video@users.noreply.github.com>";

/// What is said about the package.
pub(crate) struct About<'a> {
    pub(crate) version: &'a str,
    /// As Debian calls it.
    pub(crate) architecture: &'a str,
    /// The oldest C library that the program runs with.
    pub(crate) glibc: (u32, u32),
}

/// The files of the package, with paths from the root of the system.
pub(crate) fn layout(archive: &Files, version: &str) -> Files {
    let mut files = Files::default();
    for (path, entry) in archive.iter() {
        let doc = "usr/share/doc/remaster";
        match path.split_once('/') {
            None if entry.program => files.add_program("usr/bin/remaster", entry.bytes.clone()),
            Some(("man", page)) => {
                let page = page.strip_prefix("man1/").unwrap_or(page);
                files.add(format!("usr/share/man/man1/{page}.gz"), super::entry::gzip(&entry.bytes));
            }
            Some(("completions", "remaster.bash")) => {
                files.add("usr/share/bash-completion/completions/remaster", entry.bytes.clone());
            }
            Some(("completions", "_remaster")) => {
                files.add("usr/share/zsh/vendor-completions/_remaster", entry.bytes.clone());
            }
            Some(("completions", "remaster.fish")) => {
                files.add("usr/share/fish/vendor_completions.d/remaster.fish", entry.bytes.clone());
            }
            Some(("completions", _)) => {}
            None if path == "CHANGELOG.md" => {
                files.add(format!("{doc}/changelog.gz"), super::entry::gzip(&entry.bytes));
            }
            // The texts that every Debian has.
            None if path == "LICENSE-APACHE" => {}
            _ => files.add(format!("{doc}/{path}"), entry.bytes.clone()),
        }
    }
    let copyright = format!(
        "Remaster is {HOLDER}.\n\
        It is licensed under MIT or Apache-2.0, at your option: LICENSE-MIT beside this file, or\n\
        /usr/share/common-licenses/Apache-2.0.\n\n\
        Inside it are crates of others, the network of realesr-animevideov3, letters of DejaVu Sans and Rust's standard\n\
        library. The folder licenses beside this file has their copyright notices and licences.\n"
    );
    files.add("usr/share/doc/remaster/copyright", copyright);
    let changes = format!(
        "remaster ({version}-1) unstable; urgency=medium\n\n  * Version {version}: see changelog.gz.\n\n -- {MAINTAINER}  Tue, 01 Jan 1980 00:00:00 +0000\n"
    );
    files.add("usr/share/doc/remaster/changelog.Debian.gz", super::entry::gzip(changes.as_bytes()));
    files
}

/// The package as a file.
pub(crate) fn package(files: &Files, about: &About<'_>) -> Result<Vec<u8>, String> {
    let mut control = Files::default();
    control.add("control", self::control(files, about));
    let mut out = b"!<arch>\n".to_vec();
    member(&mut out, "debian-binary", b"2.0\n");
    member(&mut out, "control.tar.gz", &control.tar_gz("./")?);
    member(&mut out, "data.tar.gz", &files.tar_gz("./")?);
    Ok(out)
}

/// Images and y4m need no ffmpeg, but a package that reads no film surprises. The program itself refuses an ffmpeg that is too
/// old, so that stills work on systems that have one. Vulkan's loader is opened at run time, if it is there.
fn control(files: &Files, about: &About<'_>) -> String {
    let About { version, architecture, glibc: (major, minor) } = about;
    let bytes: usize = files.iter().map(|(_, entry)| entry.bytes.len()).sum();
    let kib = bytes.div_ceil(1024);
    format!(
        "Package: remaster\n\
         Version: {version}-1\n\
         Architecture: {architecture}\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {kib}\n\
         Depends: libc6 (>= {major}.{minor}), ffmpeg\n\
         Recommends: libvulkan1, mesa-vulkan-drivers | vulkan-icd\n\
         Section: video\n\
         Priority: optional\n\
         Homepage: https://github.com/remaster-video/remaster\n\
         Description: video restoration and upscaling with SeedVR2\n\
         \x20Restores and enlarges films and pictures with the SeedVR2 networks on\n\
         \x20the CPU or on a graphics card with Vulkan. Models are downloaded on\n\
         \x20request; one for animation is inside.\n"
    )
}

fn member(out: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    let (time, owner, mode) = (0, 0, 100_644);
    out.extend(
        format!("{name:<16}{time:<12}{owner:<6}{owner:<6}{mode:<8}{:<10}`\n", bytes.len()).into_bytes(),
    );
    out.extend(bytes);
    // Members begin at even places.
    out.extend(std::iter::repeat_n(b'\n', bytes.len() % 2));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn archive() -> Files {
        let mut files = Files::default();
        files.add_program("remaster", "program");
        files.add("man/man1/remaster.1", "page");
        files.add("completions/remaster.bash", "bash");
        files.add("completions/_remaster.ps1", "powershell");
        files.add("README.md", "read me");
        files.add("CHANGELOG.md", "changes");
        files.add("LICENSE-APACHE", "text");
        files.add("licenses/crates.txt", "texts");
        files
    }

    fn made() -> Vec<u8> {
        let about = About { version: "1.2.3", architecture: "amd64", glibc: (2, 17) };
        package(&layout(&archive(), "1.2.3"), &about).unwrap()
    }

    #[test]
    fn the_holder_is_that_of_the_licence() {
        let text = std::fs::read_to_string(crate::root().join("LICENSE-MIT")).unwrap();
        assert!(text.lines().any(|line| line == HOLDER));
    }

    #[test]
    fn files_lie_where_debian_has_them() {
        let files = layout(&archive(), "1.2.3");
        let paths: Vec<&str> = files.iter().map(|(path, _)| path).collect();
        assert_eq!(
            paths,
            [
                "usr/bin/remaster",
                "usr/share/bash-completion/completions/remaster",
                "usr/share/doc/remaster/README.md",
                "usr/share/doc/remaster/changelog.Debian.gz",
                "usr/share/doc/remaster/changelog.gz",
                "usr/share/doc/remaster/copyright",
                "usr/share/doc/remaster/licenses/crates.txt",
                "usr/share/man/man1/remaster.1.gz",
            ]
        );
    }

    #[test]
    fn the_package_is_an_ar_of_three_members() {
        let package = made();
        assert_eq!(package, made());
        assert!(
            package
                .starts_with(b"!<arch>\ndebian-binary   0           0     0     100644  4         `\n2.0\n")
        );
        let text =
            control(&layout(&archive(), "1"), &About { version: "1", architecture: "arm64", glibc: (2, 17) });
        assert!(
            text.contains("\nDepends: libc6 (>= 2.17), ffmpeg\n") && text.contains("\nArchitecture: arm64\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.starts_with(' ') || line.contains(": ")), "{text}");
    }

    #[test]
    fn dpkg_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.deb"), made()).unwrap();
        let Ok(out) = Command::new("dpkg-deb").args(["--info", "a.deb"]).current_dir(&folder).output() else {
            return;
        };
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success() && text.contains("Version: 1.2.3-1"), "{text}");
        let out =
            Command::new("dpkg-deb").args(["--contents", "a.deb"]).current_dir(&folder).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(text.contains("-rwxr-xr-x root/root         7 1980-01-01"), "{text}");
    }
}
