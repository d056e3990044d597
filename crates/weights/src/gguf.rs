//! The header of a GGUF file: read piece by piece and checked in full before anything is believed.
//!
//! Versions 2 and 3, little-endian. Tensors must follow one another with nothing between them but the padding of the
//! alignment, as llama.cpp demands too: what no tensor owns was not checked.

use std::collections::BTreeMap;

use crate::error::{CheckpointError, TensorFault, clip};
use crate::header::{Header, MAX_HEADER, MAX_METADATA, MAX_RANK, TensorInfo, check_names, follows, tensor};
use crate::storage::Storage;
use crate::stored::StoredDtype;

/// First bytes of a file.
pub(crate) const MAGIC: &[u8; 4] = b"GGUF";

/// Most tensors accepted. The 7B transformer has 1,128.
const MAX_TENSORS: u64 = 1 << 16;

/// Most entries of the metadata that are looked at: each tensor may have one that tells its shape.
const MAX_ENTRIES: u64 = 1 << 16;

/// Longest name of a tensor or key. The format says 64 and 65535 bytes; the longest of the networks has 63.
const MAX_NAME: u64 = 1024;

/// Largest alignment accepted. The usual one is 32.
const MAX_ALIGNMENT: u64 = 1 << 16;

/// Fewest bytes of an entry of the metadata: an empty key, a type, one byte.
const LEAST_ENTRY: u64 = 8 + 4 + 1;

/// Fewest bytes of a tensor's description: an empty name, no axes, type, offset.
const LEAST_TENSOR: u64 = 8 + 4 + 4 + 8;

const SHAPE_KEY: &str = "comfy.gguf.orig_shape.";
const ALIGNMENT_KEY: &str = "general.alignment";

/// Reads the header of `storage`, which starts with `MAGIC`.
pub(crate) fn parse(storage: &Storage) -> Result<Header, CheckpointError> {
    let mut from = Cursor::new(storage, MAGIC.len() as u64);
    match from.u32()? {
        2 | 3 => {}
        version if [1, 2, 3].contains(&version.swap_bytes()) => return Err(CheckpointError::GgufBigEndian),
        version => return Err(CheckpointError::GgufVersion { version }),
    }
    let tensors = from.u64()?;
    let entries = from.u64()?;
    from.fits("tensors", tensors, MAX_TENSORS, LEAST_TENSOR)?;
    from.fits("metadata entries", entries, MAX_ENTRIES, LEAST_ENTRY)?;

    let mut about = About { texts: BTreeMap::new(), shapes: BTreeMap::new(), alignment: 32 };
    for _ in 0..entries {
        about.take(&mut from)?;
    }
    let mut header = Header { metadata: about.texts, ..Header::default() };
    for _ in 0..tensors {
        header.tensors.push(description(&mut from, &about.shapes)?);
    }
    header.tensors.sort_by_key(|t| t.bytes.start);
    check_names(&mut header)?;
    place(&mut header.tensors, from.at, about.alignment, storage.len())?;
    Ok(header)
}

/// What is kept of the metadata.
struct About {
    texts: BTreeMap<String, String>,
    shapes: BTreeMap<String, Vec<u64>>,
    alignment: u64,
}

impl About {
    fn take(&mut self, from: &mut Cursor<'_>) -> Result<(), CheckpointError> {
        let key = from.text(MAX_NAME, "a metadata key")?;
        let kind = from.u32()?;
        if let (ARRAY, Some(name)) = (kind, key.strip_prefix(SHAPE_KEY)) {
            let shape = from.shape(name)?;
            if self.shapes.insert(name.to_owned(), shape).is_some() {
                return Err(twice(&key));
            }
            return Ok(());
        }
        let Some(value) = from.value(kind)? else { return Ok(()) };
        if key == ALIGNMENT_KEY {
            let alignment = value.parse().unwrap_or(0);
            if alignment % 8 != 0 || !(8..=MAX_ALIGNMENT).contains(&alignment) {
                let said = clip(&value);
                return Err(damaged(format!(
                    "the alignment is {said}, but must be a multiple of 8 up to {MAX_ALIGNMENT}"
                )));
            }
            self.alignment = alignment;
        }
        if self.texts.len() == MAX_METADATA {
            return Err(damaged(format!("more than {MAX_METADATA} metadata entries")));
        }
        match self.texts.insert(key.clone(), value) {
            Some(_) => Err(twice(&key)),
            None => Ok(()),
        }
    }
}

