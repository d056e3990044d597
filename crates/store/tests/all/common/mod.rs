//! What the tests of stores share.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use remaster_store::testkit::Memory;
use remaster_store::{
    Commit, Content, Created, Hash, Journal, Key, Limits, Notes, Store, StoreError, StoreSettings, Verdict,
};
use remaster_testkit::{Rng, names};

/// Small parts and short waits.
pub(crate) fn limits() -> Limits {
    let [wait, longest_wait] = [1, 4].map(Duration::from_millis);
    Limits { call: Duration::from_secs(20), tries: 4, wait, longest_wait, part: 1 << 16 }
}

pub(crate) fn settings() -> StoreSettings {
    StoreSettings { limits: limits(), ..StoreSettings::default() }
}

pub(crate) fn folder(path: &Path) -> Store {
    Store::make(path.to_str().unwrap(), settings()).unwrap()
}

/// A folder in memory, where there is one: flushing thousands of files to a disk would take most of a test's time.
pub(crate) fn quick_folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn notes() -> Notes {
    Notes { frames: 97, worker: "test".into(), milliseconds: 5, left: false }
}

/// A plan of so many units in memory.
pub(crate) fn in_memory(units: u32) -> Journal {
    Journal::make(Memory::new().unwrap().store(limits()), units, "{}").unwrap()
}

/// Does a unit: one attempt with one file.
pub(crate) fn done(journal: &Journal, unit: u32, bytes: Vec<u8>) -> Commit {
    let mut attempt = journal.attempt(unit).unwrap();
    attempt.put_bytes("segment.nut", bytes).unwrap();
    attempt.commit(notes()).unwrap().record().clone()
}

/// Bytes that depend on a seed.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..length).map(|_| rng.bits() as u8).collect()
}

/// Sixteen threads with stores of their own race for one key and for one commit. Returns the winners of both.
pub(crate) fn race(open: impl Fn() -> Store + Sync) -> (usize, usize) {
    let barrier = Barrier::new(16);
    Journal::make(open(), 3, "{}").unwrap();
    let racer = |i: usize| {
        let journal = Journal::open(open()).unwrap();
        let mut attempt = journal.attempt(2).unwrap();
        attempt.put_bytes("film", vec![i as u8; 10]).unwrap();
        barrier.wait();
        let created = journal.store().create(&key("race/key"), vec![i as u8]).unwrap();
        barrier.wait();
        (created, attempt.commit(notes()).unwrap())
    };
    let outcomes: Vec<(Created, Verdict<Commit>)> = std::thread::scope(|scope| {
        let racer = &racer;
        let threads: Vec<_> = (0..16).map(|i| scope.spawn(move || racer(i))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let journal = Journal::open(open()).unwrap();
    let there = journal.commit_of(2).unwrap().unwrap();
    for (i, (created, verdict)) in outcomes.iter().enumerate() {
        assert_eq!(*verdict.record(), there, "everybody knows the same winner");
        if *created == Created::New {
            assert_eq!(journal.store().get(&key("race/key"), 10).unwrap(), [i as u8]);
        }
    }
    assert_eq!(journal.done().unwrap().into_iter().collect::<Vec<_>>(), [2]);
    (
        outcomes.iter().filter(|(created, _)| *created == Created::New).count(),
        outcomes.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Won(_))).count(),
    )
}

/// Everything a store does, once.
pub(crate) fn tour(store: &Store) {
    store.probe().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let small = bytes(1, 1000);
    let content = store.put(&key("a/small"), small.clone()).unwrap();
    assert_eq!(store.get(&key("a/small"), 1000).unwrap(), small);
    assert_eq!(store.get_range(&key("a/small"), 10, 20).unwrap(), small[10..20]);
    assert_eq!(store.size(&key("a/small")).unwrap(), 1000);
    assert_eq!(store.create(&key("a/small"), vec![1]).unwrap(), Created::AlreadyThere);
    assert_eq!(store.create(&key("a/b/new"), vec![1]).unwrap(), Created::New);
    assert_eq!(store.get(&key("a/small"), 1000).unwrap(), small);

    // Several parts, the last one short; exactly one part; nothing.
    let part = store_part(store);
    for (name, length) in [("parts", 3 * part + 17), ("part", part), ("empty", 0)] {
        let file = scratch.path().join(name);
        let whole = bytes(2, length);
        std::fs::write(&file, &whole).unwrap();
        let key = key(&format!("files/{name}"));
        let content = store.put_file(&key, &file).unwrap();
        assert_eq!(content, Content::of(&whole));
        let back = scratch.path().join(format!("{name}.back"));
        store.fetch(&key, &back, &content).unwrap();
        assert!(std::fs::read(&back).unwrap() == whole, "{name}");
    }

    // Wrong expectations leave nothing.
    let to = scratch.path().join("wrong");
    let other = Content { sha256: Hash::of(b"other"), ..content };
    assert!(matches!(store.fetch(&key("a/small"), &to, &other), Err(StoreError::Hash { .. })));
    let other = Content { bytes: 999, ..content };
    assert!(matches!(store.fetch(&key("a/small"), &to, &other), Err(StoreError::Size { .. })));
    assert!(matches!(store.fetch(&key("a/none"), &to, &other), Err(StoreError::Missing { .. })));
    assert!(names(scratch.path()).iter().all(|name| !name.contains("wrong")));
    assert!(matches!(store.get(&key("a/small"), 999), Err(StoreError::TooLarge { most: 999, .. })));

    let mut names: Vec<String> =
        store.list("").unwrap().map(|listed| listed.unwrap().key.to_string()).collect();
    names.sort();
    assert_eq!(names, ["a/b/new", "a/small", "files/empty", "files/part", "files/parts"]);
    let below: Vec<_> = store.list("a/b").unwrap().map(|listed| listed.unwrap()).collect();
    assert_eq!((below.len(), below[0].bytes), (1, 1));
    assert_eq!(store.list("nothing/here").unwrap().count(), 0);
    store.delete(&key("a/small")).unwrap();
    store.delete(&key("a/small")).unwrap();
    assert!(matches!(store.get(&key("a/small"), 9), Err(StoreError::Missing { .. })));
    store.delete_many(names.iter().map(|name| key(name)).collect()).unwrap();
    assert_eq!(store.list("").unwrap().count(), 0);
}

/// Buckets want parts of 5 MiB.
fn store_part(store: &Store) -> usize {
    if store.place().starts_with("s3://") { 5 << 20 } else { 1 << 16 }
}
