//! The tags of TIFF files that describe a picture, and EXIF blocks made of them.
//!
//! A TIFF file has in its own directories what other formats carry as an EXIF block. Notes of camera makers stay
//! behind between the two: they point to places in the file they were written into.

use std::io::{Read, Seek, SeekFrom};

use crate::still::MAX_BLOCK;

pub(crate) const EXIF: u16 = 0x8769;
pub(crate) const GPS: u16 = 0x8825;
const XMP: u16 = 700;
const ICC: u16 = 34675;
const MAKER_NOTE: u16 = 0x927c;
const INTEROPERABILITY: u16 = 0xa005;

/// Tags of the first directory that describe the picture and not how it is stored: what it shows, camera, resolution,
/// software, date, artist, host, rating, copyright, and what Windows adds.
const DESCRIBING: [std::ops::RangeInclusive<u16>; 11] = [
    0x10e..=0x110,
    0x11a..=0x11b,
    0x128..=0x128,
    0x131..=0x132,
    0x13b..=0x13c,
    0x4746..=0x4746,
    0x4749..=0x4749,
    0x8298..=0x8298,
    0x9c9b..=0x9c9f,
    EXIF..=EXIF,
    GPS..=GPS,
];

/// Tags that no decoder looks at to find the pixels.
const DESCRIBED: [u16; 6] = [XMP, ICC, EXIF, GPS, 0x83bb, 0x8649];

/// Most values of one that a decoder does look at: strips of a picture that has a strip for each row.
const MAX_VALUES: u64 = 1 << 18;

/// Longest value of such a tag, and all together: in other formats they share one block of 64 KiB.
const MAX_VALUE: u64 = 1 << 16;
const MAX_ALL: usize = 1 << 20;

/// One tag with its values, in little-endian order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tag {
    pub(crate) number: u16,
    pub(crate) kind: u16,
    pub(crate) bytes: Vec<u8>,
}

impl Tag {
    /// The values as this machine orders its bytes.
    pub(crate) fn in_native_order(&self) -> std::borrow::Cow<'_, [u8]> {
        if cfg!(target_endian = "little") {
            return (&self.bytes).into();
        }
        let mut bytes = self.bytes.clone();
        bytes.chunks_exact_mut(unit(self.kind)).for_each(<[u8]>::reverse);
        bytes.into()
    }
}

/// What describes a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tags {
    pub(crate) main: Vec<Tag>,
    pub(crate) exif: Vec<Tag>,
    pub(crate) gps: Vec<Tag>,
    pub(crate) icc: Option<Vec<u8>>,
    pub(crate) xmp: Option<Vec<u8>>,
}

/// Bytes of one value of a type; 0 for unknown types.
fn size(kind: u16) -> u64 {
    match kind {
        1 | 2 | 6 | 7 => 1,
        3 | 8 => 2,
        4 | 9 | 11 | 13 => 4,
        5 | 10 | 12 | 16..=18 => 8,
        _ => 0,
    }
}

/// Bytes of a number inside a value: a fraction is two of four bytes.
fn unit(kind: u16) -> usize {
    match kind {
        5 | 10 => 4,
        kind => size(kind).max(1) as usize,
    }
}

/// A file or block that is being read.
struct Source<'a, R> {
    reader: &'a mut R,
    big_endian: bool,
    /// BigTIFF: offsets and counts of 8 bytes.
    wide: bool,
    kept: usize,
}

impl<R: Read + Seek> Source<'_, R> {
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let mut raw = [0; 8];
        self.reader.read_exact(&mut raw[..bytes]).ok()?;
        if self.big_endian {
            raw[..bytes].reverse();
        }
        Some(u64::from_le_bytes(raw))
    }

    /// The tags of the directory at `at` that `wanted` gives a longest value for.
    fn directory(&mut self, at: u64, wanted: impl Fn(u16) -> u64) -> Vec<Tag> {
        let mut tags = Vec::new();
        let (head, entry) = if self.wide { (8, 20) } else { (2, 12) };
        if self.reader.seek(SeekFrom::Start(at)).is_err() {
            return tags;
        }
        let count = self.number(head).unwrap_or(0).min(1 << 12);
        for i in 0..count {
            match at.checked_add(head as u64 + i * entry).and_then(|at| self.tag(at, &wanted)) {
                Some(Some(tag)) => tags.push(tag),
                Some(None) => {}
                None => break,
            }
        }
        tags
    }

    /// The tag at `at`; nothing inside if it is not wanted, nothing at all if the file ends.
    fn tag(&mut self, at: u64, wanted: &impl Fn(u16) -> u64) -> Option<Option<Tag>> {
        self.reader.seek(SeekFrom::Start(at)).ok()?;
        let (number, kind) = (self.number(2)? as u16, self.number(2)? as u16);
        let word = if self.wide { 8 } else { 4 };
        let count = self.number(word)?;
        let length = count.saturating_mul(size(kind));
        if length == 0
            || length > wanted(number)
            || self.kept.saturating_add(length as usize) > MAX_ALL + 2 * MAX_BLOCK
        {
            return Some(None);
        }
        if length > word as u64 {
            let to = self.number(word)?;
            if self.reader.seek(SeekFrom::Start(to)).is_err() {
                return Some(None);
            }
        }
        let mut bytes = Vec::new();
        // Grown as it comes: a length that lies costs nothing.
        let read = self.reader.by_ref().take(length).read_to_end(&mut bytes);
        if read.is_err() || bytes.len() as u64 != length {
            return Some(None);
        }
        self.kept += bytes.len();
        if self.big_endian {
            bytes.chunks_exact_mut(unit(kind)).for_each(<[u8]>::reverse);
        }
        Some(Some(Tag { number, kind, bytes }))
    }
}

