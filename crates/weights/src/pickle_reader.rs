//! Runs through a pickle without running it: what its operations leave, as plain values.
//!
//! Every value has eight bytes and points into the pickle or into one list, and every list has a limit, so no pickle takes
//! more than a small multiple of its own length.

use crate::error::clip;
use crate::header::MAX_RANK;
use crate::pickle::{Axes, PickleFault};
use crate::stored::StoredDtype;

/// Most values that wait for the operation that takes them. Python writes dictionaries a thousand entries at a time.
const MAX_STACK: usize = 4096;

/// Most values that may be named for later use. A tensor takes eight.
const MAX_MEMO: usize = 1 << 18;

/// Most values in tuples. A tensor takes twenty.
const MAX_ITEMS: usize = 1 << 19;

/// Most entries of all dictionaries.
const MAX_ENTRIES: usize = 1 << 16;

/// Longest text: names of tensors and of storages.
const MAX_TEXT: usize = 1024;

/// Longest tuple: the shape of a tensor. What a tensor is made of has seven values at most.
const MAX_TUPLE: usize = MAX_RANK;

pub(crate) type Outcome<T> = Result<T, PickleFault>;

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Global {
    Tensor,
    Parameter,
    Dict,
    Storage(StoredDtype),
}

impl Global {
    fn named(module: &[u8], name: &[u8]) -> Option<Self> {
        Some(match (module, name) {
            (b"torch._utils", b"_rebuild_tensor_v2") => Global::Tensor,
            (b"torch._utils", b"_rebuild_parameter") => Global::Parameter,
            (b"collections", b"OrderedDict") => Global::Dict,
            (b"torch", storage) => Global::Storage(match storage {
                b"FloatStorage" => StoredDtype::F32,
                b"HalfStorage" => StoredDtype::F16,
                b"BFloat16Storage" => StoredDtype::Bf16,
                b"DoubleStorage" => StoredDtype::F64,
                b"LongStorage" => StoredDtype::I64,
                b"IntStorage" => StoredDtype::I32,
                b"ShortStorage" => StoredDtype::I16,
                b"CharStorage" => StoredDtype::I8,
                b"ByteStorage" => StoredDtype::U8,
                b"BoolStorage" => StoredDtype::Bool,
                b"ComplexFloatStorage" => StoredDtype::C64,
                _ => return None,
            }),
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Mark,
    None,
    Bool,
    Int(u32),
    /// A number that no size has: less than zero, or 2^32 and more.
    OtherInt,
    /// Where its operation is: the text is read again.
    Text(u32),
    Global(Global),
    /// Items from here on, so many.
    Tuple(u32, u8),
    /// Its number: entries name it.
    Dict(u32),
    /// The items of its tuple: kind, format, key, device, number of values.
    Storage(u32),
    /// The items of its tuple: storage, offset, shape, strides.
    Tensor(u32),
}

const _: () = assert!(size_of::<Value>() == 8);

/// An entry of a dictionary.
pub(crate) struct Entry {
    pub(crate) dict: u32,
    pub(crate) key: Value,
    pub(crate) value: Value,
}

/// The numbers of a tuple, if they are numbers that sizes can be.
pub(crate) fn axes(items: &[Value], tuple: Value) -> Option<Axes> {
    let Value::Tuple(at, length) = tuple else { return None };
    let numbers = items.get(at as usize..)?.get(..usize::from(length))?;
    let number = |value: &Value| if let Value::Int(number) = value { u64::from(*number) } else { 0 };
    let all = numbers.iter().all(|value| matches!(value, Value::Int(_)));
    Axes::new(numbers.iter().map(number)).filter(|_| all)
}

/// A pickle while it is read.
#[derive(Default)]
pub(crate) struct PickleReader<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value>,
    memo: Vec<Value>,
    items: Vec<Value>,
    entries: Vec<Entry>,
    dicts: u32,
}

impl<'a> PickleReader<'a> {
    /// Reads a whole pickle: the value that it is, the items of all tuples, and the entries of all dictionaries.
    pub(crate) fn run(bytes: &'a [u8]) -> Outcome<(Value, Vec<Value>, Vec<Entry>)> {
        let mut reader = PickleReader { bytes, ..PickleReader::default() };
        loop {
            if let Some(top) = reader.step()? {
                return Ok((top, reader.items, reader.entries));
            }
        }
    }

    /// Reads one operation. The last one gives the value that the pickle is.
    fn step(&mut self) -> Outcome<Option<Value>> {
        let start = self.at;
        let [code] = self.take()?;
        match code {
            b'.' => return self.stop().map(Some),
            0x80 => match self.take()? {
                [2..=5] => {}
                [version] => return Err(PickleFault::Protocol { version }),
            },
            b'(' => self.push(Value::Mark)?,
            b'N' => self.push(Value::None)?,
            0x88 | 0x89 => self.push(Value::Bool)?,
            b'K' => self.int(|[byte]| byte.into())?,
            b'M' => self.int(|bytes| u16::from_le_bytes(bytes).into())?,
            b'J' => self.int(|bytes| i32::from_le_bytes(bytes).into())?,
            0x8a => self.long()?,
            b'X' | 0x8c => {
                let text = text_at(self.bytes, start)?;
                self.at = start + if code == b'X' { 5 } else { 2 } + text.len();
                // No pickle is so long that its places do not fit.
                self.push(Value::Text(start as u32))?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                let global = Global::named(module, name).ok_or_else(|| PickleFault::Global {
                    name: clip(&String::from_utf8_lossy(&[module, b".", name].concat())),
                })?;
                self.push(Value::Global(global))?;
            }
            b'q' => {
                let [index] = self.take()?;
                self.store(index.into(), start)?;
            }
            b'r' => {
                let index = u32::from_le_bytes(self.take()?);
                self.store(index as usize, start)?;
            }
            0x94 => self.store(self.memo.len(), start)?,
            b'h' => {
                let [index] = self.take()?;
                self.recall(index.into())?;
            }
            b'j' => {
                let index = u32::from_le_bytes(self.take()?);
                self.recall(index as usize)?;
            }
            b')' => self.tuple(0, start)?,
            0x85..=0x87 => self.tuple(usize::from(code - 0x84), start)?,
            b't' => {
                let count = self.marked(start)?;
                self.tuple(count, start)?;
                // The mark is below the tuple now.
                let tuple = self.pop(start)?;
                self.pop_mark(start)?;
                self.push(tuple)?;
            }
            b'}' => self.dict()?,
            b's' => self.set(2, false, start)?,
            b'u' => {
                let count = self.marked(start)?;
                self.set(count, true, start)?;
            }
            b'Q' => self.storage(start)?,
            b'R' => self.reduce(start)?,
            b'b' => self.attributes(start)?,
            other => return Err(PickleFault::Operation { name: operation(other), at: start }),
        }
        Ok(None)
    }

    fn take<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or(PickleFault::Cut)?;
        self.at += N;
        Ok(*bytes)
    }

    /// The rest of a line.
    fn line(&mut self) -> Outcome<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|&b| b == b'\n').ok_or(PickleFault::Cut)?;
        self.at += end + 1;
        Ok(&rest[..end])
    }

    fn push(&mut self, value: Value) -> Outcome<()> {
        room(&self.stack, 1, "values that wait", MAX_STACK)?;
        self.stack.push(value);
        Ok(())
    }

    fn int<const N: usize>(&mut self, number: impl Fn([u8; N]) -> i64) -> Outcome<()> {
        let number = number(self.take()?);
        self.push(u32::try_from(number).map_or(Value::OtherInt, Value::Int))
    }

    /// A number of up to 255 bytes, in two's complement.
    fn long(&mut self) -> Outcome<()> {
        let [length] = self.take()?;
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.get(..usize::from(length)));
        let bytes = bytes.ok_or(PickleFault::Cut)?;
        self.at += bytes.len();
        let is_negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
        let (low, high) = bytes.split_at(bytes.len().min(4));
        let number = low.iter().rev().fold(0, |number, b| number << 8 | u32::from(*b));
        let fits = !is_negative && high.iter().all(|&b| b == 0);
        self.push(if fits { Value::Int(number) } else { Value::OtherInt })
    }

    /// Names the value on top for later use. Python numbers such values one by one.
    fn store(&mut self, index: usize, at: usize) -> Outcome<()> {
        let top = self.stack.last().copied().filter(|&top| top != Value::Mark);
        let top = top.ok_or(PickleFault::Form { what: "a stored value", at })?;
        if index == self.memo.len() {
            room(&self.memo, 1, "stored values", MAX_MEMO)?;
            self.memo.push(top);
        } else {
            *self.memo.get_mut(index).ok_or(PickleFault::Form { what: "a stored value", at })? = top;
        }
        Ok(())
    }

    fn recall(&mut self, index: usize) -> Outcome<()> {
        let value = self.memo.get(index).copied().ok_or(PickleFault::Memo { index })?;
        self.push(value)
    }

    fn pop(&mut self, at: usize) -> Outcome<Value> {
        self.stack
            .pop()
            .filter(|&top| top != Value::Mark)
            .ok_or(PickleFault::Form { what: "an operation", at })
    }

    fn pop_mark(&mut self, at: usize) -> Outcome<()> {
        match self.stack.pop() {
            Some(Value::Mark) => Ok(()),
            _ => Err(PickleFault::Form { what: "an operation", at }),
        }
    }

    /// Number of values above the last mark.
    fn marked(&self, at: usize) -> Outcome<usize> {
        let mark = self.stack.iter().rposition(|&value| value == Value::Mark);
        let mark = mark.ok_or(PickleFault::Form { what: "an operation", at })?;
        Ok(self.stack.len() - mark - 1)
    }

    /// Makes a tuple of the last `count` values, none of which may be a mark.
    fn tuple(&mut self, count: usize, at: usize) -> Outcome<()> {
        if count > MAX_TUPLE {
            return Err(PickleFault::TooMany { what: "values in a tuple", max: MAX_TUPLE });
        }
        room(&self.items, count, "values in tuples", MAX_ITEMS)?;
        let first = self.stack.len().checked_sub(count);
        let first = first.filter(|&first| !self.stack[first..].contains(&Value::Mark));
        let first = first.ok_or(PickleFault::Form { what: "a tuple", at })?;
        let start = self.items.len() as u32;
        self.items.extend(self.stack.drain(first..));
        self.push(Value::Tuple(start, count as u8))
    }

    fn dict(&mut self) -> Outcome<()> {
        self.dicts += 1;
        self.push(Value::Dict(self.dicts))
    }

    /// Puts the last `count` values, keys and values in turn, into the dictionary below them.
    fn set(&mut self, count: usize, marked: bool, at: usize) -> Outcome<()> {
        let wrong = || PickleFault::Form { what: "a dictionary", at };
        let first =
            self.stack.len().checked_sub(count).filter(|_| count.is_multiple_of(2)).ok_or_else(wrong)?;
        let below = first.checked_sub(1 + usize::from(marked)).ok_or_else(wrong)?;
        let Value::Dict(dict) = self.stack[below] else { return Err(wrong()) };
        room(&self.entries, count / 2, "entries of dictionaries", MAX_ENTRIES)?;
        let (pairs, _) = self.stack[first..].as_chunks();
        for &[key, value] in pairs {
            if key == Value::Mark || value == Value::Mark {
                return Err(wrong());
            }
            self.entries.push(Entry { dict, key, value });
        }
        self.stack.truncate(below + 1);
        Ok(())
    }

    /// The items of a tuple.
    fn parts(&self, tuple: Value) -> &[Value] {
        match tuple {
            Value::Tuple(at, length) => &self.items[at as usize..][..usize::from(length)],
            _ => &[],
        }
    }

    /// What PyTorch writes for a storage: `("storage", torch.FloatStorage, key, device, number of values)`.
    fn storage(&mut self, at: usize) -> Outcome<()> {
        let id = self.pop(at)?;
        let is_storage = match (id, self.parts(id)) {
            (
                Value::Tuple(start, _),
                [
                    Value::Text(word),
                    Value::Global(Global::Storage(_)),
                    Value::Text(_),
                    Value::Text(_),
                    Value::Int(_),
                ],
            ) => (text_at(self.bytes, *word as usize)? == "storage").then_some(start),
            _ => None,
        };
        let start = is_storage.ok_or(PickleFault::Form { what: "a storage", at })?;
        self.push(Value::Storage(start))
    }

    /// What a call of one of the known names would give. Nothing is called.
    fn reduce(&mut self, at: usize) -> Outcome<()> {
        let (arguments, function) = (self.pop(at)?, self.pop(at)?);
        let (Value::Tuple(start, _), Value::Global(function)) = (arguments, function) else {
            return Err(PickleFault::Form { what: "a call", at });
        };
        match (function, self.parts(arguments)) {
            // Storage, offset, shape, strides, whether a gradient is wanted, hooks, and what newer versions add.
            (
                Global::Tensor,
                [Value::Storage(_), Value::Int(_), shape, strides, Value::Bool, Value::Dict(_)]
                | [Value::Storage(_), Value::Int(_), shape, strides, Value::Bool, Value::Dict(_), _],
            ) if [shape, strides].iter().all(|&&list| axes(&self.items, list).is_some()) => {
                self.push(Value::Tensor(start))
            }
            // A tensor that was trained: whether a gradient is wanted, and hooks.
            (Global::Parameter, &[tensor @ Value::Tensor(_), Value::Bool, Value::Dict(_)]) => {
                self.push(tensor)
            }
            (Global::Dict, []) => self.dict(),
            (Global::Dict, _) => Err(PickleFault::Form { what: "a dictionary", at }),
            (Global::Tensor | Global::Parameter, _) => Err(PickleFault::Form { what: "a tensor", at }),
            (Global::Storage(_), _) => Err(PickleFault::Form { what: "a storage", at }),
        }
    }

    /// Attributes of a dictionary, such as the versions of modules: they hold no tensor that is read, and are left out.
    fn attributes(&mut self, at: usize) -> Outcome<()> {
        match (self.pop(at)?, self.stack.last()) {
            (Value::Dict(_), Some(Value::Dict(_))) => Ok(()),
            _ => Err(PickleFault::Form { what: "attributes", at }),
        }
    }

    fn stop(&mut self) -> Outcome<Value> {
        let extra = self.bytes.len() - self.at;
        match self.stack[..] {
            _ if extra > 0 => Err(PickleFault::Trailing { extra }),
            [top] if top != Value::Mark => Ok(top),
            _ => Err(PickleFault::Form { what: "an end", at: self.at - 1 }),
        }
    }
}

