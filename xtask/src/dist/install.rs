//! Installers: templates that get the version and the hashes of the archives.

const VERSION: &str = "@VERSION@";
const SUMS: &str = "@SUMS@";

/// A template with its places filled.
pub(crate) fn filled(template: &str, version: &str, sums: &[(String, String)]) -> Result<String, String> {
    if !template.contains(VERSION) || !template.contains(SUMS) {
        return Err(format!("a template of an installer has no {VERSION} or no {SUMS}"));
    }
    let lines: Vec<String> = sums.iter().map(|(name, hash)| format!("{hash}  {name}")).collect();
    Ok(template.replace(VERSION, version).replace(SUMS, &lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program with GPU support and the static one, which say so.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    const GOOD: [&str; 2] = ["echo remaster 1.2.3", "echo remaster 1.2.3 static"];

    /// Archives with these programs as they are released, and an installer that knows their hashes.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn release(folder: &std::path::Path, does: [&str; 2], hash: Option<&str>) -> std::path::PathBuf {
        use sha2::{Digest, Sha256};
        let archive = |(system, does): (&str, &str)| {
            let mut files = super::super::entry::Files::default();
            files.add_program("remaster", format!("#!/bin/sh\n{does}\n"));
            let stem = format!("remaster-1.2.3-{system}");
            let bytes = files.tar_gz(&format!("{stem}/")).unwrap();
            std::fs::write(folder.join(format!("{stem}.tar.gz")), &bytes).unwrap();
            let real: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            (format!("{stem}.tar.gz"), hash.map_or(real, str::to_owned))
        };
        let sums = [("linux-x86-64", does[0]), ("linux-x86-64-static", does[1])].map(archive);
        let template = std::fs::read_to_string(crate::root().join("scripts/install.sh")).unwrap();
        let path = folder.join("install.sh");
        std::fs::write(&path, filled(&template, "1.2.3", &sums).unwrap()).unwrap();
        path
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn installed(does: [&str; 2], hash: Option<&str>) -> (bool, String, String) {
        let folder = tempfile::tempdir().unwrap();
        let script = release(folder.path(), does, hash);
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("remaster"), "old").unwrap();
        let out = std::process::Command::new("sh")
            .arg(script)
            .env("REMASTER_BASE_URL", format!("file://{}", folder.path().display()))
            .env("REMASTER_INSTALL_DIR", &bin)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        let names = std::fs::read_dir(&bin).unwrap().count();
        assert_eq!(names, 1, "{text}");
        (out.status.success(), text, std::fs::read_to_string(bin.join("remaster")).unwrap())
    }

    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn the_installer_installs_what_has_the_right_hash_and_nothing_else() {
        let (done, text, there) = installed(GOOD, None);
        assert!(done && there.contains(GOOD[0]) && text.contains("installed remaster 1.2.3:"), "{text}");
        let (done, text, there) = installed(GOOD, Some(&"0".repeat(64)));
        assert!(!done && there == "old" && text.contains("hash"), "{text}");
    }

    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn a_program_that_does_not_start_replaces_nothing() {
        let fails = "echo no such C library >&2; exit 127";
        let (done, text, there) = installed([fails, GOOD[1]], None);
        assert!(done && there.contains("static") && text.contains("no such C library"), "{text}");
        let (done, text, there) = installed([fails, fails], None);
        assert!(!done && there == "old" && text.contains("nothing was installed"), "{text}");
    }

    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn an_installer_that_was_cut_off_does_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let script = std::fs::read(release(folder.path(), GOOD, None)).unwrap();
        let end = script.len() - "main\n".len();
        for kept in [end / 2, end * 9 / 10, end - 2, end] {
            std::fs::write(folder.path().join("cut.sh"), &script[..kept]).unwrap();
            let out = std::process::Command::new("sh")
                .arg(folder.path().join("cut.sh"))
                .env("REMASTER_BASE_URL", format!("file://{}", folder.path().display()))
                .env("REMASTER_INSTALL_DIR", folder.path().join("bin"))
                .output()
                .unwrap();
            assert!(out.stdout.is_empty() && !folder.path().join("bin").exists(), "{kept}: {out:?}");
        }
    }

    #[test]
    fn both_templates_have_their_places() {
        for name in ["install.sh", "install.ps1"] {
            let template = std::fs::read_to_string(crate::root().join("scripts").join(name)).unwrap();
            let text = filled(&template, "1.2.3", &[("remaster-1.2.3-a.zip".into(), "ab".into())]).unwrap();
            assert!(text.contains("ab  remaster-1.2.3-a.zip") && !text.contains('@'), "{name}");
        }
        assert!(filled("nothing", "1", &[]).is_err());
    }
}
