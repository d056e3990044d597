//! What the standard library lacks about files: folders that are worked in without following a link ([`Folder`]), files
//! that appear whole or not at all, points at which a test can end the process ([`points`]), reads and writes at a place,
//! free space, whether a folder lives in memory, hashes, and paths in URLs.
//!
//! Everything that the product creates, renames or removes goes through here; `cargo xtask rules` refuses the calls of the
//! standard library that go past it.
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("settings.json");
//! remaster_disk::write_whole(&path, |file| std::io::Write::write_all(file, b"{}"))?;
//! assert_eq!(std::fs::read(&path)?, b"{}");
//! # Ok::<(), std::io::Error>(())
//! ```

mod folder;
mod hash;
mod names;
mod paths;
pub mod points;
#[cfg(windows)]
mod windows;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub use folder::{About, Folder, Kind, MOST_NAMES, has_name, if_there, is_locked, is_ours};
pub use hash::{hex, sha256_of};
pub use names::check_path;
pub(crate) use paths::write_counted;
pub use paths::{
    create, make_folders, percent_decoded, read, read_named, remove, remove_folder, rename, rename_new, sync,
    sync_written, write_all, write_whole,
};

/// Fills `out` with the bytes from `at` on. The file's own position does not matter; on Windows it moves.
pub fn read_at(file: &File, out: &mut [u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, out, at);
    #[cfg(windows)]
    {
        let (mut out, mut at) = (out, at);
        while !out.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(file, out, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => (out, at) = (&mut out[n..], at + n as u64),
            }
        }
        Ok(())
    }
}

/// Writes `bytes` from `at` on. The file's own position does not matter; on Windows it moves.
pub fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, at);
    #[cfg(windows)]
    {
        let (mut bytes, mut at) = (bytes, at);
        while !bytes.is_empty() {
            let n = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
            (bytes, at) = (&bytes[n..], at + n as u64);
        }
        Ok(())
    }
}

/// Bytes that may be written in a folder; `None` where the system does not say.
pub fn free_space(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    return rustix::fs::statvfs(folder).ok().map(|s| s.f_bavail.saturating_mul(s.f_frsize));
    #[cfg(windows)]
    return windows::free_space(folder);
}

/// Whether both paths stand for one file or folder, by whatever links and spellings.
pub fn same_file(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    let id = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        path.metadata().ok().map(|about| (about.dev(), about.ino()))
    };
    #[cfg(windows)]
    let id = windows::identity;
    match (id(a), id(b)) {
        (Some(a), Some(b)) => a == b,
        // Where files have no numbers, real paths tell.
        #[cfg(windows)]
        (None, None) => windows::same_real_path(a, b),
        _ => false,
    }
}

/// What tells on Windows whether a file was touched: the number of its disk, its own, and when anything about it changed last.
/// Programs that set back the time of its last change leave that one alone. What the system does not say is 0.
#[cfg(windows)]
pub fn touched(path: &Path) -> [u64; 3] {
    let (disk, number) = windows::identity(path).unwrap_or_default();
    [disk, number, windows::changed(path).unwrap_or_default()]
}

/// A file without a name in a folder. The system removes it when it is closed, and after a kill.
pub fn unnamed(folder: &Path) -> io::Result<File> {
    #[cfg(unix)]
    return tempfile::tempfile_in(folder);
    #[cfg(windows)]
    return windows::unnamed(folder);
}

/// True if an error says that another program has a file open, which only Windows minds.
pub fn is_in_use(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        let _ = error;
        false
    }
    #[cfg(windows)]
    windows::is_in_use(error)
}

/// An error if a file that is there could not be replaced: Windows keeps what is read-only or open elsewhere.
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        let _ = path;
        Ok(())
    }
    #[cfg(windows)]
    windows::check_replaceable(path)
}

/// The usual form of a real path: on Windows without the prefix `\\?\`, unless the path needs it.
pub fn plain(path: PathBuf) -> PathBuf {
    #[cfg(unix)]
    return path;
    #[cfg(windows)]
    return windows::plain(&path).unwrap_or(path);
}

/// Whether files in a folder live in memory (tmpfs, ramfs). Where the system does not say, they do not.
pub fn in_memory(folder: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        const TMPFS: u32 = 0x0102_1994;
        const RAMFS: u32 = 0x8584_58f6;
        // The type is signed or not, and of other widths, by platform; the numbers have 32 bits.
        rustix::fs::statfs(folder).is_ok_and(|s| [TMPFS, RAMFS].contains(&(s.f_type as u32)))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        false
    }
}

/// Tells the system that bytes of a file will not be read soon: their pages need not stay in memory. Only a hint.
pub fn forget_pages(file: &File, at: u64, length: usize) {
    #[cfg(target_os = "linux")]
    {
        let length = std::num::NonZero::new(length as u64);
        let _ = rustix::fs::fadvise(file, at, length, rustix::fs::Advice::DontNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, at, length);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_whole(&path, |file| file.write_all(b"old")).unwrap();
        let failed = write_whole(&path, |file| {
            file.write_all(b"new")?;
            Err(io::Error::other("no space"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        write_whole(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_whole(Path::new("/"), |_| Ok(())).is_err());
        assert!(write_whole(&folder.path().join("missing/a"), |_| Ok(())).is_err());
    }

    #[test]
    fn bytes_are_read_and_written_at_their_place() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        write_at(&file, b"ab", 4).unwrap();
        let mut out = [0; 4];
        read_at(&file, &mut out, 3).unwrap();
        assert_eq!(&out, b"3ab6");
        assert!(read_at(&file, &mut out, 8).is_err(), "the file ends there");
    }

    #[test]
    fn a_folder_has_space_and_a_missing_one_does_not_say() {
        assert!(free_space(&std::env::temp_dir()).is_some_and(|n| n > 0));
        assert_eq!(free_space(Path::new("/nowhere/at/all")), None);
    }

    #[test]
    fn two_names_of_a_file_are_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| folder.path().join(name));
        std::fs::write(&a, "1").unwrap();
        std::fs::hard_link(&a, &b).unwrap();
        std::fs::write(&c, "1").unwrap();
        assert!(same_file(&a, &b) && same_file(folder.path(), &folder.path().join(".")));
        assert!(!same_file(&a, &c) && !same_file(&a, &folder.path().join("missing")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn shared_memory_is_memory_and_the_kernel_s_own_files_are_not() {
        // Where /dev/shm is there, it is a tmpfs.
        assert_eq!(in_memory(Path::new("/dev/shm")), Path::new("/dev/shm").exists());
        assert!(!in_memory(Path::new("/proc")));
        assert!(!in_memory(Path::new("/nowhere/at/all")));
    }
}
