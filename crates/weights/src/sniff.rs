//! What a file is, from its first bytes. Names are not asked: people rename files.

use crate::error::CheckpointError;
use crate::gguf::MAGIC;
use crate::header::MAX_HEADER;
use crate::zip::LOCAL;

/// Bytes from the start of a file that are looked at.
pub(crate) const HEAD: usize = 512;

/// What a file of PyTorch before 1.6 starts with, behind the protocol of its pickle: a number of ten bytes.
const OLD_TORCH: &[u8; 12] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

/// A file that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Safetensors, with the length of its header.
    Safetensors(usize),
    Gguf,
    /// A zip. PyTorch writes the member `NAME/data.pkl` first; other programs may move it.
    Zip {
        starts_so: bool,
    },
}

/// What a file of `bytes` bytes is, or what else it is. `file` is its start, at least `HEAD` bytes or all there are.
pub(crate) fn start_of(file: &[u8], bytes: u64) -> Result<Start, CheckpointError> {
    if file.is_empty() {
        return Err(CheckpointError::Empty);
    }
    // As the length of a safetensors header, these four bytes would be more than a billion.
    if file.starts_with(MAGIC) {
        return Ok(Start::Gguf);
    }
    // These would be 67 million, more than any header has.
    if file.starts_with(LOCAL) {
        return Ok(Start::Zip { starts_so: file.windows(4).take(HEAD).any(|at| at == b".pkl") });
    }
    // Safetensors first: its length field can look like the start of a pickle (640 is 80 02).
    let Some((length, rest)) = file.split_first_chunk::<8>() else {
        return Err(other_format(file).unwrap_or(CheckpointError::Truncated { needed: 8, actual: bytes }));
    };
    let claimed = u64::from_le_bytes(*length);
    let cut = CheckpointError::Truncated { needed: claimed.saturating_add(8), actual: bytes };
    match rest.first() {
        Some(b'{') if claimed > MAX_HEADER as u64 => {
            // A length no file has, and the brace by chance: say what it is if that is known.
            Err(other_format(file)
                .unwrap_or(CheckpointError::HeaderTooLarge { bytes: claimed, max: MAX_HEADER as u64 }))
        }
        Some(b'{') if claimed > bytes.saturating_sub(8) => Err(cut),
        Some(b'{') => Ok(Start::Safetensors(claimed as usize)),
        None if claimed <= MAX_HEADER as u64 => Err(other_format(file).unwrap_or(cut)),
        _ => {
            Err(other_format(file).unwrap_or_else(|| CheckpointError::NotSafetensors { start: start(file) }))
        }
    }
}

fn other_format(file: &[u8]) -> Option<CheckpointError> {
    let head = &file[..file.len().min(HEAD)];
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let opens = |word: &[u8]| text.get(..word.len()).is_some_and(|at| at.eq_ignore_ascii_case(word));
    if let [0x80, 2..=5, rest @ ..] = head {
        let old = rest.starts_with(OLD_TORCH);
        return Some(if old { CheckpointError::OldTorch } else { CheckpointError::Pickle });
    }
    if opens(b"version https://git-lfs") {
        return Some(CheckpointError::LfsPointer);
    }
    // Object stores answer a refused download with XML.
    if opens(b"<!doctype") || opens(b"<html") || opens(b"<?xml") || opens(b"<head") {
        return Some(CheckpointError::Html);
    }
    None
}

fn start(file: &[u8]) -> String {
    file.iter().take(16).map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
}
