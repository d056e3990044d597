//! Sums over a latent file: which of its latents is damaged, or that what it says of its clip is.
//!
//! `sums` is `[t, 32]` in u8: the SHA-256 of the bytes of each latent. The metadata entry `sha256` is the one of everything
//! else: what is said of the clip, then the bytes of `pts`, `shots` and `sums`.

use std::fs::File;
use std::io::{BufReader, Read, Write};

use sha2::{Digest, Sha256};

use super::LatentFile;
use crate::error::PipelineError;

/// Bytes of a sum.
pub(super) const SUM: u64 = 32;

/// Bytes that are hashed at a time.
const PIECE: u64 = 1 << 16;

/// Takes bytes to a writer and hashes them.
pub(super) struct Hashed<'a, W> {
    pub(super) to: &'a mut W,
    pub(super) hash: &'a mut Sha256,
}

impl<W: Write> Write for Hashed<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

/// A hash as the metadata has it.
pub(super) fn word(hash: Sha256) -> String {
    remaster_disk::hex(&hash.finalize())
}

impl LatentFile {
    /// Refuses a file of which anything but the latents is damaged. `about` is what it says of its clip, `sum` the hash in its
    /// metadata.
    pub(super) fn check_sum(&self, about: &str, sum: &str) -> Result<(), PipelineError> {
        let mut hash = Sha256::new_with_prefix(about);
        let mut rows = self.rows(self.latent_bytes())?;
        let mut piece = [0; PIECE as usize];
        loop {
            match rows.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => hash.update(&piece[..bytes]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.bad(error.to_string())),
            }
        }
        match word(hash) == sum {
            true => Ok(()),
            false => Err(self.bad(damaged("what it says of its clip"))),
        }
    }

    /// The sums from that of latent `first` on; `None` in files of the form before this one, which have none.
    pub(super) fn sums(&self, first: usize) -> Result<Option<BufReader<File>>, PipelineError> {
        let offset = self.latent_bytes() + 8 * self.frames as u64 + 16 * self.shots.unwrap_or(0) as u64;
        self.summed.then(|| self.rows(offset + SUM * first as u64)).transpose()
    }

    fn latent_bytes(&self) -> u64 {
        4 * self.shape.len() as u64
    }
}

/// The reason for a part that has another hash than was written down.
pub(super) fn damaged(what: &str) -> String {
    format!("{what} is damaged: its SHA-256 is another one; copy the file again, or encode the clip again")
}
