//! SHA-256 of what a reader gives.

use std::io::{self, Read};
use std::ops::ControlFlow;

use sha2::{Digest, Sha256};

/// Bytes that are hashed before the caller is asked whether to go on.
const PIECE: usize = 1 << 20;

/// Hashes everything that `from` gives, and tells the bytes of each piece. `None` if told to stop.
pub fn sha256_of(
    mut from: impl Read,
    read: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> io::Result<Option<Sha256>> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(Some(hash)),
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
}

/// Bytes as lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
