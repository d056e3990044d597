//! Zip archives as PyTorch writes them: every member is stored as it is, so that values can be read at their place.
//!
//! Nothing is ever unpacked. The directory at the end is read, the header in front of each member is held against it, and
//! no two members may share bytes, so reading all of them reads no more than the file.

use std::ops::Range;

use thiserror::Error;

use crate::error::{CheckpointError, clip};
use crate::storage::Storage;
use crate::torch::TorchFault;

/// First bytes of a file.
pub(crate) const LOCAL: &[u8; 4] = b"PK\x03\x04";
const CENTRAL: &[u8; 4] = b"PK\x01\x02";
const END: &[u8; 4] = b"PK\x05\x06";

/// Bytes of the header of a member, of its entry in the directory, and of the end record without a comment.
const LOCAL_BYTES: usize = 30;
const CENTRAL_BYTES: usize = 46;
const END_BYTES: usize = 22;

/// Longest name of a member. PyTorch takes the name of the file and adds a few characters.
const MAX_NAME: usize = 1024;

/// Longest directory accepted. An entry of PyTorch has about a hundred bytes.
const MAX_DIRECTORY: u64 = 16 << 20;

/// Bytes that are held at a time while a checksum is computed.
const PIECE: u64 = 256 << 10;

/// Why a zip archive cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ZipFault {
    /// The file ends early, or its parts contradict each other.
    #[error("its zip archive is cut off or damaged; download it again")]
    Cut,
    /// Too many members, or none.
    #[error("it has {count} members, but must have 1 to {max}")]
    Members {
        /// Members by the end record.
        count: usize,
        /// Most accepted.
        max: usize,
    },
    /// A directory larger than any honest one.
    #[error("its zip directory has {bytes} bytes, but the limit is {max}; the file is damaged")]
    Directory {
        /// Claimed size.
        bytes: u64,
        /// Largest size accepted.
        max: u64,
    },
    /// A name that is too long or no text.
    #[error("a member has a name of {bytes} bytes, which must be text of 1 to {max}; the file is damaged")]
    Name {
        /// Length of the name.
        bytes: usize,
        /// Longest accepted.
        max: usize,
    },
    /// A member that would have to be unpacked.
    #[error("its member `{name}` is compressed or encrypted; save the file again with `torch.save`")]
    Packed {
        /// Its name, shortened.
        name: String,
    },
    /// Two members of one name.
    #[error("it has several members `{name}`; the file is damaged")]
    Twice {
        /// Their name, shortened.
        name: String,
    },
    /// Two members share bytes.
    #[error("its member `{name}` lies inside another one; the file is damaged")]
    Overlap {
        /// Its name, shortened.
        name: String,
    },
    /// Bytes that are not those that were written.
    #[error("the checksum of its member `{name}` is wrong; download it again")]
    Checksum {
        /// Its name, shortened.
        name: String,
    },
}

impl From<ZipFault> for CheckpointError {
    fn from(fault: ZipFault) -> Self {
        TorchFault::Zip(fault).into()
    }
}

/// A member of an archive.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Where in the file its bytes are.
    pub(crate) bytes: Range<u64>,
    /// Where the header in front of them starts.
    local: u64,
    crc: u32,
}

impl Member {
    /// Number of bytes.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    /// All of its bytes, if their checksum is right. The caller has held their number against a limit.
    pub(crate) fn read<'a>(
        &self,
        storage: &'a Storage,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], CheckpointError> {
        let bytes = storage.header(self.bytes.start, self.len() as usize, buffer)?;
        if !Crc::default().with(bytes).is(self.crc) {
            return Err(ZipFault::Checksum { name: clip(&self.name) }.into());
        }
        Ok(bytes)
    }

    /// Whether its checksum is right, a piece at a time.
    pub(crate) fn verify(&self, storage: &Storage) -> Result<(), CheckpointError> {
        let (mut crc, mut at, mut buffer) = (Crc::default(), self.bytes.start, Vec::new());
        while at < self.bytes.end {
            let length = (self.bytes.end - at).min(PIECE);
            crc = crc.with(storage.header(at, length as usize, &mut buffer)?);
            at += length;
        }
        if crc.is(self.crc) { Ok(()) } else { Err(ZipFault::Checksum { name: clip(&self.name) }.into()) }
    }
}

