//! What only functions of Windows tell about files.
#![expect(unsafe_code, reason = "the standard library has no call for these")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::{Component, Path, PathBuf, Prefix};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, DELETE, FILE_BASIC_INFO, FILE_FLAG_BACKUP_SEMANTICS,
    FILE_FLAG_DELETE_ON_CLOSE, FILE_NAME_NORMALIZED, FILE_STANDARD_INFO, FileBasicInfo, FileStandardInfo,
    GetDiskFreeSpaceExW, GetFileInformationByHandle, GetFileInformationByHandleEx, GetFinalPathNameByHandleW,
    MOVEFILE_WRITE_THROUGH, MoveFileExW,
};

/// Characters of a path at most.
const LONGEST: usize = 1 << 15;

/// A path as the system takes it, with a zero behind it.
fn wide(path: &Path) -> io::Result<Vec<u16>> {
    let mut text: Vec<u16> = path.as_os_str().encode_wide().collect();
    if text.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has a zero in it"));
    }
    text.push(0);
    Ok(text)
}

/// Bytes that this user may write in a folder.
pub(crate) fn free_space(folder: &Path) -> Option<u64> {
    // The real path may be long; a share needs the backslash at its end.
    let real = std::fs::canonicalize(folder).or_else(|_| std::path::absolute(folder)).ok()?;
    let name = wide(&real.join("")).ok()?;
    let mut free = 0;
    // SAFETY: `name` ends in a zero, `free` is written during the call, and null says that the rest is not wanted.
    let done = unsafe { GetDiskFreeSpaceExW(name.as_ptr(), &mut free, null_mut(), null_mut()) };
    (done != 0).then_some(free)
}

/// Opens a file or a folder to ask about it, which needs no right to read; the flag is what opens folders.
fn asked(path: &Path) -> Option<File> {
    File::options().access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path).ok()
}

/// The disk and the number of the file or folder that a path leads to.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    identity_of(&asked(path)?)
}

/// The disk and the number of an open file or folder.
pub(crate) fn identity_of(file: &File) -> Option<(u64, u64)> {
    let mut about = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open for as long as `file` lives, and `about` is written during the call.
    let done = unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut about) };
    let number = u64::from(about.nFileIndexHigh) << 32 | u64::from(about.nFileIndexLow);
    // Some file systems number nothing.
    (done != 0 && number != 0).then_some((u64::from(about.dwVolumeSerialNumber), number))
}

/// Whether two paths have the same real path, without regard to case.
pub(crate) fn same_real_path(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| Some(path.canonicalize().ok()?.to_string_lossy().to_lowercase());
    real(a).is_some_and(|a| real(b) == Some(a))
}

/// When anything about a file changed last, in 100 ns since 1601. Programs that set back the time of its last change leave
/// this one alone.
pub(crate) fn changed(path: &Path) -> Option<u64> {
    let file = asked(path)?;
    let mut about = FILE_BASIC_INFO::default();
    let size = size_of::<FILE_BASIC_INFO>() as u32;
    // SAFETY: the handle is open for as long as `file` lives, and `about` has the type and size that the class asks for.
    let done = unsafe {
        GetFileInformationByHandleEx(file.as_raw_handle(), FileBasicInfo, (&raw mut about).cast(), size)
    };
    (done != 0).then_some(about.ChangeTime as u64)
}

/// A file that the system deletes when it is closed. No other program can open it. It is not marked as temporary, because
/// Windows tries to keep such files in memory.
pub(crate) fn unnamed(folder: &Path) -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let name = format!(".remaster.{}.{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut options = File::options();
        options.read(true).write(true).create_new(true).share_mode(0).custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
        match options.open(folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done,
        }
    }
}

/// Opens a file of ours to write to it, once scanners let go of it.
pub(crate) fn writable(path: &Path) -> io::Result<File> {
    patiently(|| File::options().write(true).open(path))
}

/// Asks for the right to remove a file, which another program that has it open can refuse.
pub(crate) fn check_replaceable(path: &Path) -> io::Result<()> {
    if path.metadata()?.permissions().readonly() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only"));
    }
    match patiently(|| File::options().access_mode(DELETE).open(path)) {
        Err(error) if is_in_use(&error) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("another program has it open ({error}); close it there"),
        )),
        done => done.map(drop),
    }
}

/// Scanners and indexers keep new files open for a moment, and until then no file can take their place or go.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// `ERROR_ACCESS_DENIED`, `ERROR_SHARING_VIOLATION`, `ERROR_LOCK_VIOLATION`, `ERROR_DELETE_PENDING`.
const IN_USE: [i32; 4] = [5, 32, 33, 303];

/// Whether an error says that another program has a file open.
pub(crate) fn is_in_use(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| IN_USE.contains(&code))
}

/// Tries again while another program holds the file.
pub(crate) fn patiently<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES {
        match call() {
            Err(error) if is_in_use(&error) => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    call()
}

/// A path without the prefix of real paths: `\\?\C:\films` is `C:\films`. `None` if the path needs the prefix or has none.
pub(crate) fn plain(path: &Path) -> Option<PathBuf> {
    let mut parts = path.components();
    let Component::Prefix(prefix) = parts.next()? else { return None };
    let mut plain: OsString = match prefix.kind() {
        Prefix::VerbatimDisk(letter) => format!("{}:", char::from(letter)).into(),
        Prefix::VerbatimUNC(server, share) => {
            [OsStr::new(r"\\"), server, OsStr::new(r"\"), share].into_iter().collect()
        }
        _ => return None,
    };
    plain.push(parts.as_path());
    let plain = PathBuf::from(plain);
    // A longer path needs the prefix, and so do names that are something else without it.
    (plain.as_os_str().len() < 260 && crate::check_path(&plain).is_ok()).then_some(plain)
}

/// Where an open file lies, by whatever links it was opened.
pub(crate) fn real_path(file: &File) -> io::Result<PathBuf> {
    let mut text = vec![0; 512];
    loop {
        let most = u32::try_from(text.len()).unwrap_or(u32::MAX);
        // SAFETY: the handle is open for as long as `file` lives, and the system writes at most `most` characters.
        let length = unsafe {
            GetFinalPathNameByHandleW(file.as_raw_handle(), text.as_mut_ptr(), most, FILE_NAME_NORMALIZED)
        } as usize;
        match length {
            0 => return Err(io::Error::last_os_error()),
            _ if length < text.len() => return Ok(OsString::from_wide(&text[..length]).into()),
            // It says how many it needs.
            _ if length <= LONGEST => text.resize(length + 1, 0),
            _ => return Err(io::ErrorKind::InvalidFilename.into()),
        }
    }
}

/// Whether an open file has a name that will stay.
pub(crate) fn has_name(file: &File) -> bool {
    let mut about = FILE_STANDARD_INFO::default();
    let size = size_of::<FILE_STANDARD_INFO>() as u32;
    // SAFETY: the handle is open for as long as `file` lives, and `about` has the type and size that the class asks for.
    let done = unsafe {
        GetFileInformationByHandleEx(file.as_raw_handle(), FileStandardInfo, (&raw mut about).cast(), size)
    };
    done != 0 && about.NumberOfLinks > 0 && !about.DeletePending
}

/// Gives a file another path unless that is taken, and returns when the disk has it.
pub(crate) fn move_new(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (wide(from)?, wide(to)?);
    // SAFETY: both end in a zero and live during the call.
    match unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), MOVEFILE_WRITE_THROUGH) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
