//! The header of a safetensors file: parsed and checked in full before anything is believed.
//!
//! Parsed here and not by the `safetensors` crate (0.8.0): that one takes the last of two entries with
//! the same name without a word, buffers every value before typing it (an axis list of 2 bytes a number
//! becomes 32 bytes a number) and adds up sizes unchecked (a panic in builds with overflow checks). It
//! is the other side of the tests.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::error::{CheckpointError, TensorFault, clip};
use crate::layers::Layer;
use crate::stored::StoredDtype;

/// Longest header accepted. That of the 3B transformer with its 635 tensors has 66 kB; the format allows
/// 100 MB, which a hostile file could turn into several times as much memory.
pub const MAX_HEADER: usize = 16 << 20;

/// Most axes of a tensor. The networks use five.
pub const MAX_RANK: usize = 8;

/// Most entries of the metadata. Honest files have a handful.
pub const MAX_METADATA: usize = 1024;

/// A tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    pub(crate) name: String,
    pub(crate) dtype: StoredDtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) elements: usize,
    pub(crate) bytes: Range<usize>,
    /// How the weight of a quantised layer is widened.
    pub(crate) layer: Option<Arc<Layer>>,
    /// It only says how another tensor is widened.
    pub(crate) companion: bool,
}

impl TensorInfo {
    /// A tensor whose data starts at `start`, if its numbers can be true.
    pub(crate) fn sized(
        name: String,
        dtype: StoredDtype,
        axes: &[u64],
        start: u64,
    ) -> Result<Self, CheckpointError> {
        let overflow = || TensorFault::Overflow { shape: axes.to_vec() };
        let sized = || {
            let (shape, elements) = counted(axes)?;
            let bytes = stored_bytes(dtype, elements, axes)?;
            let start = usize::try_from(start).map_err(|_| overflow())?;
            let end = start.checked_add(bytes).ok_or_else(overflow)?;
            Ok((dtype, shape, elements, start..end))
        };
        match sized() {
            Ok(sizes) => Ok(TensorInfo::of(name, sizes)),
            Err(fault) => Err(tensor(&name, fault)),
        }
    }

    fn of(name: String, (dtype, shape, elements, bytes): Sizes) -> Self {
        TensorInfo { name, dtype, shape, elements, bytes, layer: None, companion: false }
    }

    /// The same values in another shape.
    pub(crate) fn reshaped(mut self, axes: &[u64]) -> Result<Self, CheckpointError> {
        let fault = match counted(axes) {
            Ok((shape, elements)) if elements == self.elements => {
                self.shape = shape;
                return Ok(self);
            }
            Ok(_) => TensorFault::OtherShape { stored: self.shape.clone(), said: axes.to_vec() },
            Err(fault) => fault,
        };
        Err(tensor(&self.name, fault))
    }

    /// Whether it only says how another tensor is widened: a scale or a marker of a quantised layer.
    pub fn is_companion(&self) -> bool {
        self.companion
    }

    /// Name in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its values are stored.
    pub fn dtype(&self) -> StoredDtype {
        self.dtype
    }

    /// Its axes, the last one fastest.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of values.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Where in the file its values are. Those of a quantised layer also have scales elsewhere.
    pub fn bytes(&self) -> Range<usize> {
        self.bytes.clone()
    }
}

/// Format, axes, number of values, and where they are.
type Sizes = (StoredDtype, Vec<usize>, usize, Range<usize>);

/// What a header says. Tensors are in the order of their data; `by_name` lists them by name.
#[derive(Debug, Default)]
pub(crate) struct Header {
    pub(crate) tensors: Vec<TensorInfo>,
    pub(crate) by_name: Vec<u32>,
    pub(crate) metadata: BTreeMap<String, String>,
}

impl Header {
    /// Which tensor is called `name`.
    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        let of = |i: &u32| self.tensors[*i as usize].name.as_str();
        let found = self.by_name.binary_search_by(|i| of(i).cmp(name)).ok()?;
        Some(self.by_name[found] as usize)
    }
}

/// Reads the header `json` of a file of `file_len` bytes.
pub(crate) fn parse(json: &[u8], file_len: usize) -> Result<Header, CheckpointError> {
    let mut sink = Sink::default();
    let mut parser = serde_json::Deserializer::from_slice(json);
    let parsed = parser.deserialize_map(&mut sink).and_then(|()| parser.end());
    let mut header = match (parsed, sink.fault) {
        (_, Some((name, fault))) => return Err(tensor(&name, fault)),
        (Err(error), None) => return Err(CheckpointError::Header { reason: clip(&error.to_string()) }),
        (Ok(()), None) => sink.header,
    };
    header.tensors.sort_unstable_by_key(|t| (t.bytes.start, t.bytes.end));
    check_names(&mut header)?;
    place(&mut header.tensors, 8 + json.len(), file_len)?;
    Ok(header)
}

/// Lists the tensors by name; a name that occurs twice is an error.
pub(crate) fn check_names(header: &mut Header) -> Result<(), CheckpointError> {
    header.by_name = (0..header.tensors.len() as u32).collect();
    let name = |i: u32| header.tensors[i as usize].name.as_str();
    header.by_name.sort_unstable_by(|&a, &b| name(a).cmp(name(b)));
    match header.by_name.windows(2).find(|pair| name(pair[0]) == name(pair[1])) {
        Some(pair) => Err(tensor(name(pair[0]), TensorFault::Duplicate)),
        None => Ok(()),
    }
}

