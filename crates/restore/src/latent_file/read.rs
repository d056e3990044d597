//! Reading a latent file that was checked: times, shots and latents, as they are needed.

use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::path::PathBuf;

use remaster_compute::Shape;
use remaster_engine::{Source, SourceError};

use sha2::{Digest, Sha256};

use super::sums::{SUM, damaged};
use super::{KINDS, LatentFile, ShotLatents, latents_of, wrong_time};
use crate::decode_thread::Beside;
use crate::error::PipelineError;

/// Timestamps of a latent file, one after the other.
pub(crate) struct Times {
    path: PathBuf,
    input: BufReader<File>,
    frames: u64,
    read: u64,
    last: Option<i64>,
}

impl Times {
    pub(super) fn new(file: &LatentFile, input: BufReader<File>) -> Self {
        Times { path: file.path.clone(), input, frames: file.frames as u64, read: 0, last: None }
    }

    /// All of them.
    pub(crate) fn frames(&self) -> usize {
        self.frames as usize
    }

    /// Latents have no alpha.
    pub(crate) fn asides(self) -> impl Iterator<Item = Result<Beside, PipelineError>> + Send {
        self.map(|time| time.map(|pts| Beside { pts, alpha: None }))
    }
}

impl Iterator for Times {
    type Item = Result<i64, PipelineError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read == self.frames {
            return None;
        }
        let mut value = [0; 8];
        let reason = match self.input.read_exact(&mut value) {
            Ok(()) => wrong_time(self.read, self.last, i64::from_le_bytes(value)),
            Err(error) => Some(error.to_string()),
        };
        if let Some(reason) = reason {
            self.read = self.frames;
            return Some(Err(PipelineError::Latents { path: self.path.clone(), reason }));
        }
        self.read += 1;
        self.last = Some(i64::from_le_bytes(value));
        self.last.map(Ok)
    }
}

/// ShotRows of a latent file, one after the other.
pub struct ShotRows {
    path: PathBuf,
    input: BufReader<File>,
    left: usize,
    /// Frames and latents that no shot has yet.
    frames: u64,
    latents: u64,
    /// Latents of the shots before.
    before: u64,
}

impl ShotRows {
    pub(super) fn new(file: &LatentFile, input: BufReader<File>) -> Self {
        let (left, latents) = (file.shots.unwrap_or(0), file.shape.t as u64);
        ShotRows { path: file.path.clone(), input, left, frames: file.frames as u64, latents, before: 0 }
    }

    fn row(&mut self) -> Result<ShotLatents, String> {
        let mut value = [0; 8];
        let mut row = [0; 2];
        for cell in &mut row {
            self.input.read_exact(&mut value).map_err(|e| e.to_string())?;
            *cell = i64::from_le_bytes(value);
        }
        let [frames, alpha] = row;
        let kind = u8::try_from(alpha).ok().filter(|kind| *kind < KINDS);
        let Some(alpha) = kind else {
            return Err(format!("a shot has alpha of the kind {alpha}; kinds are 0 to {}", KINDS - 1));
        };
        let frames = u64::try_from(frames).ok().filter(|n| (1..=self.frames).contains(n));
        let latents = frames.map(latents_of).filter(|n| *n <= self.latents);
        let (Some(frames), Some(latents)) = (frames, latents) else {
            return Err(format!("a shot has {} frames, which are not in it", row[0]));
        };
        self.frames -= frames;
        self.latents -= latents;
        self.left -= 1;
        // The last one has all that is left.
        if self.left == 0 && (self.frames, self.latents) != (0, 0) {
            return Err(format!("{} frames and {} latents are in no shot", self.frames, self.latents));
        }
        let start = self.before;
        self.before += latents;
        // All of them fit: latents of the whole file do.
        Ok(ShotLatents { frames: frames as usize, alpha, latents: start as usize..self.before as usize })
    }
}

impl Iterator for ShotRows {
    type Item = Result<ShotLatents, PipelineError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let row = self.row();
        if row.is_err() {
            self.left = 0;
        }
        Some(row.map_err(|reason| PipelineError::Latents { path: self.path.clone(), reason }))
    }
}

/// Reads latents in order.
pub(crate) struct LatentReader<'a> {
    file: &'a LatentFile,
    latents: Range<usize>,
    input: Option<Rows>,
    /// Of these latents.
    read: usize,
}

/// Latents of a file from one on, and the sums of those that have some.
struct Rows {
    values: BufReader<File>,
    sums: Option<BufReader<File>>,
}

/// Values that are read at a time.
const VALUES: usize = 4096;

impl Rows {
    /// The next latent, or what is wrong with it.
    fn latent(&mut self, out: &mut [f32]) -> Result<(), String> {
        let (mut hash, mut bytes) = (Sha256::new(), [0; 4 * VALUES]);
        let mut finite = true;
        for out in out.chunks_mut(VALUES) {
            let bytes = &mut bytes[..4 * out.len()];
            self.values.read_exact(bytes).map_err(|e| e.to_string())?;
            if self.sums.is_some() {
                hash.update(&*bytes);
            }
            for (out, value) in out.iter_mut().zip(bytes.as_chunks().0) {
                *out = f32::from_le_bytes(*value);
                finite &= out.is_finite();
            }
        }
        if let Some(sums) = &mut self.sums {
            let mut sum = [0; SUM as usize];
            sums.read_exact(&mut sum).map_err(|e| e.to_string())?;
            if hash.finalize()[..] != sum {
                return Err(damaged("it"));
            }
        }
        if finite { Ok(()) } else { Err("it has a value that is not a number".into()) }
    }
}

impl<'a> LatentReader<'a> {
    pub(super) fn new(file: &'a LatentFile, latents: Range<usize>) -> Self {
        let end = latents.end.min(file.shape.t);
        LatentReader { file, latents: latents.start.min(end)..end, input: None, read: 0 }
    }
}

impl Source for LatentReader<'_> {
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, SourceError> {
        let failed = |reason: String| SourceError(Box::new(self.file.bad(reason)));
        let Shape { h, w, c, .. } = self.file.shape;
        let length = h * w * c;
        if shape.len() != shape.t * length {
            return Err(failed(format!("a latent of {length} values where {shape} was planned")));
        }
        let next = self.latents.start + self.read;
        let input = match &mut self.input {
            Some(input) => input,
            None => {
                let failed = |error| SourceError(Box::new(error));
                let values = self.file.rows(4 * (next as u64) * (length as u64)).map_err(failed)?;
                let sums = self.file.sums(next).map_err(failed)?;
                self.input.insert(Rows { values, sums })
            }
        };
        let frames = shape.t.min(self.latents.end - next);
        for (i, out) in out.chunks_exact_mut(length.max(1)).take(frames).enumerate() {
            input.latent(out).map_err(|reason| failed(format!("latent {}: {reason}", next + i)))?;
        }
        self.read += frames;
        Ok(frames)
    }

    fn back_to(&mut self, frame: usize) -> Result<(), SourceError> {
        (self.input, self.read) = (None, frame.min(self.latents.len()));
        Ok(())
    }
}