/// Takes a tag out of a list; its bytes are left of it.
fn take(tags: &mut Vec<Tag>, number: u16) -> Option<Vec<u8>> {
    Some(tags.remove(tags.iter().position(|t| t.number == number)?).bytes)
}

/// The offset of a directory that the bytes of a tag are.
fn pointer(bytes: Vec<u8>) -> Option<u64> {
    let mut raw = [0; 8];
    raw.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some(u64::from_le_bytes(raw))
}

/// The parts of a header: byte order, whether it is BigTIFF, and where the first directory is.
fn start<R: Read + Seek>(reader: &mut R) -> Option<(Source<'_, R>, u64)> {
    reader.rewind().ok()?;
    let mut mark = [0; 4];
    reader.read_exact(&mut mark).ok()?;
    let (big_endian, wide) = match &mark {
        b"II*\0" => (false, false),
        b"MM\0*" => (true, false),
        b"II+\0" => (false, true),
        b"MM\0+" => (true, true),
        _ => return None,
    };
    let mut source = Source { reader, big_endian, wide, kept: 0 };
    if wide {
        // The size of offsets, which is always 8.
        source.number(4)?;
    }
    let first = source.number(if wide { 8 } else { 4 })?;
    Some((source, first))
}

/// Whether the values that say how a TIFF of `stored` bytes is stored lie in the file and are not too many. A decoder
/// makes room for them before it reads them, 32 bytes for each.
pub(crate) fn is_plausible(reader: &mut (impl Read + Seek), stored: u64) -> bool {
    let Some((mut source, first)) = start(reader) else { return false };
    let (head, entry, word) = if source.wide { (8, 20, 8) } else { (2, 12, 4) };
    if source.reader.seek(SeekFrom::Start(first)).is_err() {
        return false;
    }
    let count = source.number(head).unwrap_or(0);
    (0..count.min(1 << 12)).all(|i| {
        let mut fits = || {
            let at = first.checked_add(head as u64 + i * entry)?;
            source.reader.seek(SeekFrom::Start(at)).ok()?;
            let (number, kind) = (source.number(2)? as u16, source.number(2)? as u16);
            let (count, offset) = (source.number(word)?, source.number(word)?);
            let length = count.saturating_mul(size(kind));
            let inside = length <= word as u64 || offset.saturating_add(length) <= stored;
            Some(DESCRIBED.contains(&number) || inside && count <= MAX_VALUES)
        };
        fits().unwrap_or(false)
    })
}

impl Tags {
    /// What the TIFF file or EXIF block in `reader` says. What cannot be read is left out.
    pub(crate) fn read(reader: &mut (impl Read + Seek)) -> Option<Tags> {
        let (mut source, first) = start(reader)?;
        let mut main = source.directory(first, |number| match number {
            XMP | ICC => MAX_BLOCK as u64,
            number if DESCRIBING.iter().any(|range| range.contains(&number)) => MAX_VALUE,
            _ => 0,
        });
        let [exif, gps, icc, xmp] = [EXIF, GPS, ICC, XMP].map(|number| take(&mut main, number));
        let inner = |number| if matches!(number, MAKER_NOTE | INTEROPERABILITY) { 0 } else { MAX_VALUE };
        let mut directory = |tag: Option<Vec<u8>>| {
            tag.and_then(pointer).map_or_else(Vec::new, |at| source.directory(at, inner))
        };
        let (exif, gps) = (directory(exif), directory(gps));
        Some(Tags { main, exif, gps, icc, xmp }.bounded())
    }

