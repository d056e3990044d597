//! RealMedia: where the data ends by its own word.

use super::Fault;
use super::places::Places;

/// Bytes that a header may be wrong by: ffmpeg announces ten too many.
const WRONG: u64 = 16;

/// Parts of a file.
const MAX_PARTS: usize = 1 << 10;

/// What the RealMedia in `file` lacks.
pub(crate) fn look(file: &mut Places) -> Option<Fault> {
    let (mut at, has) = (0, file.length());
    for _ in 0..MAX_PARTS {
        let [a, b, c, d, size @ ..] = file.bytes::<8>(at)?;
        let size = u64::from(u32::from_be_bytes(size));
        let needs = at + size;
        // What is sent before it ends has no size.
        if size < 8 {
            return None;
        }
        if [a, b, c, d] == *b"DATA" && needs > has + WRONG {
            return Some(Fault::Bytes { has, needs });
        }
        at = needs;
    }
    None
}
