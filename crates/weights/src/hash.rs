//! The hash people compare a download with.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use remaster_disk::{hex, sha256_of};
use sha2::{Digest, Sha256};

/// SHA-256 of the file at `path`, as lower-case hexadecimal. Reads it in pieces.
pub fn sha256_hex(path: &Path) -> io::Result<String> {
    let hash = sha256_in_pieces(path, &mut |_| ControlFlow::Continue(()))?;
    Ok(hash.unwrap_or_default())
}

/// As [`sha256_hex`], and tells the bytes of each piece, for files that take a minute. `None` if told to
/// stop.
pub fn sha256_in_pieces(
    path: &Path,
    read: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> io::Result<Option<String>> {
    let hash = sha256_of(remaster_disk::read_named(path)?, read)?;
    Ok(hash.map(|hash| hex(&hash.finalize())))
}

/// As [`sha256_hex`], of a file that lies in memory.
pub fn sha256_of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
