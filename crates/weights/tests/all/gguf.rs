//! GGUF files: values against ggml's own package, and everything that can be wrong with a header.

use crate::support::gguf::{Gguf, text};
use crate::support::{bits, has_values, on_disk, read_ends};
use remaster_testkit::hostile::attack;
use remaster_weights::{Checkpoint, CheckpointError, Format, TensorFault, check, identify};

const BLOCKS: &[u8] = include_bytes!("../data/blocks.gguf");
const VALUES: &[u8] = include_bytes!("../data/blocks.f32");

/// `tools/checkpoints/check_gguf.py` made the file and what `gguf.quants` reads from it.
#[test]
fn every_block_format_has_the_values_of_ggmls_own_package() {
    let checkpoint = Checkpoint::from_bytes(BLOCKS).unwrap();
    assert_eq!(checkpoint.format(), Format::Gguf);
    assert_eq!(checkpoint.tensors().len(), 13);
    assert!(checkpoint.tensors().all(|t| !t.is_companion()));
    // Any range, wherever it starts and ends.
    has_values(&checkpoint, VALUES, &[(1, 1), (31, 2), (255, 3), (17, 300), (256, 256), (511, 1), (5, 0)]);
}

#[test]
fn shapes_are_turned_around_and_the_metadata_may_say_another_one() {
    let checkpoint = Checkpoint::from_bytes(BLOCKS).unwrap();
    assert_eq!(checkpoint.get("Q8_0").unwrap().shape(), [2, 32]);
    assert_eq!(checkpoint.get("Q4_K").unwrap().shape(), [32, 4, 4]);
    assert_eq!(checkpoint.metadata()["general.name"], "blocks");
    let plain = Gguf::default().tensor("a", &[3, 2], 0, &[0; 24]);
    assert_eq!(Checkpoint::from_bytes(plain.bytes()).unwrap().get("a").unwrap().shape(), [2, 3]);
}

#[test]
fn a_file_on_disk_reads_like_one_in_memory() {
    let (_folder, path) = on_disk("renamed.safetensors", BLOCKS);
    let (disk, memory) = (Checkpoint::open(&path).unwrap(), Checkpoint::from_bytes(BLOCKS).unwrap());
    for (a, b) in disk.tensors().zip(memory.tensors()) {
        assert_eq!(a, b);
        assert_eq!(bits(&disk.values(a).unwrap()), bits(&memory.values(b).unwrap()));
    }
}

#[test]
fn versions_2_and_3_and_every_alignment_are_read() {
    for (version, alignment) in [(2, 8), (3, 32), (3, 64), (3, 4096)] {
        let file = Gguf { version, alignment, ..Gguf::default() };
        let file = file.tensor("a", &[3], 0, &[1; 12]).tensor("b", &[1], 1, &[0, 0x3c]);
        let checkpoint = Checkpoint::from_bytes(file.bytes()).unwrap();
        assert_eq!(checkpoint.values(checkpoint.get("b").unwrap()).unwrap(), [1.0]);
    }
}

fn refused(file: &Gguf) -> CheckpointError {
    Checkpoint::from_bytes(file.bytes()).unwrap_err()
}

