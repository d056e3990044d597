//! The hash people compare a download with.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

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
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(bytes) => {
                hash.update(&piece[..bytes]);
                if read(bytes as u64).is_break() {
                    return Ok(None);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(hex(hash)))
}

/// As [`sha256_hex`], of a file that lies in memory.
pub fn sha256_of_bytes(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
