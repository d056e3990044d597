//! Files in the user's cache: what may be deleted at any time and is then made anew.

use std::io::{Read, Write};
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::error::Error;

/// Bytes of a file in it at most; whatever is longer is not ours.
const MOST: u64 = 1 << 20;

/// What a file in it holds. A link, a pipe, a file that is too long and one that is damaged count as none.
pub(crate) fn read<T: DeserializeOwned + Default>(file: &Path) -> T {
    let mut text = String::new();
    let read = remaster_disk::read(file).and_then(|file| file.take(MOST + 1).read_to_string(&mut text));
    match read.is_ok_and(|_| text.len() as u64 <= MOST) {
        true => serde_json::from_str(&text).unwrap_or_default(),
        false => T::default(),
    }
}

/// Replaces a file in it, whole or not at all.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), Error> {
    if let Some(folder) = file.parent() {
        remaster_disk::make_folders(folder).map_err(Error::writing(folder))?;
    }
    remaster_disk::write_whole(file, |file| file.write_all(text.as_bytes())).map_err(Error::writing(file))
}
