//! Latents of a clip in a file: safetensors, written as they come.
//!
//! `latent` is `[t, h, w, c]` in f32, the mean that the encoder gives, not scaled; `pts` is `[frames]` in i64.
//! The metadata entry `remaster` is JSON with everything else that is needed to make video of it again: [`About`].

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

use remaster_compute::{HostTensor, Shape};
use remaster_engine::{Sink, SinkError, Source, SourceError};
use remaster_media::MediaError;
use remaster_media::place::Part;
use remaster_plan::SPACE;
use serde::{Deserialize, Serialize};

use crate::about::{About, NetworkId};
use crate::error::PipelineError;
use crate::intake::Beside;
use crate::latents::means;

/// What the files of this version call themselves.
const FORMAT: &str = "remaster-latents-2";
/// What all of them begin with.
const FAMILY: &str = "remaster-latents-";

/// The most bytes of a header that are read. Paths are the longest part of it.
const LONGEST: u64 = 1 << 20;
/// Bytes of a header beside what it says about the clip: names, and numbers of 20 digits.
const NUMBERS: usize = 512;
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
}

#[derive(Serialize, Deserialize)]
struct Metadata {
    format: String,
    remaster: String,
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

/// Writes latents as they come.
pub(crate) struct LatentWriter {
    out: BufWriter<File>,
    /// Timestamps stand behind the latents; until those are all there they wait in a file without a name.
    times: BufWriter<File>,
    last: Option<i64>,
    frames: u64,
    part: Part,
    path: PathBuf,
    /// `About` as text, and the room that was left for the header with it.
    about: String,
    room: usize,
    size: [usize; 2],
    channels: usize,
    latents: u64,
    values: u64,
    /// Times of frames that were read.
    beside: Receiver<Beside>,
}

fn failed(path: &Path, source: std::io::Error) -> PipelineError {
    MediaError::writing(path, source).into()
}

impl LatentWriter {
    pub(crate) fn create(
        path: &Path,
        overwrite: bool,
        about: &About,
        channels: usize,
        beside: Receiver<Beside>,
    ) -> Result<Self, PipelineError> {
        let unusable = |reason| PipelineError::Latents { path: path.to_owned(), reason };
        about.check().map_err(unusable)?;
        let size = about.geometry.padded;
        let about = serde_json::to_string(about).map_err(|e| unusable(e.to_string()))?;
        let quoted = serde_json::to_string(&about).map_err(|e| unusable(e.to_string()))?;
        let room = (quoted.len() + NUMBERS).next_multiple_of(4096);
        if room as u64 > LONGEST {
            return Err(unusable(format!("its header would take {room} bytes, more than {LONGEST}")));
        }
        let part = Part::beside(path, overwrite)?;
        let file = File::create(part.path()).map_err(|e| failed(path, e))?;
        let mut out = BufWriter::new(file);
        out.write_all(&vec![b' '; 8 + room]).map_err(|e| failed(path, e))?;
        let folder = part.path().parent().unwrap_or(Path::new("."));
        let times = tempfile::tempfile_in(folder).map_err(|e| failed(path, e))?;
        Ok(LatentWriter {
            out,
            times: BufWriter::new(times),
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
            beside,
        })
    }

    /// When the next frame is shown.
    fn time(&mut self, pts: i64) -> Result<(), PipelineError> {
        let reason = wrong_time(self.frames, self.last, pts);
        if let Some(reason) = reason {
            let what = "the clock of the clip";
            return Err(remaster_media::MediaError::Broken { what, reason }.into());
        }
        self.times.write_all(&pts.to_le_bytes()).map_err(|e| failed(&self.path, e))?;
        self.last = Some(pts);
        self.frames += 1;
        Ok(())
    }

