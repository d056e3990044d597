//! The blocking face of a store.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use object_store::{ObjectStore, PutPayload};

use crate::core::Core;
use crate::io::{Io, Pending};
use crate::listing::Listing;
use crate::place::Place;
use crate::secrets::Secrets;
use crate::{Content, Key, StoreError, StoreSettings, cloud, fetch, local, probe, upload};

/// A place for objects: a folder, or a bucket. Cheap to clone; any number of threads may use it.
#[derive(Clone)]
pub struct Store {
    io: Arc<Io>,
    core: Arc<Core>,
}

/// What became of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The object is there now and was not before.
    New,
    /// There was one, and it is untouched. After a lost answer it can be the one of this very call: compare contents.
    AlreadyThere,
}

impl Store {
    /// Opens a place that is there: a path, `file:///folder`, `s3://bucket/prefix`, `gs://` or `az://`.
    pub fn open(url: &str, settings: StoreSettings) -> Result<Self, StoreError> {
        let place = Place::parse(url)?;
        match place {
            Place::Folder(path) => Store::of_folder(&path, settings),
            Place::Bucket { cloud, ref bucket, .. } => {
                let objects = cloud::open(&place, cloud, bucket, &settings)?;
                Store::with(place, objects, &settings)
            }
            #[cfg(feature = "testkit")]
            Place::Other(_) => Err(StoreError::Url { url: place.to_string(), reason: "it is of a test" }),
        }
    }

    /// The store in a folder that is open: however it was reached, nothing else is.
    pub fn inside(folder: remaster_disk::Folder, settings: StoreSettings) -> Result<Self, StoreError> {
        let path = folder.path().to_owned();
        let whole = std::path::absolute(&path).map_err(|source| StoreError::Folder { path, source })?;
        Store::with(Place::Folder(whole), local::of(folder), &settings)
    }

    /// Opens a folder that is there. Its path is no URL, whatever it looks like, and need not be UTF-8.
    pub fn of_folder(path: &Path, settings: StoreSettings) -> Result<Self, StoreError> {
        let whole = std::path::absolute(path)
            .map_err(|source| StoreError::Folder { path: path.to_owned(), source })?;
        let objects = local::open(&whole)?;
        Store::with(Place::Folder(whole), objects, &settings)
    }

    /// Opens a place and makes its folder first, if it is one and missing.
    pub fn make(url: &str, settings: StoreSettings) -> Result<Self, StoreError> {
        if let Place::Folder(path) = Place::parse(url)? {
            local::make(&path)?;
        }
        Store::open(url, settings)
    }

    pub(crate) fn with(
        place: Place,
        objects: Arc<dyn ObjectStore>,
        settings: &StoreSettings,
    ) -> Result<Self, StoreError> {
        let io = Io::start().map_err(|source| StoreError::Thread { place: place.to_string(), source })?;
        let (limits, secrets) = (settings.limits, Secrets::of(settings));
        Ok(Store::on(Arc::new(io), Core { place, objects, limits, secrets }))
    }

    pub(crate) fn on(io: Arc<Io>, core: Core) -> Self {
        Store { io, core: Arc::new(core) }
    }

    /// The place, for messages.
    pub fn place(&self) -> String {
        self.core().place.to_string()
    }

    /// The folder, if it is one.
    pub fn folder(&self) -> Option<&Path> {
        match &self.core().place {
            Place::Folder(path) => Some(path),
            _ => None,
        }
    }

    /// Checks that the store keeps what the journal relies on, and refuses it otherwise: of two creates of one key the
    /// second fails and changes nothing, also when several come at once; what was written is read back, whole and in
    /// parts, and listed; what was removed is gone. Leaves nothing behind.
    pub fn probe(&self) -> Result<(), StoreError> {
        probe::probe(self)
    }

    /// Writes an object. The key should be new: an object that is there is replaced.
    pub fn put(&self, key: &Key, bytes: Vec<u8>) -> Result<Content, StoreError> {
        let content = Content::of(&bytes);
        self.call(key, |core, key| async move { core.put(&key, PutPayload::from(bytes)).await })?;
        Ok(content)
    }

    /// Copies a local file into the store, in parts if it is large, and says what it holds. The object is there whole
    /// or not at all. The key should be new, as with [`Store::put`].
    pub fn put_file(&self, key: &Key, path: &Path) -> Result<Content, StoreError> {
        upload::put_file(self, key, path)
    }

