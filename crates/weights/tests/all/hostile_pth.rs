//! Files of Real-ESRGAN's networks made to do harm: whatever the bytes are, opening and loading one ends with a network or
//! a short typed error, without a panic and without more memory than a small multiple of what describes it.
//!
//! `REMASTER_HOSTILE_CASES` sets the number of files of each kind (default 10,000).

use std::collections::BTreeMap;
use std::error::Error;

use crate::support::pth::{Members, Ops, members, pth_parts, saved, torch, zip};
use crate::support::{Put, file_of, uniform_f16};
use remaster_model::compact::{self, CompactConfig};
use remaster_model::rrdb::{self, RrdbConfig};
use remaster_testkit::Rng;
use remaster_testkit::hostile::{measured, mutate};
use remaster_weights::{Checkpoint, CheckpointError, LoadError, TorchFault, identify, upscaler_from_bytes};

/// Opening a file may hold this much at once, `PER_PICKLE_BYTE` for every byte of its pickle, and `PER_ENTRY` for every
/// member.
const CONSTANT: usize = 8192;
const PER_PICKLE_BYTE: usize = 32;
const PER_ENTRY: usize = 512;

/// Longest error, in characters.
const LONGEST_TEXT: usize = 600;

fn cases() -> usize {
    std::env::var("REMASTER_HOSTILE_CASES").map_or(10_000, |n| n.parse().unwrap())
}

fn networks() -> [Vec<Put>; 2] {
    let small = CompactConfig { width: 2, depth: 1, scale: 2 };
    let rrdb = RrdbConfig { width: 2, growth: 1, blocks: 1, scale: 2, unshuffle: 2 };
    [compact::params(&small), rrdb::params(&rrdb)].map(|params| params.iter().map(uniform_f16).collect())
}

/// An error and what is behind it, each short enough.
fn readable(error: &dyn Error) {
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        assert!(text.chars().count() <= LONGEST_TEXT, "{text}");
        next = error.source();
    }
}

/// The variant, for counting.
fn class(error: &LoadError) -> String {
    let text = match error {
        LoadError::Checkpoint { source: CheckpointError::Torch { fault }, .. } => match fault {
            TorchFault::Zip(fault) => format!("Zip {fault:?}"),
            TorchFault::Pickle(fault) => format!("Pickle {fault:?}"),
            fault => format!("Torch {fault:?}"),
        },
        LoadError::Checkpoint { source, .. } => format!("{source:?}"),
        error => format!("{error:?}"),
    };
    text.split(['(', '{']).next().unwrap_or_default().trim().to_owned()
}

/// Opens and loads files that `make` gives; `allowed` is what opening may hold.
fn storm(seed: u64, mut make: impl FnMut(&mut Rng, usize) -> (Vec<u8>, usize)) -> BTreeMap<String, usize> {
    let mut rng = Rng::new(seed);
    let mut seen = BTreeMap::new();
    for case in 0..cases() {
        let (bytes, allowed) = make(&mut rng, case);
        let (opened, held) = measured(|| Checkpoint::from_bytes(bytes.clone()));
        let held = held.saturating_sub(bytes.len());
        assert!(held <= allowed, "case {case}: {held} bytes held, {allowed} allowed");
        if let Ok(checkpoint) = opened {
            for tensor in checkpoint.tensors().filter(|t| t.dtype().is_readable()) {
                assert!(tensor.bytes().end as u64 <= checkpoint.len_bytes());
                checkpoint.values(tensor).unwrap();
            }
            assert!(identify(&checkpoint).kind.to_string().chars().count() <= LONGEST_TEXT);
            if let Err(error) = checkpoint.verify() {
                readable(&error);
            }
        }
        let class = match upscaler_from_bytes("x", bytes) {
            Ok(_) => "Ok".to_owned(),
            Err(error) => {
                readable(&error);
                class(&error)
            }
        };
        *seen.entry(class).or_insert(0) += 1;
    }
    println!("{seen:#?}");
    seen
}