    /// Without the longest directories if all together is too much.
    fn bounded(mut self) -> Tags {
        let length = |tags: &[Tag]| tags.iter().map(|t| t.bytes.len()).sum::<usize>();
        for part in [&mut self.exif, &mut self.gps, &mut self.main] {
            if length(part) > MAX_ALL / 4 {
                part.clear();
            }
            part.sort_by_key(|t| t.number);
            part.dedup_by_key(|t| t.number);
        }
        self
    }

    /// An EXIF block with all but profile and XMP; `None` if there is nothing to say.
    pub(crate) fn block(&self) -> Option<Vec<u8>> {
        if self.main.is_empty() && self.exif.is_empty() && self.gps.is_empty() {
            return None;
        }
        let mut out = b"II*\0\x08\0\0\0".to_vec();
        let mut main = self.main.clone();
        for (number, tags) in [(EXIF, &self.exif), (GPS, &self.gps)] {
            if !tags.is_empty() {
                main.push(Tag { number, kind: 4, bytes: vec![0; 4] });
            }
        }
        main.sort_by_key(|t| t.number);
        let at = append(&mut out, &main);
        for (number, tags) in [(EXIF, &self.exif), (GPS, &self.gps)] {
            if let (Some(i), false) = (main.iter().position(|t| t.number == number), tags.is_empty()) {
                let offset = (out.len() as u32).to_le_bytes();
                append(&mut out, tags);
                let value = at + 2 + 12 * i + 8;
                out[value..value + 4].copy_from_slice(&offset);
            }
        }
        Some(out)
    }
}

/// Appends a directory and its values, and says where it begins.
fn append(out: &mut Vec<u8>, tags: &[Tag]) -> usize {
    let at = out.len();
    out.extend((tags.len() as u16).to_le_bytes());
    let mut values = Vec::new();
    let after = at + 2 + 12 * tags.len() + 4;
    for tag in tags {
        out.extend(tag.number.to_le_bytes());
        out.extend(tag.kind.to_le_bytes());
        let count = tag.bytes.len() as u64 / size(tag.kind).max(1);
        out.extend((count as u32).to_le_bytes());
        if tag.bytes.len() <= 4 {
            out.extend_from_slice(&tag.bytes);
            out.resize(out.len() + 4 - tag.bytes.len(), 0);
        } else {
            out.extend(((after + values.len()) as u32).to_le_bytes());
            values.extend_from_slice(&tag.bytes);
            // Values begin at even places.
            values.resize(values.len().next_multiple_of(2), 0);
        }
    }
    out.extend([0; 4]);
    out.extend(values);
    at
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn described() -> Tags {
        let tag = |number, kind, bytes: &[u8]| Tag { number, kind, bytes: bytes.to_vec() };
        Tags {
            main: vec![
                tag(0x10f, 2, b"Camera maker\0"),
                tag(0x11a, 5, &[72, 0, 0, 0, 1, 0, 0, 0]),
                tag(0x132, 2, b"2024:01:01 00:00:00\0"),
            ],
            exif: vec![tag(0x829a, 5, &[1, 0, 0, 0, 100, 0, 0, 0]), tag(0x8827, 3, &[100, 0])],
            gps: vec![tag(1, 2, b"N\0")],
            ..Tags::default()
        }
    }

    #[test]
    fn a_block_says_what_went_in() {
        let tags = described();
        let block = tags.block().unwrap();
        assert_eq!(Tags::read(&mut Cursor::new(&block)), Some(tags));
        assert_eq!(Tags::default().block(), None);
    }

    #[test]
    fn numbers_are_turned_round_in_files_of_the_other_order() {
        let block =
            b"MM\0*\0\0\0\x08\0\x02\x01\x0f\0\x02\0\0\0\x03ab\0\0\x01\x28\0\x03\0\0\0\x01\0\x02\0\0\0\0\0\0";
        let tags = Tags::read(&mut Cursor::new(block)).unwrap();
        let found: Vec<_> = tags.main.iter().map(|t| (t.number, t.bytes.as_slice())).collect();
        assert_eq!(found, [(0x10f, &b"ab\0"[..]), (0x128, &[2, 0])]);
    }

    #[test]
    fn a_directory_that_points_everywhere_stays_small() {
        // 4,000 tags that all claim the same 60,000 bytes.
        let mut block = b"II*\0\x08\0\0\0".to_vec();
        block.extend(4000u16.to_le_bytes());
        for _ in 0..4000 {
            block.extend([0x0f, 0x01, 2, 0]);
            block.extend(60_000u32.to_le_bytes());
            block.extend(0u32.to_le_bytes());
        }
        block.resize(60_000, 0);
        let tags = Tags::read(&mut Cursor::new(&block)).unwrap();
        assert!(tags.main.iter().map(|t| t.bytes.len()).sum::<usize>() <= 1 << 20);
    }
}
