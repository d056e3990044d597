//! Operations on one path. Its folder may be reached through links, its last name is never one that is followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::folder::{Folder, not_regular};
use crate::names::check_path;
use crate::points::{Op, counted};

/// Makes the file `path`, in place of one that is there: whole or not at all. See [`Folder::write_whole`].
pub fn write_whole(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    at(path, |folder, name| folder.write_whole(name, write))
}

/// Opens a regular file to read. A link, a pipe or a device is an error, at once.
pub fn read(path: &Path) -> io::Result<File> {
    at(path, |folder, name| folder.read(name))
}

/// Opens a regular file that a person or a plan named, to read; a link to one is followed. Whatever else it is, a pipe or a
/// device or a folder, is an error, at once: opening one could wait without an end. Everything that a path is given for is
/// opened here; `cargo xtask rules` refuses the calls of the standard library.
pub fn read_named(path: &Path) -> io::Result<File> {
    check_path(path)?;
    // Opening a device can have effects of its own.
    if !path.metadata()?.is_file() {
        return Err(not_regular());
    }
    // It may be another one by now.
    #[cfg(unix)]
    let file: File = {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::open(path, flags, Mode::empty())?.into()
    };
    #[cfg(windows)]
    let file = File::open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// Creates a file. A name that is taken is an error.
pub fn create(path: &Path) -> io::Result<File> {
    at(path, |folder, name| folder.create(name))
}

/// Writes bytes to the file of a path.
pub fn write_all(path: &Path, file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let (folder, name) = split(path)?;
    write_counted(folder, name, file, bytes)
}

/// Flushes the file of a path to the disk.
pub fn sync(path: &Path, file: &File) -> io::Result<()> {
    let (folder, name) = split(path)?;
    counted(Op::Sync, folder, name, || file.sync_all())
}

/// Flushes a file that another program wrote to the disk.
pub fn sync_written(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    let file = File::options().write(true).open(path)?;
    #[cfg(windows)]
    let file = crate::windows::writable(path)?;
    sync(path, &file)
}

/// Gives a file or a folder another path, in place of a file that is there.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    moved(from, to, true)
}

/// Gives a file another path unless that is taken.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    moved(from, to, false)
}

fn moved(from: &Path, to: &Path, replace: bool) -> io::Result<()> {
    let ((from, old), (to, new)) = (split(from)?, split(to)?);
    Folder::open(from)?.move_to(old, &Folder::open(to)?, new, replace)
}

/// Removes a file or a link.
pub fn remove(path: &Path) -> io::Result<()> {
    at(path, |folder, name| folder.remove(name))
}

/// Removes a folder that is empty.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    at(path, |folder, name| folder.remove_folder(name))
}

/// Makes a folder and those above it.
pub fn make_folders(path: &Path) -> io::Result<()> {
    Folder::make(path).map(drop)
}

/// In builds with points a write of several bytes is three, so that a kill can come between them.
pub(crate) fn write_counted(folder: &Path, name: &OsStr, file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let pieces = if cfg!(debug_assertions) { 3 } else { 1 };
    for part in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
        counted(Op::Write, folder, name, || file.write_all(part))?;
    }
    Ok(())
}

/// The path in a file URL: percent escapes are bytes of UTF-8. `None` if they are not, or if one is zero.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|byte| *byte != 0)?);
        rest = tail.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

/// Does something with the name of a path in its folder.
fn at<T>(path: &Path, work: impl FnOnce(&Folder, &OsStr) -> io::Result<T>) -> io::Result<T> {
    let (folder, name) = split(path)?;
    work(&Folder::open(folder)?, name)
}

fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let name = path.file_name();
    let name =
        name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"))?;
    Ok((path.parent().unwrap_or(Path::new("")), name))
}
