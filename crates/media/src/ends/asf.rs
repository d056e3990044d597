//! ASF, as WMV files are: where the data ends by the word of its own header. ffmpeg forgets the length of a file that is
//! shorter than that.

use super::Fault;
use super::places::{Places, u32_le, u64_le};

/// Objects of a header.
const HEADER: [u8; 16] = *b"\x30\x26\xB2\x75\x8E\x66\xCF\x11\xA6\xD9\x00\xAA\x00\x62\xCE\x6C";
const PROPERTIES: [u8; 16] = *b"\xA1\xDC\xAB\x8C\x47\xA9\xCF\x11\x8E\xE4\x00\xC0\x0C\x20\x53\x65";
const DATA: [u8; 16] = *b"\x36\x26\xB2\x75\x8E\x66\xCF\x11\xA6\xD9\x00\xAA\x00\x62\xCE\x6C";

/// Objects that are looked at.
const MAX_OBJECTS: usize = 1 << 10;

/// A flag of the properties: sizes and times are not known, since it was sent before it ended.
const BROADCAST: u32 = 1;

/// What the ASF in `file` lacks.
pub(crate) fn look(file: &mut Places) -> Option<Fault> {
    let (name, end) = object(file, 0)?;
    if name != HEADER {
        return None;
    }
    let mut at = 30;
    for _ in 0..MAX_OBJECTS {
        let Some((name, next)) = object(file, at).filter(|_| at < end) else { break };
        if name == PROPERTIES && u32_le(&file.bytes::<4>(at + 88)?, 0) & BROADCAST != 0 {
            return None;
        }
        at = next;
    }
    // The index is behind the data, and no frame is missing from a file that lacks it.
    let (name, needs) = object(file, end)?;
    let has = file.length();
    (name == DATA && needs > has).then_some(Fault::Bytes { has, needs })
}

/// The name of an object, and where it ends.
fn object(file: &mut Places, at: u64) -> Option<([u8; 16], u64)> {
    let head = file.bytes::<24>(at)?;
    let size = u64_le(&head, 16);
    let end = at.checked_add(size).filter(|_| size >= 24)?;
    let [name @ .., _, _, _, _, _, _, _, _] = head;
    Some((name, end))
}
