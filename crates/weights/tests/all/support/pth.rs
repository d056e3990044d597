//! Files of PyTorch, made by hand so that they can be wrong on purpose.

use remaster_testkit::hostile::crc32;

use super::Put;

/// Names and bytes of members.
pub type Members = Vec<(String, Vec<u8>)>;

/// A zip as PyTorch writes it: stored members, sizes in the directory only.
pub fn zip(members: &[(impl AsRef<str>, Vec<u8>)], method: u16) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in members {
        let name = name.as_ref();
        let local = file.len() as u32;
        file.extend(b"PK\x03\x04\0\0\x08\x08");
        file.extend(method.to_le_bytes());
        file.extend([0; 16]);
        file.extend((name.len() as u16).to_le_bytes());
        file.extend(3u16.to_le_bytes());
        file.extend(name.as_bytes());
        file.extend(b"pad");
        file.extend(data);
        directory.extend(entry(name, data, local, method));
    }
    ended(file, &directory, members.len())
}

/// The entry of a member in the directory.
pub fn entry(name: &str, data: &[u8], local: u32, method: u16) -> Vec<u8> {
    let mut entry = b"PK\x01\x02\0\0\0\0\x08\x08".to_vec();
    entry.extend(method.to_le_bytes());
    entry.extend([0; 4]);
    entry.extend(crc32(data).to_le_bytes());
    entry.extend((data.len() as u32).to_le_bytes());
    entry.extend((data.len() as u32).to_le_bytes());
    entry.extend((name.len() as u16).to_le_bytes());
    entry.extend([0; 12]);
    entry.extend(local.to_le_bytes());
    entry.extend(name.as_bytes());
    entry
}

/// The directory and the end record behind the members of a zip.
pub fn ended(mut file: Vec<u8>, directory: &[u8], count: usize) -> Vec<u8> {
    let start = file.len() as u32;
    file.extend(directory);
    file.extend(end(directory.len() as u32, start, count as u16));
    file
}

/// The end record.
pub fn end(directory: u32, start: u32, count: u16) -> Vec<u8> {
    let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
    end.extend(count.to_le_bytes());
    end.extend(count.to_le_bytes());
    end.extend(directory.to_le_bytes());
    end.extend(start.to_le_bytes());
    end.extend([0; 2]);
    end
}

/// A tensor as a pickle describes it.
#[derive(Clone, Debug)]
pub struct Saved {
    pub name: String,
    pub storage: &'static str,
    pub key: String,
    pub stored: i64,
    pub offset: i64,
    pub shape: Vec<i64>,
    pub strides: Vec<i64>,
}

/// A contiguous tensor that fills the storage `key`.
pub fn saved(name: &str, storage: &'static str, key: &str, shape: &[i64]) -> Saved {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    let (name, key, shape) = (name.to_owned(), key.to_owned(), shape.to_vec());
    Saved { name, storage, key, stored: shape.iter().product(), offset: 0, shape, strides }
}

/// What `torch` calls the storage of a number format.
fn storage(dtype: &str) -> &'static str {
    match dtype {
        "F32" => "FloatStorage",
        "F16" => "HalfStorage",
        "BF16" => "BFloat16Storage",
        "F64" => "DoubleStorage",
        "I64" => "LongStorage",
        "U8" => "ByteStorage",
        other => panic!("{other}"),
    }
}

/// A pickle, operation by operation.
#[derive(Clone, Default)]
pub struct Ops {
    pub bytes: Vec<u8>,
    memo: u32,
}

impl Ops {
    pub fn new() -> Self {
        Ops { bytes: vec![0x80, 2], memo: 0 }
    }

