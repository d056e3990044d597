//! Somebody who may write beside the output puts a link in the place of our folder.
#![allow(clippy::unwrap_used, reason = "tests")]
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;

use remaster_media::place::{Part, Scratch};

#[test]
fn a_link_in_the_place_of_a_folder_of_ours_is_not_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("victim/photos")).unwrap();
    fs::write(at("victim/photos/one"), "precious").unwrap();
    fs::write(at("victim/lock"), "remaster part\n").unwrap();
    let part = Part::beside(&at("film.mp4"), false).unwrap();
    let scratch = Scratch::new(Some(folder.path())).unwrap();
    for path in [part.path().parent().unwrap(), scratch.path()] {
        fs::write(path.join("output"), "half").unwrap();
        fs::rename(path, path.with_extension("moved")).unwrap();
        symlink(at("victim"), path).unwrap();
    }
    let moved = scratch.path().with_extension("moved");
    drop((part, scratch));
    Scratch::sweep(folder.path());
    drop(Part::beside(&at("film.mp4"), false).unwrap());
    assert_eq!(fs::read_to_string(at("victim/photos/one")).unwrap(), "precious");
    assert!(at("victim/lock").exists());
    assert_eq!(fs::read_dir(moved).unwrap().count(), 0, "what we made is gone, wherever it is");
}
