//! What is accepted, by content and not by name, and what values come out.

use crate::support::{bits, checkpoint, file, file_of, on_disk, put};
use remaster_testkit::says;
use remaster_weights::{Checkpoint, CheckpointError, ReadError, StoredDtype, TorchFault, ZipFault};

fn refused(bytes: impl Into<Vec<u8>>) -> CheckpointError {
    Checkpoint::from_bytes(bytes.into()).unwrap_err()
}

fn values(checkpoint: &Checkpoint, name: &str) -> Vec<f32> {
    checkpoint.values(checkpoint.get(name).unwrap()).unwrap()
}

#[test]
fn a_cut_file_of_pytorch_is_named_whatever_it_is_called() {
    let mut zip = b"PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00\x00\x00".to_vec();
    zip.extend([0; 16]);
    zip.extend(b"ema_vae/data.pklFB\x0eZZZZ\x80\x02}q\x00");
    let (_folder, path) = on_disk("ema_vae.safetensors", zip);
    let error = Checkpoint::open(&path).unwrap_err();
    assert!(matches!(error, CheckpointError::Torch { fault: TorchFault::Zip(ZipFault::Cut) }));
    says(&error.to_string(), &["PyTorch pickle (.pth)", "cut off", "download it again"]);
}

#[test]
fn pickles_without_a_zip_are_refused_with_what_to_do() {
    let legacy = refused(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.".to_vec());
    assert!(matches!(legacy, CheckpointError::OldTorch));
    let text = legacy.to_string();
    assert_eq!(text.lines().count(), 1);
    says(&text, &["torch.save(torch.load('old.pth', weights_only=True), 'new.pth')"]);
    let plain = refused(*b"\x80\x05}.");
    assert!(matches!(plain, CheckpointError::Pickle));
    says(&plain.to_string(), &["pickles are not run", ".safetensors, .gguf or .pth"]);
}

#[test]
fn a_header_length_that_looks_like_a_pickle_is_no_pickle() {
    // 640 is 80 02 00 ... in little-endian order.
    let mut json = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#.to_owned();
    json.push_str(&" ".repeat(640 - json.len()));
    let bytes = file(&json, &1.5f32.to_le_bytes());
    assert!(bytes.starts_with(b"\x80\x02"));
    assert_eq!(values(&Checkpoint::from_bytes(bytes).unwrap(), "a"), [1.5]);
}

#[test]
fn other_formats_are_named() {
    let cut = refused(*b"GGUF\x03\x00\x00\x00\x68\x04\x00\x00");
    assert!(matches!(cut, CheckpointError::Truncated { .. }));
    assert!(matches!(refused(*b"GGUF\x01\0\0\0"), CheckpointError::GgufVersion { version: 1 }));
    assert!(matches!(refused(*b"GGUF\0\0\0\x03"), CheckpointError::GgufBigEndian));
    assert!(matches!(refused(*b"PK\x03\x04\x14\x00\x00\x00readme.txt"), CheckpointError::Zip));
    assert!(matches!(refused(*b"<!DOCTYPE html><html><body>404</body>"), CheckpointError::Html));
    assert!(matches!(refused(*b"\n\n  <HTML><head><title>Sign in"), CheckpointError::Html));
    assert!(matches!(refused(*b"\xef\xbb\xbf<?xml version=\"1.0\"?><Error>"), CheckpointError::Html));
    let pointer = *b"version https://git-lfs.github.com/spec/v1\noid sha256:20678548";
    assert!(matches!(refused(pointer), CheckpointError::LfsPointer));
    let error = refused(*b"RIFF\x24\x08\x00\x00WAVEfmt ");
    assert!(matches!(&error, CheckpointError::NotSafetensors { start } if start.starts_with("52 49 46 46")));
    // A refused download may also be JSON: its first brace is where the length should be.
    let refusal = refused(*br#"{"error":"Invalid credentials"}"#);
    assert!(matches!(refusal, CheckpointError::NotSafetensors { .. }));
}

#[test]
fn empty_short_and_cut_files_say_so() {
    assert!(matches!(refused([]), CheckpointError::Empty));
    assert!(matches!(refused([2, 0, 0]), CheckpointError::Truncated { needed: 8, actual: 3 }));
    let claimed = refused([2, 0, 0, 0, 0, 0, 0, 0]);
    assert!(matches!(claimed, CheckpointError::Truncated { needed: 10, actual: 8 }));
    let whole = file_of(&[put("a", "F32", &[2], [0; 8])], "");
    match refused(&whole[..whole.len() - 3]) {
        CheckpointError::Truncated { needed, actual } => {
            assert_eq!((needed, actual), (whole.len() as u64, whole.len() as u64 - 3));
        }
        other => panic!("{other}"),
    }
    let longer = [&whole[..], b"!!"].concat();
    assert!(matches!(refused(longer), CheckpointError::Trailing { extra: 2 }));
}

#[test]
fn folders_and_missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Checkpoint::open(folder.path()).unwrap_err();
    assert!(matches!(error, CheckpointError::NotAFile { .. }));
    let error = Checkpoint::open(&folder.path().join("none")).unwrap_err();
    assert!(matches!(&error, CheckpointError::Io { path, .. } if path.ends_with("none")));
    std::fs::write(folder.path().join("empty"), []).unwrap();
    let error = Checkpoint::open(&folder.path().join("empty")).unwrap_err();
    assert!(matches!(error, CheckpointError::Empty));
}

#[test]
fn every_16_bit_pattern_widens_exactly() {
    let patterns: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let half = put("h", "F16", &[256, 256], patterns.clone());
    let checkpoint = checkpoint(&[half, put("b", "BF16", &[65536], patterns)]);
    for (bits, (h, b)) in (0..=u16::MAX).zip(values(&checkpoint, "h").iter().zip(values(&checkpoint, "b"))) {
        let expected = half::f16::from_bits(bits).to_f32();
        assert!(h.to_bits() == expected.to_bits() || (h.is_nan() && expected.is_nan()), "{bits:#x}");
        assert_eq!(b.to_bits(), u32::from(bits) << 16);
    }
}

#[test]
fn f32_keeps_every_bit() {
    let patterns = [0u32, 0x8000_0000, 1, 0x7f7f_ffff, 0x7f80_0000, 0xff80_0000, 0x7fc0_0001, 0x3f80_0001];
    let data: Vec<u8> = patterns.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let checkpoint = checkpoint(&[put("a", "F32", &[8], data)]);
    assert_eq!(bits(&values(&checkpoint, "a")), patterns);
}

#[test]
fn data_at_odd_addresses_reads_the_same() {
    let expected: Vec<f32> = (0..300).map(|i| i as f32 * 0.25 - 30.0).collect();
    let f32s: Vec<u8> = expected.iter().flat_map(|v| v.to_le_bytes()).collect();
    let f16s: Vec<u8> = expected.iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect();
    for shift in 0..8 {
        let pad = put("pad", "U8", &[shift], vec![0; shift]);
        let (f, h) = (put("f", "F32", &[300], f32s.clone()), put("h", "F16", &[300], f16s.clone()));
        let checkpoint = checkpoint(&[pad, f, h]);
        assert_eq!(values(&checkpoint, "f"), expected);
        assert_eq!(values(&checkpoint, "h"), expected);
        let mut piece = [0.0; 7];
        checkpoint.read_f32(checkpoint.get("h").unwrap(), 123, &mut piece).unwrap();
        assert_eq!(piece, expected[123..130]);
    }
}

#[test]
fn a_format_that_is_not_read_is_listed_and_refused_by_name() {
    let checkpoint = checkpoint(&[put("q", "F8_E5M2", &[4], [0; 4]), put("w", "F32", &[1], [0; 4])]);
    let q = checkpoint.get("q").unwrap();
    assert_eq!((q.dtype(), q.shape(), q.elements()), (StoredDtype::F8E5M2, &[4][..], 4));
    let error = checkpoint.read_f32(q, 0, &mut [0.0]).unwrap_err();
    assert_eq!(error, ReadError::Dtype { name: "q".to_owned(), dtype: StoredDtype::F8E5M2 });
    assert!(error.to_string().contains("F8_E5M2; F32, F16, BF16 and F8_E4M3 can be read"));
}

#[test]
fn a_tensor_of_a_larger_file_is_refused() {
    let small = Checkpoint::from_bytes(file_of(&[put("a", "F32", &[1], [0; 4])], "")).unwrap();
    let large = Checkpoint::from_bytes(file_of(&[put("a", "F32", &[900], [0; 3600])], "")).unwrap();
    let foreign = large.get("a").unwrap();
    let error = small.read_f32(foreign, 0, &mut [0.0; 900]).unwrap_err();
    assert_eq!(error, ReadError::Foreign { name: "a".to_owned() });
}

#[test]
fn a_file_reads_the_same_every_time_and_keeps_its_order() {
    let data: Vec<u8> = (0..100_000u32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let tensors = [
        put("first", "U8", &[3], [1, 2, 3]),
        put("a", "F32", &[100_000], data),
        put("none", "F32", &[0], []),
    ];
    let (_folder, path) = on_disk("no-extension", file_of(&tensors, r#"{"format":"pt"}"#));
    let checkpoint = Checkpoint::open(&path).unwrap();
    let before = values(&checkpoint, "a");
    assert_eq!(values(&checkpoint, "a"), before);
    assert_eq!(before[99_999], 99_999.0);
    assert_eq!(checkpoint.metadata()["format"], "pt");
    assert_eq!(checkpoint.len_bytes(), std::fs::metadata(&path).unwrap().len());
    let names: Vec<&str> = checkpoint.tensors().map(|t| t.name()).collect();
    assert_eq!(names, ["first", "a", "none"]);
}

#[test]
fn files_of_the_formats_own_writer_are_read() {
    let data: Vec<u8> = (0..24).collect();
    let view = |dtype, shape: &[usize], bytes: usize| {
        safetensors::tensor::TensorView::new(dtype, shape.to_vec(), &data[..bytes]).unwrap()
    };
    use safetensors::Dtype;
    let tensors = [
        ("z", view(Dtype::F32, &[2, 3], 24)),
        ("a", view(Dtype::BF16, &[4], 8)),
        ("m", view(Dtype::I64, &[2], 16)),
    ];
    let metadata = Some([("format".to_owned(), "pt".to_owned())].into());
    let bytes = safetensors::serialize(tensors, metadata).unwrap();
    let checkpoint = Checkpoint::from_bytes(bytes.clone()).unwrap();
    assert_eq!(checkpoint.tensors().len(), 3);
    assert_eq!(&bytes[checkpoint.get("z").unwrap().bytes()], &data[..24]);
    assert_eq!(checkpoint.get("m").unwrap().dtype(), StoredDtype::I64);
    assert_eq!(checkpoint.metadata()["format"], "pt");
    assert!(checkpoint.get("b").is_none());
}

#[cfg(unix)]
#[test]
fn a_sparse_file_larger_than_memory_is_only_mapped() {
    // 64 GiB that occupy one block: nothing but the header may be touched.
    let (_folder, path) = crate::support::place("sparse");
    let size = 64u64 << 30;
    let json = format!(r#"{{"a":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{size}]}}}}"#, size / 4);
    crate::support::sparse(&path, &file(&json, &[]), size);
    let checkpoint = Checkpoint::open(&path).unwrap();
    let mut last = [1.0; 4];
    checkpoint.read_f32(checkpoint.get("a").unwrap(), (size / 4 - 4) as usize, &mut last).unwrap();
    assert_eq!(last, [0.0; 4]);
}