fn reaches(seen: &BTreeMap<String, usize>, classes: &[&str]) {
    if cases() >= 10_000 {
        for class in classes {
            assert!(seen.contains_key(*class), "no file gave {class}");
        }
    }
}

#[test]
fn mutated_files_of_pytorch_give_a_network_or_a_typed_error() {
    let good: Vec<(Vec<u8>, usize)> = networks()
        .iter()
        .zip(["params", ""])
        .map(|(tensors, inside)| {
            let (pickle, storages) = pth_parts(tensors, inside);
            let allowed = CONSTANT + PER_PICKLE_BYTE * pickle.len() + PER_ENTRY * (storages.len() + 3);
            (torch(&pickle, &storages), allowed)
        })
        .collect();
    let seen = storm(1, |rng, case| {
        let (file, allowed) = &good[case % good.len()];
        // Half of the changes are to the directory at the end.
        let file = if case % 4 < 2 {
            let cut = file.len() - file.len() / 4;
            [&file[..cut], &mutate(rng, &file[cut..])].concat()
        } else {
            mutate(rng, file)
        };
        (file, *allowed)
    });
    reaches(
        &seen,
        &["Ok", "Zip Cut", "Zip Checksum", "Zip Packed", "Zip Members", "Zip Overlap", "Zip Name"],
    );
}

#[test]
fn mutated_pickles_give_a_network_or_a_typed_error() {
    let good = [("params", 0), ("", 1)].map(|(inside, i)| pth_parts(&networks()[i], inside));
    let seen = storm(2, |rng, case| {
        let (pickle, storages) = &good[case % good.len()];
        let mut pickle = pickle.clone();
        for _ in 0..rng.between(1, 3) {
            change(rng, &mut pickle);
        }
        let allowed = CONSTANT + PER_PICKLE_BYTE * pickle.len() + PER_ENTRY * (storages.len() + 3);
        (torch(&pickle, storages), allowed)
    });
    let pickle = "Operation Global Protocol Cut Trailing TooMany Text Memo Form NoTensors".split(' ');
    let classes: Vec<String> = pickle.map(|name| format!("Pickle {name}")).collect();
    reaches(&seen, &classes.iter().map(String::as_str).collect::<Vec<_>>());
    reaches(
        &seen,
        &["Ok", "Torch NoStorage", "Torch StorageSize", "Torch Range", "Torch Strides", "Incomplete"],
    );
}

/// Operations with their arguments, good and bad.
const PIECES: [&[u8]; 24] = [
    b".",
    b"(",
    b"N",
    b"}",
    b")",
    b"t",
    b"s",
    b"u",
    b"Q",
    b"R",
    b"b",
    b"\x85",
    b"\x94",
    b"K\x02",
    b"K\x00",
    b"M\xff\xff",
    b"J\xff\xff\xff\xff",
    b"\x8a\x09\0\0\0\0\0\0\0\0\x01",
    b"h\x00",
    b"h\x07",
    b"q\x00",
    b"X\x01\0\0\0a",
    b"X\xff\xff\xff\xff",
    b"cos\nsystem\n",
];

fn change(rng: &mut Rng, pickle: &mut Vec<u8>) {
    // An earlier change may have cut it down to nothing.
    if pickle.len() < 4 {
        return;
    }
    let at = rng.below(pickle.len());
    match rng.below(4) {
        0 => *pickle = mutate(rng, pickle),
        1 => drop(pickle.splice(at..at, PIECES[rng.below(PIECES.len())].iter().copied())),
        // A number of a shape, of strides, of an offset or of a storage.
        2 => {
            let numbers: Vec<usize> = (2..pickle.len() - 2).filter(|&i| pickle[i] == b'K').collect();
            if !numbers.is_empty() {
                pickle[numbers[rng.below(numbers.len())] + 1] = rng.pick(&[0, 1, 2, 3, 4, 9, 255]);
            }
        }
        _ => pickle[at] = pickle[at].wrapping_add(1),
    }
}

