//! Folders as stores, and what `object_store` leaves to do there.
//!
//! With `with_fsync` it writes beside the place, flushes the file, links or renames it and flushes the folder and every
//! folder it made above it. What is added here: the place itself is made and flushed, file systems without hard links
//! can create, too, and what killed writers left is swept.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;

use crate::StoreError;

/// Opens a folder that is there.
pub(crate) fn open(path: &Path) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let unusable = |source| StoreError::Folder { path: path.to_owned(), source };
    match std::fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::NoFolder { path: path.to_owned() });
        }
        Err(e) => return Err(unusable(e)),
        Ok(about) if !about.is_dir() => return Err(unusable(io::ErrorKind::NotADirectory.into())),
        Ok(_) => {}
    }
    let store = LocalFileSystem::new_with_prefix(path).map_err(|e| unusable(io::Error::other(e)))?;
    Ok(Arc::new(store.with_fsync(true).with_automatic_cleanup(true)))
}

/// Makes a folder and those above it, so that they are there after a power cut, too.
pub(crate) fn make(path: &Path) -> Result<(), StoreError> {
    let unusable = |source| StoreError::Folder { path: path.to_owned(), source };
    let whole = std::path::absolute(path).map_err(unusable)?;
    let missing: Vec<PathBuf> =
        whole.ancestors().take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
    std::fs::create_dir_all(&whole).map_err(unusable)?;
    for folder in missing {
        flush_folder_of(&folder).map_err(unusable)?;
    }
    Ok(())
}

/// Flushes the entry of a path in its folder. Only Unix can; elsewhere the file system's own journal has to do.
fn flush_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

/// Creates an object on a file system without hard links (exFAT, some network drives) by a rename that replaces
/// nothing. `None` where the system has no such rename.
pub(crate) fn create_by_rename(root: &Path, key: &str, bytes: &[u8]) -> Option<io::Result<bool>> {
    let path = root.join(key);
    // A name that `object_store` takes for an unfinished file and does not list.
    let beside = root.join(format!("{key}#{}", unfinished_number()));
    let written = || -> io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = File::create_new(&beside)?;
        io::Write::write_all(&mut file, bytes)?;
        file.sync_all()
    };
    let outcome = match written() {
        Err(e) => Some(Err(e)),
        Ok(()) => match rename_new(&beside, &path)? {
            Ok(()) => Some(flush_folder_of(&path).map(|()| true)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Some(Ok(false)),
            Err(e) => Some(Err(e)),
        },
    };
    if !matches!(outcome, Some(Ok(true))) {
        // What was wrong is already known.
        let _ = std::fs::remove_file(&beside);
    }
    outcome
}

/// A number that neither another thread nor, in all likelihood, another machine uses for the same key.
fn unfinished_number() -> u64 {
    u64::from_str_radix(&crate::random::name()[..15], 16).unwrap_or(1)
}

/// Renames unless the new name is taken; `None` where the system cannot.
fn rename_new(from: &Path, to: &Path) -> Option<io::Result<()>> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL | rustix::io::Errno::NOTSUP) => None,
            done => Some(done.map_err(io::Error::from)),
        }
    }
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    {
        let _ = (from, to);
        None
    }
}

/// Removes unfinished files that killed writers left below a folder, and folders that are empty then. Nobody may be
/// writing there.
pub(crate) fn sweep(folder: &Path) -> io::Result<u64> {
    let mut removed = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            removed += sweep(&entry.path())?;
            // Fails unless it is empty.
            let _ = std::fs::remove_dir(entry.path());
        } else if kind.is_file() && entry.file_name().to_str().is_some_and(is_unfinished) {
            std::fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn is_unfinished(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    name.split_once('#').is_some_and(|(front, number)| !front.is_empty() && digits(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_made_with_what_is_above_it_and_not_guessed() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a/b/c");
        assert!(matches!(open(&place), Err(StoreError::NoFolder { .. })));
        make(&place).unwrap();
        make(&place).unwrap();
        assert!(open(&place).is_ok());
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(open(&file), Err(StoreError::Folder { .. })));
        assert!(matches!(make(&file.join("x")), Err(StoreError::Folder { .. })));
    }

    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    #[test]
    fn sixteen_racers_without_hard_links_have_one_winner() {
        let folder = tempfile::tempdir().unwrap();
        let wins: Vec<usize> = std::thread::scope(|scope| {
            let race = |i: usize| {
                create_by_rename(folder.path(), "units/0/done.json", format!("{i}").as_bytes())
                    .unwrap()
                    .unwrap()
            };
            let racers: Vec<_> = (0..16).map(|i| (i, scope.spawn(move || race(i)))).collect();
            racers.into_iter().filter_map(|(i, racer)| racer.join().unwrap().then_some(i)).collect()
        });
        let [winner] = wins[..] else { panic!("{wins:?}") };
        let path = folder.path().join("units/0/done.json");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), winner.to_string());
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn only_unfinished_files_and_empty_folders_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("u/0/a")).unwrap();
        std::fs::create_dir_all(at("u/1")).unwrap();
        for name in ["u/0/a/film.nut#1", "u/1/done.json", "u/1/done.json#27", "notes#1b", "#1"] {
            std::fs::write(at(name), "").unwrap();
        }
        assert_eq!(sweep(folder.path()).unwrap(), 2);
        assert!(
            !at("u/0").exists()
                && at("u/1/done.json").exists()
                && at("notes#1b").exists()
                && at("#1").exists()
        );
    }
}