    pub fn op(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// Names the last value, as Python does with every container, text and global.
    pub fn put(mut self) -> Self {
        match u8::try_from(self.memo) {
            Ok(index) => self.bytes.extend([b'q', index]),
            Err(_) => {
                self.bytes.push(b'r');
                self.bytes.extend(self.memo.to_le_bytes());
            }
        }
        self.memo += 1;
        self
    }

    /// The number of the value that was named last.
    pub fn last(&self) -> u8 {
        (self.memo - 1) as u8
    }

    pub fn text(self, text: &str) -> Self {
        let length = (text.len() as u32).to_le_bytes();
        self.op(b"X").op(&length).op(text.as_bytes()).put()
    }

    pub fn global(self, module: &str, name: &str) -> Self {
        self.op(format!("c{module}\n{name}\n").as_bytes()).put()
    }

    pub fn int(self, number: i64) -> Self {
        match number {
            0..=0xff => self.op(&[b'K', number as u8]),
            0x100..=0xffff => self.op(b"M").op(&(number as u16).to_le_bytes()),
            -0x8000_0000..=0x7fff_ffff => self.op(b"J").op(&(number as i32).to_le_bytes()),
            _ => self.op(&[0x8a, 8]).op(&number.to_le_bytes()),
        }
    }

    pub fn ints(self, numbers: &[i64]) -> Self {
        numbers.iter().fold(self.op(b"("), |ops, &number| ops.int(number)).op(b"t").put()
    }

    pub fn storage(self, storage: &str, key: &str, stored: i64) -> Self {
        let ops = self.op(b"(").text("storage").global("torch", storage).text(key).text("cpu").int(stored);
        ops.op(b"t").put().op(b"Q")
    }

    pub fn tensor(self, saved: &Saved) -> Self {
        let ops = self.global("torch._utils", "_rebuild_tensor_v2").op(b"(");
        let ops = ops.storage(saved.storage, &saved.key, saved.stored).int(saved.offset);
        let ops = ops.ints(&saved.shape).ints(&saved.strides).op(b"\x89");
        ops.global("collections", "OrderedDict").op(b")R").put().op(b"t").put().op(b"R").put()
    }

    /// A dictionary of these tensors, an `OrderedDict` with the versions of modules if `metadata`.
    pub fn tensors(self, tensors: &[Saved], metadata: bool) -> Self {
        let ops = if metadata {
            self.global("collections", "OrderedDict").op(b")R").put()
        } else {
            self.op(b"}").put()
        };
        // Python ends a part of a dictionary after a thousand entries.
        let ops = tensors.chunks(1000).fold(ops, |ops, part| {
            part.iter().fold(ops.op(b"("), |ops, saved| ops.text(&saved.name).tensor(saved)).op(b"u")
        });
        if !metadata {
            return ops;
        }
        let ops = ops.op(b"}").put().text("_metadata").global("collections", "OrderedDict").op(b")R").put();
        ops.op(b"(").text("").op(b"}").put().text("version").op(b"K\x01su").op(b"sb")
    }

    pub fn stop(self) -> Vec<u8> {
        self.op(b".").bytes
    }
}

/// A file with this pickle and these storages.
pub fn torch(pickle: &[u8], storages: &[(String, Vec<u8>)]) -> Vec<u8> {
    zip(&members(pickle, storages), 0)
}

/// The members of that file.
pub fn members(pickle: &[u8], storages: &[(String, Vec<u8>)]) -> Members {
    let mut members = vec![
        ("archive/data.pkl".to_owned(), pickle.to_vec()),
        ("archive/byteorder".to_owned(), b"little".to_vec()),
    ];
    members.extend(storages.iter().map(|(key, data)| (format!("archive/data/{key}"), data.clone())));
    members.push(("archive/version".to_owned(), b"3\n".to_vec()));
    members
}

/// A file of these tensors, each with a storage of its own, inside the dictionary `inside` or at the top.
pub fn pth_of(tensors: &[Put], inside: &str) -> Vec<u8> {
    let (pickle, storages) = pth_parts(tensors, inside);
    torch(&pickle, &storages)
}

/// The pickle and the storages of that file.
pub fn pth_parts(tensors: &[Put], inside: &str) -> (Vec<u8>, Members) {
    let described = |(i, t): (usize, &Put)| {
        let shape: Vec<i64> = t.shape.iter().map(|&n| n as i64).collect();
        saved(&t.name, storage(t.dtype), &i.to_string(), &shape)
    };
    let saved: Vec<Saved> = tensors.iter().enumerate().map(described).collect();
    let pickle = match inside {
        "" => Ops::new().tensors(&saved, true),
        inside => Ops::new().op(b"}").put().text(inside).tensors(&saved, false).op(b"s"),
    };
    let storages = tensors.iter().enumerate().map(|(i, t)| (i.to_string(), t.data.clone()));
    (pickle.stop(), storages.collect())
}
