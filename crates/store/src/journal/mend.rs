//! Entries of the wrong kind in the folder of a unit: a file or a link where a folder belongs, a folder where an object does.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use remaster_disk::{Folder, Kind, MOST_NAMES, if_there};

use super::damage::Damage;
use super::kept::piece_number;
use super::layout::{ATTEMPTS, DONE, KEPT, UNITS};
use crate::StoreError;

/// Names that are tried for what is moved aside.
const NAMES: u32 = 1000;

/// Makes room in the folder of a unit below the root of a store. Returns what was in the way.
pub(super) fn mend(root: &Path, unit: u32) -> Result<Vec<Damage>, StoreError> {
    let mut mend = Mend { unit, damaged: Vec::new() };
    match if_there(mend.root(root)) {
        Ok(_) => Ok(mend.damaged),
        Err(source) => Err(StoreError::Folder { path: root.to_owned(), source }),
    }
}

struct Mend {
    unit: u32,
    damaged: Vec<Damage>,
}

impl Mend {
    fn root(&mut self, root: &Path) -> io::Result<()> {
        // What is in the place of the folder of all units is no business of one.
        let units = Folder::open(root)?.folder(UNITS)?;
        let (name, below) = (format!("{:06}", self.unit), format!("{UNITS}/"));
        let Some(unit) = self.folder(&units, &name, &below)? else { return Ok(()) };
        let below = format!("{below}{name}/");
        self.object(&unit, DONE.as_ref(), &below)?;
        if let Some(kept) = self.folder(&unit, KEPT, &below)? {
            let names = kept.names(MOST_NAMES)?;
            for name in names.iter().filter(|name| name.to_str().and_then(piece_number).is_some()) {
                self.object(&kept, name, &format!("{below}{KEPT}/"))?;
            }
        }
        // Attempts have names of their own, so that nothing can be in the way of the next one.
        self.folder(&unit, ATTEMPTS, &below).map(drop)
    }

    /// A folder, if there is one.
    fn folder(&mut self, at: &Folder, name: &str, below: &str) -> io::Result<Option<Folder>> {
        match if_there(at.about(name))? {
            None => Ok(None),
            Some(about) if about.kind == Kind::Folder => if_there(at.folder(name)),
            Some(_) => {
                self.clear(at, name.as_ref(), below, "a folder")?;
                Ok(None)
            }
        }
    }

    fn object(&mut self, at: &Folder, name: &OsStr, below: &str) -> io::Result<()> {
        match if_there(at.about(name))? {
            Some(about) if about.kind != Kind::File => self.clear(at, name, below, "a file"),
            _ => Ok(()),
        }
    }

    fn clear(&mut self, at: &Folder, name: &OsStr, below: &str, wanted: &str) -> io::Result<()> {
        let about = at.about(name)?;
        let removed = match about.kind {
            Kind::Folder => at.remove_folder(name),
            Kind::File if about.bytes > 0 => Err(io::ErrorKind::DirectoryNotEmpty.into()),
            Kind::File | Kind::Other => at.remove(name),
        };
        let reason = match removed {
            Ok(()) => format!("it was not {wanted}, and is removed"),
            Err(_) => format!("it was not {wanted}, and is now called {}", aside(at, name)?),
        };
        let key = format!("{below}{}", name.to_string_lossy());
        self.damaged.push(Damage { unit: self.unit, key, reason });
        Ok(())
    }
}

/// Gives something that is not ours a name that is free.
fn aside(at: &Folder, name: &OsStr) -> io::Result<String> {
    for number in 1..=NAMES {
        let free = format!("{}.aside-{number}", name.to_string_lossy());
        match at.rename_new(name, &free) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done.map(|()| free),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "it cannot be moved aside"))
}
