//! Folders of pictures as clips, read and written without ffmpeg.

use std::path::{Path, PathBuf};

use remaster_picture::exr::{self, ExrInfo};
use remaster_picture::png::{self, PngInfo};
use remaster_picture::{Frame, Kind, Layout, PictureError};

use crate::child::Stop;
use crate::clip::{Format, FrameSink, FrameSource};
use crate::colour::{Colour, Said};
use crate::decode::ReadOptions;
use crate::error::MediaError;
use crate::kind::{OutputKind, ends_in};
use crate::nut::TimeBase;
use crate::place::Part;

/// What a picture says about itself besides its pixels.
#[derive(Clone, Debug, PartialEq)]
pub enum PictureInfo {
    /// Of a PNG.
    Png(PngInfo),
    /// Of an EXR.
    Exr(ExrInfo),
}

/// Light as a display would be told: the sRGB curve, which goes on below 0 and above 1.
fn encoded(light: f32) -> f32 {
    let x = light.abs();
    let y = if x <= 0.003_130_8 { 12.92 * x } else { 1.055 * x.powf(1.0 / 2.4) - 0.055 };
    y.copysign(light)
}

/// The way back.
fn light(encoded: f32) -> f32 {
    let y = encoded.abs();
    let x = if y <= 0.040_45 { y / 12.92 } else { ((y + 0.055) / 1.055).powf(2.4) };
    x.copysign(encoded)
}

/// The colours of every pixel, without alpha.
fn map(frame: &mut Frame, curve: fn(f32) -> f32) {
    for pixel in frame.data.chunks_exact_mut(frame.channels) {
        pixel[..3].iter_mut().for_each(|v| *v = curve(*v));
    }
}

fn read(path: &Path) -> Result<(Frame, PictureInfo), MediaError> {
    let failed = |source| MediaError::Picture { path: path.to_owned(), source };
    if ends_in(path, "exr") {
        let (mut frame, info) = exr::read(path).map_err(failed)?;
        map(&mut frame, encoded);
        return Ok((frame, PictureInfo::Exr(info)));
    }
    let (frame, info) = png::read(path).map_err(failed)?;
    Ok((frame, PictureInfo::Png(info)))
}

fn write(path: &Path, frame: &Frame, info: &PictureInfo) -> Result<(), MediaError> {
    let written = match info {
        PictureInfo::Png(info) => {
            png::write(path, frame, &PngInfo { alpha: frame.channels == 4, ..info.clone() })
        }
        PictureInfo::Exr(info) => {
            let mut frame = frame.clone();
            map(&mut frame, light);
            exr::write(path, &frame, info)
        }
    };
    written.map_err(|source| MediaError::Picture { path: path.to_owned(), source })
}

/// Curves and primaries of a `cICP` chunk, by number, in ffmpeg's words.
fn cicp_words(cicp: [u8; 4]) -> (Option<&'static str>, Option<&'static str>) {
    let primaries = match cicp[0] {
        1 => Some("bt709"),
        9 => Some("bt2020"),
        12 => Some("smpte432"),
        _ => None,
    };
    let transfer = match cicp[1] {
        1 => Some("bt709"),
        8 => Some("linear"),
        13 => Some("iec61966-2-1"),
        16 => Some("smpte2084"),
        18 => Some("arib-std-b67"),
        _ => None,
    };
    (primaries, transfer)
}

/// Pictures in the order of their names.
pub struct Pictures {
    paths: Vec<PathBuf>,
    format: Format,
    info: PictureInfo,
    next: usize,
    stop: Stop,
}

impl Pictures {
    /// One picture, or all pictures of a folder, shown at `rate` frames per second. The first one says what the
    /// others must be. EXRs are only read if that is asked for: their light becomes the sRGB curve.
    pub fn open(path: &Path, rate: TimeBase, options: ReadOptions, stop: Stop) -> Result<Self, MediaError> {
        let failed = |source| MediaError::Open { path: path.to_owned(), source };
        let mut paths = Vec::new();
        if path.is_dir() {
            for entry in std::fs::read_dir(path).map_err(failed)? {
                let entry = entry.map_err(failed)?.path();
                if ends_in(&entry, if options.exr { "exr" } else { "png" }) {
                    paths.push(entry);
                }
            }
            paths.sort();
        } else {
            paths.push(path.to_owned());
        }
        let Some(first) = paths.first() else {
            let kind = if options.exr { "an EXR" } else { "a PNG; --exr reads EXRs" };
            let reason = format!("it is a folder without {kind}");
            return Err(MediaError::Unreadable { path: path.to_owned(), reason });
        };
        let (frame, info) = read(first)?;
        let (depth, cicp) = match &info {
            PictureInfo::Png(info) => (if info.depth > 8 { 16 } else { 8 }, info.cicp),
            PictureInfo::Exr(_) => (16, None),
        };
        let layout = Layout { kind: Kind::Packed, depth, alpha: frame.channels == 4 };
        let (primaries, transfer) = cicp.map_or((None, None), cicp_words);
        let said = Said { range: Some("pc"), primaries, transfer, ..Said::default() };
        let colour = Colour::new(said, &layout, [frame.width, frame.height]);
        if colour.is_hdr() && !options.keep_hdr {
            return Err(MediaError::Hdr { path: first.clone(), transfer: colour.transfer.value });
        }
        let format = Format {
            width: frame.width,
            height: frame.height,
            layout,
            colour,
            hdr: None,
            sample_aspect: [1, 1],
            time_base: TimeBase { num: rate.den, den: rate.num },
            rate: Some(rate),
            frames: Some(paths.len()),
        };
        Ok(Pictures { paths, format, info, next: 0, stop })
    }

