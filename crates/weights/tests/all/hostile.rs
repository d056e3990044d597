//! Files made to do harm: whatever the bytes are, opening one ends with a checkpoint or a typed error,
//! without a panic and without more memory than a small multiple of the header that is really there.
//!
//! `REMASTER_HOSTILE_CASES` sets the number of random files (default 100,000: about a second).

use std::collections::BTreeMap;

use crate::support::{file, file_of, place, put};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use remaster_model::Param;
use remaster_testkit::hostile::{largest, measured};
use remaster_weights::{
    Checkpoint, CheckpointError, MAX_HEADER, MAX_RANK, ReadError, StoredDtype, TensorFault, check, identify,
};

/// Opening a file may hold this much at once, plus `PER_HEADER_BYTE` for every byte of header.
const CONSTANT: usize = 4096;
const PER_HEADER_BYTE: usize = 8;

/// One allocation may be this much for every byte of header, and `CONSTANT`.
const LARGEST_PER_HEADER_BYTE: usize = 4;

/// Longest error text: people read it.
const LONGEST_TEXT: usize = 600;

/// Opens `bytes` and holds the memory it took against the header that is really there.
fn open(bytes: Vec<u8>) -> Result<Checkpoint, CheckpointError> {
    let length = bytes.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
    let header = usize::try_from(length).ok().filter(|&n| n <= MAX_HEADER.min(bytes.len())).unwrap_or(0);
    let (opened, peak) = measured(|| Checkpoint::from_bytes(bytes));
    let (largest, allowed) = (largest(), |each: usize| CONSTANT + each * header);
    assert!(peak <= allowed(PER_HEADER_BYTE), "{peak} bytes held for a header of {header}");
    assert!(largest <= allowed(LARGEST_PER_HEADER_BYTE), "{largest} bytes at once for a header of {header}");
    opened
}

/// Uses everything an accepted file offers.
fn exercise(checkpoint: &Checkpoint) {
    let mut values = Vec::new();
    for tensor in checkpoint.tensors() {
        assert_eq!(checkpoint.get(tensor.name()), Some(tensor));
        let bytes = tensor.bytes();
        assert!(bytes.end as u64 <= checkpoint.len_bytes());
        let block = tensor.dtype().block();
        assert_eq!(bytes.len() * block.values, tensor.elements() * block.bytes);
        let elements = tensor.elements();
        if !tensor.dtype().is_readable() {
            let refused = checkpoint.read_f32(tensor, 0, &mut []);
            assert!(matches!(refused, Err(ReadError::Dtype { .. })));
            continue;
        }
        values.resize(elements, 0.0);
        let (read, peak) = measured(|| checkpoint.read_f32(tensor, 0, &mut values));
        assert_eq!((read, peak), (Ok(()), 0));
        let half = elements / 2;
        assert_eq!(checkpoint.read_f32(tensor, half, &mut values[half..]), Ok(()));
        for start in [1, elements + 1, usize::MAX] {
            let past = checkpoint.read_f32(tensor, start, &mut vec![0.0; elements]);
            assert!(matches!(past, Err(ReadError::Range { .. })));
        }
    }
    let text = identify(checkpoint).kind.to_string();
    assert!(text.len() <= LONGEST_TEXT, "{text}");
    let expected = [
        Param { name: "encoder.conv_in.weight".to_owned(), shape: vec![2, 3, 1, 1, 1] },
        Param { name: "b".to_owned(), shape: vec![3] },
    ];
    let text = check(checkpoint, &expected).to_string();
    assert!(text.len() <= 4 * LONGEST_TEXT, "{text}");
}

/// What we accept, the format's own reader accepts too, and it sees the same tensors.
fn agrees_with_the_formats_own_reader(bytes: &[u8], checkpoint: &Checkpoint) {
    let theirs = safetensors::SafeTensors::deserialize(bytes).unwrap();
    assert_eq!(theirs.len(), checkpoint.tensors().len());
    for tensor in checkpoint.tensors() {
        let other = theirs.tensor(tensor.name()).unwrap();
        assert_eq!(other.shape(), tensor.shape());
        assert_eq!(other.dtype().to_string(), tensor.dtype().to_string());
        assert_eq!(other.data(), &bytes[tensor.bytes()]);
    }
}

