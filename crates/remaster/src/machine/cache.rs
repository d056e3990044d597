//! Files in the user's cache: what may be deleted at any time and is then made anew.

use std::io::{Read, Write};
use std::path::Path;

use crate::error::Error;

/// Bytes of a file in it at most; whatever is longer is not ours.
const MOST: u64 = 1 << 20;

/// What a file in it holds. A link, a pipe or a file that is too long counts as none.
pub(crate) fn read(file: &Path) -> Option<String> {
    let mut text = String::new();
    remaster_disk::read(file).ok()?.take(MOST + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= MOST).then_some(text)
}

/// Replaces a file in it, whole or not at all.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), Error> {
    if let Some(folder) = file.parent() {
        let failed = |source| Error::Write { path: folder.to_owned(), source };
        remaster_disk::make_folders(folder).map_err(failed)?;
    }
    let failed = |source| Error::Write { path: file.to_owned(), source };
    remaster_disk::write_whole(file, |file| file.write_all(text.as_bytes())).map_err(failed)
}
