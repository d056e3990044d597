//! A process that has to end at once. The only test of this file: nothing can be made after it.

use std::fs;

use remaster_media::MediaError;
use remaster_media::place::{PartialFile, abandon, write};

#[test]
fn a_process_that_ends_at_once_removes_its_parts_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let names = || remaster_testkit::names(folder.path());
    // Names of the form that parts have, and one that a pattern for a.mp4 would match.
    for other in [".a.mp4.12345678.part", ".a.b.mp4.12345678.part"] {
        fs::create_dir(at(other)).unwrap();
        fs::write(at(other).join("output.mp4"), "another run's").unwrap();
    }
    let before = names();

    // Dropped, finished, and under way.
    drop(PartialFile::beside(&at("a.mp4"), false).unwrap());
    assert_eq!(names(), before);
    write(&at("done.txt"), b"done", false).unwrap();
    assert!(matches!(write(&at("done.txt"), b"again", false), Err(MediaError::Exists { .. })));
    let part = PartialFile::beside(&at("a.mp4"), false).unwrap();
    fs::write(part.path(), "half").unwrap();
    let pictures = PartialFile::beside(&at("pictures"), false).unwrap();
    fs::create_dir(pictures.path()).unwrap();
    fs::write(pictures.path().join("000000.png"), "half").unwrap();
    assert_eq!(names().len(), before.len() + 3);

    assert!(abandon().is_empty());
    let after: Vec<String> = before.iter().cloned().chain(["done.txt".into()]).collect();
    assert_eq!(names(), after);
    assert!(matches!(PartialFile::beside(&at("b.mp4"), false), Err(MediaError::Cancelled)));
    assert!(part.put().is_err());
    drop(pictures);
    assert_eq!(names(), after);
    assert_eq!(fs::read_to_string(at(".a.mp4.12345678.part/output.mp4")).unwrap(), "another run's");
}
