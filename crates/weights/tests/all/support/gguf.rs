//! GGUF files, made by hand so that they can be wrong on purpose.

/// A file to be.
#[derive(Clone, Debug)]
pub struct Gguf {
    pub version: u32,
    pub alignment: u32,
    /// Counts that are claimed instead of the true ones.
    pub claim: Option<(u64, u64)>,
    pub entries: Vec<Vec<u8>>,
    pub tensors: Vec<Vec<u8>>,
    pub data: Vec<u8>,
}

impl Default for Gguf {
    fn default() -> Self {
        Gguf { version: 3, alignment: 32, claim: None, entries: vec![], tensors: vec![], data: vec![] }
    }
}

pub fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

impl Gguf {
    pub fn raw_entry(mut self, bytes: &[u8]) -> Self {
        self.entries.push(bytes.to_vec());
        self
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        self.raw_entry(&[text(key), 8u32.to_le_bytes().to_vec(), text(value)].concat())
    }

    pub fn list(self, key: &str, values: &[i32]) -> Self {
        let head = [text(key), 9u32.to_le_bytes().to_vec(), 5u32.to_le_bytes().to_vec()].concat();
        let values: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.raw_entry(&[head, (values.len() as u64 / 4).to_le_bytes().to_vec(), values].concat())
    }

    /// `axes` in the order of the file: the fastest first.
    pub fn tensor(self, name: &str, axes: &[u64], number: u32, data: &[u8]) -> Self {
        let at = self.data.len().next_multiple_of(self.alignment as usize) as u64;
        self.tensor_at(name, axes, number, data, at)
    }

    pub fn tensor_at(mut self, name: &str, axes: &[u64], number: u32, data: &[u8], at: u64) -> Self {
        self.describe(name, axes, number, at);
        self.data.resize(self.data.len().next_multiple_of(self.alignment as usize), 0);
        self.data.extend(data);
        self
    }

    /// A tensor whose data is not in this file.
    pub fn describe(&mut self, name: &str, axes: &[u64], number: u32, at: u64) {
        let mut info = [text(name), (axes.len() as u32).to_le_bytes().to_vec()].concat();
        info.extend(axes.iter().flat_map(|n| n.to_le_bytes()));
        info.extend(number.to_le_bytes());
        info.extend(at.to_le_bytes());
        self.tensors.push(info);
    }

    /// The header with its padding.
    pub fn header(&self) -> Vec<u8> {
        let mut entries = self.entries.clone();
        if self.alignment != 32 {
            let alignment = [text("general.alignment"), 4u32.to_le_bytes().to_vec()].concat();
            entries.push([alignment, self.alignment.to_le_bytes().to_vec()].concat());
        }
        let (tensors, count) = self.claim.unwrap_or((self.tensors.len() as u64, entries.len() as u64));
        let mut bytes = [&b"GGUF"[..], &self.version.to_le_bytes()].concat();
        bytes.extend(tensors.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend(entries.concat());
        bytes.extend(self.tensors.concat());
        bytes.resize(bytes.len().next_multiple_of(self.alignment as usize), 0);
        bytes
    }

    pub fn bytes(&self) -> Vec<u8> {
        [self.header(), self.data.clone()].concat()
    }
}
