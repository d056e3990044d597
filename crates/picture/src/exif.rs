//! EXIF blocks: which way up a picture is, and what must change when it was turned or resized.
//!
//! A block is a small TIFF file. It is changed in place, so that notes of camera makers, which point into the block
//! by offset, stay right.

const WIDTH: u16 = 0x100;
const HEIGHT: u16 = 0x101;
const ORIENTATION: u16 = 0x112;
const THUMBNAIL: u16 = 0x201;
const THUMBNAIL_BYTES: u16 = 0x202;
const EXIF: u16 = 0x8769;
const PIXEL_WIDTH: u16 = 0xa002;
const PIXEL_HEIGHT: u16 = 0xa003;

const SHORT: u16 = 3;
const LONG: u16 = 4;

/// Bytes of a directory entry.
const ENTRY: usize = 12;

/// A block that is being read.
#[derive(Clone, Copy)]
struct Block<'a> {
    bytes: &'a [u8],
    big: bool,
}

/// Where an entry is, and its tag and type.
#[derive(Clone, Copy)]
struct Entry {
    at: usize,
    tag: u16,
    kind: u16,
}

impl<'a> Block<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        let big = match bytes.get(..4)? {
            b"II*\0" => false,
            b"MM\0*" => true,
            _ => return None,
        };
        Some(Block { bytes, big })
    }

    fn short(&self, at: usize) -> Option<u16> {
        let bytes = self.bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if self.big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn long(&self, at: usize) -> Option<usize> {
        let bytes = self.bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        let long = if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
        usize::try_from(long).ok()
    }

    /// The entries of the directory at `at`, and where the link to the next directory is.
    fn directory(&self, at: usize) -> Option<(Vec<Entry>, usize)> {
        let count = usize::from(self.short(at)?);
        let entry = |i| {
            let at = at + 2 + i * ENTRY;
            Some(Entry { at, tag: self.short(at)?, kind: self.short(at + 2)? })
        };
        // A count that lies ends where the block ends.
        let entries: Vec<Entry> = (0..count).map_while(entry).collect();
        Some((entries, at + 2 + count * ENTRY))
    }

    /// The value of an entry that holds one number.
    fn number(&self, entry: Entry) -> Option<usize> {
        match entry.kind {
            SHORT => self.short(entry.at + 8).map(usize::from),
            LONG => self.long(entry.at + 8),
            _ => None,
        }
    }
}

/// Which way up a picture is, from 1 (upright) to 8, by its EXIF block.
pub(crate) fn orientation(block: &[u8]) -> u32 {
    let found = || {
        let block = Block::new(block)?;
        let (entries, _) = block.directory(block.long(4)?)?;
        let entry = entries.into_iter().find(|e| e.tag == ORIENTATION)?;
        block.number(entry).filter(|n| (1..=8).contains(n))
    };
    found().unwrap_or(1) as u32
}

/// The block from its byte order mark on; some files have an identifier in front of it.
pub(crate) fn stripped(block: Vec<u8>) -> Vec<u8> {
    match block.strip_prefix(b"Exif\0\0") {
        Some(rest) => rest.to_vec(),
        None => block,
    }
}

/// The block of a picture that is upright now: orientation 1, and without its thumbnail, which shows another picture.
/// `None` if it is no EXIF.
pub(crate) fn settled(mut block: Vec<u8>) -> Option<Vec<u8>> {
    let read = Block::new(&block)?;
    let big = read.big;
    let (entries, next) = read.directory(read.long(4)?)?;
    let turned = entries.iter().find(|e| e.tag == ORIENTATION).copied();
    let thumbnail = read.long(next).filter(|at| *at != 0).and_then(|at| {
        let (entries, _) = read.directory(at)?;
        let number = |tag| entries.iter().find(|e| e.tag == tag).and_then(|e| read.number(*e));
        let (from, length) = (number(THUMBNAIL)?, number(THUMBNAIL_BYTES)?);
        let to = from.checked_add(length)?;
        (from > next && to <= read.bytes.len()).then_some(from..to)
    });
    if let Some(entry) = turned {
        put(&mut block, entry, 1, big);
    }
    if let Some(link) = block.get_mut(next..next + 4) {
        link.fill(0);
    }
    if let Some(range) = thumbnail {
        if range.end == block.len() {
            block.truncate(range.start);
        } else {
            block[range].fill(0);
        }
    }
    Some(block)
}

/// The block of a picture of another size.
pub(crate) fn resized(mut block: Vec<u8>, size: [usize; 2]) -> Vec<u8> {
    let found = || {
        let read = Block::new(&block)?;
        let (main, _) = read.directory(read.long(4)?)?;
        let inner = main.iter().find(|e| e.tag == EXIF).and_then(|e| read.number(*e));
        let inner = inner.and_then(|at| read.directory(at)).map(|(entries, _)| entries);
        let sizes = |e: &Entry| match e.tag {
            WIDTH | PIXEL_WIDTH => Some((*e, size[0])),
            HEIGHT | PIXEL_HEIGHT => Some((*e, size[1])),
            _ => None,
        };
        let all: Vec<_> = main.iter().chain(inner.iter().flatten()).filter_map(sizes).collect();
        Some((all, read.big))
    };
    if let Some((entries, big)) = found() {
        for (entry, value) in entries {
            put(&mut block, entry, value, big);
        }
    }
    block
}

