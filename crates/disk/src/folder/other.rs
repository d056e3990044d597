//! The same calls by paths, for systems without folder handles. A look at each name comes before its use.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{About, Access, Kind};

pub(super) type Handle = PathBuf;

pub(super) fn open(path: &Path) -> io::Result<Handle> {
    match fs::metadata(path)?.is_dir() {
        true => std::path::absolute(path),
        false => Err(io::ErrorKind::NotADirectory.into()),
    }
}

pub(super) fn folder(at: &Handle, name: &OsStr) -> io::Result<Handle> {
    match about(at, name)?.kind {
        Kind::Folder => Ok(at.join(name)),
        _ => Err(io::ErrorKind::NotADirectory.into()),
    }
}

pub(super) fn make_folder(at: &Handle, name: &OsStr, _private: bool) -> io::Result<()> {
    fs::create_dir(at.join(name))
}

pub(super) fn file(at: &Handle, name: &OsStr, access: Access) -> io::Result<File> {
    let mut options = File::options();
    match access {
        Access::Read => options.read(true),
        Access::Write => options.read(true).write(true),
        Access::New => options.read(true).write(true).create_new(true),
    };
    options.open(at.join(name))
}

pub(super) fn rename(at: &Handle, from: &OsStr, to: (&Handle, &OsStr)) -> io::Result<()> {
    fs::rename(at.join(from), to.0.join(to.1))
}

pub(super) fn rename_new(at: &Handle, from: &OsStr, to: (&Handle, &OsStr)) -> io::Result<()> {
    fs::hard_link(at.join(from), to.0.join(to.1))?;
    remove(at, from)
}

pub(super) fn remove(at: &Handle, name: &OsStr) -> io::Result<()> {
    fs::remove_file(at.join(name))
}

pub(super) fn remove_folder(at: &Handle, name: &OsStr) -> io::Result<()> {
    fs::remove_dir(at.join(name))
}

pub(super) fn about(at: &Handle, name: &OsStr) -> io::Result<About> {
    let found = fs::symlink_metadata(at.join(name))?;
    let kind = match (found.is_file(), found.is_dir()) {
        (true, _) => Kind::File,
        (_, true) => Kind::Folder,
        _ => Kind::Other,
    };
    Ok(About { kind, bytes: found.len() })
}

pub(super) fn has_name(_file: &File) -> bool {
    true
}

pub(super) fn names(at: &Handle, most: usize) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(at)? {
        if names.len() == most {
            return Err(super::too_many(most));
        }
        names.push(entry?.file_name());
    }
    Ok(names)
}

/// The file system's own journal has to do.
pub(super) fn sync(_at: &Handle) -> io::Result<()> {
    Ok(())
}

pub(super) fn again(at: &Handle) -> io::Result<Handle> {
    Ok(at.clone())
}
