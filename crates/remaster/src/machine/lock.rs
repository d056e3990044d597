//! Locks of files in the user's cache.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Error;

/// How long another process may have a file to itself, which changes it in milliseconds, and how often to look.
const PATIENCE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(5);

/// Keeps other processes from changing a file, while the result lives. The file of the lock stays: removing it would let two
/// processes lock two files of one name. A process that has it for too long is stuck, and a file system may have no locks:
/// a change that may meet another one is then better than none.
pub(crate) fn lock(file: &Path) -> Result<File, Error> {
    let folder = file.parent().unwrap_or(Path::new("."));
    remaster_disk::make_folders(folder).map_err(Error::writing(folder))?;
    let name = file.with_extension("lock");
    let opened = remaster_disk::Folder::open(folder)
        .and_then(|folder| folder.edit_or_create(name.file_name().unwrap_or_default()))
        .map_err(Error::writing(&name))?;
    let began = Instant::now();
    while let Err(TryLockError::WouldBlock) = opened.try_lock() {
        if began.elapsed() >= PATIENCE {
            break;
        }
        std::thread::sleep(STEP);
    }
    Ok(opened)
}
