//! Checks a finished film against its manifest.

use std::path::PathBuf;

use remaster_media::count_frames;
use remaster_units::Manifest;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::job::{Context, Job, Known, Prepare};
use crate::media::Programs;
use crate::numbers::count;

/// A film that is as it was written.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Verified {
    /// Its path.
    pub film: String,
    /// What it was made of.
    pub manifest: Manifest,
    /// Units whose frames are those of the input.
    pub left: usize,
}

/// A finished film to check against the manifest beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// The film.
    pub film: PathBuf,
    /// Where ffmpeg is.
    #[serde(default)]
    pub programs: Programs,
}

/// Reads the manifest. The job hashes the film and counts its frames.
impl Prepare for VerifyRequest {
    type Job = Job<Verified>;

    fn prepare(self, context: &Context<'_, '_>) -> Result<Self::Job, Error> {
        let (VerifyRequest { film, programs }, control) = (self, context.control.clone());
        let manifest = Manifest::of(&film)?;
        Ok(Job::new(Known::default(), move |_| {
            let other = |reason: String| Error::Verify { path: film.clone(), reason };
            if !manifest.is(&film)? {
                return Err(other("its content is not what was written".into()));
            }
            let frames = count_frames(&programs.find(&control)?, &film)?;
            if frames != manifest.frames {
                let reason = format!("it has {} instead of {}", count(frames, "frame"), manifest.frames);
                return Err(other(reason));
            }
            let left = manifest.units.iter().filter(|unit| unit.left).count();
            Ok(Verified { film: film.display().to_string(), manifest, left })
        }))
    }
}
