//! MP4 and MOV: boxes that reach behind the end of the file, and how long a file of fragments says that it is. ffmpeg takes
//! the fragments that are there, and does not complain about one that lacks its end.

use super::Fault;
use super::places::Places;

/// Boxes that are looked at before any work: as many seeks on a slow disk take a few seconds.
pub(crate) const FEW_BOXES: usize = 1 << 9;

/// Boxes that are looked at in the end: fragments of a single frame each for three days.
pub(crate) const ALL_BOXES: usize = 1 << 24;

/// Boxes in a `moov`.
const MAX_INNER: usize = 1 << 10;

/// What is known of an MP4.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Mp4 {
    /// What it lacks.
    pub(crate) fault: Option<Fault>,
    /// All of its boxes were looked at.
    pub(crate) is_all: bool,
    /// Seconds of all fragments together.
    pub(crate) seconds: Option<f64>,
}

/// A box: its name, where its content begins, and where it ends. Without an end it goes on to that of the file.
struct Piece {
    name: [u8; 4],
    data: u64,
    end: Option<u64>,
}

impl Piece {
    fn at(file: &mut Places, at: u64) -> Option<Self> {
        let [a, b, c, d, name @ ..] = file.bytes::<8>(at)?;
        let (header, size) = match u32::from_be_bytes([a, b, c, d]) {
            0 => return Some(Piece { name, data: at + 8, end: None }),
            1 => (16, u64::from_be_bytes(file.bytes::<8>(at + 8)?)),
            size => (8, u64::from(size)),
        };
        // A box is no shorter than its own header: what is here is none.
        let end = at.checked_add(size).filter(|_| size >= header)?;
        Some(Piece { name, data: at + header, end: Some(end) })
    }
}

/// Looks at `most` boxes of the MP4 in `file`.
pub(crate) fn look(file: &mut Places, most: usize) -> Mp4 {
    let mut found = Mp4::default();
    let mut at = 0;
    for _ in 0..most {
        let Some(piece) = Piece::at(file, at).filter(|piece| is_name(piece.name)) else {
            found.is_all = true;
            break;
        };
        let end = piece.end.unwrap_or(file.length());
        // What else is cut off, such as an index or padding, no frame is missing from.
        if end > file.length() && matches!(&piece.name, b"mdat" | b"moof") {
            found.fault = Some(Fault::Bytes { has: file.length(), needs: end });
        }
        if &piece.name == b"moov" {
            found.seconds = fragments(file, piece.data, end);
        }
        at = end;
    }
    found
}

/// Letters, digits and blanks, as all boxes of a file have: what is behind the last one can be anything.
fn is_name(name: [u8; 4]) -> bool {
    name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b' ')
}

/// The first box of this name between two places.
fn inner(file: &mut Places, mut at: u64, end: u64, name: &[u8; 4]) -> Option<Piece> {
    for _ in 0..MAX_INNER {
        let piece = Piece::at(file, at).filter(|_| at < end)?;
        if &piece.name == name {
            return Some(piece);
        }
        at = piece.end?;
    }
    None
}

/// Seconds of all fragments, as the header of a file of fragments says.
fn fragments(file: &mut Places, from: u64, end: u64) -> Option<f64> {
    let (header, mvex) = (inner(file, from, end, b"mvhd")?, inner(file, from, end, b"mvex")?);
    let mehd = inner(file, mvex.data, mvex.end?, b"mehd")?;
    // Times have twice the bytes in the second version of a box.
    let is_long = |file: &mut Places, piece: &Piece| Some(file.bytes::<1>(piece.data)? == [1]);
    let scale = if is_long(file, &header)? { 20 } else { 12 };
    let scale = u32::from_be_bytes(file.bytes(header.data + scale)?);
    let length = match is_long(file, &mehd)? {
        true => u64::from_be_bytes(file.bytes(mehd.data + 4)?),
        false => u64::from(u32::from_be_bytes(file.bytes(mehd.data + 4)?)),
    };
    Some(length as f64 / f64::from(scale)).filter(|seconds| *seconds > 0.0 && seconds.is_finite())
}
