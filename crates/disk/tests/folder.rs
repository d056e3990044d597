//! Folders, on every system: new names, leftovers, locks.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use remaster_disk::Folder;

#[test]
fn one_racer_gets_a_name_that_is_not_replaced() {
    let desk = tempfile::tempdir().unwrap();
    let folder = Folder::open(desk.path()).unwrap();
    let wins: usize = std::thread::scope(|scope| {
        let race = |i: usize| {
            let from = format!("from-{i}");
            folder.create(&from).unwrap();
            match folder.rename_new(&from, "to") {
                Ok(()) => 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
                    0
                }
            }
        };
        let racers: Vec<_> = (0..16).map(|i| scope.spawn(move || race(i))).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).sum()
    });
    assert_eq!(wins, 1);
}

#[test]
fn what_a_killed_writer_left_beside_a_file_goes_with_the_next_one() {
    let desk = tempfile::tempdir().unwrap();
    let folder = Folder::open(desk.path()).unwrap();
    fs::write(desk.path().join(".a.0.part"), "half").unwrap();
    // A writer that lives is left alone.
    let living = folder.create(".a.1.part").unwrap();
    living.lock().unwrap();
    folder.write_whole("a", |file| file.write_all(b"whole")).unwrap();
    assert_eq!(fs::read(desk.path().join("a")).unwrap(), b"whole");
    assert!(!desk.path().join(".a.0.part").exists() && desk.path().join(".a.1.part").exists());
}

#[test]
fn a_file_that_many_write_at_once_is_always_whole() {
    const WRITERS: usize = 8;
    let desk = tempfile::tempdir().unwrap();
    let folder = &Folder::open(desk.path()).unwrap();
    // Each writes its own letter, in two steps.
    let write = |letter: u8| {
        for _ in 0..300 {
            let half = [letter; 100];
            folder
                .write_whole("list", |file| {
                    file.write_all(&half)?;
                    std::thread::yield_now();
                    file.write_all(&half)
                })
                .unwrap();
            let found = folder.bytes("list", 1000).unwrap();
            assert!(found.len() == 200 && found.iter().all(|b| *b == found[0]), "{} bytes", found.len());
        }
    };
    std::thread::scope(|scope| {
        (0..WRITERS).for_each(|n| drop(scope.spawn(move || write(b'a' + n as u8))));
    });
    assert_eq!(folder.list(100).unwrap().len(), 1, "nothing is left beside it");
}

#[test]
fn a_folder_is_made_with_those_above_it_and_limits_hold() {
    let desk = tempfile::tempdir().unwrap();
    let folder = Folder::make(&desk.path().join("a/b/c")).unwrap();
    Folder::make(&desk.path().join("a/b/c")).unwrap();
    for i in 0..5 {
        folder.create(format!("{i}")).unwrap();
    }
    assert_eq!(folder.list(5).unwrap().len(), 5);
    assert!(folder.list(4).is_err());
    folder.write_whole("6", |file| file.write_all(b"123")).unwrap();
    assert_eq!(folder.bytes("6", 3).unwrap(), b"123");
    assert_eq!(folder.bytes("6", 2).unwrap_err().kind(), ErrorKind::InvalidData);
    let kept = folder.remove_ours(&mut |path, _| path != Path::new("6")).unwrap();
    assert_eq!((kept, folder.list(9).unwrap().len()), (5, 1));
}

#[test]
fn a_lock_is_asked_once_and_is_noticed_by_who_reads() {
    let desk = tempfile::tempdir().unwrap();
    let folder = Folder::open(desk.path()).unwrap();
    let mut held = folder.create("mark").unwrap();
    assert!(remaster_disk::is_ours(&held) && remaster_disk::has_name(&held));
    folder.write("mark", &mut held, b"ours").unwrap();
    let other = folder.edit("mark").unwrap();
    assert!(!remaster_disk::is_ours(&other));
    let mut text = String::new();
    // Windows keeps what is locked from being read.
    match (&other).read_to_string(&mut text) {
        Err(error) => assert!(cfg!(windows) && remaster_disk::is_locked(&error), "{error}"),
        Ok(_) => assert_eq!(text, "ours"),
    }
    drop(held);
    assert!(remaster_disk::is_ours(&other));
}