#[test]
fn mutated_safetensors_files_of_these_networks_give_one_or_a_typed_error() {
    let good = networks().map(|tensors| file_of(&tensors, r#"{"format":"pt"}"#));
    let seen = storm(3, |rng, case| {
        let file = &good[case % good.len()];
        let header = u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
        // Most changes are to the header.
        let file = if case % 4 < 3 {
            let json = mutate(rng, &file[8..8 + header]);
            [&(json.len() as u64).to_le_bytes(), &json[..], &file[8 + header..]].concat()
        } else {
            mutate(rng, file)
        };
        (file, CONSTANT + 16 * header)
    });
    reaches(&seen, &["Ok", "Header", "Tensor", "Truncated", "Incomplete", "UpscalerDoubt", "NotAnUpscaler"]);
}

#[test]
fn no_pickle_takes_more_than_a_small_multiple_of_its_length() {
    let text = b"X\x01\0\0\0a";
    let long: [(&[u8], &[u8], &[u8]); 9] = [
        (b"", b"N", b""),
        (b"N", b"\x94", b"."),
        (b"N", b"NN\x87", b"."),
        (b"}", b"NNs", b"."),
        (b"}(", b"NN", b"u."),
        (b"(NNNNNNN", b"(NNNNNNNNt\x85", b"."),
        (b"", b"}\x85", b""),
        (b"}", b"}\x85\x94Ns", b"."),
        (text, b"\x85\x94", b"."),
    ];
    for (first, part, last) in long {
        for times in [100, 4000, 60_000, 400_000] {
            let pickle = [b"\x80\x02", first, &part.repeat(times), last].concat();
            let file = torch(&pickle, &[]);
            let (_, held) = measured(|| Checkpoint::from_bytes(file.clone()));
            let held = held - file.len();
            assert!(held <= CONSTANT + PER_PICKLE_BYTE * pickle.len(), "{held} for {}", pickle.len());
            assert!(held <= 32 << 20);
        }
    }
}

#[test]
fn no_dictionary_takes_more_than_a_small_multiple_of_its_length() {
    // One tensor under many names, and under one long name many times: two bytes each for what would be copied.
    let storages = [("0".to_owned(), vec![0; 4])];
    let ops = Ops::new().op(b"}").put().text("one").tensor(&saved("a", "FloatStorage", "0", &[1; 8]));
    let tensor = [b'h', ops.last()];
    let ops = ops.op(b"s").text("two").text(&"x".repeat(1024));
    let long = [b'h', ops.last()];
    let ops = ops.op(b"s").text("params").op(b"}").put();
    let entries = |key: &dyn Fn(Ops, usize) -> Ops| {
        let part = |ops: Ops, i: usize| {
            let first = if i.is_multiple_of(1000) { ops.op(b"(") } else { ops };
            let ops = key(first, i).op(&tensor);
            if i % 1000 == 999 { ops.op(b"u") } else { ops }
        };
        (0..60_000).fold(ops.clone(), part).op(b"s.").bytes
    };
    let short = entries(&|ops, i| ops.op(&[0x8c, 5]).op(format!("{i:05}").as_bytes()));
    let long = entries(&|ops, _| ops.op(&long));
    for (pickle, tensors) in [(short, Some(60_000)), (long, None)] {
        let file = torch(&pickle, &storages);
        let (opened, held) = measured(|| Checkpoint::from_bytes(file.clone()));
        let held = held - file.len();
        assert_eq!(opened.ok().map(|checkpoint| checkpoint.tensors().len()), tensors);
        assert!(held <= CONSTANT + PER_PICKLE_BYTE * pickle.len(), "{held} for {}", pickle.len());
    }
}

#[test]
fn no_directory_takes_more_than_a_small_multiple_of_its_length() {
    let (pickle, _) = pth_parts(&[], "");
    let mut all: Members = members(&pickle, &[]);
    all.extend((0..16_000).map(|i| (format!("archive/data/{i}"), Vec::new())));
    let file = zip(&all, 0);
    let (opened, held) = measured(|| Checkpoint::from_bytes(file.clone()));
    assert_eq!(opened.unwrap().tensors().len(), 0);
    assert!(held - file.len() <= CONSTANT + PER_ENTRY * all.len(), "{held}");
}
