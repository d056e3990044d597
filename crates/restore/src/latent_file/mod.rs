//! Latents of a clip in a file: safetensors, written as they come.
//!
//! `latent` is `[t, h, w, c]` in f32, as the encoder gives it or the decoder takes it, not scaled; `pts` is `[frames]` in
//! i64. The latents of a restored film are those of its shots, one behind the other: `shots`, `[n, 2]` in i64, has the
//! frames and the kind of alpha of each. The metadata entry `remaster` is JSON with everything else that is needed to
//! make video of it again: [`About`]. All of it has sums (`sums.rs`).

mod about;
mod origin;
mod read;
mod sums;
mod write;

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use remaster_compute::Shape;
use serde::{Deserialize, Serialize};

pub use about::{About, NetworkId, Restored};
pub use origin::{Lost, Origin};
pub use read::ShotRows;
pub(crate) use read::{LatentReader, Times};
use sums::SUM;
pub use write::LatentWriter;

use crate::error::PipelineError;

/// What the files of this version call themselves.
const FORMAT: &str = "remaster-latents-4";
/// What files without sums call themselves, which are read, too.
const WITHOUT_SUMS: &str = "remaster-latents-3";
/// What all of them begin with.
const FAMILY: &str = "remaster-latents-";

/// The most bytes of a header that are read. Paths are the longest part of it.
const LONGEST: u64 = 1 << 20;
/// Bytes of a header beside what it says about the clip: names, and numbers of 20 digits.
const NUMBERS: usize = 1024;
/// Timestamps from here on are no time of a clip: doubles, which players count in, have 53 bits.
const LATEST: i64 = 1 << 53;
/// The most channels of a latent. The public network has 16; a whole block of 4 x 8 x 8 pixels, unchanged, has 768.
const CHANNELS: u64 = 1024;

