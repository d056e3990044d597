//! A folder as a handle: everything in it is reached by one name at a time, no link is followed, and files are regular
//! files. What a name points at cannot be exchanged for something outside between a look and its use.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as sys;
#[cfg(windows)]
use windows as sys;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::names::check_path;
use crate::points::{Op, counted};

/// Folders inside one another that are walked.
const DEEPEST: usize = 16;

/// Names of one folder at most: a film has a few for each unit.
pub const MOST_NAMES: usize = 4_000_000;

/// Files beside one that are tried while other processes write it, too.
const WRITERS: u32 = 64;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, a pipe, a device, a socket.
    Other,
}

/// What is known of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// What it is.
    pub kind: Kind,
    /// Its size.
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    New,
    /// New, and for this user alone.
    Private,
}

/// An open folder.
pub struct Folder {
    handle: sys::Handle,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder that was named. Links on the way to it are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        check_path(path)?;
        Ok(Folder { handle: sys::open(path)?, path: path.to_owned() })
    }

    /// Opens a folder, and makes it and those above it if they are missing, so that they are there after a power cut.
    pub fn make(path: &Path) -> io::Result<Self> {
        let whole = std::path::absolute(path)?;
        if let Some(there) = if_there(Folder::open(&whole))? {
            return Ok(there);
        }
        let (Some(above), Some(name)) = (whole.parent(), whole.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let above = Folder::make(above)?;
        match above.make_folder(name) {
            // A link to nowhere, or another process was faster and made a link of it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Folder::open(&whole),
            made => made,
        }
    }

    /// Where it is, for messages and for programs that take a path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Another handle of the same folder.
    pub fn again(&self) -> io::Result<Self> {
        Ok(Folder { handle: sys::again(&self.handle)?, path: self.path.clone() })
    }

    /// A folder in it.
    pub fn folder(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = single(name.as_ref())?;
        let opened = sys::folder(&self.handle, name).map_err(|error| match self.about(name) {
            // Systems say different things of a link.
            Ok(about) if about.kind != Kind::Folder => io::ErrorKind::NotADirectory.into(),
            _ => error,
        });
        Ok(Folder { handle: opened?, path: self.path.join(name) })
    }

    /// A folder in it, which is made if it is missing.
    pub fn make_folder(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = single(name.as_ref())?;
        match self.new_folder(name, false) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.folder(name),
            done => done,
        }
    }

    /// A folder in it of a name that is not taken; `private` keeps other users out.
    pub fn new_folder(&self, name: impl AsRef<OsStr>, private: bool) -> io::Result<Self> {
        let name = single(name.as_ref())?;
        counted(Op::MakeFolder, &self.path, name, || sys::make_folder(&self.handle, name, private))?;
        self.sync()?;
        self.folder(name)
    }

    /// Opens a file to read. Anything but a regular file is an error, at once.
    pub fn read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.regular(single(name.as_ref())?, Access::Read)
    }

    /// Opens a file that is there to read and write.
    pub fn edit(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.regular(single(name.as_ref())?, Access::Write)
    }

    /// The bytes of a file; more than `most` are an error.
    pub fn bytes(&self, name: impl AsRef<OsStr>, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read(name)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > most {
            true => Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has more than {most} bytes"))),
            false => Ok(bytes),
        }
    }

    /// Creates a file. A name that is taken is an error.
    pub fn create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let name = single(name.as_ref())?;
        counted(Op::Create, &self.path, name, || sys::file(&self.handle, name, Access::New))
    }

    /// Opens a file to read and write, and creates it if it is missing.
    pub fn edit_or_create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let name = single(name.as_ref())?;
        loop {
            if let Some(file) = if_there(self.edit(name))? {
                return Ok(file);
            }
            match self.create(name) {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => return done,
            }
        }
    }

    /// Writes bytes to a file of this folder.
    pub fn write(&self, name: impl AsRef<OsStr>, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        crate::write_counted(&self.path, name.as_ref(), file, bytes)
    }

    /// Makes a file, in place of one that is there. It is written beside its place, flushed to the disk and renamed.
    /// After an error nothing is left behind and an older file is untouched. What a killed writer leaves is removed by
    /// the next one of the same file.
    pub fn write_whole(
        &self,
        name: impl AsRef<OsStr>,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        self.write_with(name.as_ref(), Access::New, write)
    }

    /// The same for a file that other users cannot read: at no moment has it another mode. On Windows who may read it is
    /// inherited from the folder.
    pub fn write_private(
        &self,
        name: impl AsRef<OsStr>,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        self.write_with(name.as_ref(), Access::Private, write)
    }

    fn write_with(
        &self,
        name: &OsStr,
        access: Access,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let name = single(name)?;
        let (beside, mut file) = self.sibling(name, access)?;
        let written = counted(Op::Write, &self.path, &beside, || write(&mut file))
            .and_then(|()| counted(Op::Sync, &self.path, &beside, || file.sync_all()))
            .and_then(|()| self.rename(&beside, name));
        if written.is_err() {
            // What was wrong is already known; a leftover that cannot be removed adds nothing.
            let _ = self.remove_open(&beside, &file);
        }
        written
    }

    /// A new file beside another, locked. A file of that name whose writer is gone makes room for it.
    fn sibling(&self, name: &OsStr, access: Access) -> io::Result<(OsString, File)> {
        for number in 0..WRITERS {
            let mut beside = OsString::from(".");
            beside.push(name);
            beside.push(format!(".{number}.part"));
            self.sweep_one(&beside);
            let created =
                counted(Op::Create, &self.path, &beside, || sys::file(&self.handle, &beside, access));
            let file = match created {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            if is_ours(&file) {
                return Ok((beside, file));
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many processes write this file"))
    }

    /// Removes a file that a killed writer left: its lock is free. True if it is gone.
    pub fn sweep_one(&self, name: impl AsRef<OsStr>) -> bool {
        let name = name.as_ref();
        let Ok(file) = self.edit(name) else { return false };
        self.sweep_open(name, &file)
    }

    /// Removes a name that led to an open file, if nobody has locked the file. Still locked while it is removed: its writer,
    /// should it have been about to lock it, notices.
    fn sweep_open(&self, name: &OsStr, file: &File) -> bool {
        file.try_lock().is_ok() && self.remove_open(name, file).unwrap_or(false)
    }

    /// Removes a name of an open, locked file; false if the name belongs to another one by now. A writer that renames its
    /// file makes room for the next writer's at once, and only who has the lock of a file takes its name away: so nothing
    /// comes between the look and the removal.
    fn remove_open(&self, name: &OsStr, file: &File) -> io::Result<bool> {
        if !sys::is_named(&self.handle, name, file) {
            return Ok(false);
        }
        self.remove(name).map(|()| true)
    }

    /// Gives a file another name, in place of a file that has it, and flushes the folder.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        self.move_to(from.as_ref(), self, to.as_ref(), true)
    }

    /// Gives a file another name unless that is taken ([`io::ErrorKind::AlreadyExists`]), and flushes the folder. Of any
    /// number of racers one succeeds.
    pub fn rename_new(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        self.move_to(from.as_ref(), self, to.as_ref(), false)
    }

    /// Moves a file into another folder of the same file system.
    pub fn move_to(&self, from: &OsStr, folder: &Folder, to: &OsStr, replace: bool) -> io::Result<()> {
        let (from, to) = (single(from)?, single(to)?);
        counted(Op::Rename, &folder.path, to, || match replace {
            true => sys::rename(&self.handle, from, (&folder.handle, to)),
            false => sys::rename_new(&self.handle, from, (&folder.handle, to)),
        })?;
        folder.sync()
    }

    /// Removes a file or a link, never what a link points at.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = single(name.as_ref())?;
        counted(Op::Remove, &self.path, name, || sys::remove(&self.handle, name))
    }

    /// Removes a folder that is empty.
    pub fn remove_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = single(name.as_ref())?;
        counted(Op::RemoveFolder, &self.path, name, || sys::remove_folder(&self.handle, name))
    }

    /// Removes everything that `is_ours` says yes to, files first, then folders that are empty then. It gets the names
    /// from here down. Links, pipes and devices stay, and so do the folders they are in.
    pub fn remove_ours(&self, is_ours: &mut dyn FnMut(&Path, Kind) -> bool) -> io::Result<u64> {
        self.remove_below(Path::new(""), is_ours, DEEPEST)
    }

    fn remove_below(
        &self,
        below: &Path,
        is_ours: &mut dyn FnMut(&Path, Kind) -> bool,
        deeper: usize,
    ) -> io::Result<u64> {
        let mut removed = 0;
        for (name, about) in self.list(MOST_NAMES)? {
            let path = below.join(&name);
            match about.kind {
                Kind::File if is_ours(&path, Kind::File) => {
                    if_there(self.remove(&name))?;
                    removed += 1;
                }
                Kind::Folder if deeper > 0 => {
                    let Some(folder) = if_there(self.folder(&name))? else { continue };
                    removed += folder.remove_below(&path, is_ours, deeper - 1)?;
                    if is_ours(&path, Kind::Folder) {
                        // Fails unless it is empty.
                        let _ = self.remove_folder(&name);
                    }
                }
                _ => {}
            }
        }
        Ok(removed)
    }

    /// Removes a folder that this process made, with everything in it. Links are removed and not followed.
    pub fn remove_tree(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = single(name.as_ref())?;
        self.folder(name)?.clear(DEEPEST)?;
        self.remove_folder(name)
    }

    fn clear(&self, deeper: usize) -> io::Result<()> {
        for (name, about) in self.list(MOST_NAMES)? {
            match about.kind {
                Kind::Folder if deeper == 0 => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
                Kind::Folder => {
                    self.folder(&name)?.clear(deeper - 1)?;
                    self.remove_folder(&name)?;
                }
                _ => {
                    if_there(self.remove(&name))?;
                }
            }
        }
        Ok(())
    }

    /// The names in it, in any order; more than `most` are an error.
    pub fn names(&self, most: usize) -> io::Result<Vec<OsString>> {
        sys::names(&self.handle, most)
    }

    /// What is in it, in any order; more than `most` names are an error.
    pub fn list(&self, most: usize) -> io::Result<Vec<(OsString, About)>> {
        let mut entries = Vec::new();
        for name in sys::names(&self.handle, most)? {
            if let Some(about) = if_there(self.about(&name))? {
                entries.push((name, about));
            }
        }
        Ok(entries)
    }

    /// What a name stands for.
    pub fn about(&self, name: impl AsRef<OsStr>) -> io::Result<About> {
        sys::about(&self.handle, single(name.as_ref())?)
    }

    /// True if other users may do something in it. On Windows nobody knows, and the answer is no.
    pub fn is_open_to_others(&self) -> io::Result<bool> {
        sys::is_open_to_others(&self.handle)
    }

    /// Takes from other users what they may do in it. True if they could.
    pub fn make_private(&self) -> io::Result<bool> {
        sys::make_private(&self.handle)
    }

    /// Takes from other users what they may do with a file in it. True if they could.
    pub fn make_file_private(&self, name: impl AsRef<OsStr>) -> io::Result<bool> {
        sys::make_file_private(&self.read(name)?)
    }

    /// Flushes its list of names.
    pub fn sync(&self) -> io::Result<()> {
        counted(Op::Sync, &self.path, OsStr::new("."), || sys::sync(&self.handle))
    }

    fn regular(&self, name: &OsStr, access: Access) -> io::Result<File> {
        // Devices can act when they are opened, so the look comes first; what was opened then counts.
        if self.about(name)?.kind != Kind::File {
            return Err(not_regular());
        }
        let file = sys::file(&self.handle, name, access)?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Folder").field(&self.path).finish()
    }
}

