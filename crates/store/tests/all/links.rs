//! Stores with links, pipes and devices in them: nothing outside is read, written or removed, and nothing waits.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::{self, folder, key, notes};
use remaster_store::{Journal, Piece, Sweep};

/// Everything below a folder, with contents.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.append(&mut tree(&path)),
            false => drop(all.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    all
}

/// What may lie where an object or a folder belongs.
const TRAPS: [&str; 6] = ["folder link", "file link", "dangling link", "pipe", "device link", "loop"];

fn trap(kind: &str, at: &Path, outside: &Path) {
    let _ = fs::remove_file(at).or_else(|_| fs::remove_dir_all(at));
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    match kind {
        "folder link" => symlink(outside, at).unwrap(),
        "file link" => symlink(outside.join("piece-000000"), at).unwrap(),
        "dangling link" => symlink(outside.join("new"), at).unwrap(),
        "pipe" => assert!(std::process::Command::new("mkfifo").arg(at).status().unwrap().success()),
        "device link" => symlink("/dev/zero", at).unwrap(),
        _ => symlink(at, at).unwrap(),
    }
}

/// Everything that planners, workers and assemblers do with a journal. Errors are fine here.
fn use_it(place: &Path) -> Result<(), remaster_store::JournalError> {
    let journal = Journal::make(folder(place), 3, "{}")?;
    let _ = journal.done();
    let _ = journal.commits();
    for unit in 0..3 {
        let _ = journal.pieces(unit);
        let _ = journal.kept_names(unit);
        let _ = journal.kept(unit, "latents-0", 1 << 20);
        let _ = journal.keep(unit, "latents-0", b"latents");
        let _ = (|| {
            let mut attempt = journal.attempt(unit)?;
            attempt.put_bytes("piece-000000.nut", vec![7; 100])?;
            let file = attempt.files()[0].clone();
            let plan = journal.plan().hash();
            journal.keep_piece(&Piece {
                plan,
                unit,
                piece: 0,
                file,
                frames: 1,
                left: false,
                producers: Vec::new(),
            })?;
            attempt.commit(notes())?;
            journal.drop_kept(unit)
        })();
    }
    let _ = journal.clean(Sweep::Losers);
    let _ = journal.clean(Sweep::Everything);
    for commit in journal.commits().unwrap_or_default().whole {
        for file in &commit.files {
            let _ = journal.fetch(&commit, file, &place.with_extension("out"));
        }
    }
    Ok(())
}

#[test]
fn a_link_in_a_store_leads_nowhere() {
    let mut slowest = Duration::ZERO;
    for kind in TRAPS {
        let places = "plan.json units units/000001 units/000001/kept units/000001/kept/latents-0 \
            units/000001/kept/piece-000000 units/000001/done.json units/000001/attempts \
            units/000001/attempts/0123456789abcdef0123456789abcdef \
            units/000001/attempts/0123456789abcdef0123456789abcdef/piece-000000.nut";
        for at in places.split(' ') {
            let desk = common::quick_folder();
            let (place, outside) = (desk.path().join("store"), desk.path().join("outside"));
            fs::create_dir_all(outside.join("inner")).unwrap();
            for name in ["piece-000000", "piece-000000.nut", "latents-0", "film#12", "inner/done.json"] {
                fs::write(outside.join(name), "canary").unwrap();
            }
            let before = tree(&outside);
            use_it(&place).unwrap();
            trap(kind, &place.join(at), &outside);
            let began = Instant::now();
            let _ = use_it(&place);
            slowest = slowest.max(began.elapsed());
            assert!(began.elapsed() < Duration::from_secs(5), "{kind} at {at} took {:?}", began.elapsed());
            assert_eq!(tree(&outside), before, "{kind} at {at}");
        }
    }
    println!("the slowest took {slowest:?}");
}

#[test]
fn a_link_as_the_folder_that_was_named_is_used() {
    let desk = tempfile::tempdir().unwrap();
    fs::create_dir(desk.path().join("real")).unwrap();
    symlink(desk.path().join("real"), desk.path().join("named")).unwrap();
    use_it(&desk.path().join("named")).unwrap();
    assert!(desk.path().join("real/plan.json").is_file());
}

#[test]
fn names_that_are_not_utf8_are_two_folders() {
    use std::os::unix::ffi::OsStrExt;
    let desk = tempfile::tempdir().unwrap();
    for name in [b"a\xff".as_slice(), b"a\xfe", b"s3:"] {
        let path = desk.path().join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir(&path).unwrap();
        let store = remaster_store::Store::of_folder(&path, common::settings()).unwrap();
        store.put(&key("one"), name.to_vec()).unwrap();
        assert_eq!(fs::read(path.join("one")).unwrap(), name);
    }
    assert_eq!(fs::read_dir(desk.path()).unwrap().count(), 3);
}
