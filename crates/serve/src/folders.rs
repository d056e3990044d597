//! Films that are on the disk of the server already: below folders that were allowed, through handles that follow no link.

use std::fs::File;
use std::path::{Component, Components, Path, PathBuf};

use axum::http::StatusCode;
use remaster_disk::{Folder, Kind};
use serde_json::{Value, json};

use crate::error::ServeError;
use crate::problem::Problem;

/// Names of a folder that are shown at most.
const MOST_SHOWN: usize = 5000;

/// Folders that may be read.
pub(crate) struct Folders(Vec<PathBuf>);

/// A place below an allowed folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The allowed folder.
    pub(crate) folder: PathBuf,
    /// Names from there on.
    pub(crate) names: Vec<String>,
}

impl Place {
    /// Its path.
    pub(crate) fn path(&self) -> PathBuf {
        self.names.iter().fold(self.folder.clone(), |path, name| path.join(name))
    }
}

/// What a path has behind that of a folder. Windows does not tell letters by their case.
fn below<'a>(path: &'a Path, folder: &Path) -> Option<Components<'a>> {
    let mut parts = path.components();
    for part in folder.components() {
        let other = parts.next()?;
        let folded = |part: Component<'_>| part.as_os_str().to_string_lossy().to_lowercase();
        let same = part == other || cfg!(windows) && folded(part) == folded(other);
        same.then_some(())?;
    }
    Some(parts)
}

impl Folders {
    /// The folders of `--allow-folder`, each with its real path.
    pub(crate) fn new(folders: &[PathBuf]) -> Result<Self, ServeError> {
        let real = |path: &PathBuf| {
            let failed = |source| ServeError::Folder { path: path.clone(), source };
            let real = remaster_disk::plain(path.canonicalize().map_err(failed)?);
            Folder::open(&real).map_err(failed)?;
            Ok(real)
        };
        Ok(Folders(folders.iter().map(real).collect::<Result<_, ServeError>>()?))
    }

    /// What is allowed, for clients.
    pub(crate) fn shown(&self) -> Value {
        let name = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        self.0.iter().map(|path| json!({"name": name(path), "path": path.display().to_string()})).collect()
    }

    /// The place that a text names, if it is below an allowed folder.
    pub(crate) fn place(&self, text: &str) -> Result<Place, Problem> {
        let path = &remaster_disk::plain(PathBuf::from(text));
        let found = self.0.iter().filter_map(|folder| {
            let names = below(path, folder)?.map(|part| match part {
                Component::Normal(name) => name.to_str().map(str::to_owned),
                _ => None,
            });
            Some(Place { folder: folder.clone(), names: names.collect::<Option<_>>()? })
        });
        // Of folders inside each other, the one that leaves the fewest names to walk.
        found.min_by_key(|place| place.names.len()).ok_or_else(|| {
            let detail = "this path is not below an allowed folder; start the server with --allow-folder DIR, or upload the film";
            Problem::new(StatusCode::FORBIDDEN, "not-allowed", detail)
        })
    }

    /// A folder below an allowed one. No link is followed on the way.
    fn walk(&self, folder: &Path, names: &[String]) -> Result<Folder, Problem> {
        if !self.0.iter().any(|allowed| allowed == folder) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "not-allowed",
                "this folder is not allowed any more; start the server with --allow-folder DIR",
            ));
        }
        let mut here =
            Folder::open(folder).map_err(|error| Problem::system("the folder cannot be opened", &error))?;
        for name in names {
            here = here.folder(name).map_err(|_| Problem::missing("folder"))?;
        }
        Ok(here)
    }

    /// Opens the file at a place, which has to be a regular file.
    pub(crate) fn open(&self, place: &Place) -> Result<File, Problem> {
        let Some((name, above)) = place.names.split_last() else { return Err(Problem::missing("file")) };
        self.walk(&place.folder, above)?.read(name).map_err(|_| Problem::missing("file"))
    }

    /// What is in a folder.
    pub(crate) fn list(&self, text: Option<&str>) -> Result<Value, Problem> {
        let Some(text) = text else {
            let folders = self.0.iter().map(|path| {
                let text = path.display().to_string();
                json!({"name": text, "path": text, "folder": true, "size": null})
            });
            return Ok(json!({"path": null, "entries": folders.collect::<Vec<_>>()}));
        };
        let place = self.place(text)?;
        let folder = self.walk(&place.folder, &place.names)?;
        let too_many = |error: std::io::Error| Problem::system("the folder cannot be listed", &error);
        let mut entries = Vec::new();
        for (name, about) in folder.list(MOST_SHOWN).map_err(too_many)? {
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            let path = place.path().join(name).display().to_string();
            match about.kind {
                Kind::Folder => {
                    entries.push(json!({"name": name, "path": path, "folder": true, "size": null}))
                }
                Kind::File => {
                    entries.push(json!({"name": name, "path": path, "folder": false, "size": about.bytes}))
                }
                Kind::Other => {}
            }
        }
        entries
            .sort_by_key(|entry| (entry["folder"] == json!(false), entry["name"].to_string().to_lowercase()));
        Ok(json!({"path": place.path().display().to_string(), "entries": entries}))
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_but_files_below_an_allowed_folder_is_reached() {
        let desk = tempfile::tempdir().unwrap();
        let root = desk.path().canonicalize().unwrap();
        let (films, out) = (root.join("films"), root.join("secret.mkv"));
        std::fs::create_dir_all(films.join("a")).unwrap();
        std::fs::write(films.join("a/b.mkv"), "x").unwrap();
        std::fs::write(&out, "x").unwrap();
        symlink(&out, films.join("link.mkv")).unwrap();
        symlink(&root, films.join("up")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(films.join("pipe.mkv")).status().unwrap().success());
        let folders = Folders::new(std::slice::from_ref(&films)).unwrap();
        let open = |path: &str| folders.place(path).and_then(|place| folders.open(&place)).is_ok();
        let films = films.to_str().unwrap();
        assert!(open(&format!("{films}/a/b.mkv")));
        for wrong in [
            "",
            "/",
            "..",
            "link.mkv",
            "up/secret.mkv",
            "pipe.mkv",
            "../secret.mkv",
            "a/../../secret.mkv",
            "a",
            "a/b.mkv/c",
        ] {
            assert!(!open(&format!("{films}/{wrong}")), "{wrong}");
            assert!(!open(wrong), "{wrong}");
        }
        assert!(!open(out.to_str().unwrap()) && !open("/etc/passwd") && !open(&format!("{films}x/a")));
        let names = folders.list(Some(films)).unwrap()["entries"].to_string();
        assert!(names.contains("\"a\"") && !names.contains("link") && !names.contains("pipe"), "{names}");
        assert!(folders.list(Some("/etc")).is_err() && folders.list(Some(&format!("{films}/up"))).is_err());
        assert!(Folders::new(&[root.join("nowhere")]).is_err());
    }
}