/// Locks a file that was just created. False if another process took it for a leftover. Where the file system has no locks,
/// none does.
pub fn is_ours(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && has_name(file)
}

/// True if an open file still has a name: another process may have removed it.
pub fn has_name(file: &File) -> bool {
    sys::has_name(file)
}

/// True if a read failed because another process has locked the file. Locks of Unix do not keep others from reading.
pub fn is_locked(error: &io::Error) -> bool {
    const ERROR_LOCK_VIOLATION: i32 = 33;
    cfg!(windows) && error.raw_os_error() == Some(ERROR_LOCK_VIOLATION)
}

fn single(name: &OsStr) -> io::Result<&OsStr> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(std::path::Component::Normal(part)), None) if part == name => {
            check_path(Path::new(name)).map(|()| name)
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no name in a folder")),
    }
}

pub(crate) fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

fn too_many(most: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the folder has more than {most} entries"))
}

/// What was asked of something that may be missing; `None` if it is.
pub fn if_there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// What a writer does up to the moment at which it renames its file.
    fn part(folder: &Folder, text: &str) -> (OsString, File) {
        let (name, mut file) = folder.sibling(OsStr::new("list"), Access::New).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        (name, file)
    }

    #[test]
    fn a_writer_that_is_done_takes_no_name_from_the_next_one() {
        let desk = tempfile::tempdir().unwrap();
        let folder = &Folder::open(desk.path()).unwrap();
        let (first, one) = part(folder, "one");
        // Another writer opens it as a possible leftover.
        let seen = folder.edit(&first).unwrap();
        folder.rename(&first, "list").unwrap();
        drop(one);
        // The name is free, and the next writer has it.
        let (second, two) = part(folder, "two");
        assert_eq!(first, second);
        assert!(
            !folder.sweep_open(&first, &seen),
            "the file of the second writer is not the one that was seen"
        );
        drop(seen);
        let (third, half) = part(folder, "hal");
        assert_ne!(third, second, "a name that a writer has is not given twice");
        folder.rename(&second, "list").unwrap();
        drop(two);
        assert_eq!(std::fs::read_to_string(desk.path().join("list")).unwrap(), "two");
        drop(half);
        assert!(folder.sweep_one(&third), "a leftover goes");
    }

    #[test]
    fn a_writer_that_fails_behind_its_rename_removes_no_file_of_another() {
        let desk = tempfile::tempdir().unwrap();
        let folder = &Folder::open(desk.path()).unwrap();
        let (name, one) = part(folder, "one");
        folder.rename(&name, "list").unwrap();
        std::fs::write(desk.path().join(&name), "two").unwrap();
        assert!(!folder.remove_open(&name, &one).unwrap());
        assert!(desk.path().join(&name).exists() && desk.path().join("list").exists());
    }
}
