//! Segments of a film: pieces that are encoded apart, on one machine or on several, and joined without encoding again.

use std::path::Path;

use crate::child::Tools;
use crate::clip::Format;
use crate::error::MediaError;
use crate::kind::{Container, container};
use crate::nut::TimeBase;
use crate::pinned::{of_the_file, pinned};
use crate::probe::Probe;
use crate::target::{self, Target, WriteOptions};

/// Threads of an encoder where nobody says how many: the number decides the bytes and must not be that of a machine's
/// cores.
const THREADS: usize = 4;

/// What is in the segments of a film.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SegmentKind {
    /// The video of the film as it will be: joining copies it.
    #[default]
    Final,
    /// FFV1 of the samples that the film's encoder takes: joining encodes them, and nothing else is lost.
    Lossless,
}

/// A film that is written in segments.
#[derive(Clone, Copy, Debug)]
pub struct Film<'a> {
    /// Where the film goes; its name says which container and which encoder.
    pub path: &'a Path,
    /// What its frames are.
    pub format: &'a Format,
    /// The file with its sound, subtitles, chapters, attachments and tags.
    pub from: Option<&'a Probe>,
    /// What a person asked for. All segments of a film must have the same.
    pub options: &'a WriteOptions,
    /// What is in its segments.
    pub kind: SegmentKind,
}

/// Frames per second that encoders are told. Where nobody knows, all segments agree at least.
pub(crate) fn rate(format: &Format) -> TimeBase {
    // ffmpeg reads no faster ones.
    let known = |r: &TimeBase| r.num < 1000 * r.den && r.num < 1 << 31 && r.den < 1 << 31;
    format.rate.filter(known).unwrap_or(TimeBase { num: 25, den: 1 })
}

/// What the film will be, with an encoder that does not depend on the machine.
pub(crate) fn film(tools: &Tools, film: &Film<'_>) -> Result<Target, MediaError> {
    let &Film { path, format, from, options, .. } = film;
    let threads = options.threads.unwrap_or(THREADS).max(1);
    let options = WriteOptions { threads: Some(threads), ..options.clone() };
    let mut target = target::decide(tools, path, format, from, &options)?;
    let (encoder, mut file) = of_the_file(&target.encoder);
    file.append(&mut target.file);
    if let Some(tag) = &options.tag {
        check_tag(path)?;
        file.extend(["-metadata".into(), format!("REMASTER={tag}")]);
    }
    // In a transport stream decoders can start anywhere: headers come with the key frames.
    let is_global = container(path) != Some(Container::Ts);
    Ok(Target { encoder: pinned(encoder, threads, is_global), file, ..target })
}

/// Refuses a file whose kind has no place for the tag of [`WriteOptions::tag`].
pub fn check_tag(path: &Path) -> Result<(), MediaError> {
    let hint = "write an .mkv file, or leave the manifest beside the film";
    match container(path) {
        Some(Container::Mkv | Container::Webm) => Ok(()),
        _ => Err(MediaError::cannot_hold(path, "the settings of a restoration", hint)),
    }
}

/// What a segment will be.
pub(crate) fn decide(tools: &Tools, whole: &Film<'_>) -> Result<Target, MediaError> {
    let target = film(tools, whole)?;
    let is_vpx = target.encoder.first().is_some_and(|name| name.starts_with("libvpx"));
    match whole.kind {
        SegmentKind::Lossless => {
            let mut target = target::lossless(tools, whole.path, whole.format, target)?;
            target.encoder = pinned(target.encoder, whole.options.threads.unwrap_or(THREADS).max(1), true);
            Ok(target)
        }
        // Its alpha is a stream of its own that only Matroska can hold.
        SegmentKind::Final if target.layout.alpha && is_vpx => {
            let what = "alpha of VP8 or VP9 in segments that are copied";
            Err(MediaError::cannot_hold(whole.path, what, "use lossless segments"))
        }
        SegmentKind::Final => Ok(target),
    }
}
