//! FLV: tags that reach behind the end of the file. The length that it says is in seconds, which some encoders round.

use super::Fault;
use super::places::Places;

/// Bytes of a tag without its data, and of the size of a tag behind it.
const HEAD: u64 = 11;
const SIZE: u64 = 4;

/// Tags that are looked at: those of a day.
const MAX_TAGS: usize = 1 << 24;

/// Whether a tag is of sound, a picture or words.
fn is_tag(kind: u8) -> bool {
    matches!(kind & 0x1F, 8 | 9 | 18)
}

/// Bytes of data of the tag at `at`.
fn tag(file: &mut Places, at: u64) -> Option<u64> {
    let [kind, a, b, c] = file.bytes::<4>(at)?;
    is_tag(kind).then(|| u64::from(u32::from_be_bytes([0, a, b, c])))
}

/// What the FLV in `file` lacks. One that ends with a tag lacks nothing; in any other each tag is looked at.
pub(crate) fn look(file: &mut Places) -> Option<Fault> {
    let has = file.length();
    let end = has.checked_sub(SIZE)?;
    let size = u64::from(u32::from_be_bytes(file.bytes(end)?));
    if end.checked_sub(size).and_then(|at| tag(file, at)).is_some_and(|data| data + HEAD == size) {
        return None;
    }
    let mut at = u64::from(u32::from_be_bytes(file.bytes(5)?)) + SIZE;
    for _ in 0..MAX_TAGS {
        // What is behind the last tag can be anything, and nothing may be behind it.
        let needs = at + HEAD + tag(file, at)?;
        if needs > has {
            return Some(Fault::Bytes { has, needs });
        }
        at = needs + SIZE;
    }
    None
}
