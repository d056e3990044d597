//! Where the spill file goes: a folder on a disk. One in memory would hold what there is no memory for.

use std::path::{Path, PathBuf};

use remaster_disk::in_memory;
use remaster_media::place;

use super::host::Machine;
use crate::error::Error;

/// The folder of the spill file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spill {
    pub(crate) folder: PathBuf,
    /// Nothing may be spilled: every folder is in memory.
    pub(crate) none: bool,
    /// For people.
    pub(crate) note: Option<String>,
}

/// The folder that was `given`, else the first one on a disk: the system's for temporary files, that of the output, and
/// the user's cache.
pub(crate) fn choose(given: Option<&Path>, output: Option<&Path>, machine: &Machine) -> Result<Spill, Error> {
    if let Some(folder) = given {
        usable(folder)?;
        let note = in_memory(folder).then(|| {
            format!("--spill {} is in memory: temporary data there comes on top of --ram", folder.display())
        });
        return Ok(Spill { folder: folder.to_owned(), none: false, note });
    }
    let beside = output.map(|path| place::parent(path).to_owned());
    let folders = [Some(machine.temporary.clone()), beside, machine.cache()];
    Ok(first_on_disk(folders.into_iter().flatten(), &in_memory, &|folder| usable(folder).is_ok()))
}

/// Takes another folder for temporary files if the one that TMPDIR names is missing: the system's, or the user's cache.
pub fn settle_temporary() {
    if std::env::temp_dir().is_dir() {
        return;
    }
    let system = cfg!(unix).then(|| PathBuf::from("/tmp"));
    let mut others = system.into_iter().chain(Machine::this().cache());
    if let Some(folder) = others.find(|folder| folder.is_dir()) {
        let _ = tempfile::env::override_temp_dir(&folder);
    }
}

fn first_on_disk(
    folders: impl Iterator<Item = PathBuf>,
    in_memory: &dyn Fn(&Path) -> bool,
    usable: &dyn Fn(&Path) -> bool,
) -> Spill {
    let mut first = None;
    for folder in folders {
        if usable(&folder) && !in_memory(&folder) {
            return Spill { folder, none: false, note: None };
        }
        first.get_or_insert(folder);
    }
    let note = "no folder on a disk found for temporary data, so none is used; name one with --spill";
    Spill { folder: first.unwrap_or_default(), none: true, note: Some(note.into()) }
}

/// An error unless files can be made in a folder.
fn usable(folder: &Path) -> Result<(), Error> {
    remaster_engine::SpillFile::create(folder, 0).map(|_| ()).map_err(Error::Engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_folder_on_a_disk_is_taken_and_memory_never_unasked() {
        let choose = |memory: &[&str], broken: &[&str]| {
            let is = |list: &[&str], folder: &Path| list.iter().any(|n| Path::new(n) == folder);
            let folders = ["/tmp", "/out", "/cache"].map(PathBuf::from).into_iter();
            first_on_disk(folders, &|f| is(memory, f), &|f| !is(broken, f))
        };
        assert_eq!(choose(&[], &[]).folder, Path::new("/tmp"));
        assert_eq!(choose(&["/tmp"], &[]).folder, Path::new("/out"));
        assert_eq!(choose(&["/tmp"], &["/out"]).folder, Path::new("/cache"));
        let none = choose(&["/tmp", "/out", "/cache"], &[]);
        assert!(none.none && none.note.is_some_and(|n| n.contains("--spill")));
    }

    #[test]
    fn a_folder_that_was_named_must_be_there() {
        let machine = Machine::this();
        assert!(choose(Some(Path::new("/nowhere/at/all")), None, &machine).is_err());
        let here = std::env::temp_dir();
        assert_eq!(choose(Some(&here), None, &machine).map(|s| s.folder).ok(), Some(here));
    }
}