#[derive(Serialize, Deserialize)]
struct Header {
    #[serde(rename = "__metadata__")]
    metadata: Metadata,
    latent: Entry,
    pts: Entry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shots: Option<Entry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sums: Option<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Metadata {
    format: String,
    remaster: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

/// Just the name of the form, of any version.
#[derive(Deserialize)]
struct AnyHeader {
    #[serde(rename = "__metadata__", default)]
    metadata: AnyMetadata,
}

#[derive(Default, Deserialize)]
struct AnyMetadata {
    #[serde(default)]
    format: String,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// A shot of a restored film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShotLatents {
    /// Its frames, without those that fill up its end.
    pub frames: usize,
    /// Of what kind its alpha is, 0 to 2.
    pub alpha: u8,
    /// Its latents.
    pub latents: Range<usize>,
}

/// Kinds of alpha that a row of `shots` can name.
pub(crate) const KINDS: u8 = 3;

/// Latents of a shot of so many frames: 4n + 1 of them, the end filled up.
fn latents_of(frames: u64) -> u64 {
    frames.saturating_sub(1).div_ceil(4) + 1
}

/// Why `pts` cannot be the time of a frame after `last`.
fn wrong_time(frame: u64, last: Option<i64>, pts: i64) -> Option<String> {
    match last {
        _ if !(0..LATEST).contains(&pts) => {
            Some(format!("frame {frame} is shown at {pts}; times are 0 to {}", LATEST - 1))
        }
        Some(last) if pts <= last => {
            Some(format!("frame {frame} is shown at {pts}, no later than the one before it at {last}"))
        }
        _ => None,
    }
}

/// A latent file that was checked.
#[derive(Debug)]
pub struct LatentFile {
    path: PathBuf,
    about: About,
    shape: Shape,
    start: u64,
    frames: usize,
    /// Shots of a restored film.
    shots: Option<usize>,
    /// It has sums.
    summed: bool,
}

impl LatentFile {
    /// Reads and checks everything but the latents.
    pub fn open(path: &Path) -> Result<Self, PipelineError> {
        let bad = |reason: String| PipelineError::Latents { path: path.to_owned(), reason };
        let (text, rest) = header(path).map_err(bad)?;
        let any: AnyHeader =
            serde_json::from_slice(&text).map_err(|e| bad(format!("its header is damaged: {e}")))?;
        match any.metadata.format.as_str() {
            FORMAT | WITHOUT_SUMS => {}
            other if other.starts_with(FAMILY) => {
                let other: String = other.chars().take(40).flat_map(char::escape_debug).collect();
                let reason = format!(
                    "it is of the form {other}, and this version reads {WITHOUT_SUMS} and {FORMAT}; encode the clip again"
                );
                return Err(bad(reason));
            }
            _ => {
                let reason =
                    "`vae encode` did not write it; tensors without a clip decode to a .safetensors file";
                return Err(bad(reason.into()));
            }
        }
        let header: Header =
            serde_json::from_slice(&text).map_err(|e| bad(format!("its header is damaged: {e}")))?;
        let about: About = serde_json::from_str(&header.metadata.remaster)
            .map_err(|e| bad(format!("what it says about its clip is damaged: {e}")))?;
        about.check().map_err(bad)?;
        let Sizes { shape, frames, shots } = sizes(&header, &about, rest).map_err(bad)?;
        let start = 8 + text.len() as u64;
        let summed = any.metadata.format == FORMAT;
        let file = LatentFile { path: path.to_owned(), about, shape, start, frames, shots, summed };
        if summed {
            file.check_sum(&header.metadata.remaster, &header.metadata.sha256.unwrap_or_default())?;
        }
        // Every one of them is looked at, in no memory, before anything is made of the latents.
        file.times()?.try_for_each(|time| time.map(drop))?;
        file.shots()?.try_for_each(|shot| shot.map(drop))?;
        Ok(file)
    }

    /// Whether a file holds tensors that `vae encode` did not write as latents of a clip.
    pub fn is_plain(path: &Path) -> bool {
        let text = header(path).map(|(text, _)| text).unwrap_or_default();
        let any = serde_json::from_slice::<AnyHeader>(&text);
        any.is_ok_and(|any| !any.metadata.format.starts_with(FAMILY))
    }

    /// What is known of the clip.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Latents, rows, columns and channels.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Frames of the clip.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Refuses to be decoded by any network but the one that made it.
    pub fn made_by(&self, network: &NetworkId) -> Result<(), PipelineError> {
        let made = &self.about.network;
        if made.is(network) {
            return Ok(());
        }
        let made: String = made.to_string().chars().flat_map(char::escape_debug).collect();
        let reason = format!(
            "it was encoded with {made}, but the weights are {network}; decode with the weights it was encoded with"
        );
        Err(self.bad(reason))
    }

    /// Refuses a network whose latents have another width.
    pub fn has_channels(&self, expected: usize) -> Result<(), PipelineError> {
        match self.shape.c {
            found if found == expected => Ok(()),
            found => Err(self.bad(format!("it has {found} channels, but the network expects {expected}"))),
        }
    }

    /// Refuses a film of shots where one clip is expected.
    pub fn one_clip(&self) -> Result<(), PipelineError> {
        match self.shots {
            None => Ok(()),
            Some(_) => Err(self.bad("it holds the shots of a restored film; use `remaster redecode`".into())),
        }
    }

    /// What a restoration kept. An error if it is the latents of a clip.
    pub fn restored(&self) -> Result<&Restored, PipelineError> {
        let plain = "it was not written with `--keep-latents`; use `remaster vae decode`";
        self.about.restored.as_ref().ok_or_else(|| self.bad(plain.into()))
    }

    /// When frames are shown, read as they are needed.
    pub(crate) fn times(&self) -> Result<Times, PipelineError> {
        Ok(Times::new(self, self.rows(4 * self.shape.len() as u64)?))
    }

    /// The shots of a restored film, read as they are needed; none of a clip.
    pub fn shots(&self) -> Result<ShotRows, PipelineError> {
        let latents_and_times = 4 * self.shape.len() as u64 + 8 * self.frames as u64;
        Ok(ShotRows::new(self, self.rows(latents_and_times)?))
    }

    /// Some of the latents for a decoder.
    pub(crate) fn latents(&self, latents: Range<usize>) -> LatentReader<'_> {
        LatentReader::new(self, latents)
    }

    fn rows(&self, offset: u64) -> Result<BufReader<File>, PipelineError> {
        let bad = |e: std::io::Error| self.bad(e.to_string());
        let mut file = remaster_disk::read_named(&self.path).map_err(bad)?;
        file.seek(SeekFrom::Start(self.start + offset)).map_err(bad)?;
        Ok(BufReader::with_capacity(1 << 16, file))
    }

    fn bad(&self, reason: String) -> PipelineError {
        PipelineError::Latents { path: self.path.clone(), reason }
    }
}

/// The text of a header, and how many bytes follow it.
fn header(path: &Path) -> Result<(Vec<u8>, u64), String> {
    let io = |e: std::io::Error| e.to_string();
    let mut file = remaster_disk::read_named(path).map_err(io)?;
    let total = file.metadata().map_err(io)?.len();
    let mut length = [0; 8];
    if total < 8 {
        return Err(format!("it has {total} bytes and no header"));
    }
    file.read_exact(&mut length).map_err(io)?;
    let length = u64::from_le_bytes(length);
    let rest = length.checked_add(8).and_then(|start| total.checked_sub(start));
    let Some(rest) = rest.filter(|_| length <= LONGEST) else {
        return Err(format!("a header of {length} bytes in a file of {total}"));
    };
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(io)?;
    Ok((text, rest))
}

/// Sizes of what a file holds.
struct Sizes {
    shape: Shape,
    frames: usize,
    shots: Option<usize>,
}

/// The sizes, if all that is said agrees with each other and with the `rest` bytes that follow.
fn sizes(header: &Header, about: &About, rest: u64) -> Result<Sizes, String> {
    let (&[t, h, w, c], &[frames]) = (&header.latent.shape[..], &header.pts.shape[..]) else {
        return Err("its tensors have the wrong rank".into());
    };
    let shots = match header.shots.as_ref().map(|shots| &shots.shape[..]) {
        None => None,
        Some(&[rows, 2]) => Some(rows),
        Some(_) => return Err("its tensors have the wrong rank".into()),
    };
    if header.sums.is_some() != (header.metadata.format == FORMAT) {
        return Err("its tensors are not those of its form".into());
    }
    let integers = [Some(&header.pts), header.shots.as_ref()];
    if header.latent.dtype != "F32" || integers.iter().flatten().any(|entry| entry.dtype != "I64") {
        return Err("its tensors are not F32 and I64".into());
    }
    if shots.is_some() != about.restored.is_some() {
        return Err("a list of shots and what was restored belong together".into());
    }
    let [width, height] = about.geometry.padded.map(|n| n as u64);
    if (w.checked_mul(8), h.checked_mul(8)) != (Some(width), Some(height)) {
        return Err(format!("latents of {w} x {h} are not those of frames of {width} x {height}"));
    }
    if !(1..=CHANNELS).contains(&c) {
        return Err(format!("latents of {c} channels; 1 to {CHANNELS} are read"));
    }
    // Shots are counted one by one when they are read.
    let possible = match shots {
        None => t == latents_of(frames),
        Some(shots) => (1..=frames).contains(&shots) && (1..=frames).contains(&t),
    };
    if frames == 0 || !possible {
        return Err(format!("{t} latents are not those of {frames} frames"));
    }
    if header.sums.as_ref().is_some_and(|sums| sums.dtype != "U8" || sums.shape[..] != [t, SUM]) {
        return Err(format!("its sums are not those of {t} latents"));
    }
    let mut ends = [0u64; 5];
    let lengths = [
        [t, h, w, c].iter().try_fold(4u64, |n, d| n.checked_mul(*d)),
        frames.checked_mul(8),
        shots.unwrap_or(0).checked_mul(16),
        header.sums.as_ref().map_or(Some(0), |_| t.checked_mul(SUM)),
    ];
    for (i, length) in lengths.into_iter().enumerate() {
        let end = length.and_then(|length| ends[i].checked_add(length));
        ends[i + 1] = end.ok_or("its tensors are larger than any file")?;
    }
    let [_, latents, times, rows, end] = ends;
    if end != rest {
        return Err(format!("its tensors take {end} bytes, but it has {rest} for them"));
    }
    let sums = header.sums.as_ref();
    let expected =
        [Some([0, latents]), Some([latents, times]), shots.map(|_| [times, rows]), sums.map(|_| [rows, end])];
    let said = [Some(&header.latent), Some(&header.pts), header.shots.as_ref(), sums];
    if said.map(|entry| entry.map(|entry| entry.data_offsets)) != expected {
        return Err("its tensors are not where they should be".into());
    }
    let size =
        |n: u64| usize::try_from(n).map_err(|_| format!("{n} of anything is too much for this machine"));
    Ok(Sizes {
        shape: Shape::new(size(t)?, size(h)?, size(w)?, size(c)?),
        frames: size(frames)?,
        shots: shots.map(size).transpose()?,
    })
}
