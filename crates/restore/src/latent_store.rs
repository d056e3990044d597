//! Latents of a group of shots between the networks: in memory, or in a file that has no name and is gone with the
//! process.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use remaster_disk::{read_at, write_at};

use crate::error::RestoreError;

/// Where latents wait.
#[derive(Debug)]
enum Backing {
    Memory(Vec<f32>),
    File(File),
}

/// Latents, `[h, w, c]` each, one behind the other.
#[derive(Debug)]
pub(crate) struct LatentStore {
    backing: Backing,
    /// Values of a latent.
    length: usize,
    /// Latents there is room for.
    room: usize,
    latents: usize,
}

impl LatentStore {
    /// Room for `bytes` of latents of `length` values: in `folder`, or in memory.
    pub(crate) fn new(folder: Option<&Path>, length: usize, bytes: u64) -> Result<Self, RestoreError> {
        let backing = match folder {
            Some(folder) => Backing::File(
                remaster_disk::unnamed(folder)
                    .map_err(|source| RestoreError::Spool { folder: folder.to_owned(), source })?,
            ),
            None => Backing::Memory(Vec::new()),
        };
        let each = 4 * length.max(1) as u64;
        let room = usize::try_from(bytes / each).unwrap_or(usize::MAX);
        Ok(LatentStore { backing, length, room, latents: 0 })
    }

    /// Values of a latent.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Latents that are there.
    pub(crate) fn latents(&self) -> usize {
        self.latents
    }

    /// Latents that there is room for.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Takes room for so many latents, which may come in any order. False if there is not enough.
    pub(crate) fn claim(&mut self, latents: usize) -> bool {
        let fits = latents <= self.room;
        self.latents = if fits { latents } else { self.latents };
        fits
    }

    /// Forgets latents from number `first` on.
    pub(crate) fn truncate(&mut self, first: usize) -> Result<(), RestoreError> {
        self.latents = self.latents.min(first);
        let values = self.latents * self.length;
        match &mut self.backing {
            Backing::Memory(all) => all.truncate(values),
            Backing::File(file) => file.set_len(4 * values as u64).map_err(RestoreError::Latents)?,
        }
        Ok(())
    }

    /// Adds a latent. `Ok(false)` if there is no room.
    pub(crate) fn push(&mut self, latent: &[f32]) -> Result<bool, RestoreError> {
        if self.latents >= self.room || latent.len() != self.length {
            return Ok(false);
        }
        self.latents += 1;
        self.write(self.latents - 1, latent)?;
        Ok(true)
    }

    /// Replaces latents from number `first` on.
    pub(crate) fn write(&mut self, first: usize, values: &[f32]) -> Result<(), RestoreError> {
        let start = first * self.length;
        match &mut self.backing {
            Backing::Memory(all) => {
                let end = start + values.len();
                if all.len() < end {
                    all.resize(end, 0.0);
                }
                all[start..end].copy_from_slice(values);
                Ok(())
            }
            Backing::File(file) => {
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                write_at(file, &bytes, 4 * start as u64).map_err(RestoreError::Latents)
            }
        }
    }

    /// Latents by number.
    pub(crate) fn read(&self, latents: Range<usize>) -> Result<Vec<f32>, RestoreError> {
        let (start, count) = (latents.start * self.length, latents.len() * self.length);
        match &self.backing {
            Backing::Memory(all) => Ok(all.get(start..start + count).unwrap_or_default().to_vec()),
            Backing::File(file) => {
                let mut bytes = vec![0; 4 * count];
                read_at(file, &mut bytes, 4 * start as u64).map_err(RestoreError::Latents)?;
                Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_memory_hold_the_same() {
        let folder = std::env::temp_dir();
        for folder in [None, Some(folder.as_path())] {
            let mut store = LatentStore::new(folder, 3, 5 * 12 + 11).unwrap();
            assert_eq!(store.room(), 5);
            for i in 0..5 {
                assert!(store.push(&[i as f32; 3]).unwrap());
            }
            assert!(!store.push(&[9.0; 3]).unwrap());
            store.write(1, &[7.0; 6]).unwrap();
            let all = store.read(0..5).unwrap();
            assert_eq!(all.iter().step_by(3).copied().collect::<Vec<_>>(), [0.0, 7.0, 7.0, 3.0, 4.0]);
            store.truncate(1).unwrap();
            assert_eq!(store.latents(), 1);
            assert!(store.push(&[1.0; 3]).unwrap());
            assert_eq!(store.read(0..2).unwrap(), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
            assert!(!store.claim(6) && store.claim(5));
            store.write(4, &[4.0; 3]).unwrap();
            assert_eq!((store.latents(), store.read(4..5).unwrap()), (5, vec![4.0; 3]));
        }
    }
}
