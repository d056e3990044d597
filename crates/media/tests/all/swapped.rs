//! Somebody who may write beside the output puts a link in the place of our folder.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;

use remaster_media::place::{PartialFile, Scratch};

#[test]
fn a_link_in_the_place_of_a_folder_of_ours_is_not_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("victim/photos")).unwrap();
    fs::write(at("victim/photos/one"), "precious").unwrap();
    fs::write(at("victim/lock"), "remaster part\n").unwrap();
    let part = PartialFile::beside(&at("film.mp4"), false).unwrap();
    let scratch = Scratch::new(Some(folder.path())).unwrap();
    for path in [part.path().parent().unwrap(), scratch.path()] {
        fs::write(path.join("output"), "half").unwrap();
        fs::rename(path, path.with_extension("moved")).unwrap();
        symlink(at("victim"), path).unwrap();
    }
    let moved = scratch.path().with_extension("moved");
    drop((part, scratch));
    Scratch::sweep(folder.path());
    drop(PartialFile::beside(&at("film.mp4"), false).unwrap());
    assert_eq!(fs::read_to_string(at("victim/photos/one")).unwrap(), "precious");
    assert!(at("victim/lock").exists());
    assert_eq!(fs::read_dir(moved).unwrap().count(), 0, "what we made is gone, wherever it is");
}

#[test]
fn folders_are_made_while_others_clean_up() {
    let folder = tempfile::tempdir().unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    Scratch::sweep(folder.path());
                }
            });
        }
        let makers = [(); 2].map(|()| {
            scope
                .spawn(|| (0..1000).map(|_| Scratch::new(Some(folder.path())).map(drop)).find(Result::is_err))
        });
        let failed = makers.map(|maker| maker.join().unwrap());
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(failed.iter().all(Option::is_none), "{failed:?}");
    });
}
