//! Latents of a clip in a file: safetensors, written as they come.
//!
//! `latent` is `[t, h, w, c]` in f32, the mean that the encoder gives, not scaled; `pts` is `[frames]` in i64.
//! The metadata entry `remaster` is JSON with everything else that is needed to make video of it again.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use remaster_compute::{HostTensor, Shape};
use remaster_engine::{Sink, SinkError, Source, SourceError};
use remaster_media::place::Part;
use remaster_media::{Colour, Format, Hdr, MediaError, TimeBase};
use remaster_picture::Layout;
use serde::{Deserialize, Serialize};

use crate::error::PipelineError;
use crate::geometry::Geometry;
use crate::latents::means;

/// The header is written last, into room that was left for it. Its size is known up to a few digits.
const HEADER: usize = 8192;

/// What a latent file calls itself.
const FORMAT: &str = "remaster-latents-1";

/// What a latent file says about its clip.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct About {
    /// Sizes before, in and after the network.
    pub geometry: Geometry,
    /// How samples of the source were stored, in ffmpeg's words; the output keeps their depth.
    pub samples: String,
    /// What the numbers mean.
    pub colour: Colour,
    /// Static metadata of HDR10.
    pub hdr: Option<Hdr>,
    /// Shape of a pixel, width by height.
    pub sample_aspect: [u32; 2],
    /// Unit of timestamps.
    pub time_base: TimeBase,
    /// Frames per second on average, if known.
    pub rate: Option<TimeBase>,
}

impl About {
    /// Of a clip that is about to be encoded. Alpha does not go through the network and is not kept.
    pub(crate) fn new(format: &Format, geometry: Geometry) -> Self {
        About {
            geometry,
            samples: Layout { alpha: false, ..format.layout }.name(),
            colour: format.colour.clone(),
            hdr: format.hdr.clone(),
            sample_aspect: format.sample_aspect,
            time_base: format.time_base,
            rate: format.rate,
        }
    }

    /// What frames made of these latents are.
    pub fn format(&self, frames: usize) -> Option<Format> {
        Some(Format {
            width: self.geometry.shown[0],
            height: self.geometry.shown[1],
            layout: Layout::from_name(&self.samples)?,
            colour: self.colour.clone(),
            hdr: self.hdr.clone(),
            sample_aspect: self.sample_aspect,
            time_base: self.time_base,
            rate: self.rate,
            frames: Some(frames),
        })
    }
}

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

#[derive(Serialize, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Writes latents as they come.
pub(crate) struct LatentWriter {
    out: BufWriter<File>,
    part: Part,
    path: PathBuf,
    about: About,
    channels: usize,
    latents: u64,
    values: u64,
}

fn failed(path: &Path, source: std::io::Error) -> PipelineError {
    MediaError::writing(path, source).into()
}

impl LatentWriter {
    pub(crate) fn create(
        path: &Path,
        overwrite: bool,
        about: About,
        channels: usize,
    ) -> Result<Self, PipelineError> {
        let part = Part::beside(path, overwrite)?;
        let file = File::create(part.path()).map_err(|e| failed(path, e))?;
        let mut out = BufWriter::new(file);
        out.write_all(&[b' '; 8 + HEADER]).map_err(|e| failed(path, e))?;
        Ok(LatentWriter { out, part, path: path.to_owned(), about, channels, latents: 0, values: 0 })
    }

    /// Writes timestamps and the header and puts the file into its place. Returns the frames.
    pub(crate) fn finish(mut self, pts: impl Iterator<Item = i64>) -> Result<usize, PipelineError> {
        let path = self.path.clone();
        let io = |e| failed(&path, e);
        let mut frames = 0u64;
        for pts in pts {
            self.out.write_all(&pts.to_le_bytes()).map_err(io)?;
            frames += 1;
        }
        let [width, height] = self.about.geometry.padded.map(|n| n as u64 / 8);
        let latent_bytes = 4 * self.values;
        let header = Header {
            metadata: Metadata {
                format: FORMAT.into(),
                remaster: serde_json::to_string(&self.about).unwrap_or_default(),
            },
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
        let mut text = serde_json::to_vec(&header).unwrap_or_default();
        if text.len() > HEADER {
            let reason = format!("its header takes {} bytes, more than {HEADER}", text.len());
            return Err(PipelineError::Latents { path, reason });
        }
        text.resize(HEADER, b' ');
        self.out.seek(SeekFrom::Start(0)).map_err(io)?;
        self.out.write_all(&(HEADER as u64).to_le_bytes()).map_err(io)?;
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
        Ok(())
    }
}

/// A latent file that was checked.
pub struct LatentFile {
    path: PathBuf,
    about: About,
    shape: Shape,
    start: u64,
    pts: Vec<i64>,
}

impl LatentFile {
    /// Whether a file says that it is one, damaged or not.
    pub fn claims(path: &Path) -> bool {
        let mut start = Vec::new();
        let read = File::open(path).and_then(|f| f.take(HEADER as u64 + 8).read_to_end(&mut start));
        read.is_ok() && start.windows(FORMAT.len()).any(|w| w == FORMAT.as_bytes())
    }

