//! Writing a latent file as its latents come.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use remaster_media::MediaError;
use remaster_media::place::PartialFile;
use remaster_plan::SPACE;

use sha2::{Digest, Sha256};

use super::sums::{Hashed, SUM, word};
use super::{About, Entry, FORMAT, Header, LONGEST, Metadata, NUMBERS, wrong_time};
use crate::error::PipelineError;

/// Writes latents as they come.
pub struct LatentWriter {
    out: BufWriter<File>,
    /// Timestamps stand behind the latents; until those are all there they wait in a file without a name.
    times: BufWriter<File>,
    /// So do the sums of latents.
    sums: BufWriter<File>,
    last: Option<i64>,
    frames: u64,
    part: PartialFile,
    path: PathBuf,
    /// `About` as text, and the room that was left for the header with it.
    about: String,
    room: usize,
    size: [usize; 2],
    channels: usize,
    latents: u64,
    values: u64,
    /// Rows of a restored film: 16 bytes a shot.
    shots: Option<Vec<u8>>,
}

fn failed(path: &Path, source: std::io::Error) -> PipelineError {
    MediaError::writing(path, source).into()
}

impl LatentWriter {
    /// Begins a file; it appears under its name when it is complete.
    pub fn create(
        path: &Path,
        overwrite: bool,
        about: &About,
        channels: usize,
    ) -> Result<Self, PipelineError> {
        let unusable = |reason| PipelineError::Latents { path: path.to_owned(), reason };
        about.check().map_err(unusable)?;
        let size = about.geometry.padded;
        let shots = about.restored.as_ref().map(|_| Vec::new());
        let about = serde_json::to_string(about).map_err(|e| unusable(e.to_string()))?;
        let quoted = serde_json::to_string(&about).map_err(|e| unusable(e.to_string()))?;
        let room = (quoted.len() + NUMBERS).next_multiple_of(4096);
        if room as u64 > LONGEST {
            return Err(unusable(format!("its header would take {room} bytes, more than {LONGEST}")));
        }
        let part = PartialFile::beside(path, overwrite)?;
        let file = remaster_disk::create(part.path()).map_err(|e| failed(path, e))?;
        let mut out = BufWriter::new(file);
        out.write_all(&vec![b' '; 8 + room]).map_err(|e| failed(path, e))?;
        let folder = part.path().parent().unwrap_or(Path::new("."));
        let waiting = || remaster_disk::unnamed(folder).map(BufWriter::new).map_err(|e| failed(path, e));
        let (times, sums) = (waiting()?, waiting()?);
        Ok(LatentWriter {
            out,
            times,
            sums,
            last: None,
            frames: 0,
            part,
            path: path.to_owned(),
            about,
            room,
            size,
            channels,
            latents: 0,
            values: 0,
            shots,
        })
    }

    /// The next latent, `[h, w, c]`.
    pub fn latent(&mut self, values: impl Iterator<Item = f32>) -> Result<(), PipelineError> {
        let mut hash = Sha256::new();
        let mut out = BufWriter::with_capacity(1 << 16, Hashed { to: &mut self.out, hash: &mut hash });
        for value in values {
            out.write_all(&value.to_le_bytes()).map_err(|e| failed(&self.path, e))?;
            self.values += 1;
        }
        out.flush().map_err(|e| failed(&self.path, e))?;
        drop(out);
        self.sums.write_all(&hash.finalize()).map_err(|e| failed(&self.path, e))?;
        self.latents += 1;
        Ok(())
    }

    /// When the next frame is shown.
    pub fn time(&mut self, pts: i64) -> Result<(), PipelineError> {
        let reason = wrong_time(self.frames, self.last, pts);
        if let Some(reason) = reason {
            let what = "the clock of the clip";
            return Err(MediaError::Broken { what, reason }.into());
        }
        self.times.write_all(&pts.to_le_bytes()).map_err(|e| failed(&self.path, e))?;
        self.last = Some(pts);
        self.frames += 1;
        Ok(())
    }

    /// The latents since the last shot are another one, of so many frames, with alpha of this kind.
    pub fn shot(&mut self, frames: usize, alpha: u8) {
        if let Some(rows) = &mut self.shots {
            rows.extend((frames as u64).to_le_bytes());
            rows.extend(u64::from(alpha).to_le_bytes());
        }
    }

    /// Writes timestamps, shots and the header and puts the file into its place. Returns the frames.
    pub fn complete(mut self) -> Result<usize, PipelineError> {
        let path = self.path.clone();
        let io = |e| failed(&path, e);
        let frames = self.frames;
        let mut hash = Sha256::new_with_prefix(&self.about);
        let mut out = Hashed { to: &mut self.out, hash: &mut hash };
        // Both lie beside the part, whose folder goes with `put`; Windows removes no folder with an open file.
        let behind = |waiting: BufWriter<File>, out: &mut Hashed<'_, _>| {
            let mut file = waiting.into_inner().map_err(|e| failed(&path, e.into_error()))?;
            file.seek(SeekFrom::Start(0)).map_err(io)?;
            std::io::copy(&mut file, out).map_err(io)
        };
        behind(self.times, &mut out)?;
        out.write_all(self.shots.as_deref().unwrap_or_default()).map_err(io)?;
        behind(self.sums, &mut out)?;
        let [width, height] = self.size.map(|n| (n / SPACE) as u64);
        let latents = 4 * self.values;
        let times = latents + 8 * frames;
        let shots = times + self.shots.as_ref().map_or(0, |rows| rows.len() as u64);
        let entry = |dtype: &str, shape, data_offsets| Entry { dtype: dtype.to_owned(), shape, data_offsets };
        let rows = |rows: Vec<u8>| entry("I64", vec![rows.len() as u64 / 16, 2], [times, shots]);
        let shape = vec![self.latents, height, width, self.channels as u64];
        let header = Header {
            metadata: Metadata { format: FORMAT.into(), remaster: self.about, sha256: Some(word(hash)) },
            latent: entry("F32", shape, [0, latents]),
            pts: entry("I64", vec![frames], [latents, times]),
            shots: self.shots.map(rows),
            sums: Some(entry("U8", vec![self.latents, SUM], [shots, shots + SUM * self.latents])),
        };
        let unusable = |reason| PipelineError::Latents { path: path.clone(), reason };
        let mut text = serde_json::to_vec(&header).map_err(|e| unusable(e.to_string()))?;
        if text.len() > self.room {
            return Err(unusable(format!("its header takes {} bytes, more than {}", text.len(), self.room)));
        }
        text.resize(self.room, b' ');
        self.out.seek(SeekFrom::Start(0)).map_err(io)?;
        self.out.write_all(&(self.room as u64).to_le_bytes()).map_err(io)?;
        self.out.write_all(&text).map_err(io)?;
        self.out.into_inner().map_err(|e| failed(&path, e.into_error()))?;
        self.part.put()?;
        Ok(frames as usize)
    }
}
