//! Video as people name it: which file, how to read it, what to write.

mod args;
mod asked;
mod open;
mod target;
mod tools;
mod words;

use std::ffi::OsStr;
use std::path::Path;

pub(crate) use args::{ENCODER_THREADS, Programs, SizeArgs, SourceArgs, TargetArgs};
pub(crate) use open::{Opened, Spool, refuse_url};
pub(crate) use target::{Checked, Goal};
pub(crate) use tools::Lazy;
pub(crate) use words::filters;

/// Whether a path stands for stdin or stdout.
pub(crate) fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

pub(crate) fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|e| e.eq_ignore_ascii_case(ending))
}
