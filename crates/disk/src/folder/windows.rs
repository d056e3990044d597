//! The same calls by paths, as Windows has no calls relative to a folder. A path is the real one that the folder had when it
//! was opened, which may be of any length. A look at each name comes before its use, and of an opened file the system is
//! asked where it lies: one that lies elsewhere was reached by a link.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{About, Access, Kind};
use crate::windows::{self, patiently};

#[derive(Clone)]
pub(super) struct Handle {
    path: PathBuf,
    /// Some drivers of disks in memory do not say where a file lies, nor does Wine if the path is long.
    real: bool,
}

impl Handle {
    fn join(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }
}

pub(super) fn open(path: &Path) -> io::Result<Handle> {
    if !fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    match fs::canonicalize(path) {
        // With the separator at its end: the folder of a file in the root of a share has one.
        Ok(path) => Ok(Handle { path: path.join(""), real: true }),
        Err(_) => Ok(Handle { path: std::path::absolute(path)?.join(""), real: false }),
    }
}

pub(super) fn folder(at: &Handle, name: &OsStr) -> io::Result<Handle> {
    if about(at, name)?.kind != Kind::Folder {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let found = open(&at.join(name))?;
    match at.real && found.path.parent() != Some(&at.path) {
        true => Err(io::ErrorKind::NotADirectory.into()),
        false => Ok(found),
    }
}

/// Who may enter is inherited from the folder around it.
pub(super) fn make_folder(at: &Handle, name: &OsStr, _private: bool) -> io::Result<()> {
    fs::create_dir(at.join(name))
}

/// Opens a file that was looked at.
pub(super) fn file(at: &Handle, name: &OsStr, access: Access) -> io::Result<File> {
    let mut options = File::options();
    match access {
        Access::Read => options.read(true),
        Access::Write => options.read(true).write(true),
        Access::New | Access::Private => options.read(true).write(true).create_new(true),
    };
    let file = patiently(|| options.open(at.join(name)))?;
    match windows::real_path(&file) {
        Ok(path) if at.real && path.parent() != Some(&at.path) => Err(super::not_regular()),
        _ => Ok(file),
    }
}

/// Who may do what is a list that only its owner and the system understand.
pub(super) fn is_open_to_others(_: &Handle) -> io::Result<bool> {
    Ok(false)
}

pub(super) fn make_private(_: &Handle) -> io::Result<bool> {
    Ok(false)
}

pub(super) fn make_file_private(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// A file that another program holds open is not replaced: the error says so after half a second.
pub(super) fn rename(at: &Handle, from: &OsStr, to: (&Handle, &OsStr)) -> io::Result<()> {
    let (from, to) = (at.join(from), to.0.join(to.1));
    patiently(|| fs::rename(&from, &to))
}

pub(super) fn rename_new(at: &Handle, from: &OsStr, to: (&Handle, &OsStr)) -> io::Result<()> {
    let (from, to) = (at.join(from), to.0.join(to.1));
    patiently(|| match windows::move_new(&from, &to) {
        // Whoever holds what is there, the name is taken.
        Err(_) if to.symlink_metadata().is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        done => done,
    })
}

/// A link to a folder is removed like an empty folder.
pub(super) fn remove(at: &Handle, name: &OsStr) -> io::Result<()> {
    use std::os::windows::fs::FileTypeExt;
    let path = at.join(name);
    let is_folder = path.symlink_metadata()?.file_type().is_symlink_dir();
    patiently(|| if is_folder { fs::remove_dir(&path) } else { fs::remove_file(&path) })
}

pub(super) fn remove_folder(at: &Handle, name: &OsStr) -> io::Result<()> {
    patiently(|| fs::remove_dir(at.join(name)))
}

pub(super) fn about(at: &Handle, name: &OsStr) -> io::Result<About> {
    let found = fs::symlink_metadata(at.join(name))?;
    // Links and mount points are neither.
    let kind = match (found.is_file(), found.is_dir()) {
        (true, _) => Kind::File,
        (_, true) => Kind::Folder,
        _ => Kind::Other,
    };
    Ok(About { kind, bytes: found.len() })
}

/// Whether an open file still has a name: another process may have swept it.
pub(super) fn has_name(file: &File) -> bool {
    windows::has_name(file)
}

/// Whether a name leads to an open file and not to a later one.
pub(super) fn is_named(at: &Handle, name: &OsStr, file: &File) -> bool {
    match (windows::identity(&at.join(name)), windows::identity_of(file)) {
        (Some(named), Some(open)) => named == open,
        // Where the file system numbers nothing, the path of the open file is its last one.
        _ => windows::real_path(file).is_ok_and(|path| path.file_name() == Some(name)),
    }
}

pub(super) fn names(at: &Handle, most: usize) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(&at.path)? {
        if names.len() == most {
            return Err(super::too_many(most));
        }
        names.push(entry?.file_name());
    }
    Ok(names)
}

/// NTFS keeps a journal of its names.
pub(super) fn sync(_at: &Handle) -> io::Result<()> {
    Ok(())
}

pub(super) fn again(at: &Handle) -> io::Result<Handle> {
    Ok(at.clone())
}
