//! Files of PyTorch: tensors and nothing else, whatever their pickle asks for.
//!
//! `REMASTER_ANIME_PTH` names the published `realesr-animevideov3.pth` for the test that needs it.

use crate::support::pth::{Members, Ops, Saved, ended, entry, members, pth_of, pth_parts, saved, torch, zip};
use crate::support::{bits, has_values, on_disk, place, put};
use remaster_testkit::says;
use remaster_weights::{
    Checkpoint, CheckpointError, Format, PickleFault, ReadError, StoredDtype, TensorFault, TorchFault,
    ZipFault, identify,
};

const STATE: &[u8] = include_bytes!("../data/state.pth");
const VALUES: &[u8] = include_bytes!("../data/state.f32");

fn open(bytes: impl Into<Vec<u8>>) -> Checkpoint {
    Checkpoint::from_bytes(bytes.into()).unwrap()
}

fn fault(bytes: impl Into<Vec<u8>>) -> TorchFault {
    match Checkpoint::from_bytes(bytes.into()).unwrap_err() {
        CheckpointError::Torch { fault } => fault,
        other => panic!("{other:?}"),
    }
}

fn pickle_fault(pickle: &[u8]) -> PickleFault {
    match fault(torch(pickle, &[])) {
        TorchFault::Pickle(fault) => fault,
        other => panic!("{other:?}"),
    }
}

fn names(checkpoint: &Checkpoint) -> Vec<&str> {
    checkpoint.tensors().map(|t| t.name()).collect()
}

/// Storage `0` of 24 values.
fn storages() -> Members {
    vec![("0".to_owned(), (0..24).flat_map(|i| (i as f32).to_le_bytes()).collect())]
}

/// A file of this tensor, which lies in storage `0`.
fn file_with(tensor: Saved) -> Vec<u8> {
    torch(&Ops::new().tensors(&[tensor], false).stop(), &storages())
}

fn one(shape: &[i64]) -> Saved {
    Saved { stored: 24, ..saved("a", "FloatStorage", "0", shape) }
}

/// `tools/checkpoints/write_pth.py` made the file and its values.
#[test]
fn what_pythons_own_pickler_writes_is_read() {
    let checkpoint = open(STATE);
    assert_eq!(checkpoint.format(), Format::PyTorch);
    has_values(&checkpoint, VALUES, &[(1, 3), (0, 12), (11, 1), (5, 0)]);
    let info = |name: &str| checkpoint.get(name).map(|t| (t.dtype(), t.shape().to_vec())).unwrap();
    assert_eq!(info("a.weight"), (StoredDtype::F32, vec![2, 3, 2, 2]));
    assert_eq!(info("c.half"), (StoredDtype::F16, vec![12]));
    assert_eq!(info("d.brain"), (StoredDtype::Bf16, vec![1, 6]));
    assert_eq!(info("e.scalar"), (StoredDtype::F16, vec![]));
    assert_eq!(info("g.count"), (StoredDtype::I64, vec![]));
    assert_eq!(checkpoint.get("f.tied").unwrap().bytes(), checkpoint.get("a.weight").unwrap().bytes());
    assert_eq!(names(&checkpoint).len(), 7);
    checkpoint.verify().unwrap();

    let (_folder, path) = on_disk("renamed.safetensors", STATE);
    let disk = Checkpoint::open(&path).unwrap();
    disk.verify().unwrap();
    for (a, b) in disk.tensors().zip(checkpoint.tensors()).filter(|(a, _)| a.dtype().is_readable()) {
        assert_eq!(a, b);
        assert_eq!(bits(&disk.values(a).unwrap()), bits(&checkpoint.values(b).unwrap()));
    }
}

#[test]
fn the_published_file_has_the_tensors_of_the_safetensors_file() {
    let Some(path) = std::env::var_os("REMASTER_ANIME_PTH") else { return };
    let theirs = Checkpoint::open(path.as_ref()).unwrap();
    theirs.verify().unwrap();
    let ours = Checkpoint::open(crate::upscaler::ANIME.as_ref()).unwrap();
    assert_eq!((identify(&theirs), theirs.tensors().len()), (identify(&ours), 53));
    for tensor in ours.tensors() {
        let other = theirs.get(tensor.name()).unwrap();
        assert_eq!(other.shape(), tensor.shape());
        assert_eq!(bits(&theirs.values(other).unwrap()), bits(&ours.values(tensor).unwrap()));
    }
}

