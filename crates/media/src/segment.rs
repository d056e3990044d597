//! Segments of a film: pieces that are encoded apart, on one machine or on several, and joined without encoding again.

use std::path::Path;

use crate::child::Tools;
use crate::clip::Format;
use crate::error::MediaError;
use crate::kind::{Container, container};
use crate::nut::TimeBase;
use crate::pinned::{of_the_file, pinned};
use crate::target::{self, Film, SegmentKind, Target, WriteOptions};

/// Default threads of an encoder: the number decides the bytes and must not be that of a machine's
/// cores.
const THREADS: usize = 4;

/// Frames per second that encoders are told. If it is unknown, all segments at least agree.
pub(crate) fn rate(format: &Format) -> TimeBase {
    // ffmpeg reads no faster ones.
    let known = |r: &TimeBase| r.num < 1000 * r.den && r.num < 1 << 31 && r.den < 1 << 31;
    format.rate.filter(known).unwrap_or(TimeBase { num: 25, den: 1 })
}

/// What the film will be, with an encoder that does not depend on the machine.
pub(crate) fn film(tools: &Tools, film: &Film<'_>) -> Result<Target, MediaError> {
    let threads = film.options.threads.unwrap_or(THREADS).max(1);
    let options = WriteOptions { threads: Some(threads), ..film.options.clone() };
    let mut target = target::decide(tools, &Film { options: &options, ..*film })?;
    let (encoder, mut file) = of_the_file(&target.encoder);
    file.append(&mut target.file);
    if let Some(tag) = &options.tag {
        check_tag(film.path)?;
        file.extend(["-metadata".into(), format!("REMASTER={tag}")]);
    }
    // In a transport stream decoders can start anywhere: headers come with the key frames.
    let is_global = container(film.path) != Some(Container::Ts);
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
            let mut target = target::lossless(tools, whole, target)?;
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