fn room<T>(list: &[T], more: usize, what: &'static str, max: usize) -> Outcome<()> {
    if list.len() + more > max { Err(PickleFault::TooMany { what, max }) } else { Ok(()) }
}

/// The text whose operation is at `at`.
pub(crate) fn text_at(bytes: &[u8], at: usize) -> Outcome<&str> {
    let rest = bytes.get(at..).unwrap_or_default();
    let (length, rest) = match rest {
        [b'X', a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        [0x8c, length, rest @ ..] => (usize::from(*length), rest),
        _ => return Err(PickleFault::Cut),
    };
    if length > MAX_TEXT {
        return Err(PickleFault::TooMany { what: "bytes in a text", max: MAX_TEXT });
    }
    std::str::from_utf8(rest.get(..length).ok_or(PickleFault::Cut)?).map_err(|_| PickleFault::Text { at })
}

/// Operations that other pickles have, by their names in Python's `pickletools`.
const OPERATIONS: &str = "0POP 1POP_MARK 2DUP FFLOAT GBINFLOAT IINT LLONG PPERSID SSTRING TBINSTRING USHORT_BINSTRING \
    VUNICODE ]EMPTY_LIST aAPPEND dDICT eAPPENDS gGET iINST lLIST oOBJ pPUT \u{81}NEWOBJ \u{82}EXT1 \u{83}EXT2 \
    \u{84}EXT4 \u{8b}LONG4 \u{8d}BINUNICODE8 \u{8e}BINBYTES8 \u{8f}EMPTY_SET \u{90}ADDITEMS \u{91}FROZENSET \
    \u{92}NEWOBJ_EX \u{93}STACK_GLOBAL \u{95}FRAME \u{96}BYTEARRAY8 \u{97}NEXT_BUFFER \u{98}READONLY_BUFFER BBINBYTES \
    CSHORT_BINBYTES";

fn operation(code: u8) -> String {
    let known = OPERATIONS.split(' ').find_map(|word| word.strip_prefix(char::from(code)));
    known.map_or_else(|| format!("the unknown operation {code:#04x}"), |name| format!("the operation {name}"))
}
