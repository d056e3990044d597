//! Video as people name it: which file, how to read it, what to write.

mod args;
mod open;
mod target;
mod tools;
mod words;

use std::ffi::OsStr;
use std::path::Path;

pub(crate) use args::{Programs, SizeArgs, SourceArgs, TargetArgs};
pub(crate) use open::{Opened, Spool};
pub(crate) use target::Goal;
pub(crate) use tools::Lazy;

/// Whether a path stands for stdin or stdout.
pub(crate) fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

pub(crate) fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|e| e.eq_ignore_ascii_case(ending))
}
