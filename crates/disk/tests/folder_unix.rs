//! Folders by handle: nothing outside them is reached, and nothing waits.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use remaster_disk::{Folder, Kind};

fn pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn links_pipes_and_devices_are_neither_read_nor_written() {
    let desk = tempfile::tempdir().unwrap();
    let (inside, outside) = (desk.path().join("inside"), desk.path().join("outside"));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("canary"), "alive").unwrap();
    symlink(outside.join("canary"), inside.join("file")).unwrap();
    symlink(&outside, inside.join("folder")).unwrap();
    symlink(outside.join("new"), inside.join("dangling")).unwrap();
    symlink("/dev/zero", inside.join("device")).unwrap();
    pipe(&inside.join("pipe"));
    let folder = Folder::open(&inside).unwrap();
    let began = Instant::now();
    for name in ["file", "folder", "dangling", "device", "pipe"] {
        assert_eq!(folder.about(name).unwrap().kind, Kind::Other);
        assert!(folder.read(name).is_err(), "{name}");
        assert!(folder.edit(name).is_err(), "{name}");
        assert!(folder.edit_or_create(name).is_err(), "{name}");
        assert!(folder.create(name).is_err(), "{name}");
        assert!(folder.folder(name).is_err(), "{name}");
        assert!(folder.make_folder(name).is_err(), "{name}");
        assert!(!folder.sweep_one(name), "{name}");
    }
    for name in ["", ".", "..", "../outside/canary", "/etc/passwd", "a/b", "a/", "./a"] {
        assert_eq!(folder.read(name).unwrap_err().kind(), ErrorKind::InvalidInput, "{name:?}");
    }
    // A link that is replaced or removed is the link, not what it points at.
    folder.write_whole("file", |file| file.write_all(b"ours")).unwrap();
    folder.remove("dangling").unwrap();
    folder.remove_ours(&mut |_, _| true).unwrap();
    let mut left: Vec<_> = folder.list(100).unwrap().into_iter().map(|(name, _)| name).collect();
    left.sort();
    assert_eq!(left, ["device", "folder", "pipe"], "what is not ours by kind stays");
    Folder::open(desk.path()).unwrap().remove_tree("inside").unwrap();
    assert!(!inside.exists());
    assert_eq!(fs::read_to_string(outside.join("canary")).unwrap(), "alive");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_link_in_place_of_a_part_is_not_followed() {
    let desk = tempfile::tempdir().unwrap();
    let folder = Folder::open(desk.path()).unwrap();
    symlink("/etc/hostname", desk.path().join(".b.0.part")).unwrap();
    folder.write_whole("b", |file| file.write_all(b"whole")).unwrap();
    assert_eq!(fs::read(desk.path().join("b")).unwrap(), b"whole");
}
