//! What a video file contains.

use std::path::Path;

use remaster_media::Probe;

use crate::control::Control;
use crate::error::Error;
use crate::media::{Programs, refuse_url};

/// Looks into a video file.
pub fn probe(input: &Path, programs: &Programs, control: &Control) -> Result<Probe, Error> {
    let tools = programs.find(control)?;
    refuse_url(input)?;
    Ok(remaster_media::probe(&tools, input)?)
}