    /// What the first picture says about itself.
    pub fn info(&self) -> &PictureInfo {
        &self.info
    }
}

impl FrameSource for Pictures {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        if self.stop.is_stopped() {
            return Err(MediaError::Cancelled);
        }
        let Some(path) = self.paths.get(self.next) else { return Ok(None) };
        let (picture, _) = read(path)?;
        let Format { width, height, .. } = self.format;
        if (picture.width, picture.height, picture.channels) != (width, height, self.format.channels()) {
            return Err(MediaError::SizeChange { path: path.clone(), frame: self.next });
        }
        *frame = picture;
        self.next += 1;
        Ok(Some(self.next as i64 - 1))
    }
}

/// Writes PNGs or EXRs: a folder of them, or one.
pub struct PictureWriter {
    path: PathBuf,
    part: Part,
    is_folder: bool,
    info: PictureInfo,
    written: usize,
}

impl PictureWriter {
    /// `path` ends in `.png` or `.exr` for one picture; otherwise it is a folder that does not exist yet, which
    /// gets pictures `like` those that came in.
    pub fn create(
        path: &Path,
        format: &Format,
        like: Option<&PictureInfo>,
        overwrite: bool,
    ) -> Result<Self, MediaError> {
        let depth = if format.layout.depth > 8 { 16 } else { 8 };
        let info = match like.cloned() {
            Some(PictureInfo::Png(info)) if !ends_in(path, "exr") => {
                PictureInfo::Png(PngInfo { depth, ..info })
            }
            Some(info @ PictureInfo::Exr(_)) if !ends_in(path, "png") => info,
            _ if ends_in(path, "exr") => {
                PictureInfo::Exr(ExrInfo { depth: 16, aspect: 1.0, chromaticities: None })
            }
            _ => PictureInfo::Png(PngInfo::srgb(depth)),
        };
        let is_folder = OutputKind::of(path) == Some(OutputKind::Folder);
        let part = Part::beside(path, overwrite && !is_folder)?;
        if is_folder {
            std::fs::create_dir(part.path()).map_err(|source| MediaError::writing(path, source))?;
        }
        Ok(PictureWriter { path: path.to_owned(), part, is_folder, info, written: 0 })
    }
}

impl FrameSink for PictureWriter {
    fn write(&mut self, frame: &Frame, _pts: i64) -> Result<(), MediaError> {
        if !self.is_folder && self.written > 0 {
            return Err(MediaError::Container {
                path: self.path.clone(),
                what: "more than one frame".into(),
                hint: "write to a folder or a video file".into(),
            });
        }
        let ending = if let PictureInfo::Exr(_) = self.info { "exr" } else { "png" };
        let to = match self.is_folder {
            true => self.part.path().join(format!("{:06}.{ending}", self.written)),
            false => self.part.path().to_owned(),
        };
        write(&to, frame, &self.info).map_err(|e| match e {
            // The name of the part means nothing to anybody.
            MediaError::Picture { source: PictureError::Write { source, .. }, .. } => {
                MediaError::writing(&self.path, source)
            }
            MediaError::Picture { source, .. } => MediaError::Picture { path: self.path.clone(), source },
            e => e,
        })?;
        self.written += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        self.part.put()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_goes_through_the_curve_and_back() {
        for value in [-2.0f32, -0.5, -1e-4, 0.0, 1e-4, 0.0031308, 0.18, 0.5, 1.0, 7.5, 100.0] {
            let back = light(encoded(value));
            assert!((back - value).abs() <= 2e-6 * value.abs().max(1.0), "{value} became {back}");
        }
        assert!((encoded(0.18) - 0.461_356).abs() < 1e-5);
    }
}