    /// Reads everything but the latents.
    pub fn open(path: &Path) -> Result<Self, PipelineError> {
        let bad = |reason: String| PipelineError::Latents { path: path.to_owned(), reason };
        let io = |e: std::io::Error| bad(e.to_string());
        let mut file = File::open(path).map_err(io)?;
        let total = file.metadata().map_err(io)?.len();
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(io)?;
        let length = u64::from_le_bytes(length);
        if length > (1 << 20) || length + 8 > total {
            return Err(bad(format!("a header of {length} bytes")));
        }
        let mut text = vec![0; length as usize];
        file.read_exact(&mut text).map_err(io)?;
        let header: Header = serde_json::from_slice(&text)
            .map_err(|e| bad(format!("it is not written by `vae encode`: {e}")))?;
        let about: About = serde_json::from_str(&header.metadata.remaster).map_err(|e| bad(e.to_string()))?;
        let (&[t, h, w, c], &[frames]) = (&header.latent.shape[..], &header.pts.shape[..]) else {
            return Err(bad("its tensors have the wrong rank".into()));
        };
        let values = [t, h, w, c].iter().try_fold(1u64, |n, d| n.checked_mul(*d));
        let bytes = values.and_then(|n| n.checked_mul(4));
        let pts_bytes = frames.checked_mul(8);
        let [padded_w, padded_h] = about.geometry.padded;
        let fits = t
            .checked_sub(1)
            .and_then(|n| n.checked_mul(4))
            .is_some_and(|n| frames >= 1 && frames <= n + 1 && frames + 4 > n + 1);
        let consistent = header.latent.dtype == "F32"
            && header.pts.dtype == "I64"
            && bytes == Some(header.latent.data_offsets[1])
            && header.latent.data_offsets[0] == 0
            && header.pts.data_offsets[0] == header.latent.data_offsets[1]
            && bytes.zip(pts_bytes).and_then(|(a, b)| a.checked_add(b)) == Some(total - length - 8)
            && (w * 8, h * 8) == (padded_w as u64, padded_h as u64)
            && about.geometry.shown.iter().zip(about.geometry.padded).all(|(s, p)| *s >= 1 && *s <= p)
            && fits;
        if !consistent {
            return Err(bad("its shapes, offsets and length do not agree".into()));
        }
        let start = 8 + length;
        file.seek(SeekFrom::Start(start + header.latent.data_offsets[1])).map_err(io)?;
        let mut reader = BufReader::new(file);
        let mut pts = Vec::new();
        let mut value = [0; 8];
        for _ in 0..frames {
            reader.read_exact(&mut value).map_err(io)?;
            pts.push(i64::from_le_bytes(value));
        }
        let shape = Shape::new(t as usize, h as usize, w as usize, c as usize);
        Ok(LatentFile { path: path.to_owned(), about, shape, start, pts })
    }

    /// What is known of the clip.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Latents, rows, columns and channels.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// When frames are shown.
    pub fn timestamps(&self) -> &[i64] {
        &self.pts
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
        let input = match &mut self.input {
            Some(input) => input,
            None => {
                let mut file = File::open(&self.file.path).map_err(|e| failed(e.to_string()))?;
                let Shape { h, w, c, .. } = self.file.shape;
                let start = self.file.start + (4 * self.read * h * w * c) as u64;
                file.seek(SeekFrom::Start(start)).map_err(|e| failed(e.to_string()))?;
                self.input.insert(BufReader::with_capacity(1 << 16, file))
            }
        };
        let frames = shape.t.min(self.file.shape.t - self.read);
        let length = shape.len() / shape.t.max(1);
        let mut value = [0; 4];
        for out in &mut out[..frames * length] {
            input.read_exact(&mut value).map_err(|e| failed(e.to_string()))?;
            *out = f32::from_le_bytes(value);
        }
        self.read += frames;
        Ok(frames)
    }

    fn back_to(&mut self, frame: usize) -> Result<(), SourceError> {
        (self.input, self.read) = (None, frame.min(self.file.shape.t));
        Ok(())
    }
}