/// Small good files to start from.
fn bases() -> Vec<Vec<u8>> {
    let put = |name: &str, dtype, shape: &[usize], bytes: usize| {
        put(name, dtype, shape, (0..bytes).map(|i| (i * 37) as u8).collect::<Vec<_>>())
    };
    let vae = [
        put("encoder.conv_in.weight", "F16", &[2, 3, 1, 1, 1], 12),
        put("encoder.down_blocks.0.resnets.0.conv1.weight", "F16", &[2, 1], 4),
        put("encoder.down_blocks.1.resnets.0.conv1.weight", "F16", &[2, 1], 4),
        put("encoder.down_blocks.2.resnets.0.conv1.weight", "F16", &[4, 1], 8),
        put("encoder.down_blocks.3.resnets.0.conv1.weight", "F16", &[4, 1], 8),
        put("decoder.conv_in.weight", "F16", &[1, 16], 32),
    ];
    let packed = [
        put("f4", "F4", &[2, 3], 3),
        put("f6", "F6_E2M3", &[4], 3),
        put("f8", "F8_E4M3", &[5], 5),
        put("i64", "I64", &[2], 16),
        put("f64", "F64", &[1], 8),
    ];
    let mixed = [
        put("a", "F32", &[2, 3], 24),
        put("b", "F16", &[3], 6),
        put("c.weight", "BF16", &[5], 10),
        put("d", "U8", &[1], 1),
        put("e", "F32", &[1, 1, 1, 1, 1, 1, 1, 2], 8),
    ];
    let hollow = [put("none", "F32", &[0, 7], 0), put("one", "F32", &[], 4), put("no", "F16", &[0], 0)];
    vec![
        file("{}", &[]),
        file_of(&mixed[..1], ""),
        file_of(&mixed, r#"{"format":"pt","norm_num_groups":"2"}"#),
        file_of(&packed, ""),
        file_of(&hollow, "{}"),
        file_of(&vae, r#"{"norm_num_groups":"2"}"#),
        file(r#"{"\u0061\"\\é":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   "#, &[0, 0, 128, 63]),
    ]
}

const TOKENS: [&str; 22] = [
    "{", "}", "[", "]", "\"", ",", ":", "\\", "\\u0000", "\\ud800", "null", "true", "0.5", "1e999", "-1",
    "-0", "\u{feff}", "\0", "F64", "F4", "BF16", "Q4_K",
];

const ENTRIES: [&str; 4] = [
    "__metadata__",
    r#""z":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"#,
    r#""a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"#,
    r#""__metadata__":{"a":"b","a":"c"},"#,
];

const NUMBERS: &str = "0 1 2 3 8 24 -1 255 65536 4294967295 4294967296 2305843009213693952 \
     9223372036854775807 18446744073709551615 18446744073709551616 1e400";

const MOST: u64 = MAX_HEADER as u64;
const LENGTHS: [u64; 12] =
    [0, 1, 2, 7, 8, 640, 65536, MOST, MOST + 1, u32::MAX as u64, i64::MAX as u64, u64::MAX];

/// One thing done to a header.
#[derive(Clone, Debug)]
enum Mutation {
    SetByte(Index, u8),
    Insert(Index, &'static str),
    Nest(Index, &'static str, usize),
    Number(Index, String),
    SwapDigits(Index, Index),
    Delete(Index, usize),
    Repeat(Index, Index, usize),
    /// Moves a tensor's data.
    Shift(Index, i64),
    /// Gives a tensor another one's name.
    Rename(Index, Index),
    /// Adds axes of length one.
    Ones(Index, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    use Mutation::*;
    let number = prop_oneof![
        2 => select(NUMBERS.split(' ').collect::<Vec<_>>()).prop_map(str::to_owned),
        1 => any::<u64>().prop_map(|n| n.to_string()),
        2 => (0u64..64).prop_map(|n| n.to_string()),
    ];
    prop_oneof![
        2 => (any::<Index>(), any::<u8>()).prop_map(|(at, b)| SetByte(at, b)),
        2 => (any::<Index>(), select([&TOKENS[..], &ENTRIES].concat())).prop_map(|(at, t)| Insert(at, t)),
        1 => (any::<Index>(), select(&["[", "{\"a\":", "[{\"a\":["][..]), 1usize..400)
            .prop_map(|(at, t, n)| Nest(at, t, n)),
        6 => (any::<Index>(), number).prop_map(|(at, n)| Number(at, n)),
        3 => (any::<Index>(), any::<Index>()).prop_map(|(a, b)| SwapDigits(a, b)),
        1 => (any::<Index>(), 1usize..40).prop_map(|(at, n)| Delete(at, n)),
        1 => (any::<Index>(), any::<Index>(), 1usize..120).prop_map(|(from, to, n)| Repeat(from, to, n)),
        1 => (any::<Index>(), -9i64..9).prop_map(|(at, by)| Shift(at, by)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Rename(from, to)),
        1 => (any::<Index>(), 1usize..12).prop_map(|(at, n)| Ones(at, n)),
    ]
}

impl Mutation {
    fn apply(&self, header: &mut Vec<u8>) {
        let digits = |header: &[u8]| -> Vec<usize> {
            (0..header.len()).filter(|&i| header[i].is_ascii_digit()).collect()
        };
        let spot = |at: &Index, len: usize| at.index(len + 1);
        match self {
            Mutation::SetByte(at, byte) if !header.is_empty() => {
                let at = at.index(header.len());
                header[at] = *byte;
            }
            Mutation::SetByte(..) => {}
            Mutation::Insert(at, token) => insert(header, spot(at, header.len()), token.as_bytes()),
            Mutation::Nest(at, token, times) => {
                insert(header, spot(at, header.len()), token.repeat(*times).as_bytes());
            }
            Mutation::Number(at, number) => {
                // The n-th run of digits.
                let starts: Vec<usize> = digits(header)
                    .into_iter()
                    .filter(|&i| i == 0 || !header[i - 1].is_ascii_digit())
                    .collect();
                if !starts.is_empty() {
                    let start = starts[at.index(starts.len())];
                    let run = header[start..].iter().take_while(|b| b.is_ascii_digit()).count();
                    header.splice(start..start + run, number.bytes());
                }
            }
            Mutation::SwapDigits(a, b) => {
                let all = digits(header);
                if !all.is_empty() {
                    header.swap(all[a.index(all.len())], all[b.index(all.len())]);
                }
            }
            Mutation::Delete(at, count) => {
                let at = spot(at, header.len());
                header.drain(at..(at + count).min(header.len()));
            }
            Mutation::Repeat(from, to, count) => {
                let from = spot(from, header.len());
                let piece = header[from..(from + count).min(header.len())].to_vec();
                insert(header, spot(to, header.len()), &piece);
            }
            Mutation::Shift(at, by) => {
                if let Some(start) = pick(header, "offsets\":[", at) {
                    let end = start + header[start..].iter().take_while(|&&b| b != b']').count();
                    let list = String::from_utf8_lossy(&header[start..end]).into_owned();
                    let moved =
                        |n: &str| n.trim().parse::<i64>().unwrap_or(0).wrapping_add(*by).max(0).to_string();
                    let list: Vec<String> = list.split(',').map(moved).collect();
                    header.splice(start..end, list.join(",").into_bytes());
                }
            }
            Mutation::Rename(from, to) => {
                let name = |header: &[u8], at| {
                    let end = pick(header, "\":{\"d", at)? - 5;
                    let start = header[..end].iter().rposition(|&b| b == b'"')? + 1;
                    Some(start..end)
                };
                if let (Some(from), Some(to)) = (name(header, from), name(header, to)) {
                    let word = header[from].to_vec();
                    header.splice(to, word);
                }
            }
            Mutation::Ones(at, count) => {
                if let Some(start) = pick(header, "shape\":[", at) {
                    insert(header, start, "1,".repeat(*count).as_bytes());
                }
            }
        }
    }
}

/// Where one of the places that follow `mark` starts.
fn pick(header: &[u8], mark: &str, at: &Index) -> Option<usize> {
    let found: Vec<usize> = (mark.len()..=header.len())
        .filter(|&end| &header[end - mark.len()..end] == mark.as_bytes())
        .collect();
    (!found.is_empty()).then(|| found[at.index(found.len())])
}

fn insert(header: &mut Vec<u8>, at: usize, piece: &[u8]) {
    header.splice(at..at, piece.iter().copied());
}

/// What the length field says.
#[derive(Clone, Debug)]
enum Length {
    /// The truth, so that the parser sees the header.
    True,
    /// What it was before the header was changed.
    Old,
    /// Anything.
    Other(u64),
}

#[derive(Clone, Debug)]
struct Case {
    base: Index,
    mutations: Vec<Mutation>,
    length: Length,
    cut: Option<Index>,
    extra: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let length = prop_oneof![
        8 => Just(Length::True),
        1 => Just(Length::Old),
        1 => select(&LENGTHS[..]).prop_map(Length::Other),
    ];
    let cut = prop_oneof![5 => Just(None), 1 => any::<Index>().prop_map(Some)];
    let extra = prop_oneof![8 => Just(0usize), 1 => 1usize..20];
    (any::<Index>(), vec(mutation(), 0..5), length, cut, extra)
        .prop_map(|(base, mutations, length, cut, extra)| Case { base, mutations, length, cut, extra })
}

impl Case {
    fn bytes(&self, bases: &[Vec<u8>]) -> Vec<u8> {
        let base = &bases[self.base.index(bases.len())];
        let old = u64::from_le_bytes(*base.first_chunk().unwrap());
        let (header, data) = base[8..].split_at(old as usize);
        let mut header = header.to_vec();
        self.mutations.iter().for_each(|m| m.apply(&mut header));
        let length = match self.length {
            Length::True => header.len() as u64,
            Length::Old => old,
            Length::Other(other) => other,
        };
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend(data);
        bytes.resize(bytes.len() + self.extra, b'x');
        if let Some(cut) = self.cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes
    }
}

/// The variant, for counting.
fn class(outcome: &Result<Checkpoint, CheckpointError>) -> String {
    let debug = match outcome {
        Ok(_) => "Ok".to_owned(),
        Err(CheckpointError::Tensor { fault, .. }) => format!("Tensor {fault:?}"),
        Err(error) => format!("{error:?}"),
    };
    debug.split(['(', '{']).next().unwrap_or_default().trim().to_owned()
}

#[test]
fn random_files_give_a_checkpoint_or_a_typed_error() {
    let cases = std::env::var("REMASTER_HOSTILE_CASES").map_or(100_000, |n| n.parse().unwrap());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    // The same files in every run: a failure here is never a matter of luck.
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let bases = bases();
    let seen = std::cell::RefCell::new(BTreeMap::<String, usize>::new());
    let result = runner.run(&case(), |case| {
        let bytes = case.bytes(&bases);
        let outcome = open(bytes.clone());
        *seen.borrow_mut().entry(class(&outcome)).or_default() += 1;
        match outcome {
            Ok(checkpoint) => {
                exercise(&checkpoint);
                agrees_with_the_formats_own_reader(&bytes, &checkpoint);
            }
            Err(error) => prop_assert!(error.to_string().len() <= LONGEST_TEXT, "{}", error),
        }
        Ok::<(), TestCaseError>(())
    });
    let seen = seen.into_inner();
    println!("{seen:#?}");
    result.unwrap();
    // The files must reach every check, or passing says little.
    if cases >= 20_000 {
        let whole = "Ok Empty Truncated Trailing HeaderTooLarge Header NotSafetensors".split(' ');
        let faults = "Duplicate UnknownDtype Rank Overflow PartBlock Size Overlap Hole".split(' ');
        for expected in whole.map(str::to_owned).chain(faults.map(|fault| format!("Tensor {fault}"))) {
            assert!(seen.contains_key(&expected), "no file gave {expected}");
        }
        assert!(seen["Ok"] > cases as usize / 50);
    }
}

#[test]
fn every_beginning_of_a_good_file_is_refused_and_the_whole_is_not() {
    for base in bases() {
        for end in 0..base.len() {
            let error = open(base[..end].to_vec()).unwrap_err();
            assert!(matches!(error, CheckpointError::Truncated { .. } | CheckpointError::Empty), "{error}");
        }
        let whole = open(base.clone()).unwrap();
        exercise(&whole);
        agrees_with_the_formats_own_reader(&base, &whole);
    }
}

#[test]
fn a_cut_file_on_disk_is_refused_like_one_in_memory() {
    let (_folder, path) = place("cut.safetensors");
    let base = &bases()[2];
    for end in 0..=base.len() {
        std::fs::write(&path, &base[..end]).unwrap();
        assert_eq!(Checkpoint::open(&path).is_ok(), end == base.len());
    }
}

#[test]
fn lengths_at_the_limits_are_refused_before_any_memory_is_asked_for() {
    for length in LENGTHS.into_iter().chain([u64::MAX - 7, u64::MAX - 8, 1 << 63]) {
        for body in [&b""[..], b"{", b"{}", b"{}       ", b"x"] {
            let mut bytes = length.to_le_bytes().to_vec();
            bytes.extend(body);
            let good = matches!((length, body), (2, b"{}"));
            assert_eq!(open(bytes).is_ok(), good, "{length} {body:?}");
        }
    }
}

fn fault(json: &str) -> TensorFault {
    match open(file(json, &[0; 64])) {
        Err(CheckpointError::Tensor { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn large_headers_take_memory_in_proportion() {
    let huge = 1 << 20;
    let text = "x".repeat(huge);
    let entry =
        |i: usize| format!(r#""{i}":{{"dtype":"F4","shape":[0,0,0,0,0,0,0,0],"data_offsets":[0,0]}}"#);
    let list = |n: usize| (0..n).map(entry).collect::<Vec<_>>().join(",");
    let many = open(file(&format!("{{{}}}", list(20_000)), &[])).unwrap();
    assert_eq!(many.tensors().len(), 20_000);
    assert!(check(&many, &[Param { name: "20001".to_owned(), shape: vec![] }]).missing.len() == 1);
    // Just past a power of two, where the list has just doubled.
    assert_eq!(open(file(&format!("{{{}}}", list(16_385)), &[])).unwrap().tensors().len(), 16_385);

    let axes = format!(r#"{{"a":{{"dtype":"F32","shape":[{}0],"data_offsets":[0,0]}}}}"#, "0,".repeat(huge));
    assert_eq!(fault(&axes), TensorFault::Rank { rank: huge + 1, max: MAX_RANK });
    let dtype = format!(r#"{{"a":{{"dtype":"{text}","shape":[],"data_offsets":[0,0]}}}}"#);
    assert!(matches!(fault(&dtype), TensorFault::UnknownDtype(word) if word.len() < 200));
    let name = format!(r#"{{"{text}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#);
    assert_eq!(open(file(&name, &[0; 4])).unwrap().tensors().next().unwrap().name().len(), huge);

    let metadata: Vec<String> = (0..50_000).map(|i| format!(r#""{i}":"""#)).collect();
    for json in [
        format!(r#"{{"a":{}"#, "[".repeat(huge)),
        format!(r#"{{"a":{}"#, "{\"a\":".repeat(huge)),
        format!(r#"{{"a":{{"dtype":"F32","shape":{}"#, "[".repeat(huge)),
        format!(r#"{{"a":{{"dtype":"F32","shape":"{text}"}}}}"#),
        format!(r#"{{"a":"{text}"}}"#),
        format!(r#"{{"__metadata__":{{"a":["{text}"]}}}}"#),
        format!(r#"{{"__metadata__":{{"a":"{text}","a":"{text}"}}}}"#),
        format!(r#"{{"__metadata__":{{{}}}}}"#, metadata.join(",")),
        format!(r#"{{"a":{{"dtype":"F32","shape":[1{}],"data_offsets":[0,4]}}}}"#, "0".repeat(huge)),
        format!("{{{}", " ".repeat(huge)),
        format!("{{}}{}", "\0".repeat(huge)),
        format!(r#"{{"{}"#, r"\u0041".repeat(huge / 6)),
    ] {
        let error = open(file(&json, &[0; 4])).unwrap_err();
        assert!(matches!(error, CheckpointError::Header { .. }), "{error}");
        assert!(error.to_string().len() < LONGEST_TEXT);
    }
    // A field nobody knows is skipped, however large, and its nesting does not reach the stack.
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let skipped =
        format!(r#"{{"a":{{"x":{deep},"y":"{text}","dtype":"U8","shape":[4],"data_offsets":[0,4]}}}}"#);
    assert!(open(file(&skipped, &[0; 4])).is_ok());
}

#[test]
fn impossible_tensors_are_named_with_what_is_wrong() {
    let one = |dtype: &str, shape: &str, offsets: &str| {
        fault(&format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#))
    };
    let max = u64::MAX;
    assert_eq!(one("Q4", "[1]", "[0,4]"), TensorFault::UnknownDtype("Q4".to_owned()));
    let dtype = StoredDtype::F4;
    assert_eq!(one("F4", "[3]", "[0,2]"), TensorFault::PartBlock { elements: 3, dtype });
    let shape = vec![1 << 32, 1 << 32];
    assert_eq!(one("F32", "[4294967296,4294967296]", "[0,0]"), TensorFault::Overflow { shape });
    assert_eq!(one("F32", &format!("[{max}]"), "[0,4]"), TensorFault::Overflow { shape: vec![max] });
    assert_eq!(one("F32", "[2]", "[0,4]"), TensorFault::Size { start: 0, end: 4, needed: 8 });
    assert_eq!(one("F32", "[1]", "[4,0]"), TensorFault::Size { start: 4, end: 0, needed: 4 });
    let size = TensorFault::Size { start: max - 3, end: max, needed: 4 };
    assert_eq!(one("F32", "[1]", &format!("[{},{max}]", max - 3)), size);
    assert_eq!(one("F32", "[1]", "[4,8]"), TensorFault::Hole { start: 4, previous: 0 });

    let two = |a: &str, b: &str, second: &str| {
        fault(&format!(
            r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":{a}}},"{second}":{{"dtype":"U8","shape":[4],"data_offsets":{b}}}}}"#
        ))
    };
    assert_eq!(two("[0,4]", "[2,6]", "b"), TensorFault::Overlap { start: 2, previous: 4 });
    assert_eq!(two("[0,4]", "[0,4]", "b"), TensorFault::Overlap { start: 0, previous: 4 });
    assert_eq!(two("[0,4]", "[6,10]", "b"), TensorFault::Hole { start: 6, previous: 4 });
    assert_eq!(two("[0,4]", "[4,8]", "a"), TensorFault::Duplicate);
    assert_eq!(two("[0,4]", "[4,8]", r"\u0061"), TensorFault::Duplicate);
}

#[test]
fn sizes_that_add_up_past_64_bits_are_refused() {
    let huge = (1u64 << 61) - 1;
    let entries: Vec<String> = (0..8u64)
        .map(|i| {
            let (start, end) = (i * huge, (i + 1) * huge);
            format!(r#""{i}":{{"dtype":"U8","shape":[{huge}],"data_offsets":[{start},{end}]}}"#)
        })
        .collect();
    let error = open(file(&format!("{{{}}}", entries.join(",")), &[])).unwrap_err();
    assert!(matches!(error, CheckpointError::Truncated { needed: u64::MAX, .. }), "{error}");
}