/// The data must be covered without a gap, as the format demands: what no tensor owns was not checked.
fn place(tensors: &mut [TensorInfo], data: usize, file_len: usize) -> Result<(), CheckpointError> {
    let mut previous = 0;
    for t in tensors.iter() {
        follows(&t.name, t.bytes.start as u64, previous as u64)?;
        previous = t.bytes.end;
    }
    match data.checked_add(previous) {
        Some(needed) if needed == file_len => {}
        Some(needed) if needed < file_len => {
            return Err(CheckpointError::Trailing { extra: (file_len - needed) as u64 });
        }
        needed => {
            let needed = needed.map_or(u64::MAX, |n| n as u64);
            return Err(CheckpointError::Truncated { needed, actual: file_len as u64 });
        }
    }
    // From offsets in the data to offsets in the file: the last one is the length of the file.
    for t in tensors {
        t.bytes = t.bytes.start + data..t.bytes.end + data;
    }
    Ok(())
}

/// A tensor must start where the one before it ends.
pub(crate) fn follows(name: &str, start: u64, previous: u64) -> Result<(), CheckpointError> {
    match start.cmp(&previous) {
        Ordering::Less => Err(tensor(name, TensorFault::Overlap { start, previous })),
        Ordering::Greater => Err(tensor(name, TensorFault::Hole { start, previous })),
        Ordering::Equal => Ok(()),
    }
}

/// Axes as lengths, and the number of values.
fn counted(axes: &[u64]) -> Result<(Vec<usize>, usize), TensorFault> {
    let overflow = || TensorFault::Overflow { shape: axes.to_vec() };
    let shape: Vec<usize> =
        axes.iter().map(|&n| usize::try_from(n)).collect::<Result<_, _>>().map_err(|_| overflow())?;
    let elements = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n)).ok_or_else(overflow)?;
    Ok((shape, elements))
}

/// Bytes of so many values.
fn stored_bytes(dtype: StoredDtype, elements: usize, axes: &[u64]) -> Result<usize, TensorFault> {
    let block = dtype.block();
    if !elements.is_multiple_of(block.values) {
        return Err(TensorFault::PartBlock { elements, dtype });
    }
    let bytes = (elements / block.values).checked_mul(block.bytes);
    bytes.ok_or_else(|| TensorFault::Overflow { shape: axes.to_vec() })
}

pub(crate) fn tensor(name: &str, fault: TensorFault) -> CheckpointError {
    CheckpointError::Tensor { name: clip(name), fault }
}

/// Receives the header piece by piece, so that no form of it is ever held twice. A fault of a tensor
/// stops the parser and is kept here, because the parser's own errors are only text.
#[derive(Default)]
struct Sink {
    header: Header,
    has_metadata: bool,
    fault: Option<(String, TensorFault)>,
}

const METADATA: &str = "__metadata__";

impl<'de> Visitor<'de> for &mut Sink {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let info = if name == METADATA {
                if !self.has_metadata {
                    self.has_metadata = true;
                    map.next_value_seed(Metadata(&mut self.header.metadata))?;
                    continue;
                }
                Err(TensorFault::Duplicate)
            } else {
                map.next_value::<Entry>()?.check()
            };
            match info {
                Ok(sizes) => self.header.tensors.push(TensorInfo::of(name, sizes)),
                Err(fault) => {
                    self.fault = Some((name, fault));
                    return Err(de::Error::custom("a tensor is impossible"));
                }
            }
        }
        Ok(())
    }
}

/// A tensor as the file describes it. Fields the format does not know are skipped, as its own reader does.
#[derive(Deserialize)]
struct Entry {
    dtype: Word,
    shape: Axes,
    data_offsets: (u64, u64),
}

impl Entry {
    fn check(self) -> Result<Sizes, TensorFault> {
        let dtype = self.dtype.0.map_err(TensorFault::UnknownDtype)?;
        let axes = self.shape.axes.get(..self.shape.rank);
        let axes = axes.ok_or(TensorFault::Rank { rank: self.shape.rank, max: MAX_RANK })?;
        let (shape, elements) = counted(axes)?;
        let needed = stored_bytes(dtype, elements, axes)?;
        let (start, end) = self.data_offsets;
        let wrong = || TensorFault::Size { start, end, needed: needed as u64 };
        if end.checked_sub(start) != Some(needed as u64) {
            return Err(wrong());
        }
        let bytes =
            usize::try_from(start).map_err(|_| wrong())?..usize::try_from(end).map_err(|_| wrong())?;
        Ok((dtype, shape, elements, bytes))
    }
}

/// A known format, or the word that is none.
struct Word(Result<StoredDtype, String>);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visit;
        impl Visitor<'_> for Visit {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a number format")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Word, E> {
                Ok(Word(StoredDtype::from_name(word).ok_or_else(|| clip(word))))
            }
        }
        from.deserialize_str(Visit)
    }
}

/// The axes of a tensor; past `MAX_RANK` they are counted, not kept.
struct Axes {
    axes: [u64; MAX_RANK],
    rank: usize,
}

impl<'de> Deserialize<'de> for Axes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Axes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of axis lengths")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Axes, A::Error> {
                let mut found = Axes { axes: [0; MAX_RANK], rank: 0 };
                while let Some(length) = seq.next_element()? {
                    if let Some(axis) = found.axes.get_mut(found.rank) {
                        *axis = length;
                    }
                    found.rank += 1;
                }
                Ok(found)
            }
        }
        from.deserialize_seq(Visit)
    }
}

struct Metadata<'a>(&'a mut BTreeMap<String, String>);

impl<'de> DeserializeSeed<'de> for Metadata<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Metadata<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<String, String>()? {
            if self.0.len() == MAX_METADATA {
                return Err(de::Error::custom(format_args!("more than {MAX_METADATA} metadata entries")));
            }
            if self.0.insert(key, value).is_some() {
                return Err(de::Error::custom("a metadata key occurs twice"));
            }
        }
        Ok(())
    }
}