#[test]
fn smoothed_weights_come_first_and_what_is_beside_is_left_out() {
    let dict = |ops: Ops, name: &str| {
        let tensor = saved(name, "FloatStorage", "0", &[24]);
        ops.text(name).tensors(&[tensor], false)
    };
    for (inside, expected) in [
        (&["params", "params_ema", "state_dict"][..], "params_ema"),
        (&["params_ema", "params"], "params_ema"),
        (&["state_dict", "params"], "params"),
        (&["other", "state_dict"], "state_dict"),
    ] {
        let ops = Ops::new().op(b"}").put().op(b"(").text("iter").int(1 << 40).text("lr").op(b"N");
        let ops = inside.iter().fold(ops, |ops, name| dict(ops, name));
        let checkpoint = open(torch(&ops.op(b"u.").bytes, &storages()));
        assert_eq!(names(&checkpoint), [expected]);
    }
    let top = open(file_with(one(&[4, 6])));
    assert_eq!(names(&top), ["a"]);
    assert_eq!(open(torch(b"\x80\x02}.", &[])).tensors().len(), 0);
}

#[test]
fn what_holds_no_dictionary_of_tensors_says_what_it_holds() {
    let found = |pickle: Vec<u8>| match fault(torch(&pickle, &storages())) {
        TorchFault::Pickle(PickleFault::NoTensors { found }) => found,
        other => panic!("{other:?}"),
    };
    assert_eq!(found(Ops::new().tensor(&one(&[24])).stop()), "one tensor without a name");
    assert_eq!(found(Ops::new().text("x").stop()), "no dictionary");
    assert_eq!(found(Ops::new().op(b"}").text("model").op(b"}s.").bytes), "`model`, which is no tensor");
    // A dictionary that holds itself ends like any other.
    let round = Ops::new().op(b"}").put().text("params").op(b"h\x00s.");
    assert_eq!(found(round.bytes), "`params`, which is no tensor");
    let keyed = Ops::new().op(b"}").int(1).tensor(&one(&[24])).op(b"s.");
    assert!(found(keyed.bytes).contains("without a name"));
}

#[test]
fn every_number_format_is_listed_and_those_that_are_no_weights_are_not_read() {
    for (storage, dtype, bytes) in [
        ("FloatStorage", StoredDtype::F32, 4),
        ("HalfStorage", StoredDtype::F16, 2),
        ("BFloat16Storage", StoredDtype::Bf16, 2),
        ("DoubleStorage", StoredDtype::F64, 8),
        ("LongStorage", StoredDtype::I64, 8),
        ("IntStorage", StoredDtype::I32, 4),
        ("ShortStorage", StoredDtype::I16, 2),
        ("CharStorage", StoredDtype::I8, 1),
        ("ByteStorage", StoredDtype::U8, 1),
        ("BoolStorage", StoredDtype::Bool, 1),
        ("ComplexFloatStorage", StoredDtype::C64, 8),
    ] {
        let tensor = saved("a", storage, "0", &[96 / bytes]);
        let checkpoint = open(file_with(tensor));
        let a = checkpoint.get("a").unwrap();
        assert_eq!((a.dtype(), a.elements() as i64), (dtype, 96 / bytes));
        let read = checkpoint.values(a);
        match dtype.is_readable() {
            true => assert_eq!(read.unwrap().len() as i64, 96 / bytes),
            false => assert_eq!(read, Err(ReadError::Dtype { name: "a".to_owned(), dtype })),
        }
    }
}