/// The members of an archive, by name.
pub(crate) struct Archive(Vec<Member>);

impl Archive {
    /// Reads the directory of `storage`, which may list up to `most` members.
    pub(crate) fn open(storage: &Storage, most: usize) -> Result<Self, CheckpointError> {
        let mut buffer = Vec::new();
        let end = storage.len().checked_sub(END_BYTES as u64).ok_or(ZipFault::Cut)?;
        let tail = storage.header(end, END_BYTES, &mut buffer)?;
        let count = number::<2>(tail, 10)? as usize;
        let (bytes, start) = (number::<4>(tail, 12)?, number::<4>(tail, 16)?);
        // PyTorch writes no comment.
        if !tail.starts_with(END) || number::<2>(tail, 20)? != 0 || start + bytes > end {
            return Err(ZipFault::Cut.into());
        }
        if !(1..=most).contains(&count) {
            return Err(ZipFault::Members { count, max: most }.into());
        }
        if bytes > MAX_DIRECTORY {
            return Err(ZipFault::Directory { bytes, max: MAX_DIRECTORY }.into());
        }
        let mut directory = storage.header(start, bytes as usize, &mut buffer)?;
        // No more entries than there is room for, whatever the number says.
        let mut members = Vec::with_capacity(count.min(directory.len() / CENTRAL_BYTES));
        let mut local = Vec::new();
        for _ in 0..count {
            let entry;
            (entry, directory) = Entry::split(directory)?;
            members.push(entry.member(storage, start, &mut local)?);
        }
        if !directory.is_empty() {
            return Err(ZipFault::Cut.into());
        }
        apart(&mut members)?;
        members.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        match members.windows(2).find(|pair| pair[0].name == pair[1].name) {
            Some(pair) => Err(ZipFault::Twice { name: clip(&pair[0].name) }.into()),
            None => Ok(Archive(members)),
        }
    }

    /// Every member, in the order of their names.
    pub(crate) fn members(&self) -> &[Member] {
        &self.0
    }

    /// All of them, to keep.
    pub(crate) fn into_members(self) -> impl Iterator<Item = Member> {
        self.0.into_iter()
    }

    /// The member called `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Member> {
        self.0.binary_search_by(|member| member.name.as_str().cmp(name)).ok().map(|at| &self.0[at])
    }
}

/// No byte may belong to two members.
fn apart(members: &mut [Member]) -> Result<(), ZipFault> {
    members.sort_unstable_by_key(|member| member.local);
    match members.windows(2).find(|pair| pair[1].local < pair[0].bytes.end) {
        Some(pair) => Err(ZipFault::Overlap { name: clip(&pair[1].name) }),
        None => Ok(()),
    }
}

/// A member as the directory describes it.
struct Entry<'a> {
    name: &'a str,
    crc: u32,
    bytes: u64,
    local: u64,
}

