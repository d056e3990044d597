//! Folders as stores. Everything is reached from the folder's handle, name by name: no link is followed, and objects are
//! regular files.
//!
//! An object is written beside its place under a name that is no key, flushed, and gets its name in one step; then the
//! folder is flushed, and so is every folder that was made for it. The file is locked while it is written, so that others
//! can tell what a killed writer left from what is on its way.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use remaster_disk::points::{Op, counted};
use remaster_disk::{Folder, Kind, MOST_NAMES, if_there};

use crate::StoreError;
use crate::key::wrong_part;

/// What errors call it.
const NAME: &str = "folder";

/// Objects that are listed at a time.
const CHUNK: usize = 1000;

/// Folders inside one another. The journal has five.
const DEEPEST: usize = 12;

/// Tries of a write: whoever empties a folder removes it, also if a writer has just opened it.
const TRIES: usize = 16;

/// Opens a folder that is there.
pub(crate) fn open(path: &FilePath) -> std::result::Result<Arc<dyn ObjectStore>, StoreError> {
    match Folder::open(path) {
        Ok(root) => Ok(of(root)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(StoreError::NoFolder { path: path.to_owned() }),
        Err(source) => Err(StoreError::Folder { path: path.to_owned(), source }),
    }
}

/// A folder that is open already.
pub(crate) fn of(root: Folder) -> Arc<dyn ObjectStore> {
    Arc::new(Local { root: Arc::new(root) })
}

/// Makes a folder and those above it, so that they are there after a power cut, too.
pub(crate) fn make(path: &FilePath) -> std::result::Result<(), StoreError> {
    remaster_disk::make_folders(path).map_err(|source| StoreError::Folder { path: path.to_owned(), source })
}

/// Which files and folders, by their paths below the root of a store, are ours.
pub(crate) type Ours<'a> = &'a dyn Fn(&str, Kind) -> bool;

/// Removes unfinished files of ours that killed writers left below a folder, and folders of ours that are empty then. Files
/// that are being written are locked and stay; with `all` nothing is being written, and locks are not asked for: some network
/// drives have none.
pub(crate) fn sweep(root: &FilePath, all: bool, ours: Ours<'_>) -> io::Result<u64> {
    sweep_folder(&Folder::open(root)?, "", all, ours)
}

fn sweep_folder(folder: &Folder, below: &str, all: bool, ours: Ours<'_>) -> io::Result<u64> {
    let mut removed = 0;
    for (name, about) in folder.list(MOST_NAMES)? {
        let text = name.to_str().unwrap_or_default();
        let path = format!("{below}{text}");
        if text.is_empty() || !ours(&path, about.kind) {
            continue;
        }
        if about.kind == Kind::Folder {
            let inner =
                folder.folder(&name).and_then(|inner| sweep_folder(&inner, &format!("{path}/"), all, ours));
            // Another sweep was faster.
            let Some(inner) = if_there(inner)? else { continue };
            removed += inner;
            // Fails unless it is empty.
            let _ = folder.remove_folder(&name);
        } else if about.kind == Kind::File
            && is_unfinished(text)
            && (folder.sweep_one(&name) || all && folder.remove(&name).is_ok())
        {
            removed += 1;
        }
    }
    Ok(removed)
}

/// A name that a file has until it is whole.
fn unfinished(name: &str) -> String {
    format!("{name}#{}", u64::from_str_radix(&crate::random::name()[..15], 16).unwrap_or(1))
}

/// Whether it is such a name: no key has a `#` in it.
pub(crate) fn is_unfinished(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    name.split_once('#').is_some_and(|(front, number)| !front.is_empty() && digits(number))
}

#[derive(Debug)]
struct Local {
    root: Arc<Folder>,
}

/// The folders above an object, and its name.
fn split(path: &Path) -> io::Result<(Vec<&str>, &str)> {
    let mut parts: Vec<&str> = path.as_ref().split('/').collect();
    if parts.iter().any(|part| wrong_part(part).is_some()) || parts.len() > DEEPEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no name of an object"));
    }
    let name = parts.pop().unwrap_or_default();
    Ok((parts, name))
}

/// What a look at an object found. Something else in its place, or above it, is none: what belongs there is made again.
fn object<T>(found: io::Result<T>) -> io::Result<T> {
    found.map_err(|error| match error.kind() {
        io::ErrorKind::NotADirectory => io::ErrorKind::NotFound.into(),
        _ => error,
    })
}

/// Opens folders one below the other; `make` makes those that are missing.
fn descend(root: &Folder, parts: &[&str], make: bool) -> io::Result<Folder> {
    let mut folder = root.again()?;
    for part in parts {
        folder = if make { folder.make_folder(part)? } else { folder.folder(part)? };
    }
    Ok(folder)
}

/// A file on its way to its name. Dropping it removes it.
#[derive(Debug)]
struct Unfinished {
    folder: Folder,
    beside: String,
    file: File,
    done: bool,
}