    /// Writes timestamps and the header and puts the file into its place. Returns the frames.
    pub(crate) fn complete(mut self) -> Result<usize, PipelineError> {
        while let Ok(Beside { pts, .. }) = self.beside.recv() {
            self.time(pts)?;
        }
        let path = self.path.clone();
        let io = |e| failed(&path, e);
        let frames = self.frames;
        let mut times = self.times.into_inner().map_err(|e| failed(&path, e.into_error()))?;
        times.seek(SeekFrom::Start(0)).map_err(io)?;
        std::io::copy(&mut times, &mut self.out).map_err(io)?;
        let [width, height] = self.size.map(|n| (n / SPACE) as u64);
        let latent_bytes = 4 * self.values;
        let header = Header {
            metadata: Metadata { format: FORMAT.into(), remaster: self.about },
            latent: Entry {
                dtype: "F32".into(),
                shape: vec![self.latents, height, width, self.channels as u64],
                data_offsets: [0, latent_bytes],
            },
            pts: Entry {
                dtype: "I64".into(),
                shape: vec![frames],
                data_offsets: [latent_bytes, latent_bytes + 8 * frames],
            },
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

impl Sink for LatentWriter {
    fn write(&mut self, _first: usize, moments: HostTensor) -> Result<(), SinkError> {
        for latent in means(&moments, self.channels) {
            let bytes: Vec<u8> = latent.iter().flat_map(|v| v.to_le_bytes()).collect();
            let written = self.out.write_all(&bytes);
            written.map_err(|e| SinkError(Box::new(failed(&self.path, e))))?;
            self.latents += 1;
            self.values += latent.len() as u64;
        }
        while let Ok(Beside { pts, .. }) = self.beside.try_recv() {
            self.time(pts).map_err(|e| SinkError(Box::new(e)))?;
        }
        Ok(())
    }
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
}

impl LatentFile {
    /// Reads and checks everything but the latents.
    pub fn open(path: &Path) -> Result<Self, PipelineError> {
        let bad = |reason: String| PipelineError::Latents { path: path.to_owned(), reason };
        let (text, rest) = header(path).map_err(bad)?;
        let any: AnyHeader =
            serde_json::from_slice(&text).map_err(|e| bad(format!("its header is damaged: {e}")))?;
        match any.metadata.format.as_str() {
            FORMAT => {}
            other if other.starts_with(FAMILY) => {
                let other: String = other.chars().take(40).flat_map(char::escape_debug).collect();
                let reason = format!(
                    "it is of the form {other}, and this version reads {FORMAT}; encode the clip again"
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
        let (shape, frames) = shapes(&header, &about, rest).map_err(bad)?;
        let file = LatentFile { path: path.to_owned(), about, shape, start: 8 + text.len() as u64, frames };
        // Every one of them is looked at, in no memory, before anything is made of the latents.
        file.times()?.try_for_each(|time| time.map(drop))?;
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
        Err(PipelineError::Latents { path: self.path.clone(), reason })
    }

    /// When frames are shown, read as they are needed.
    pub(crate) fn times(&self) -> Result<Times, PipelineError> {
        let bad =
            |e: std::io::Error| PipelineError::Latents { path: self.path.clone(), reason: e.to_string() };
        let mut file = File::open(&self.path).map_err(bad)?;
        let Shape { t, h, w, c } = self.shape;
        file.seek(SeekFrom::Start(self.start + 4 * (t * h * w * c) as u64)).map_err(bad)?;
        let input = BufReader::with_capacity(1 << 16, file);
        Ok(Times { path: self.path.clone(), input, frames: self.frames as u64, read: 0, last: None })
    }
}

/// The text of a header, and how many bytes follow it.
fn header(path: &Path) -> Result<(Vec<u8>, u64), String> {
    let io = |e: std::io::Error| e.to_string();
    // Opening a pipe would wait for its other end.
    if !path.metadata().map_err(io)?.is_file() {
        return Err("it is not a regular file".into());
    }
    let mut file = File::open(path).map_err(io)?;
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

/// The shape of the latents and the number of frames, if all that is said agrees with each other and with the `rest`
/// bytes that follow.
fn shapes(header: &Header, about: &About, rest: u64) -> Result<(Shape, usize), String> {
    let (&[t, h, w, c], &[frames]) = (&header.latent.shape[..], &header.pts.shape[..]) else {
        return Err("its tensors have the wrong rank".into());
    };
    if (header.latent.dtype.as_str(), header.pts.dtype.as_str()) != ("F32", "I64") {
        return Err("its tensors are not F32 and I64".into());
    }
    let [width, height] = about.geometry.padded.map(|n| n as u64);
    if (w.checked_mul(8), h.checked_mul(8)) != (Some(width), Some(height)) {
        return Err(format!("latents of {w} x {h} are not those of frames of {width} x {height}"));
    }
    if !(1..=CHANNELS).contains(&c) {
        return Err(format!("latents of {c} channels; 1 to {CHANNELS} are read"));
    }
    // 4n + 1 frames of which up to 3 fill up the end.
    let most = t.checked_sub(1).and_then(|n| n.checked_mul(4)).and_then(|n| n.checked_add(1));
    if !most.is_some_and(|most| frames >= 1 && frames <= most && most - frames < 4) {
        return Err(format!("{t} latents are not those of {frames} frames"));
    }
    let bytes = [t, h, w, c].iter().try_fold(4u64, |n, d| n.checked_mul(*d));
    let ends = bytes.zip(frames.checked_mul(8)).and_then(|(a, b)| Some((a, a.checked_add(b)?)));
    let Some((latents, end)) = ends.filter(|(_, end)| *end == rest) else {
        return Err(format!(
            "{t} latents and {frames} times do not take the {rest} bytes that it has for them"
        ));
    };
    if header.latent.data_offsets != [0, latents] || header.pts.data_offsets != [latents, end] {
        return Err("its tensors are not where they should be".into());
    }
    let size =
        |n: u64| usize::try_from(n).map_err(|_| format!("{n} of anything is too much for this machine"));
    Ok((Shape::new(size(t)?, size(h)?, size(w)?, size(c)?), size(frames)?))
}

/// Timestamps of a latent file, one after the other.
pub(crate) struct Times {
    path: PathBuf,
    input: BufReader<File>,
    frames: u64,
    read: u64,
    last: Option<i64>,
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

impl Times {
    /// Latents have no alpha.
    pub(crate) fn asides(self) -> impl Iterator<Item = Result<Beside, PipelineError>> + Send {
        self.map(|time| time.map(|pts| Beside { pts, alpha: None }))
    }
}

/// Reads latents in order.
pub(crate) struct LatentReader<'a> {
    file: &'a LatentFile,
    input: Option<BufReader<File>>,
    read: usize,
}

impl<'a> LatentReader<'a> {
    pub(crate) fn new(file: &'a LatentFile) -> Self {
        LatentReader { file, input: None, read: 0 }
    }
}

impl Source for LatentReader<'_> {
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, SourceError> {
        let failed = |reason: String| {
            let path = self.file.path.clone();
            SourceError(Box::new(PipelineError::Latents { path, reason }))
        };
        let Shape { t, h, w, c } = self.file.shape;
        let length = h * w * c;
        if shape.len() != shape.t * length {
            return Err(failed(format!("a latent of {length} values where {shape} was planned")));
        }
        let input = match &mut self.input {
            Some(input) => input,
            None => {
                let mut file = File::open(&self.file.path).map_err(|e| failed(e.to_string()))?;
                let start = self.file.start + 4 * (self.read as u64) * (length as u64);
                file.seek(SeekFrom::Start(start)).map_err(|e| failed(e.to_string()))?;
                self.input.insert(BufReader::with_capacity(1 << 16, file))
            }
        };
        let frames = shape.t.min(t - self.read);
        let mut value = [0; 4];
        for (i, out) in out.iter_mut().take(frames * length).enumerate() {
            input.read_exact(&mut value).map_err(|e| failed(e.to_string()))?;
            *out = f32::from_le_bytes(value);
            if !out.is_finite() {
                return Err(failed(format!(
                    "latent {} has a value that is not a number",
                    self.read + i / length
                )));
            }
        }
        self.read += frames;
        Ok(frames)
    }

    fn back_to(&mut self, frame: usize) -> Result<(), SourceError> {
        (self.input, self.read) = (None, frame.min(self.file.shape.t));
        Ok(())
    }
}
