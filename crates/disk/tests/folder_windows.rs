//! Folders by paths: nothing outside them is reached, devices are not opened, and length does not matter.
#![cfg(windows)]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::windows::fs::{OpenOptionsExt, symlink_dir, symlink_file};
use std::path::Path;

use remaster_disk::{Folder, Kind};

#[test]
fn links_are_neither_read_nor_written() {
    let desk = tempfile::tempdir().unwrap();
    let (inside, outside) = (desk.path().join("inside"), desk.path().join("outside"));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("canary"), "alive").unwrap();
    // Users may make links in developer mode only.
    let linked = symlink_file(outside.join("canary"), inside.join("file"))
        .and_then(|()| symlink_dir(&outside, inside.join("folder")));
    // Wine says that it made one and makes none.
    if linked.is_err() || inside.join("file").symlink_metadata().is_err() {
        return;
    }
    let folder = Folder::open(&inside).unwrap();
    for name in ["file", "folder"] {
        assert_eq!(folder.about(name).unwrap().kind, Kind::Other, "{name}");
        assert!(folder.read(name).is_err() && folder.edit(name).is_err(), "{name}");
        assert!(folder.create(name).is_err() && folder.folder(name).is_err(), "{name}");
        assert!(!folder.sweep_one(name), "{name}");
    }
    Folder::open(desk.path()).unwrap().remove_tree("inside").unwrap();
    assert_eq!(fs::read_to_string(outside.join("canary")).unwrap(), "alive");
}

#[test]
fn devices_pipes_and_streams_are_not_opened() {
    let desk = tempfile::tempdir().unwrap();
    let folder = Folder::open(desk.path()).unwrap();
    for name in ["NUL", "aux.mkv", "com1", "a:b", "a.", "a ", "..", "a\\b"] {
        assert_eq!(folder.create(name).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
        assert_eq!(folder.read(name).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
    }
    for path in [r"\\.\pipe\film", r"\\.\COM1", r"\\?\pipe\film", "NUL", "C:\\aux.mkv"] {
        assert_eq!(
            remaster_disk::read_named(Path::new(path)).unwrap_err().kind(),
            ErrorKind::InvalidInput,
            "{path}"
        );
    }
    assert_eq!(folder.list(9).unwrap(), []);
}

#[test]
fn long_paths_and_letters_of_any_language_are_paths() {
    let desk = tempfile::tempdir().unwrap();
    let long = (0..8)
        .fold(desk.path().to_owned(), |path, i| path.join(format!("{i} {}", "Länge ".repeat(6).trim())));
    let folder = Folder::make(&long).unwrap();
    assert!(long.as_os_str().len() > 300);
    folder.write_whole("Über.txt", |file| file.write_all(b"whole")).unwrap();
    folder.rename_new("Über.txt", "日本.txt").unwrap();
    assert_eq!(folder.bytes("日本.txt", 9).unwrap(), b"whole");
    assert!(remaster_disk::free_space(desk.path()).is_some_and(|bytes| bytes > 0));
    let names = folder.names(9).unwrap();
    assert_eq!(names, ["日本.txt"]);
    // The same folder by another spelling.
    let other = Folder::open(desk.path()).unwrap();
    let name =
        long.strip_prefix(desk.path()).unwrap().iter().next().unwrap().to_string_lossy().to_uppercase();
    assert!(other.folder(&name).is_ok());
}

#[test]
fn a_file_that_another_program_holds_is_not_replaced_and_stays_whole() {
    let desk = tempfile::tempdir().unwrap();
    let folder = Folder::open(desk.path()).unwrap();
    folder.write_whole("a", |file| file.write_all(b"old")).unwrap();
    // As a player opens a film: others may read it.
    let held = fs::File::options().read(true).share_mode(1).open(desk.path().join("a")).unwrap();
    assert!(folder.write_whole("a", |file| file.write_all(b"new")).is_err());
    drop(held);
    assert_eq!(folder.bytes("a", 9).unwrap(), b"old");
    assert_eq!(folder.names(9).unwrap(), ["a"], "nothing is left beside it");
    folder.write_whole("a", |file| file.write_all(b"new")).unwrap();
    assert_eq!(folder.bytes("a", 9).unwrap(), b"new");
}