impl Unfinished {
    fn create(root: &Folder, path: &Path) -> io::Result<Self> {
        let (above, name) = split(path)?;
        let mut tries = 1;
        loop {
            let beside = unfinished(name);
            let made = descend(root, &above, true).and_then(|folder| {
                let file = folder.create(&beside)?;
                Ok((folder, file))
            });
            match made {
                Ok((folder, file)) if remaster_disk::is_ours(&file) => {
                    return Ok(Unfinished { folder, beside, file, done: false });
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound || tries == TRIES => return Err(error),
                _ => tries += 1,
            }
        }
    }

    fn write(&mut self, payload: &PutPayload) -> io::Result<()> {
        payload.iter().try_for_each(|bytes| self.folder.write(&self.beside, &mut self.file, bytes))
    }

    fn finish(mut self, path: &Path, replace: bool) -> io::Result<()> {
        let (_, name) = split(path)?;
        let (folder, beside) = (&self.folder, &self.beside);
        counted(Op::Sync, folder.path(), beside.as_ref(), || self.file.sync_all())?;
        folder.move_to(beside.as_ref(), folder, name.as_ref(), replace)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.done {
            // What was wrong is already known.
            let _ = self.folder.remove(&self.beside);
        }
    }
}

/// What the system says, as other stores say it.
fn said(path: &Path, error: io::Error) -> Error {
    let (path, source) = (path.to_string(), Box::new(error));
    match source.kind() {
        io::ErrorKind::NotFound => Error::NotFound { path, source },
        io::ErrorKind::AlreadyExists => Error::AlreadyExists { path, source },
        _ => Error::Generic { store: NAME, source },
    }
}

/// Runs in a thread of the runtime that may wait for a disk.
async fn blocking<T: Send + 'static>(
    path: Path,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T> {
    let task = tokio::task::spawn_blocking(move || work(&path).map_err(|error| said(&path, error)));
    task.await.map_err(Error::from)?
}

/// Times and tags of objects are not used: names are new and contents have hashes.
fn meta(location: Path, size: u64) -> ObjectMeta {
    ObjectMeta { location, last_modified: Default::default(), size, e_tag: None, version: None }
}

fn put_result() -> PutResult {
    PutResult { e_tag: None, version: None, extensions: Default::default() }
}

fn unable(operation: &str) -> Error {
    Error::NotImplemented { operation: operation.into(), implementer: NAME.into() }
}

#[async_trait]
impl ObjectStore for Local {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let replace = match options.mode {
            PutMode::Overwrite => true,
            PutMode::Create => false,
            PutMode::Update(_) => return Err(unable("conditional update")),
        };
        let root = Arc::clone(&self.root);
        blocking(path.clone(), move |path| {
            let mut unfinished = Unfinished::create(&root, path)?;
            unfinished.write(&payload)?;
            unfinished.finish(path, replace)
        })
        .await?;
        Ok(put_result())
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let root = Arc::clone(&self.root);
        let unfinished = blocking(path.clone(), move |path| Unfinished::create(&root, path)).await?;
        let state = Arc::new(Mutex::new(Some(unfinished)));
        Ok(Box::new(Upload { path: path.clone(), state, next: 0 }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let root = Arc::clone(&self.root);
        let (file, size) = blocking(path.clone(), move |path| {
            let (above, name) = split(path)?;
            let folder = object(descend(&root, &above, false))?;
            if folder.about(name)?.kind != Kind::File {
                return Err(io::ErrorKind::NotFound.into());
            }
            let file = folder.read(name)?;
            let size = file.metadata()?.len();
            Ok((file, size))
        })
        .await?;
        let meta = meta(path.clone(), size);
        options.check_preconditions(&meta)?;
        let range = match options.range {
            Some(range) => {
                range.as_range(size).map_err(|e| Error::Generic { store: NAME, source: Box::new(e) })?
            }
            None => 0..size,
        };
        let payload = GetResultPayload::File(file, self.root.path().join(path.as_ref()));
        Ok(GetResult { payload, meta, range, attributes: Default::default(), extensions: Default::default() })
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let root = Arc::clone(&self.root);
        let remove = move |path: Result<Path>| {
            let root = Arc::clone(&root);
            async move {
                let path = path?;
                blocking(path.clone(), move |path| delete(&root, path)).await?;
                Ok(path)
            }
        };
        paths.then(remove).boxed()
    }

    fn list(&self, below: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let below = below.cloned().unwrap_or_default();
        let walk = Walk { root: Arc::clone(&self.root), start: Some(below.clone()), open: Vec::new() };
        let chunks = stream::try_unfold(walk, move |mut walk| {
            let below = below.clone();
            async move {
                let (chunk, walk) = blocking(below, move |_| Ok((walk.chunk()?, walk))).await?;
                Ok::<_, Error>((!chunk.is_empty()).then_some((chunk, walk)))
            }
        });
        let flat = chunks.flat_map(|chunk| match chunk {
            Ok(chunk) => stream::iter(chunk).map(Ok).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        });
        flat.boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(unable("listing of one level"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(unable("copy"))
    }
}

/// Removes an object, and folders that are empty then.
fn delete(root: &Folder, path: &Path) -> io::Result<()> {
    let (above, name) = split(path)?;
    let folder = object(descend(root, &above, false))?;
    if folder.about(name)?.kind != Kind::File {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    folder.remove(name)?;
    for depth in (0..above.len()).rev() {
        let emptied =
            descend(root, &above[..depth], false).and_then(|folder| folder.remove_folder(above[depth]));
        if emptied.is_err() {
            break;
        }
    }
    Ok(())
}

/// A walk over all objects below a folder. Of each folder on the way down the names are in memory.
struct Walk {
    root: Arc<Folder>,
    /// Where it begins, until it has.
    start: Option<Path>,
    open: Vec<(Folder, String, std::vec::IntoIter<std::ffi::OsString>)>,
}

impl Walk {
    fn enter(&mut self, folder: Folder, below: String) -> io::Result<()> {
        let names = folder.names(MOST_NAMES)?;
        self.open.push((folder, below, names.into_iter()));
        Ok(())
    }

    fn begin(&mut self, start: &Path) -> io::Result<()> {
        let parts: Vec<&str> = start.as_ref().split('/').filter(|part| !part.is_empty()).collect();
        match if_there(object(descend(&self.root, &parts, false)))? {
            Some(folder) => self.enter(folder, start.to_string()),
            None => Ok(()),
        }
    }

    /// The next objects; none at the end. What disappears meanwhile is left out.
    fn chunk(&mut self) -> io::Result<Vec<ObjectMeta>> {
        if let Some(start) = self.start.take() {
            self.begin(&start)?;
        }
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK {
            let depth = self.open.len();
            let Some((folder, below, names)) = self.open.last_mut() else { break };
            let Some(name) = names.next() else {
                self.open.pop();
                continue;
            };
            // Names that are no keys are not ours.
            let Some(name) = name.to_str().filter(|name| wrong_part(name).is_none()) else { continue };
            let whole = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            let Some(about) = if_there(folder.about(name))? else { continue };
            if about.kind == Kind::File {
                chunk.push(meta(Path::from(whole), about.bytes));
            } else if about.kind == Kind::Folder
                && depth < DEEPEST
                && let Some(inner) = if_there(folder.folder(name))?
            {
                self.enter(inner, whole)?;
            }
        }
        Ok(chunk)
    }
}

/// An object in parts, each at its place in the file.
#[derive(Debug)]
struct Upload {
    path: Path,
    state: Arc<Mutex<Option<Unfinished>>>,
    next: u64,
}

fn taken(state: &Mutex<Option<Unfinished>>) -> io::Result<Unfinished> {
    let taken = state.lock().unwrap_or_else(PoisonError::into_inner).take();
    taken.ok_or_else(|| io::Error::other("the upload has ended"))
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let mut at = self.next;
        self.next += data.content_length() as u64;
        let state = Arc::clone(&self.state);
        let write = move |_: &Path| {
            let state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(unfinished) = state.as_ref() else {
                return Err(io::Error::other("the upload has ended"));
            };
            let folder = unfinished.folder.path();
            for bytes in data.iter() {
                counted(Op::Write, folder, unfinished.beside.as_ref(), || {
                    remaster_disk::write_at(&unfinished.file, bytes, at)
                })?;
                at += bytes.len() as u64;
            }
            Ok(())
        };
        blocking(self.path.clone(), write).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let state = Arc::clone(&self.state);
        blocking(self.path.clone(), move |path| taken(&state)?.finish(path, true)).await?;
        Ok(put_result())
    }

    async fn abort(&mut self) -> Result<()> {
        let state = Arc::clone(&self.state);
        blocking(self.path.clone(), move |_| taken(&state).map(drop)).await
    }
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.root.path().display())
    }
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

    #[test]
    fn only_unfinished_files_and_empty_folders_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("u/0/a")).unwrap();
        std::fs::create_dir_all(at("u/1")).unwrap();
        for name in ["u/0/a/film.nut#1", "u/1/done.json", "u/1/done.json#27", "notes#1b", "#1", "u/1/b#3"] {
            std::fs::write(at(name), "").unwrap();
        }
        let writer = File::open(at("u/1/b#3")).unwrap();
        writer.lock().unwrap();
        let below = |path: &str, _| path.starts_with('u');
        assert_eq!(sweep(folder.path(), false, &|_, _| false).unwrap(), 0);
        assert_eq!(sweep(folder.path(), false, &below).unwrap(), 2);
        assert!(at("u/1/b#3").exists(), "a file that is being written");
        assert_eq!(sweep(folder.path(), true, &below).unwrap(), 1);
        assert!(!at("u/0").exists());
        assert!(["u/1/done.json", "notes#1b", "#1"].into_iter().all(|name| at(name).exists()));
    }
}