impl<'a> Entry<'a> {
    /// The first entry of a directory, and the others.
    fn split(directory: &'a [u8]) -> Result<(Self, &'a [u8]), ZipFault> {
        let (head, rest) = directory.split_at_checked(CENTRAL_BYTES).ok_or(ZipFault::Cut)?;
        if !head.starts_with(CENTRAL) {
            return Err(ZipFault::Cut);
        }
        let [length, extra, comment] = [28, 30, 32].map(|at| number::<2>(head, at));
        let (length, more) = (length? as usize, (extra? + comment?) as usize);
        let (name, rest) = rest.split_at_checked(length).ok_or(ZipFault::Cut)?;
        let (_, rest) = rest.split_at_checked(more).ok_or(ZipFault::Cut)?;
        let name = std::str::from_utf8(name).ok().filter(|_| (1..=MAX_NAME).contains(&length));
        let name = name.ok_or(ZipFault::Name { bytes: length, max: MAX_NAME })?;
        let (flags, method) = (number::<2>(head, 8)?, number::<2>(head, 10)?);
        let (packed, bytes) = (number::<4>(head, 20)?, number::<4>(head, 24)?);
        if method != 0 || flags & 1 != 0 || packed != bytes {
            return Err(ZipFault::Packed { name: clip(name) });
        }
        let crc = number::<4>(head, 16)? as u32;
        Ok((Entry { name, crc, bytes, local: number::<4>(head, 42)? }, rest))
    }

    /// The member, if the header in front of it agrees and it ends before `directory` starts.
    fn member(
        &self,
        storage: &Storage,
        directory: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Member, CheckpointError> {
        let length = LOCAL_BYTES + self.name.len();
        if self.local + length as u64 > directory {
            return Err(ZipFault::Cut.into());
        }
        let head = storage.header(self.local, length, buffer)?;
        let same = head.starts_with(LOCAL)
            && number::<2>(head, 8)? == 0
            && number::<2>(head, 26)? == self.name.len() as u64
            && head.ends_with(self.name.as_bytes());
        let start = self.local + length as u64 + number::<2>(head, 28)?;
        let end = start + self.bytes;
        if !same || end > directory {
            return Err(ZipFault::Cut.into());
        }
        Ok(Member { name: self.name.to_owned(), bytes: start..end, local: self.local, crc: self.crc })
    }
}

/// A number of `N` bytes, at most four: sums of several are far from overflow.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<u64, ZipFault> {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()).ok_or(ZipFault::Cut)?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// The checksum of zip, so far.
#[derive(Clone, Copy)]
struct Crc(u32);

impl Default for Crc {
    fn default() -> Self {
        Crc(u32::MAX)
    }
}

/// Table `k` has the remainder of a byte with `k` zero bytes behind it: eight bytes take eight look-ups that wait for
/// nothing, so that a file is checked about as fast as it is read.
const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut i = 0;
        while i < 256 {
            let before = tables[k - 1][i];
            tables[k][i] = (before >> 8) ^ tables[0][(before & 255) as usize];
            i += 1;
        }
        k += 1;
    }
    tables
}

impl Crc {
    /// With these bytes behind those so far.
    fn with(self, bytes: &[u8]) -> Self {
        let (eights, rest) = bytes.as_chunks::<8>();
        let mut crc = self.0;
        for eight in eights {
            let [a, b, c, d] = crc.to_le_bytes();
            let mixed = [eight[0] ^ a, eight[1] ^ b, eight[2] ^ c, eight[3] ^ d];
            let bytes = mixed.iter().chain(&eight[4..]);
            crc = bytes.zip(TABLES.iter().rev()).fold(0, |crc, (b, table)| crc ^ table[usize::from(*b)]);
        }
        let one = |crc: u32, b: &u8| (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ b)];
        Crc(rest.iter().fold(crc, one))
    }

    /// Whether that is all of what has the checksum `sum`.
    fn is(self, sum: u32) -> bool {
        !self.0 == sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_zip_in_pieces_of_any_length() {
        assert!(Crc::default().with(b"123456789").is(0xcbf4_3926));
        assert!(Crc::default().is(0));
        let bytes: Vec<u8> = (0..1000u32).map(|i| (i * 37 + i / 7) as u8).collect();
        let plain = !bytes.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |c, _| (c >> 1) ^ (0xedb8_8320 & (c & 1).wrapping_neg()))
        });
        for cut in [0, 1, 7, 8, 9, 500, 999, 1000] {
            assert!(Crc::default().with(&bytes[..cut]).with(&bytes[cut..]).is(plain), "{cut}");
        }
    }
}