/// Writes the value of an entry that holds one number.
fn put(block: &mut [u8], entry: Entry, value: usize, big: bool) {
    let bytes = match (entry.kind, u16::try_from(value), u32::try_from(value)) {
        (SHORT, Ok(value), _) if big => value.to_be_bytes().to_vec(),
        (SHORT, Ok(value), _) => value.to_le_bytes().to_vec(),
        (LONG, _, Ok(value)) if big => value.to_be_bytes().to_vec(),
        (LONG, _, Ok(value)) => value.to_le_bytes().to_vec(),
        _ => return,
    };
    if let Some(to) = block.get_mut(entry.at + 8..entry.at + 8 + bytes.len()) {
        to.copy_from_slice(&bytes);
    }
}

/// An XMP packet of a picture that is upright now. It may repeat the orientation, as an attribute or as an element.
pub(crate) fn settled_xmp(mut packet: Vec<u8>) -> Vec<u8> {
    const NAME: &[u8] = b"tiff:Orientation";
    let mut from = 0;
    while let Some(found) = packet[from..].windows(NAME.len()).position(|w| w == NAME) {
        from += found + NAME.len();
        let value = match packet.get(from..from + 3) {
            Some([b'=', b'"' | b'\'', b'1'..=b'8']) => from + 2,
            Some([b'>', b'1'..=b'8', b'<']) => from + 1,
            _ => continue,
        };
        packet[value] = b'1';
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block with an orientation, the size in an inner directory, and a thumbnail at its end.
    fn block(big: bool, orientation: u16) -> Vec<u8> {
        let short = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
        let long = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
        let entry = |tag: u16, kind: u16, value: u32| {
            let value =
                if kind == SHORT { [short(value as u16), [0; 2]].concat() } else { long(value).to_vec() };
            [short(tag).to_vec(), short(kind).to_vec(), long(1).to_vec(), value].concat()
        };
        let mark: &[u8] = if big { b"MM\0*" } else { b"II*\0" };
        [
            mark.to_vec(),
            long(8).to_vec(),
            // At 8: two entries and the link.
            short(2).to_vec(),
            entry(ORIENTATION, SHORT, orientation.into()),
            entry(EXIF, LONG, 38),
            long(68).to_vec(),
            // At 38: the size.
            short(2).to_vec(),
            entry(PIXEL_WIDTH, SHORT, 640),
            entry(PIXEL_HEIGHT, LONG, 480),
            long(0).to_vec(),
            // At 68: the thumbnail.
            short(2).to_vec(),
            entry(THUMBNAIL, LONG, 98),
            entry(THUMBNAIL_BYTES, LONG, 5),
            long(0).to_vec(),
            b"thumb".to_vec(),
        ]
        .concat()
    }

    #[test]
    fn the_orientation_is_found_and_reset_in_both_byte_orders() {
        for big in [false, true] {
            for n in 1..=8 {
                let block = block(big, n);
                assert_eq!(orientation(&block), u32::from(n));
                let settled = settled(block.clone()).unwrap();
                assert_eq!(orientation(&settled), 1);
                assert_eq!(settled.len(), block.len() - 5, "the thumbnail is gone");
                let read = Block::new(&settled).unwrap();
                assert_eq!(read.long(34), Some(0), "nothing points to it");
            }
            assert_eq!(orientation(&block(big, 9)), 1);
        }
    }

    #[test]
    fn the_size_follows_the_picture() {
        for big in [false, true] {
            let changed = resized(block(big, 1), [1280, 960]);
            let read = Block::new(&changed).unwrap();
            let (entries, _) = read.directory(38).unwrap();
            assert_eq!(entries.iter().map(|e| read.number(*e).unwrap()).collect::<Vec<_>>(), [1280, 960]);
            // What a 16-bit field cannot hold stays as it was.
            let huge = resized(block(big, 1), [70_000, 70_000]);
            let read = Block::new(&huge).unwrap();
            assert_eq!(entries.iter().map(|e| read.number(*e).unwrap()).collect::<Vec<_>>(), [640, 70_000]);
        }
    }

    #[test]
    fn xmp_repeats_the_orientation_in_two_ways() {
        let packet =
            b"<x tiff:Orientation=\"6\"/><tiff:Orientation>8</tiff:Orientation> tiff:Orientation".to_vec();
        let settled = settled_xmp(packet);
        let text = String::from_utf8(settled).unwrap();
        let expected = "<x tiff:Orientation=\"1\"/><tiff:Orientation>1</tiff:Orientation> tiff:Orientation";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_no_exif_says_nothing() {
        for bytes in [&b""[..], b"II*\0", b"II*\0\xff\xff\xff\xff", b"words"] {
            assert_eq!(orientation(bytes), 1);
            assert!(settled(bytes.to_vec()).is_none_or(|b| b == bytes));
            assert_eq!(resized(bytes.to_vec(), [1, 1]), bytes);
        }
    }
}
