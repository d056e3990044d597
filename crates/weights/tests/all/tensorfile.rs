//! Tensors out to a file and back, and the hash of a file.

use std::collections::BTreeMap;

use crate::support::{file_of, on_disk, place, put, zeros};
use remaster_weights::{
    NamedTensor, TensorFileError, parse_tensors, read_tensors, sha256_hex, write_tensors,
};

fn tensor(name: &str, shape: &[usize]) -> NamedTensor {
    let count: usize = shape.iter().product();
    let data = (0..count).map(|i| i as f32 * 0.1 - 1.0).collect();
    NamedTensor { name: name.to_owned(), shape: shape.to_vec(), data }
}

#[test]
fn what_is_written_is_what_is_read() {
    let (folder, path) = place("out.safetensors");
    let tensors = [
        tensor("z \"quoted\" é", &[5, 7, 3]),
        tensor("a", &[]),
        tensor("none", &[0, 4]),
        tensor("long", &[40_000]),
    ];
    let metadata = BTreeMap::from([("commit".to_owned(), "ab\n\"cd".to_owned())]);
    std::fs::write(&path, "an older file").unwrap();
    write_tensors(&path, &tensors, &metadata).unwrap();
    let mut read = read_tensors(&path).unwrap();
    // A tensor without values shares its place with its neighbour, so only the others have an order.
    read.sort_by_key(|t| tensors.iter().position(|other| other.name == t.name));
    assert_eq!(read, tensors);
    // And by the format's own reader.
    let bytes = std::fs::read(&path).unwrap();
    let (header, theirs) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!((header + 8) % 8, 0);
    assert_eq!(theirs.metadata().as_ref().unwrap()["commit"], "ab\n\"cd");
    assert_eq!(theirs.info("long").unwrap().shape, [40_000]);
    // Nothing is left beside it.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn sixteen_bit_floats_are_widened_and_integers_refused() {
    let half = parse_tensors(file_of(&[put("a", "F16", &[1], [0, 0x3c])], "")).unwrap();
    assert_eq!(half[0].data, [1.0]);
    let refused = parse_tensors(file_of(&[zeros("a", "I32", &[1])], ""));
    assert!(matches!(refused, Err(TensorFileError::Read(_))));
    assert!(matches!(parse_tensors(&b"junk"[..]), Err(TensorFileError::Checkpoint(_))));
}

#[test]
fn what_no_reader_would_accept_is_not_written() {
    let (folder, path) = place("out");
    let none = BTreeMap::new();
    let write = |tensors: &[NamedTensor]| write_tensors(&path, tensors, &none).unwrap_err();
    let mut short = tensor("a", &[3]);
    short.data.pop();
    assert!(matches!(write(&[short]), TensorFileError::Shape { values: 2, .. }));
    assert!(matches!(write(&[tensor("a", &[1]), tensor("a", &[2])]), TensorFileError::Name { .. }));
    assert!(matches!(write(&[tensor("__metadata__", &[1])]), TensorFileError::Name { .. }));
    assert!(matches!(write(&[tensor("a", &[1; 9])]), TensorFileError::TooMuch { count: 9, .. }));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/such/folder/out");
    let error = write_tensors(&missing, &[tensor("a", &[1])], &BTreeMap::new()).unwrap_err();
    assert!(matches!(&error, TensorFileError::Write { path, .. } if *path == missing));
    // The target is a folder: the file beside it is written, the rename fails.
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    assert!(write_tensors(&taken, &[tensor("a", &[1])], &BTreeMap::new()).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_hash_is_the_published_one() {
    let (folder, path) = on_disk("abc", "abc");
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(sha256_hex(&path).unwrap(), expected);
    // Longer than one piece: a million times `a` is the standard's own vector.
    std::fs::write(&path, "a".repeat(1_000_000)).unwrap();
    let expected = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    assert_eq!(sha256_hex(&path).unwrap(), expected);
    assert!(sha256_hex(&folder.path().join("none")).is_err());
}
