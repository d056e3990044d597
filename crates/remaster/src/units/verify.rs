//! Checks a finished film against its manifest.

use std::path::Path;

use remaster_media::count_frames;
use remaster_units::Manifest;
use serde::Serialize;

use crate::control::Control;
use crate::error::Error;
use crate::media::Programs;
use crate::numbers::count;

/// A film that is as it was written.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// Its path.
    pub film: String,
    /// What it was made of.
    pub manifest: Manifest,
    /// Units whose frames are those of the input.
    pub left: usize,
}

/// Checks a finished film against the manifest beside it.
pub fn verify(film: &Path, programs: &Programs, control: &Control) -> Result<Verified, Error> {
    let manifest = Manifest::of(film)?;
    let other = |reason: String| Error::Verify { path: film.to_owned(), reason };
    if !manifest.is(film)? {
        return Err(other("its content is not what was written".into()));
    }
    let frames = count_frames(&programs.find(control)?, film)?;
    if frames != manifest.frames {
        return Err(other(format!("it has {} instead of {}", count(frames, "frame"), manifest.frames)));
    }
    let left = manifest.units.iter().filter(|unit| unit.left).count();
    Ok(Verified { film: film.display().to_string(), manifest, left })
}