fn fault(file: &Gguf) -> TensorFault {
    match refused(file) {
        CheckpointError::Tensor { fault, .. } => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn formats_that_are_not_read_are_named() {
    for (number, name) in [(23, "IQ4_XS"), (16, "IQ2_XXS"), (39, "MXFP4"), (15, "Q8_K"), (99, "type 99")] {
        let error = refused(&Gguf::default().tensor("blocks.0.x", &[256], number, &[0; 512]));
        assert!(matches!(&error, CheckpointError::GgufType { dtype, .. } if dtype == name), "{error}");
        assert!(error.to_string().contains("blocks.0.x"));
    }
}

#[test]
fn impossible_tensors_are_named_with_what_is_wrong() {
    let base = Gguf::default();
    let one = |axes: &[u64], number| fault(&base.clone().tensor("a", axes, number, &[0; 64]));
    assert!(matches!(one(&[1; 9], 0), TensorFault::Rank { rank: 9, .. }));
    assert!(matches!(one(&[u64::MAX, u64::MAX], 0), TensorFault::Overflow { .. }));
    assert!(matches!(one(&[1 << 40, 1 << 22], 0), TensorFault::Overflow { .. }));
    assert!(matches!(one(&[33], 8), TensorFault::PartBlock { elements: 33, .. }));
    let two = base.clone().tensor("a", &[2], 0, &[0; 8]);
    assert_eq!(fault(&two.clone().tensor("a", &[2], 0, &[0; 8])), TensorFault::Duplicate);
    let placed = |at| fault(&two.clone().tensor_at("b", &[2], 0, &[0; 8], at));
    assert_eq!(placed(0), TensorFault::Overlap { start: 0, previous: 32 });
    assert_eq!(placed(8), TensorFault::Overlap { start: 8, previous: 32 });
    assert_eq!(placed(64), TensorFault::Hole { start: 64, previous: 32 });
    let shaped = base.clone().list("comfy.gguf.orig_shape.a", &[3]).tensor("a", &[2], 0, &[0; 8]);
    assert!(matches!(fault(&shaped), TensorFault::OtherShape { .. }));
    let ranked = base.list("comfy.gguf.orig_shape.a", &[1; 9]).tensor("a", &[1], 0, &[0; 4]);
    assert!(matches!(fault(&ranked), TensorFault::Rank { rank: 9, .. }));
}

#[test]
fn cut_and_longer_files_are_refused() {
    let whole = Gguf::default().text("k", "v").tensor("a", &[4], 0, &[0; 16]).bytes();
    for end in 4..whole.len() - 16 {
        let error = Checkpoint::from_bytes(whole[..end].to_vec()).unwrap_err();
        assert!(matches!(error, CheckpointError::Truncated { .. }), "{end}: {error}");
    }
    assert!(Checkpoint::from_bytes(whole.clone()).is_ok());
    // The last tensor may be padded to the alignment of 32.
    let longer = [whole, vec![0; 64]].concat();
    assert!(matches!(Checkpoint::from_bytes(longer).unwrap_err(), CheckpointError::Trailing { extra: 48 }));
}

#[test]
fn claims_are_refused_before_they_are_believed() {
    let claim = |tensors, entries| refused(&Gguf { claim: Some((tensors, entries)), ..Gguf::default() });
    let is_claim =
        |error| matches!(error, CheckpointError::Header { .. } | CheckpointError::Truncated { .. });
    for (tensors, entries) in [(u64::MAX, 0), (0, u64::MAX), (1 << 16, 0), (0, 1 << 16)] {
        assert!(is_claim(claim(tensors, entries)), "{tensors} {entries}");
    }
    let entry = |bytes: &[u8]| refused(&Gguf::default().raw_entry(bytes));
    let key = text("k");
    for rest in [
        [&8u32.to_le_bytes()[..], &u64::MAX.to_le_bytes()].concat(),
        [&9u32.to_le_bytes()[..], &8u32.to_le_bytes(), &u64::MAX.to_le_bytes()].concat(),
        [&9u32.to_le_bytes()[..], &12u32.to_le_bytes(), &(u64::MAX / 2).to_le_bytes()].concat(),
        [&9u32.to_le_bytes()[..], &9u32.to_le_bytes(), &1u64.to_le_bytes()].concat(),
        77u32.to_le_bytes().to_vec(),
    ] {
        assert!(is_claim(entry(&[&key[..], &rest].concat())), "{rest:?}");
    }
    for alignment in ["0", "7", "1048576"] {
        let error = refused(&Gguf::default().text("general.alignment", alignment));
        assert!(error.to_string().contains("alignment"), "{error}");
    }
    let twice = refused(&Gguf::default().text("k", "a").text("k", "b"));
    assert!(matches!(twice, CheckpointError::Header { .. }));
}

/// `REMASTER_HOSTILE_CASES=100000` for the long version.
#[test]
fn mutated_files_give_a_checkpoint_or_a_typed_error() {
    let small = Gguf::default()
        .text("general.name", "x")
        .list("comfy.gguf.orig_shape.vid_in.proj.weight", &[4, 2, 4])
        .tensor("vid_in.proj.weight", &[32], 8, &[0; 34])
        .tensor("blocks.0.attn.proj_qkv.vid.weight", &[4, 3], 1, &[0; 24]);
    attack("gguf", &[small.bytes(), BLOCKS.to_vec()], 1 << 20, |bytes| {
        let checkpoint = match Checkpoint::from_bytes(bytes.to_vec()) {
            Ok(checkpoint) => checkpoint,
            Err(error) => return assert!(error.to_string().len() < 600, "{error}"),
        };
        read_ends(&checkpoint);
        let _ = identify(&checkpoint).kind.to_string();
        let _ = check(&checkpoint, &[]).to_string();
    });
}
