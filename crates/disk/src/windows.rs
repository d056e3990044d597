//! What only functions of Windows tell about files.
#![expect(unsafe_code, reason = "the standard library has no call for these")]

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_NAME_NORMALIZED, FILE_STANDARD_INFO,
    FileStandardInfo, GetDiskFreeSpaceExW, GetFileInformationByHandle, GetFileInformationByHandleEx,
    GetFinalPathNameByHandleW, MOVEFILE_WRITE_THROUGH, MoveFileExW,
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

/// The disk and the number of the file or folder that a path leads to.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    // Asking needs no right to read; the flag is what opens folders.
    let file = File::options().access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path).ok()?;
    let mut about = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open for as long as `file` lives, and `about` is written during the call.
    let done = unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut about) };
    let number = u64::from(about.nFileIndexHigh) << 32 | u64::from(about.nFileIndexLow);
    (done != 0).then_some((u64::from(about.dwVolumeSerialNumber), number))
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
