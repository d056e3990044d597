//! Video: which file, how to read it, what to write.

mod asked;
mod films;
mod newest;
mod open;
mod request;
mod run_up;
mod scripts;
mod target;
mod tools;

use std::ffi::OsStr;
use std::path::Path;

use remaster_media::OutputKind;

pub(crate) use films::{is_film, refuse_videos};
pub use open::is_url;
pub(crate) use open::{Opened, Spool, refuse_named_pipe, refuse_url};
pub(crate) use request::refuse;
pub use request::{Programs, Size, Source, Target};
pub(crate) use run_up::{MAX_LEAD, UnitStart};
pub use scripts::Scripts;
pub(crate) use scripts::{is_script, refuse_avisynth};
pub(crate) use target::{Checked, Goal};
pub(crate) use tools::{Lazy, size};

/// Whether a path stands for stdin or stdout.
pub fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

pub(crate) fn is_video(path: &Path) -> bool {
    matches!(OutputKind::of(path), Some(OutputKind::Video(_)))
}

pub(crate) fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|e| e.eq_ignore_ascii_case(ending))
}