/// One tensor; its bytes count from the start of the data.
fn description(
    from: &mut Cursor<'_>,
    shapes: &BTreeMap<String, Vec<u64>>,
) -> Result<TensorInfo, CheckpointError> {
    let name = from.text(MAX_NAME, "the name of a tensor")?;
    let rank = from.u32()? as usize;
    if rank > MAX_RANK {
        return Err(tensor(&name, TensorFault::Rank { rank, max: MAX_RANK }));
    }
    // The file lists the fastest axis first.
    let mut axes = Vec::with_capacity(rank);
    for _ in 0..rank {
        axes.insert(0, from.u64()?);
    }
    let number = from.u32()?;
    let start = from.u64()?;
    let dtype = StoredDtype::from_gguf(number)
        .map_err(|dtype| CheckpointError::GgufType { name: clip(&name), dtype })?;
    if let Some(&last) = axes.last().filter(|n| !n.is_multiple_of(dtype.block().values as u64)) {
        let elements = usize::try_from(last).unwrap_or(usize::MAX);
        return Err(tensor(&name, TensorFault::PartBlock { elements, dtype }));
    }
    let stored = TensorInfo::sized(name, dtype, &axes, start)?;
    match shapes.get(stored.name()) {
        None => Ok(stored),
        Some(original) => stored.reshaped(original),
    }
}

fn place(
    tensors: &mut [TensorInfo],
    end_of_header: u64,
    alignment: u64,
    file_len: u64,
) -> Result<(), CheckpointError> {
    // Neither sum overflows: a header ends within `MAX_HEADER`, an alignment is small.
    let data = end_of_header.next_multiple_of(alignment);
    let mut expected = 0u64;
    let mut end = 0u64;
    for t in tensors.iter() {
        follows(&t.name, t.bytes.start as u64, expected)?;
        end = t.bytes.end as u64;
        let over = || CheckpointError::Truncated { needed: u64::MAX, actual: file_len };
        expected = end.checked_next_multiple_of(alignment).ok_or_else(over)?;
        if expected.checked_add(data).is_none() {
            return Err(over());
        }
    }
    // A file without tensors may end with its header; the last tensor need not be padded.
    let needed = if tensors.is_empty() { end_of_header } else { data + end };
    if needed > file_len {
        return Err(CheckpointError::Truncated { needed, actual: file_len });
    }
    let most = data + expected;
    if most < file_len {
        return Err(CheckpointError::Trailing { extra: file_len - most });
    }
    let data = usize::try_from(data).unwrap_or(usize::MAX);
    for t in tensors {
        t.bytes = t.bytes.start + data..t.bytes.end + data;
    }
    Ok(())
}

fn damaged(reason: String) -> CheckpointError {
    CheckpointError::Header { reason }
}

fn twice(key: &str) -> CheckpointError {
    damaged(format!("the metadata key `{}` occurs twice", clip(key)))
}

const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// Bytes of a number of the metadata, by its type.
fn width(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// Bytes of the header that are held at once.
const WINDOW: u64 = 64 << 10;

/// A place in the header. Nothing is read past the end of the file or past `MAX_HEADER`.
struct Cursor<'a> {
    storage: &'a Storage,
    at: u64,
    window: Vec<u8>,
    /// Where the window starts.
    first: u64,
}

impl<'a> Cursor<'a> {
    fn new(storage: &'a Storage, at: u64) -> Self {
        Cursor { storage, at, window: Vec::new(), first: 0 }
    }

    /// Whether `length` more bytes may be read.
    fn ask(&self, length: u64) -> Result<(), CheckpointError> {
        let needed = self.at.saturating_add(length);
        let actual = self.storage.len();
        if needed > actual {
            return Err(CheckpointError::Truncated { needed, actual });
        }
        if needed > MAX_HEADER as u64 {
            return Err(CheckpointError::HeaderTooLarge { bytes: needed, max: MAX_HEADER as u64 });
        }
        Ok(())
    }

