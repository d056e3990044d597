//! What a video file contains.

use std::path::Path;

use remaster_media::Probe;

use crate::control::Control;
use crate::error::Error;
use crate::machine::host::Machine;
use crate::media::{Lazy, Source, is_script, refuse_avisynth, refuse_named_pipe, refuse_url};

/// Looks into a video file, or runs a script that `source` allows.
pub fn probe(input: &Path, source: &Source, machine: &Machine, control: &Control) -> Result<Probe, Error> {
    refuse_url(input)?;
    refuse_named_pipe(input)?;
    let mut tools = Lazy::new(source, machine, control);
    if is_script(input) {
        return Ok(source.allowed(input, &mut tools)?.probe());
    }
    refuse_avisynth(input)?;
    Ok(remaster_media::probe(tools.get()?, input)?)
}
