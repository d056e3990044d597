//! Folders and memory as stores.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{bytes, folder, key, limits, settings, tour};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use remaster_store::testkit::{Memory, over};
use remaster_store::{Store, StoreError};

#[test]
fn a_folder_does_everything() {
    let place = tempfile::tempdir().unwrap();
    // What people call their films must not matter.
    let path = place.path().join("Ä film #1 50%20.remaster");
    tour(&folder(&path));
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "not even empty folders");
}

#[test]
fn memory_does_everything() {
    tour(&Memory::new().unwrap().store(limits()));
}

#[test]
fn a_file_url_is_the_same_folder() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path()).put(&key("a"), vec![1]).unwrap();
    // With a drive in front there is one more slash.
    let path = place.path().display().to_string().replace('\\', "/");
    let url = format!("file:///{}", path.trim_start_matches('/'));
    assert_eq!(Store::open(&url, settings()).unwrap().get(&key("a"), 1).unwrap(), [1]);
    assert_eq!(std::fs::read(place.path().join("a")).unwrap(), [1]);
}

#[test]
fn a_missing_folder_is_an_error_and_not_made() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("typo");
    let error = Store::open(path.to_str().unwrap(), settings()).unwrap_err();
    assert!(matches!(error, StoreError::NoFolder { .. }), "{error}");
    assert!(!path.exists());
}

#[cfg(not(feature = "cloud"))]
#[test]
fn a_bucket_needs_another_build_and_the_message_says_which() {
    for url in ["s3://films/a", "gs://films", "az://films"] {
        let error = Store::open(url, settings()).unwrap_err();
        assert!(matches!(error, StoreError::NoCloud { .. }), "{error}");
        assert!(error.to_string().contains(url) && error.to_string().contains("`cloud`"), "{error}");
    }
}

#[test]
fn files_that_are_not_ours_are_left_out_of_listings() {
    let place = tempfile::tempdir().unwrap();
    let store = folder(place.path());
    store.put(&key("a/b"), vec![1]).unwrap();
    for name in ["my notes.txt", "a/b#1", "ä"] {
        std::fs::write(place.path().join(name), "").unwrap();
    }
    let names: Vec<String> = store.list("").unwrap().map(|listed| listed.unwrap().key.to_string()).collect();
    assert_eq!(names, ["a/b"]);
}

#[test]
fn what_cannot_be_read_or_written_is_named() {
    let place = tempfile::tempdir().unwrap();
    let store = folder(place.path());
    let missing = place.path().join("missing");
    let error = store.put_file(&key("a"), &missing).unwrap_err();
    assert!(matches!(&error, StoreError::Read { path, .. } if *path == missing), "{error}");
    let error = store.put_file(&key("a"), place.path()).unwrap_err();
    assert!(matches!(error, StoreError::Read { .. }), "{error}");
    let content = store.put(&key("a"), vec![1]).unwrap();
    let error = store.fetch(&key("a"), &missing.join("b"), &content).unwrap_err();
    assert!(matches!(error, StoreError::Write { .. }), "{error}");
    // A file where a folder should be.
    let error = store.put(&key("a/b"), vec![1]).unwrap_err();
    assert!(error.to_string().contains("a/b"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_its_own_error_and_leaves_nothing() {
    let mounted = tempfile::tempdir().unwrap();
    let Some(disk) = remaster_testkit::Mounted::new(mounted.path(), "size=1m") else {
        return remaster_testkit::no_disk("a_full_disk_is_its_own_error_and_leaves_nothing");
    };
    let place = &disk.0;
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("large");
    std::fs::write(&file, bytes(1, 4 << 20)).unwrap();
    let store = folder(&place.join("store"));
    store.put(&key("a"), vec![1; 1000]).unwrap();
    for error in
        [store.put_file(&key("b"), &file).unwrap_err(), store.put(&key("c"), bytes(1, 4 << 20)).unwrap_err()]
    {
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
    }
    assert_eq!(remaster_testkit::names(&place.join("store")), ["a"]);
    // With space again it goes on.
    store.put(&key("b"), bytes(2, 100_000)).unwrap();
}

/// A store with very many objects, which counts how many were taken from it.
#[derive(Debug)]
struct Endless {
    objects: usize,
    taken: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl ObjectStore for Endless {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(unable())
    }
    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(unable())
    }
    async fn get_opts(&self, _: &Path, _: GetOptions) -> Result<GetResult> {
        Err(unable())
    }
    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::empty().boxed()
    }
    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let taken = Arc::clone(&self.taken);
        let about = move |i| {
            taken.fetch_add(1, Ordering::SeqCst);
            let location = Path::from(format!("units/{i:06}/done.json"));
            let (last_modified, size) = (Default::default(), 1);
            Ok(ObjectMeta { location, last_modified, size, e_tag: None, version: None })
        };
        stream::iter((0..self.objects).map(about)).boxed()
    }
    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(unable())
    }
    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(unable())
    }
}

fn unable() -> object_store::Error {
    object_store::Error::NotImplemented { operation: "this".into(), implementer: "endless".into() }
}

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("endless")
    }
}

#[test]
fn a_listing_of_100_000_objects_holds_a_page() {
    let taken = Arc::new(AtomicUsize::new(0));
    let endless = Endless { objects: 100_000, taken: Arc::clone(&taken) };
    let store = over("endless", Arc::new(endless), limits()).unwrap();
    let mut seen = 0;
    for listed in store.list("units").unwrap() {
        listed.unwrap();
        seen += 1;
        assert!(taken.load(Ordering::SeqCst) - seen <= 1000);
    }
    assert_eq!(seen, 100_000);
    let error = store.put(&key("a"), vec![1]).unwrap_err();
    assert!(matches!(error, StoreError::Unable { .. }), "{error}");
}

#[test]
fn a_store_is_shared_by_threads_and_outlives_its_clones() {
    let store = Memory::new().unwrap().store(limits());
    std::thread::scope(|scope| {
        for i in 0..8 {
            let store = store.clone();
            scope.spawn(move || {
                let key = key(&format!("k{i}"));
                store.put(&key, bytes(i, 5000)).unwrap();
                assert_eq!(store.get(&key, 5000).unwrap(), bytes(i, 5000));
            });
        }
    });
    assert_eq!(store.list("").unwrap().count(), 8);
}