    /// Refuses a count before anything is done that often.
    fn fits(&self, what: &str, count: u64, max: u64, least: u64) -> Result<(), CheckpointError> {
        if count > max {
            return Err(damaged(format!("it claims {count} {what}, but the limit is {max}")));
        }
        self.ask(count * least)
    }

    fn skip(&mut self, length: u64) -> Result<(), CheckpointError> {
        self.ask(length)?;
        self.at += length;
        Ok(())
    }

    /// The next `N` bytes, at most eight.
    fn take<const N: usize>(&mut self) -> Result<[u8; N], CheckpointError> {
        self.ask(N as u64)?;
        if self.at < self.first || self.at + N as u64 > self.first + self.window.len() as u64 {
            self.first = self.at;
            let length = WINDOW.min(self.storage.len() - self.at) as usize;
            self.window = self.storage.header(self.at, length, &mut Vec::new())?.to_vec();
        }
        let start = (self.at - self.first) as usize;
        self.at += N as u64;
        let bytes = self.window.get(start..).and_then(|rest| rest.first_chunk::<N>());
        bytes.copied().ok_or(CheckpointError::Truncated { needed: self.at, actual: self.storage.len() })
    }

    fn u32(&mut self) -> Result<u32, CheckpointError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, CheckpointError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    /// A text of at most `max` bytes.
    fn text(&mut self, max: u64, what: &str) -> Result<String, CheckpointError> {
        let length = self.u64()?;
        self.ask(length)?;
        if length > max {
            return Err(damaged(format!("{what} has {length} bytes, but the limit is {max}")));
        }
        let mut buffer = Vec::new();
        let bytes = self.storage.header(self.at, length as usize, &mut buffer)?;
        let text =
            std::str::from_utf8(bytes).map_err(|_| damaged(format!("{what} is not UTF-8")))?.to_owned();
        self.at += length;
        Ok(text)
    }

    /// A value of the metadata as text; `None` for a list, which is skipped.
    fn value(&mut self, kind: u32) -> Result<Option<String>, CheckpointError> {
        Ok(Some(match kind {
            0 => u8::from_le_bytes(self.take()?).to_string(),
            1 => i8::from_le_bytes(self.take()?).to_string(),
            2 => u16::from_le_bytes(self.take()?).to_string(),
            3 => i16::from_le_bytes(self.take()?).to_string(),
            4 => self.u32()?.to_string(),
            5 => i32::from_le_bytes(self.take()?).to_string(),
            6 => f32::from_le_bytes(self.take()?).to_string(),
            7 => (self.take::<1>()? != [0]).to_string(),
            10 => self.u64()?.to_string(),
            11 => i64::from_le_bytes(self.take()?).to_string(),
            12 => f64::from_le_bytes(self.take()?).to_string(),
            TEXT => self.text(MAX_HEADER as u64, "a metadata value")?,
            ARRAY => {
                self.skip_list()?;
                return Ok(None);
            }
            other => return Err(damaged(format!("metadata of unknown type {other}"))),
        }))
    }

    fn skip_list(&mut self) -> Result<(), CheckpointError> {
        let (kind, count) = (self.u32()?, self.u64()?);
        match (kind, width(kind)) {
            (_, Some(width)) => self.skip(count.saturating_mul(width)),
            (TEXT, None) => {
                self.ask(count.saturating_mul(8))?;
                for _ in 0..count {
                    let length = self.u64()?;
                    self.skip(length)?;
                }
                Ok(())
            }
            (other, None) => Err(damaged(format!("a metadata list of type {other}"))),
        }
    }

    /// A list of axis lengths.
    fn shape(&mut self, name: &str) -> Result<Vec<u64>, CheckpointError> {
        let (kind, count) = (self.u32()?, self.u64()?);
        if count > MAX_RANK as u64 {
            let rank = usize::try_from(count).unwrap_or(usize::MAX);
            return Err(tensor(name, TensorFault::Rank { rank, max: MAX_RANK }));
        }
        let mut shape = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let text = match kind {
                0..=5 | 10 | 11 => self.value(kind)?.unwrap_or_default(),
                other => return Err(damaged(format!("the shape of a tensor is a list of type {other}"))),
            };
            let axis = text.parse().map_err(|_| damaged(format!("a tensor has an axis of {text}")))?;
            shape.push(axis);
        }
        Ok(shape)
    }
}