    /// Writes an object if there is none of this name. Of any number of racers one gets [`Created::New`].
    pub fn create(&self, key: &Key, bytes: Vec<u8>) -> Result<Created, StoreError> {
        self.call(key, |core, key| async move { core.create(&key, PutPayload::from(bytes)).await })
    }

    /// Begins to write an object of these parts if there is none of this name, and does not wait for it.
    pub(crate) fn create_soon(&self, key: &Key, parts: Vec<Vec<u8>>) -> Creating {
        let payload: PutPayload = parts.into_iter().flat_map(PutPayload::from).collect();
        let (core, key) = (Arc::clone(self.core()), key.clone());
        let pending = self.begin(async move { core.create(&key, payload).await });
        Creating { store: self.clone(), pending }
    }

    /// Reads an object of at most `most` bytes.
    pub fn get(&self, key: &Key, most: u64) -> Result<Vec<u8>, StoreError> {
        self.call(key, move |core, key| async move { core.get(&key, most).await })
    }

    /// Reads many small objects, several at a time, in any order.
    pub fn get_many(&self, keys: Vec<Key>, most: u64) -> Result<Vec<(Key, Vec<u8>)>, StoreError> {
        self.run(|core| {
            core.each(keys, move |core, key| async move {
                let bytes = core.get(&key, most).await?;
                Ok((key, bytes))
            })
        })?
    }

    /// Reads bytes `[start, end)` of an object.
    pub fn get_range(&self, key: &Key, start: u64, end: u64) -> Result<Vec<u8>, StoreError> {
        self.call(key, move |core, key| async move { core.get_range(&key, start, end).await })
    }

    /// The size of an object.
    pub fn size(&self, key: &Key) -> Result<u64, StoreError> {
        self.call(key, |core, key| async move { core.size(&key).await })
    }

    /// Copies an object into a local file, which appears whole, flushed and with the right hash, or not at all.
    pub fn fetch(&self, key: &Key, to: &Path, expected: &Content) -> Result<(), StoreError> {
        fetch::fetch(self, key, to, expected)
    }

    /// The objects below a folder of the store, `""` for all of them, in any order. A page of them is in memory at a
    /// time. Objects whose names are no [`Key`]s are not ours and are left out.
    pub fn list(&self, below: &str) -> Result<Listing, StoreError> {
        Listing::new(self.clone(), below)
    }

    /// Removes an object. One that is not there is no error.
    pub fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.call(key, |core, key| async move { core.delete(&key).await })
    }

    /// Removes many objects, several at a time.
    pub fn delete_many(&self, keys: Vec<Key>) -> Result<(), StoreError> {
        self.run(|core| core.each(keys, |core, key| async move { core.delete(&key).await }))??;
        Ok(())
    }

    /// Removes what killed probes left. Nobody may be probing the store.
    pub fn forget_probes(&self) -> Result<(), StoreError> {
        let listed: Result<Vec<_>, StoreError> = self.list(probe::FOLDER)?.collect();
        let keys = listed?.into_iter().map(|listed| listed.key);
        self.delete_many(keys.filter(|key| probe::is_ours(key.as_str())).collect())
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn begin<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Pending<T> {
        self.io.begin(work)
    }

    pub(crate) fn wait<T>(&self, pending: Pending<T>) -> Result<T, StoreError> {
        pending.wait().ok_or_else(|| StoreError::Gone { place: self.place() })
    }

    /// Does work in the other thread and waits for it.
    pub(crate) fn run<T, F>(&self, work: impl FnOnce(Arc<Core>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.wait(self.begin(work(Arc::clone(self.core()))))
    }

    fn call<T, F>(&self, key: &Key, work: impl FnOnce(Arc<Core>, Key) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.run(|core| work(core, key.clone()))?
    }
}

/// An object that is being written. It is written to its end also if nobody waits for it.
pub(crate) struct Creating {
    store: Store,
    pending: Pending<Result<Created, StoreError>>,
}

impl Creating {
    pub(crate) fn is_over(&mut self) -> bool {
        self.pending.is_over()
    }

    /// Waits until it is there.
    pub(crate) fn wait(self) -> Result<Created, StoreError> {
        self.store.wait(self.pending)?
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("place", &self.place()).finish_non_exhaustive()
    }
}
