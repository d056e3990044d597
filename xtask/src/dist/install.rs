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

    /// An archive as it is released, and an installer that knows its hash.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn release(folder: &std::path::Path, hash: Option<&str>) -> std::path::PathBuf {
        use sha2::{Digest, Sha256};
        let mut files = super::super::entry::Files::default();
        files.add_program("remaster", "#!/bin/sh\necho remaster 1.2.3\n");
        let name = "remaster-1.2.3-linux-x86-64.tar.gz";
        let bytes = files.tar_gz("remaster-1.2.3-linux-x86-64/").unwrap();
        std::fs::write(folder.join(name), &bytes).unwrap();
        let real: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let sums = [(name.to_owned(), hash.map_or(real, str::to_owned))];
        let template = std::fs::read_to_string(crate::root().join("scripts/install.sh")).unwrap();
        let path = folder.join("install.sh");
        std::fs::write(&path, filled(&template, "1.2.3", &sums).unwrap()).unwrap();
        path
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn installed(hash: Option<&str>) -> (bool, String, bool) {
        let folder = tempfile::tempdir().unwrap();
        let script = release(folder.path(), hash);
        let out = std::process::Command::new("sh")
            .arg(script)
            .env("REMASTER_BASE_URL", format!("file://{}", folder.path().display()))
            .env("REMASTER_INSTALL_DIR", folder.path().join("bin"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        (out.status.success(), text, folder.path().join("bin/remaster").exists())
    }

    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn the_installer_installs_what_has_the_right_hash_and_nothing_else() {
        let (done, text, there) = installed(None);
        assert!(done && there && text.contains("remaster 1.2.3"), "{text}");
        let (done, text, there) = installed(Some(&"0".repeat(64)));
        assert!(!done && !there && text.contains("hash"), "{text}");
    }

    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn an_installer_that_was_cut_off_does_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let script = std::fs::read(release(folder.path(), None)).unwrap();
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