#[test]
fn tensors_are_where_their_storage_and_offset_say() {
    let parts = [
        Saved { offset: 3, ..one(&[2, 3]) },
        Saved { name: "b".to_owned(), offset: 20, strides: vec![77, 1], ..one(&[1, 4]) },
        Saved { name: "c".to_owned(), offset: 24, strides: vec![5, 9], ..one(&[0, 7]) },
        Saved { name: "d".to_owned(), offset: 23, ..one(&[]) },
    ];
    let checkpoint = open(torch(&Ops::new().tensors(&parts, true).stop(), &storages()));
    let values = |name: &str| checkpoint.values(checkpoint.get(name).unwrap()).unwrap();
    assert_eq!(values("a"), [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    assert_eq!(values("b"), [20.0, 21.0, 22.0, 23.0]);
    assert!(values("c").is_empty());
    assert_eq!(values("d"), [23.0]);
}

#[test]
fn other_orders_of_values_are_refused_with_what_to_do() {
    for (shape, strides) in [
        (&[2, 3][..], &[1, 2][..]),
        (&[2, 3], &[4, 1]),
        (&[2, 3], &[0, 1]),
        (&[2, 3], &[3]),
        (&[2, 3], &[6, 3, 1]),
        (&[3], &[2]),
        (&[2, 3, 2, 2], &[12, 1, 6, 3]),
    ] {
        let found = fault(file_with(Saved { strides: strides.to_vec(), ..one(shape) }));
        assert!(matches!(found, TorchFault::Strides { .. }) && found.is_foreign(), "{found:?}");
        says(
            &found.to_string(),
            &["tensor `a`", &format!("{shape:?}"), &format!("{strides:?}"), "contiguous()"],
        );
    }
}

#[test]
fn tensors_outside_of_their_storage_are_refused() {
    for tensor in [one(&[25]), Saved { offset: 1, ..one(&[24]) }, Saved { offset: 25, ..one(&[0]) }] {
        assert!(matches!(fault(file_with(tensor)), TorchFault::Range { values: 24, .. }));
    }
    for stored in [23, 25, 0, i64::from(u32::MAX)] {
        let found = fault(file_with(Saved { stored, ..one(&[1]) }));
        assert!(matches!(found, TorchFault::StorageSize { bytes: 96, .. }), "{found:?}");
    }
    let absent = fault(file_with(Saved { key: "1".to_owned(), ..one(&[24]) }));
    says(&absent.to_string(), &["tensor `a`", "`archive/data/1`", "not there"]);
    let shape = vec![1 << 31; 3];
    let huge = Checkpoint::from_bytes(file_with(Saved { shape, ..one(&[1, 1, 1]) }));
    let Err(CheckpointError::Tensor { fault, .. }) = huge else { panic!() };
    assert!(matches!(fault, TensorFault::Overflow { .. }));
    // Neither a size nor an offset is less than nothing, or beyond what a file can have.
    for tensor in [one(&[-1]), Saved { offset: -4, ..one(&[1]) }, one(&[1 << 32])] {
        let pickle = Ops::new().tensors(&[tensor], false).stop();
        assert!(matches!(pickle_fault(&pickle), PickleFault::Form { what: "a tensor", .. }));
    }
    let twice = Ops::new().tensors(&[one(&[24]), one(&[24])], false).stop();
    let Err(CheckpointError::Tensor { fault, .. }) = Checkpoint::from_bytes(torch(&twice, &storages()))
    else {
        panic!()
    };
    assert_eq!(fault, TensorFault::Duplicate);
}

#[test]
fn a_pickle_that_names_anything_else_is_refused_and_nothing_runs() {
    let (_folder, made) = place("made");
    let command = format!("touch '{}'", made.display());
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("__builtin__", "exec"),
        ("subprocess", "Popen"),
        ("torch", "load"),
        ("torch.storage", "UntypedStorage"),
        ("torch._utils", "_rebuild_tensor"),
        ("collections", "OrderedDict "),
        ("collections ", "OrderedDict"),
        ("torch", "floatStorage"),
        ("", ""),
    ] {
        let ops = Ops::new().global(module, name).op(b"(").text(&command).op(b"tR");
        for pickle in [ops.clone().stop(), ops.op(b"}ub").stop()] {
            let found = pickle_fault(&pickle);
            assert_eq!(found, PickleFault::Global { name: format!("{module}.{name}") });
            says(&found.to_string(), &[&format!("`{module}.{name}`"), "nothing was run"]);
        }
    }
    assert!(!made.exists());
    // Storages are not called, and neither is what a pickle made itself.
    for pickle in [
        Ops::new().global("torch", "FloatStorage").op(b")R.").bytes,
        Ops::new().text("os.system").op(b")R.").bytes,
        Ops::new().global("collections", "OrderedDict").text(&command).op(b"\x85R.").bytes,
        Ops::new().global("torch._utils", "_rebuild_tensor_v2").op(b")R.").bytes,
        Ops::new().global("torch._utils", "_rebuild_parameter").op(b"N\x89}\x87R.").bytes,
        Ops::new().text("posix").op(b"\x85Q.").bytes,
        Ops::new().op(b"}N").op(b"b.").bytes,
        Ops::new().op(b"N}").op(b"b.").bytes,
    ] {
        assert!(matches!(pickle_fault(&pickle), PickleFault::Form { .. }));
    }
}

#[test]
fn every_other_operation_is_refused_by_name() {
    let known = b"\x80(.NKMJXcqrhj)t}suQRb\x85\x86\x87\x88\x89\x8a\x8c\x94";
    for code in (0..=255u8).filter(|code| !known.contains(code)) {
        let found = pickle_fault(&[0x80, 2, b'N', code, 0, 0, 0, 0, b'.']);
        let PickleFault::Operation { name, at: 3 } = &found else { panic!("{found:?}") };
        assert!(found.to_string().contains("nothing was run"));
        let named = !name.contains("unknown");
        let is_operation = b"012BCFGILPSTUV]adegilop".contains(&code) || (0x81..=0x98).contains(&code);
        assert_eq!(named, is_operation, "{code:#x} {name}");
    }
    for (code, name) in
        [(0x93, "STACK_GLOBAL"), (b'o', "OBJ"), (b'i', "INST"), (0x81, "NEWOBJ"), (b'e', "APPENDS")]
    {
        says(&pickle_fault(&[0x80, 2, code]).to_string(), &[&format!("the operation {name} at byte 2")]);
    }
    assert_eq!(pickle_fault(b"\x80\x06}."), PickleFault::Protocol { version: 6 });
    assert_eq!(pickle_fault(b"\x80\x02}.."), PickleFault::Trailing { extra: 1 });
    assert_eq!(pickle_fault(b"\x80\x02}h\x00."), PickleFault::Memo { index: 0 });
    assert_eq!(pickle_fault(b"\x80\x02X\x01\0\0\0\xff."), PickleFault::Text { at: 2 });
    for end in 0..12 {
        let whole = b"\x80\x02}X\x03\0\0\0abcN";
        assert_eq!(pickle_fault(&whole[..end]), PickleFault::Cut, "{end}");
    }
}

#[test]
fn limits_of_a_pickle_are_named() {
    let many = |first: &[u8], part: &[u8], times: usize| match pickle_fault(
        &[b"\x80\x02", first, &part.repeat(times)].concat(),
    ) {
        PickleFault::TooMany { what, max } => (what, max),
        other => panic!("{other:?}"),
    };
    assert_eq!(many(b"", b"N", 5000), ("values that wait", 4096));
    assert_eq!(many(b"", b"(", 5000), ("values that wait", 4096));
    assert_eq!(many(b"N", b"\x94", 300_000), ("stored values", 1 << 18));
    assert_eq!(many(b"(NNNNNNNNN", b"t", 1), ("values in a tuple", 8));
    assert_eq!(many(b"N", b"NN\x87", 200_000), ("values in tuples", 1 << 19));
    assert_eq!(many(b"}", b"NNs", 70_000), ("entries of dictionaries", 1 << 16));
    assert_eq!(many(b"X\x01\x04\0\0", b"x", 2000), ("bytes in a text", 1024));
    assert_eq!(many(b"X\xff\xff\xff\xff", b"x", 2000), ("bytes in a text", 1024));
}

#[test]
fn what_is_wrong_with_a_zip_is_named() {
    let tensors = [put("a", "F32", &[2], vec![1; 8]), put("b", "F16", &[2], vec![2; 4])];
    let (pickle, storages) = pth_parts(&tensors, "params");
    let all = members(&pickle, &storages);
    let good = zip(&all, 0);
    assert_eq!(names(&open(good.clone())), ["a", "b"]);
    let zip_fault = |bytes: Vec<u8>| match fault(bytes) {
        TorchFault::Zip(fault) => fault,
        other => panic!("{other:?}"),
    };
    let packed = zip_fault(zip(&all, 8));
    assert_eq!(packed, ZipFault::Packed { name: "archive/data.pkl".to_owned() });
    for end in 100..good.len() {
        assert_eq!(zip_fault(good[..end].to_vec()), ZipFault::Cut, "{end}");
    }
    let change = |change: &dyn Fn(&mut Members)| {
        let mut all = all.clone();
        change(&mut all);
        zip(&all, 0)
    };
    let twice = zip_fault(change(&|m| m[2].0 = "archive/version".to_owned()));
    assert_eq!(twice, ZipFault::Twice { name: "archive/version".to_owned() });
    let many = zip_fault(change(&|m| m.extend((0..20_000).map(|i| (format!("archive/{i}"), vec![])))));
    assert_eq!(many, ZipFault::Members { count: 20_005, max: 1 << 14 });
    let long = zip_fault(change(&|m| m[2].0 = "x".repeat(1025)));
    assert_eq!(long, ZipFault::Name { bytes: 1025, max: 1024 });
    assert_eq!(fault(change(&|m| m[1].1 = b"big".to_vec())), TorchFault::ByteOrder);
    assert_eq!(fault(change(&|m| m[3].0 = "archive/more/data.pkl".to_owned())), TorchFault::Pickles);
    let none = Checkpoint::from_bytes(change(&|m| m[0].0 = "archive/readme".to_owned()));
    assert!(matches!(none, Err(CheckpointError::Zip)));
    // Older files do not say their byte order; other programs move the pickle.
    assert_eq!(names(&open(change(&|m| drop(m.remove(1))))), ["a", "b"]);
    assert_eq!(names(&open(change(&|m| m.rotate_left(1)))), ["a", "b"]);
    let long = fault(change(&|m| m[0].1.resize((4 << 20) + 1, 0)));
    assert_eq!(long, TorchFault::LongPickle { bytes: (4 << 20) + 1, max: 4 << 20 });

    // The sum of the pickle is compared at once, those of values when they are all read.
    let at = |word: &[u8]| good.windows(word.len()).position(|w| w == word).unwrap();
    let mut wrong = good.clone();
    wrong[at(b"FloatStorage") + 3] ^= 1;
    assert_eq!(zip_fault(wrong), ZipFault::Checksum { name: "archive/data.pkl".to_owned() });
    let mut wrong = good.clone();
    wrong[at(&[1; 8])] ^= 1;
    let Err(CheckpointError::Torch { fault }) = open(wrong).verify() else { panic!() };
    assert_eq!(fault, TorchFault::Zip(ZipFault::Checksum { name: "archive/data/0".to_owned() }));
}

#[test]
fn members_that_share_bytes_are_refused() {
    // Ten thousand members that share one range of bytes: reading all of them would be gigabytes.
    let data = vec![7u8; 1000];
    let one = zip(&[("archive/data.pkl", data.clone())], 0);
    let body = &one[..30 + 16 + 3 + data.len()];
    let directory = entry("archive/data.pkl", &data, 0, 0).repeat(10_000);
    let bomb = ended(body.to_vec(), &directory, 10_000);
    let expected = TorchFault::Zip(ZipFault::Overlap { name: "archive/data.pkl".to_owned() });
    assert_eq!(fault(bomb), expected);
}

#[cfg(unix)]
#[test]
fn values_are_not_read_when_a_file_is_opened_and_files_have_a_limit() {
    use crate::support::pth::end;
    use remaster_testkit::hostile::measured;
    use std::os::unix::fs::FileExt;

    let (_folder, path) = place("large.pth");
    let values = 200i64 << 20;
    let pickle = Ops::new().tensors(&[saved("a", "FloatStorage", "0", &[values])], false).stop();
    let head = zip(&[("archive/data.pkl", pickle.clone())], 0);
    let head = &head[..30 + 16 + 3 + pickle.len()];
    let local = zip(&[("archive/data/0", vec![])], 0);
    let local = &local[..30 + 14 + 3];
    // The directory of a member that is as long as this; its bytes take no place on disk.
    let mut of_values = entry("archive/data/0", &[], head.len() as u32, 0);
    let bytes = (values as u32 * 4).to_le_bytes();
    of_values[20..24].copy_from_slice(&bytes);
    of_values[24..28].copy_from_slice(&bytes);
    let directory = [entry("archive/data.pkl", &pickle, 0, 0), of_values].concat();
    let start = (head.len() + local.len()) as u64 + values as u64 * 4;
    let file = crate::support::sparse(&path, &[head, local].concat(), values as u64 * 4);
    file.write_all_at(&directory, start).unwrap();
    let end = end(directory.len() as u32, start as u32, 2);
    file.write_all_at(&end, start + directory.len() as u64).unwrap();

    let (opened, held) = measured(|| Checkpoint::open(&path).unwrap());
    assert!(held < 10_000, "{held}");
    let a = opened.get("a").unwrap();
    let mut last = [1.0; 3];
    opened.read_f32(a, values as usize - 3, &mut last).unwrap();
    assert_eq!(last, [0.0; 3]);
    let (verified, held) = measured(|| opened.verify());
    assert!(held < 300 << 10, "{held}");
    assert!(matches!(verified, Err(CheckpointError::Torch { .. })));

    file.set_len((1 << 30) + 1).unwrap();
    let Err(CheckpointError::Torch { fault }) = Checkpoint::open(&path) else { panic!() };
    assert_eq!(fault, TorchFault::TooLarge { bytes: (1 << 30) + 1, max: 1 << 30 });
}

#[test]
fn a_dictionary_of_many_tensors_is_read_in_the_parts_that_python_writes() {
    let tensors: Vec<_> = (0..2500).map(|i| put(&format!("t{i}"), "F16", &[1], [0, 0x3c])).collect();
    for inside in ["", "params"] {
        let checkpoint = open(pth_of(&tensors, inside));
        assert_eq!(checkpoint.tensors().len(), 2500);
        assert_eq!(checkpoint.values(checkpoint.get("t2499").unwrap()).unwrap(), [1.0]);
    }
}
