//! Text embeddings: from checkpoints, safetensors files and PyTorch's zip.
//!
//! `REMASTER_POS_EMB` names the published `pos_emb.pt` for the test that needs it.

use std::path::Path;

use crate::support::pth::zip;
use crate::support::{file_of, on_disk, place, put};
use remaster_testkit::hostile::attack;
use remaster_weights::{Checkpoint, EmbeddingError, MAX_TEXT_ROWS, TextEmbedding};

const PICKLE: &[u8] = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00ctorch\nBFloat16Storage\nq\x02.";

type Members = Vec<(&'static str, Vec<u8>)>;

fn members() -> Members {
    // 1, 2, -1 and 0.5, twice.
    let values: Vec<u8> =
        [0x3f80u16, 0x4000, 0xbf80, 0x3f00].repeat(2).iter().flat_map(|v| v.to_le_bytes()).collect();
    vec![
        ("pos_emb/data.pkl", PICKLE.to_vec()),
        ("pos_emb/byteorder", b"little".to_vec()),
        ("pos_emb/data/0", values),
        ("pos_emb/version", b"3\n".to_vec()),
    ]
}

fn open(bytes: &[u8], width: usize) -> Result<TextEmbedding, EmbeddingError> {
    let (_folder, path) = on_disk("emb", bytes);
    TextEmbedding::open(&path, width)
}

#[test]
fn a_zip_of_pytorch_is_read_without_running_its_pickle() {
    let found = open(&zip(&members(), 0), 4).unwrap();
    assert_eq!((found.rows, found.width, found.published), (2, 4, Some(false)));
    assert_eq!(found.values, [1.0, 2.0, -1.0, 0.5, 1.0, 2.0, -1.0, 0.5]);
    assert_eq!(open(&zip(&members(), 0), 8).unwrap().rows, 1);
}

#[test]
fn a_zip_that_is_anything_else_is_refused_with_the_reason() {
    let reason = |members: &[(&str, Vec<u8>)], width| match open(&zip(members, 0), width).unwrap_err() {
        EmbeddingError::Zip { reason, .. } => reason,
        other => panic!("{other}"),
    };
    let change = |change: &dyn Fn(&mut Members)| {
        let mut all = members();
        change(&mut all);
        reason(&all, 4)
    };
    assert!(reason(&members(), 3).contains("not rows of 3"));
    assert!(reason(&members(), 0).contains("not rows of 0"));
    assert!(change(&|m| m[2].1.clear()).contains("0 bytes"));
    assert!(change(&|m| drop(m.remove(0))).contains("data.pkl"));
    assert!(change(&|m| m[0].1 = b"torch\nFloatStorage\n".to_vec()).contains("not BF16"));
    assert!(change(&|m| m[1].1 = b"big".to_vec()).contains("little-endian"));
    assert!(change(&|m| m.push(("pos_emb/data/1", vec![0; 8]))).contains("more than one tensor"));
    assert!(change(&|m| m.extend(std::iter::repeat_n(("x", vec![]), 20))).contains("24 members"));
    let packed = open(&zip(&members(), 8), 4).unwrap_err().to_string();
    assert!(packed.contains("compressed"), "{packed}");
    let good = zip(&members(), 0);
    let place = good.windows(2).position(|w| w == [0x80, 0x3f]).unwrap();
    let mut flipped = good.clone();
    flipped[place] ^= 1;
    assert!(open(&flipped, 4).unwrap_err().to_string().contains("checksum"));
    for end in 4..good.len() {
        assert!(matches!(open(&good[..end], 4), Err(EmbeddingError::Zip { .. })), "{end}");
    }
    let mut infinite = members();
    infinite[2].1[..2].copy_from_slice(&0x7f80u16.to_le_bytes());
    assert!(matches!(open(&zip(&infinite, 0), 4), Err(EmbeddingError::NotFinite)));
}

#[test]
fn safetensors_files_and_checkpoints_have_one_too() {
    let values: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let one = file_of(&[put("any name", "F32", &[2, 3], values.clone())], "");
    assert_eq!(open(&one, 3).unwrap().values, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert!(matches!(open(&one, 2), Err(EmbeddingError::Shape { .. })));
    let named = [
        put("model.diffusion_model.x", "F32", &[1], vec![0; 4]),
        put("positive_conditioning", "F32", &[2, 3], values),
    ];
    let both = file_of(&named, "");
    assert_eq!(open(&both, 3).unwrap().rows, 2);
    let checkpoint = Checkpoint::from_bytes(both).unwrap();
    assert_eq!(TextEmbedding::of_checkpoint(&checkpoint, 3).unwrap().rows, 2);
    let none = file_of(&named[..1], "");
    let checkpoint = Checkpoint::from_bytes(none.clone()).unwrap();
    assert!(matches!(TextEmbedding::of_checkpoint(&checkpoint, 3), Err(EmbeddingError::Absent)));
    assert!(matches!(open(&none, 3), Err(EmbeddingError::Shape { .. })));
    assert!(matches!(open(&file_of(&[], ""), 3), Err(EmbeddingError::Count { count: 0, .. })));
    let many = file_of(&[put("a", "F8_E4M3", &[MAX_TEXT_ROWS + 1, 1], vec![0; MAX_TEXT_ROWS + 1])], "");
    assert!(matches!(open(&many, 1), Err(EmbeddingError::Shape { .. })));
    assert!(matches!(open(b"<html>", 3), Err(EmbeddingError::File { .. })));
    assert!(matches!(open(b"", 3), Err(EmbeddingError::File { .. })));
}

#[test]
#[ignore = "published: needs the embedding, at REMASTER_POS_EMB"]
fn the_published_files_are_known_by_their_hash() {
    let path = std::env::var_os("REMASTER_POS_EMB").unwrap();
    let path = Path::new(&path);
    let found = TextEmbedding::open(path, 5120).unwrap();
    assert_eq!((found.rows, found.published), (58, Some(true)));
    assert_eq!(found.values[..4], [0.390625, 0.1875, -95.0 / 2048.0, -33.0 / 2048.0]);
    let negative = TextEmbedding::open(&path.with_file_name("neg_emb.pt"), 5120);
    assert!(matches!(negative, Err(EmbeddingError::Negative { .. })));
}

/// `REMASTER_HOSTILE_CASES=100000` for the long version.
#[test]
fn mutated_zips_give_an_embedding_or_a_typed_error() {
    let (_folder, path) = place("emb");
    attack("embedding", &[zip(&members(), 0)], 1 << 20, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        if let Err(error) = TextEmbedding::open(&path, 4) {
            assert!(error.to_string().len() < 1000, "{error}");
        }
    });
}
