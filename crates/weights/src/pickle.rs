//! The pickle of a PyTorch file, read as a description of tensors and of nothing else.
//!
//! A pickle is a program: it names functions, and loading it calls them. This reader calls nothing. It knows the
//! operations and the names that a dictionary of tensors needs (torch/_utils.py and torch/serialization.py of PyTorch,
//! `pickletools` of Python); anything else ends it with an error that names what was found.

use thiserror::Error;

use crate::error::clip;
use crate::header::MAX_RANK;
use crate::pickle_reader::{Entry, Global, Outcome, PickleReader, Value, axes, text_at};
use crate::stored::StoredDtype;

/// Longest pickle accepted. That of an RRDB network with 23 blocks has 70 kB.
pub(crate) const MAX_PICKLE: u64 = 4 << 20;

/// Where dictionaries of tensors are in the files of training programs, the best first: smoothed weights before others.
const INSIDE: [&str; 3] = ["params_ema", "params", "state_dict"];

/// Why a pickle is not a description of tensors.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PickleFault {
    /// An operation that no description of tensors needs.
    #[error(
        "its pickle asks for {name} at byte {at}, which a file of tensors does not need, and nothing was run; \
         use a file with the tensors alone, best as .safetensors"
    )]
    Operation {
        /// Its name in Python's `pickletools`, or the byte.
        name: String,
        /// Where.
        at: usize,
    },
    /// A function or class that no description of tensors needs.
    #[error(
        "its pickle names `{name}`, which a file of tensors does not need, and nothing was run; use a file with the \
         tensors alone, best as .safetensors, and only from somebody you trust"
    )]
    Global {
        /// Module and name, shortened.
        name: String,
    },
    /// A version of pickles that is not read.
    #[error("its pickle has protocol {version}, but must have 2 to 5; save it again with `torch.save`")]
    Protocol {
        /// Its number.
        version: u8,
    },
    /// The end comes too early.
    #[error("its pickle is cut off; download the file again")]
    Cut,
    /// Bytes after the end.
    #[error("its pickle has {extra} bytes behind its end; the file is damaged, download it again")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// More of something than any honest file has.
    #[error("its pickle has more than {max} {what}, which no file of such a network has")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// Most accepted.
        max: usize,
    },
    /// A text that is none.
    #[error("its pickle has a text at byte {at} that is not UTF-8; the file is damaged, download it again")]
    Text {
        /// Where.
        at: usize,
    },
    /// A value that was never named.
    #[error("its pickle uses value {index}, which it never stored; the file is damaged, download it again")]
    Memo {
        /// Its number.
        index: usize,
    },
    /// An operation whose values are not those it needs.
    #[error(
        "its pickle has {what} at byte {at} that is not made as PyTorch makes it; download the file again"
    )]
    Form {
        /// Which.
        what: &'static str,
        /// Where.
        at: usize,
    },
    /// No dictionary, or one without tensors.
    #[error(
        "it holds {found}, but must hold a dictionary of tensors, or one inside `params_ema`, `params` or \
         `state_dict`; save that alone"
    )]
    NoTensors {
        /// What there is.
        found: String,
    },
}

/// A tensor as the pickle describes it. Nothing of it has been held against the file.
pub(crate) struct Described<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: StoredDtype,
    /// Name of its storage.
    pub(crate) key: &'a str,
    /// Values of the whole storage.
    pub(crate) stored: u64,
    /// First of its values there.
    pub(crate) offset: u64,
    pub(crate) shape: Axes,
    pub(crate) strides: Axes,
}

/// Numbers of a short tuple.
#[derive(Clone, Copy)]
pub(crate) struct Axes {
    numbers: [u64; MAX_RANK],
    rank: usize,
}

impl Axes {
    /// `None` if they are more than a tensor can have.
    pub(crate) fn new(numbers: impl ExactSizeIterator<Item = u64>) -> Option<Self> {
        let mut axes = Axes { numbers: [0; MAX_RANK], rank: numbers.len() };
        axes.numbers.get_mut(..axes.rank)?.iter_mut().zip(numbers).for_each(|(to, from)| *to = from);
        Some(axes)
    }

    pub(crate) fn get(&self) -> &[u64] {
        &self.numbers[..self.rank]
    }
}

/// What a pickle describes.
pub(crate) struct Pickle<'a> {
    bytes: &'a [u8],
    items: Vec<Value>,
    entries: Vec<Entry>,
    /// The dictionary with the tensors.
    chosen: u32,
}

impl<'a> Pickle<'a> {
    /// Reads a whole pickle, of at most `MAX_PICKLE` bytes.
    pub(crate) fn read(bytes: &'a [u8]) -> Outcome<Self> {
        let (top, items, entries) = PickleReader::run(bytes)?;
        let mut pickle = Pickle { bytes, items, entries, chosen: 0 };
        pickle.chosen = pickle.choose(top)?;
        Ok(pickle)
    }

    /// The dictionary with the tensors: one of those inside the top level, or the top level itself.
    fn choose(&self, top: Value) -> Outcome<u32> {
        let Value::Dict(top) = top else {
            let found =
                if let Value::Tensor(_) = top { "one tensor without a name" } else { "no dictionary" };
            return Err(PickleFault::NoTensors { found: found.to_owned() });
        };
        let inside = |name: &&str| {
            self.of(top).find_map(|entry| match (self.text(entry.key), entry.value) {
                (Some(key), Value::Dict(inside)) if key == *name => Some(inside),
                _ => None,
            })
        };
        Ok(INSIDE.iter().find_map(inside).unwrap_or(top))
    }

    fn of(&self, dict: u32) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.dict == dict)
    }

    fn text(&self, value: Value) -> Option<&'a str> {
        match value {
            Value::Text(at) => text_at(self.bytes, at as usize).ok(),
            _ => None,
        }
    }

    /// Number of tensors.
    pub(crate) fn len(&self) -> usize {
        self.of(self.chosen).filter(|entry| matches!(entry.value, Value::Tensor(_))).count()
    }

    /// A name that occurs more than once. A pickle may repeat a name in two bytes, so this is asked before any is copied.
    pub(crate) fn repeated(&self) -> Option<&'a str> {
        let mut names: Vec<&str> = self.of(self.chosen).filter_map(|entry| self.text(entry.key)).collect();
        names.sort_unstable();
        names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    /// Every tensor.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = Outcome<Described<'a>>> {
        self.of(self.chosen).map(|entry| {
            let name = self.text(entry.key).unwrap_or("an entry without a name");
            let other = || PickleFault::NoTensors { found: format!("`{}`, which is no tensor", clip(name)) };
            let Value::Tensor(at) = entry.value else { return Err(other()) };
            self.text(entry.key).and_then(|name| self.described(name, at as usize)).ok_or_else(other)
        })
    }

    /// The parts were checked when the tensor was made.
    fn described(&self, name: &'a str, at: usize) -> Option<Described<'a>> {
        let [Value::Storage(storage), Value::Int(offset), shape, strides] =
            self.items.get(at..)?.first_chunk()?
        else {
            return None;
        };
        let [_, Value::Global(Global::Storage(dtype)), key, _, Value::Int(stored)] =
            self.items.get(*storage as usize..)?.first_chunk()?
        else {
            return None;
        };
        let (shape, strides) = (axes(&self.items, *shape)?, axes(&self.items, *strides)?);
        let (offset, stored) = (u64::from(*offset), u64::from(*stored));
        Some(Described { name, dtype: *dtype, key: self.text(*key)?, stored, offset, shape, strides })
    }
}
