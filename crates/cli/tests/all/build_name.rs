//! The name of a build: the same for the same code, another for other code.

use std::path::{Path, PathBuf};

#[path = "../../../remaster/build.rs"]
#[allow(dead_code, unreachable_pub, reason = "the script has a main of its own")]
mod script;

fn name(root: &Path) -> u128 {
    script::build(root, &script::places(root).unwrap())
}

fn tree(root: &Path, ends: &str) {
    let write = |path: &str, text: &str| {
        let path: PathBuf = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.replace('\n', ends)).unwrap();
    };
    write("Cargo.lock", "[[package]]\n");
    write("crates/model/Cargo.toml", "[package]\n");
    write("crates/model/src/vae/up.rs", "fn up() {\n}\n");
    write("crates/model/src/kernel.wgsl", "fn main() {}\n");
    write("crates/model/tests/all/main.rs", "#[test]\n");
    write("crates/testkit/src/lib.rs", "fn test() {}\n");
}

#[test]
fn a_build_is_named_by_its_code_wherever_it_lies() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [a, b, windows] = folders.each_ref().map(|folder| folder.path());
    tree(a, "\n");
    tree(b, "\n");
    tree(windows, "\r\n");
    assert_eq!(name(a), name(b));
    assert_eq!(name(a), name(windows), "line ends are no code");
    let before = name(a);
    // Tests and their tools are no part of the program.
    std::fs::write(a.join("crates/model/tests/all/main.rs"), "changed").unwrap();
    std::fs::write(a.join("crates/testkit/src/lib.rs"), "changed").unwrap();
    assert_eq!(name(a), before);
    for path in [
        "Cargo.lock",
        "crates/model/Cargo.toml",
        "crates/model/src/vae/up.rs",
        "crates/model/src/kernel.wgsl",
    ] {
        let text = std::fs::read(a.join(path)).unwrap();
        std::fs::write(a.join(path), [&text[..], b" "].concat()).unwrap();
        assert_ne!(name(a), before, "{path}");
        std::fs::write(a.join(path), text).unwrap();
        assert_eq!(name(a), before);
    }
    std::fs::rename(a.join("crates/model/src/vae/up.rs"), a.join("crates/model/src/up.rs")).unwrap();
    assert_ne!(name(a), before, "a file that was moved");
}
