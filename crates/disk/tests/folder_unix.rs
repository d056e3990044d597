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

#[test]
fn private_files_and_folders_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let desk = tempfile::tempdir().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let folder = Folder::open(desk.path()).unwrap();
    let (secret, inside) = (desk.path().join("secret"), desk.path().join("inside"));
    let write = |folder: &Folder| folder.write_private("secret", |file| file.write_all(b"word"));
    // At no moment: while it is written, it has another name.
    folder
        .write_private("secret", |file| {
            assert_eq!(file.metadata()?.permissions().mode() & 0o777, 0o600);
            file.write_all(b"word")
        })
        .unwrap();
    assert_eq!(mode(&secret), 0o600);
    assert!(!folder.make_file_private("secret").unwrap());
    for open in [0o644, 0o640, 0o602, 0o777] {
        allow(&secret, open);
        assert!(folder.make_file_private("secret").unwrap());
        assert_eq!(mode(&secret), open & 0o700);
    }
    // One that is there loses its mode with its bytes.
    allow(&secret, 0o644);
    write(&folder).unwrap();
    assert_eq!(mode(&secret), 0o600);
    fs::create_dir(&inside).unwrap();
    allow(&inside, 0o755);
    let handle = folder.folder("inside").unwrap();
    assert!(handle.is_open_to_others().unwrap());
    assert!(handle.make_private().unwrap() && !handle.make_private().unwrap());
    assert!(!handle.is_open_to_others().unwrap());
    assert_eq!(mode(&inside), 0o700);
    // A link gets nothing changed behind it.
    allow(&inside, 0o755);
    symlink(&inside, desk.path().join("link")).unwrap();
    symlink(&secret, desk.path().join("other")).unwrap();
    assert!(folder.folder("link").is_err() && folder.make_file_private("other").is_err());
    assert_eq!(mode(&inside), 0o755);
}
