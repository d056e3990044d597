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

#[test]
fn what_is_read_only_or_open_elsewhere_cannot_be_replaced_and_that_is_known_before() {
    let desk = tempfile::tempdir().unwrap();
    let path = desk.path().join("film.mkv");
    fs::write(&path, "old").unwrap();
    remaster_disk::check_replaceable(&path).unwrap();
    let held = fs::File::options().read(true).share_mode(1).open(&path).unwrap();
    let error = remaster_disk::check_replaceable(&path).unwrap_err();
    assert!(error.to_string().contains("has it open"), "{error}");
    drop(held);
    let mut rights = path.metadata().unwrap().permissions();
    rights.set_readonly(true);
    fs::set_permissions(&path, rights).unwrap();
    let error = remaster_disk::check_replaceable(&path).unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
}

#[test]
fn a_file_without_a_name_goes_when_it_is_closed() {
    let desk = tempfile::tempdir().unwrap();
    let mut file = remaster_disk::unnamed(desk.path()).unwrap();
    file.write_all(b"spilled").unwrap();
    let mut read = [0; 7];
    remaster_disk::read_at(&file, &mut read, 0).unwrap();
    assert_eq!(&read, b"spilled");
    drop(file);
    assert_eq!(fs::read_dir(desk.path()).unwrap().count(), 0);
}

#[test]
fn real_paths_are_written_as_people_write_them() {
    let plain = |path: &str| remaster_disk::plain(Path::new(path).to_owned());
    assert_eq!(plain(r"\\?\C:\films\a.mkv"), Path::new(r"C:\films\a.mkv"));
    assert_eq!(plain(r"\\?\C:\"), Path::new(r"C:\"));
    assert_eq!(plain(r"\\?\UNC\nas\films\a"), Path::new(r"\\nas\films\a"));
    // What would mean something else stays.
    let long = format!(r"\\?\C:\{}", "a".repeat(300));
    for path in [r"\\?\C:\films\aux", r"\\?\C:\a. \b", r"C:\films", r"\\?\pipe\x", &long] {
        assert_eq!(plain(path), Path::new(path));
    }
    let desk = tempfile::tempdir().unwrap();
    let real = fs::canonicalize(desk.path()).unwrap();
    assert!(!remaster_disk::plain(real.clone()).to_string_lossy().starts_with(r"\\?\"), "{}", real.display());
}

#[test]
fn a_touched_file_is_seen_though_its_time_was_set_back() {
    let desk = tempfile::tempdir().unwrap();
    let path = desk.path().join("film.mkv");
    fs::write(&path, "one").unwrap();
    let (before, time) = (remaster_disk::touched(&path), path.metadata().unwrap().modified().unwrap());
    std::thread::sleep(std::time::Duration::from_millis(50));
    fs::write(&path, "two").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(path.metadata().unwrap().modified().unwrap(), time);
    assert_ne!(remaster_disk::touched(&path), before);
}
