//! Calls relative to an open folder. No call follows a link, and none waits for the other end of a pipe.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::{About, Access, Kind};

pub(super) type Handle = OwnedFd;

const SAFE: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);

/// The folder that a path names. Only here links may be on the way.
pub(super) fn open(path: &Path) -> io::Result<Handle> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

pub(super) fn folder(at: &Handle, name: &OsStr) -> io::Result<Handle> {
    Ok(rustix::fs::openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | SAFE, Mode::empty())?)
}

pub(super) fn make_folder(at: &Handle, name: &OsStr, private: bool) -> io::Result<()> {
    let mode = if private { 0o700 } else { 0o777 };
    Ok(rustix::fs::mkdirat(at, name, Mode::from_raw_mode(mode))?)
}

/// Opens without a look at what it is: the caller has looked, and looks again.
pub(super) fn file(at: &Handle, name: &OsStr, access: Access) -> io::Result<File> {
    let flags = match access {
        Access::Read => OFlags::RDONLY,
        Access::Write => OFlags::RDWR,
        Access::New | Access::Private => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
    };
    let mode = if access == Access::Private { 0o600 } else { 0o666 };
    Ok(rustix::fs::openat(at, name, flags | SAFE, Mode::from_raw_mode(mode))?.into())
}

/// What a mode gives to the group and to all others.
fn of_others(at: impl AsFd) -> io::Result<(Mode, Mode)> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(at)?.st_mode);
    Ok((mode, mode & (Mode::RWXG | Mode::RWXO)))
}

pub(super) fn is_open_to_others(at: &Handle) -> io::Result<bool> {
    Ok(!of_others(at)?.1.is_empty())
}

pub(super) fn make_private(at: &Handle) -> io::Result<bool> {
    closed(at)
}

pub(super) fn make_file_private(file: &File) -> io::Result<bool> {
    closed(file)
}

/// By the handle: a name could stand for something else by now.
fn closed(at: impl AsFd) -> io::Result<bool> {
    let (mode, others) = of_others(&at)?;
    if others.is_empty() {
        return Ok(false);
    }
    rustix::fs::fchmod(at, mode - others)?;
    Ok(true)
}

pub(super) fn rename(at: &Handle, from: &OsStr, to: (&Handle, &OsStr)) -> io::Result<()> {
    Ok(rustix::fs::renameat(at, from, to.0, to.1)?)
}

/// Fails if the new name is taken. Where the file system has no such rename, a second link does it; where it has no links
/// either, the first error is the answer.
pub(super) fn rename_new(at: &Handle, from: &OsStr, to: (&Handle, &OsStr)) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(at, from, to.0, to.1, RenameFlags::NOREPLACE) {
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => {}
            done => return Ok(done?),
        }
    }
    rustix::fs::linkat(at, from, to.0, to.1, AtFlags::empty())?;
    remove(at, from)
}

pub(super) fn remove(at: &Handle, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(at, name, AtFlags::empty())?)
}

pub(super) fn remove_folder(at: &Handle, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR)?)
}

pub(super) fn about(at: &Handle, name: &OsStr) -> io::Result<About> {
    let found = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        _ => Kind::Other,
    };
    Ok(About { kind, bytes: u64::try_from(found.st_size).unwrap_or(0) })
}

/// Whether an open file still has a name: another process may have swept it.
pub(super) fn has_name(file: &File) -> bool {
    rustix::fs::fstat(file).is_ok_and(|found| found.st_nlink > 0)
}

/// Whether a name leads to an open file and not to a later one.
pub(super) fn is_named(at: &Handle, name: &OsStr, file: &File) -> bool {
    let named = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
    let (Ok(named), Ok(open)) = (named, rustix::fs::fstat(file)) else { return false };
    (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)
}

pub(super) fn names(at: &Handle, most: usize) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(at)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name == b"." || name == b".." {
            continue;
        }
        if names.len() == most {
            return Err(super::too_many(most));
        }
        names.push(OsString::from_vec(name));
    }
    Ok(names)
}

pub(super) fn sync(at: &Handle) -> io::Result<()> {
    match rustix::fs::fsync(at) {
        // Some file systems flush no folders.
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn again(at: &Handle) -> io::Result<Handle> {
    at.try_clone()
}
