//! The protocol: plans, attempts, commits, assembly, cleaning.
#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

mod common;

use std::time::{Duration, Instant};

use common::{bytes, folder, key, limits, notes, race, settings};
use remaster_store::testkit::Memory;
use remaster_store::{
    Attempt, Cleaned, Journal, JournalError, Notes, Piece, RecordError, Store, StoreError, Sweep, Verdict,
};

#[test]
fn sixteen_racers_have_one_winner_in_a_folder() {
    for _ in 0..5 {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(race(|| folder(place.path())), (1, 1));
    }
}

#[test]
fn sixteen_racers_have_one_winner_in_memory() {
    for _ in 0..20 {
        let memory = Memory::new().unwrap();
        assert_eq!(race(|| memory.store(limits())), (1, 1));
    }
}

#[test]
fn a_plan_is_made_once() {
    let place = tempfile::tempdir().unwrap();
    let text = r#"{ "film": "a.mkv" }"#;
    let made = Journal::make(folder(place.path()), 3, text).unwrap();
    let again = Journal::make(folder(place.path()), 3, text).unwrap();
    let opened = Journal::open(folder(place.path())).unwrap();
    assert_eq!((made.plan(), again.plan()), (opened.plan(), opened.plan()));
    assert_eq!((opened.plan().units(), opened.plan().text()), (3, text));
    for (units, text) in [(4, text), (3, "{}")] {
        let error = Journal::make(folder(place.path()), units, text).unwrap_err();
        assert!(matches!(error, JournalError::OtherPlan { .. }), "{error}");
    }
    let path = place.path().join("plan.json");
    let changed = std::fs::read_to_string(&path).unwrap().replace("a.mkv", "b.mkv");
    std::fs::write(&path, changed).unwrap();
    let error = Journal::open(folder(place.path())).unwrap_err();
    assert!(matches!(error, JournalError::Record { source: RecordError::Damaged { .. }, .. }), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = Journal::open(folder(empty.path())).unwrap_err();
    assert!(matches!(error, JournalError::Store(StoreError::Missing { .. })), "{error}");
}

#[test]
fn a_unit_is_done_when_it_is_committed_and_not_before() {
    let place = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let journal = Journal::make(folder(place.path()), 3, "{}").unwrap();
    let mut first = journal.attempt(1).unwrap();
    let segment = scratch.path().join("segment");
    std::fs::write(&segment, bytes(1, 200_000)).unwrap();
    first.put_file("segment.nut", &segment).unwrap();
    first.put_bytes("colours.bin", bytes(2, 100)).unwrap();
    let mut second = journal.attempt(1).unwrap();
    second.put_bytes("segment.nut", bytes(3, 10)).unwrap();
    assert!(journal.done().unwrap().is_empty());
    assert_eq!(journal.commit_of(1).unwrap(), None);

    let Verdict::Won(commit) = first.commit(notes()).unwrap() else { panic!("nobody else was there") };
    assert_eq!(journal.commits().unwrap(), std::slice::from_ref(&commit));
    assert_eq!((commit.unit, commit.frames, commit.worker.as_str()), (1, 97, "test"));
    assert_eq!(second.commit(notes()).unwrap(), Verdict::Lost(commit.clone()));
    // Again, after an answer was lost, with another time.
    let later = remaster_store::Notes { milliseconds: 9, ..notes() };
    assert_eq!(first.commit(later).unwrap(), Verdict::Won(commit.clone()));

    second.abandon().unwrap();
    first.abandon().unwrap();
    let back = scratch.path().join("back");
    journal.fetch(&commit, commit.file("segment.nut").unwrap(), &back).unwrap();
    assert_eq!(std::fs::read(&back).unwrap(), bytes(1, 200_000));
    let objects = journal.store().list("units").unwrap().count();
    assert_eq!(objects, 3, "the winner's two files and its commit");
}

#[test]
fn what_is_not_whole_does_not_count() {
    let memory = Memory::new().unwrap();
    let store = memory.store(limits());
    let journal = Journal::make(store.clone(), 1, "{}").unwrap();
    let mut attempt = journal.attempt(0).unwrap();
    attempt.put_bytes("film", vec![1; 100]).unwrap();
    let film = key(&format!("units/000000/attempts/{}/film", attempt.id()));
    store.put(&film, vec![1; 50]).unwrap();
    let error = attempt.commit(notes()).unwrap_err();
    assert!(matches!(error, JournalError::NotWhole { .. }), "{error}");
    store.delete(&film).unwrap();
    let error = attempt.commit(notes()).unwrap_err();
    assert!(matches!(error, JournalError::NotWhole { .. }), "{error}");
    assert!(journal.done().unwrap().is_empty());
    let error = journal.attempt(0).unwrap().commit(notes()).unwrap_err();
    assert!(matches!(error, JournalError::Write { .. }), "an attempt without files: {error}");
}

#[test]
fn mistakes_of_callers_are_named() {
    let journal = Journal::make(Memory::new().unwrap().store(limits()), 2, "{}").unwrap();
    assert!(matches!(journal.attempt(2), Err(JournalError::Unit { unit: 2, units: 2 })));
    assert!(matches!(journal.commit_of(7), Err(JournalError::Unit { .. })));
    let mut attempt = journal.attempt(0).unwrap();
    attempt.put_bytes("a", vec![1]).unwrap();
    assert!(matches!(attempt.put_bytes("a", vec![1]), Err(JournalError::Twice { .. })));
    for name in ["", "..", "a/b", "a b", "ä"] {
        let error = attempt.put_bytes(name, vec![1]).unwrap_err();
        assert!(matches!(error, JournalError::Store(StoreError::Key { .. })), "{name}");
    }
    assert!(matches!(journal.assemble(vec![None]), Err(JournalError::Assembly { found: 1, units: 2 })));
}

#[test]
fn records_of_other_plans_and_units_are_refused() {
    let (here, there) = (Memory::new().unwrap(), Memory::new().unwrap());
    let journal = Journal::make(here.store(limits()), 2, "{}").unwrap();
    let other = Journal::make(there.store(limits()), 2, "[]").unwrap();
    let mut attempt = other.attempt(0).unwrap();
    attempt.put_bytes("a", vec![1]).unwrap();
    let commit = attempt.commit(notes()).unwrap().record().clone();
    assert!(matches!(journal.commit(&commit), Err(JournalError::OtherPlan { .. })));
    let bytes = other.store().get(&key("units/000000/done.json"), 10_000).unwrap();
    journal.store().put(&key("units/000000/done.json"), bytes.clone()).unwrap();
    assert!(matches!(journal.commits(), Err(JournalError::Foreign { what: "plan", .. })));
    other.store().put(&key("units/000001/done.json"), bytes.clone()).unwrap();
    assert!(matches!(other.commits(), Err(JournalError::Foreign { what: "unit", .. })));
    journal.store().put(&key("units/000002/done.json"), bytes).unwrap();
    assert!(matches!(journal.done(), Err(JournalError::Foreign { what: "plan", .. })));
}

#[test]
fn a_film_is_assembled_of_the_same_attempts_by_everybody() {
    let memory = Memory::new().unwrap();
    let journal = Journal::make(memory.store(limits()), 2, "{}").unwrap();
    let mut attempt = journal.attempt(0).unwrap();
    attempt.put_bytes("a", vec![1]).unwrap();
    attempt.commit(notes()).unwrap();
    assert_eq!(journal.assembly().unwrap(), None);
    let attempts = vec![Some(attempt.id().clone()), None];
    let Verdict::Won(pinned) = journal.assemble(attempts.clone()).unwrap() else { panic!("the first") };
    let second = Journal::open(memory.store(limits())).unwrap();
    assert_eq!(second.assemble(vec![None, None]).unwrap(), Verdict::Lost(pinned.clone()));
    assert_eq!(second.assemble(attempts).unwrap(), Verdict::Won(pinned.clone()));
    assert_eq!(second.assembly().unwrap(), Some(pinned));
}

#[test]
fn cleaning_keeps_what_counts_and_what_may_still_count() {
    let place = tempfile::tempdir().unwrap();
    let journal = Journal::make(folder(place.path()), 3, "{}").unwrap();
    let put = |unit: u32, commit: bool| {
        let mut attempt = journal.attempt(unit).unwrap();
        attempt.put_bytes("a", vec![1]).unwrap();
        attempt.put_bytes("b", vec![2]).unwrap();
        if commit {
            attempt.commit(notes()).unwrap();
        }
    };
    put(0, true);
    put(0, true);
    put(1, false);
    put(2, true);
    let unfinished = place.path().join("units/000001/attempts/x/a#1");
    std::fs::create_dir_all(unfinished.parent().unwrap()).unwrap();
    std::fs::write(&unfinished, "half").unwrap();
    let before = journal.commits().unwrap();
    let losers = journal.clean(Sweep::Losers).unwrap();
    assert_eq!(losers, Cleaned { attempts: 1, objects: 2, unfinished: 0 });
    let rest = journal.clean(Sweep::Everything).unwrap();
    assert_eq!(rest, Cleaned { attempts: 1, objects: 2, unfinished: 1 });
    assert_eq!(journal.clean(Sweep::Everything).unwrap(), Cleaned::default());
    assert_eq!(journal.commits().unwrap(), before);
    assert!(!place.path().join("units/000001").exists());
    let scratch = tempfile::tempdir().unwrap();
    for commit in before {
        journal.fetch(&commit, &commit.files[0], &scratch.path().join("a")).unwrap();
    }
}

#[test]
fn the_commits_of_a_film_of_three_hours_are_read_within_two_seconds() {
    let place = common::quick_folder();
    let journal = Journal::make(folder(place.path()), 2800, "{}").unwrap();
    // Made in another place and copied: this test is about reading, and not about flushing 5,600 files.
    let memory = Memory::new().unwrap();
    let source = Journal::make(memory.store(limits()), 2800, "{}").unwrap();
    for unit in 0..2800 {
        let mut attempt = source.attempt(unit).unwrap();
        attempt.put_bytes("segment.nut", vec![1]).unwrap();
        attempt.commit(notes()).unwrap();
    }
    let names = source.store().list("units").unwrap().map(|listed| listed.unwrap().key).collect();
    for (key, bytes) in source.store().get_many(names, 10_000).unwrap() {
        let path = place.path().join(key.as_str());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let start = Instant::now();
    assert_eq!(journal.done().unwrap().len(), 2800);
    let listed = start.elapsed();
    assert_eq!(journal.commits().unwrap().len(), 2800);
    let both = start.elapsed();
    println!("2,800 commits: listed in {listed:?}, listed and read in {:?}", both - listed);
    assert!(both < Duration::from_secs(4), "{both:?}");
}

#[test]
fn opening_a_place_twice_is_no_matter() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().to_str().unwrap();
    let (a, b) = (Store::open(path, settings()).unwrap(), Store::open(path, settings()).unwrap());
    a.put(&key("x"), vec![1]).unwrap();
    drop(a);
    assert_eq!(b.get(&key("x"), 1).unwrap(), [1]);
}

#[test]
fn work_that_is_kept_is_gone_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let store = common::folder(&folder.path().join("s"));
    let journal = Journal::make(store, 2, "{}").unwrap();
    // Values: the first one stays, damage is seen, other names are nobody's business.
    journal.keep(0, "encoded-0", b"values").unwrap();
    journal.keep(0, "encoded-0", b"others").unwrap();
    assert_eq!(journal.kept(0, "encoded-0", 100).unwrap().as_deref(), Some(&b"values"[..]));
    assert_eq!(journal.kept(0, "encoded-0", 3).unwrap(), None, "more than was expected");
    assert_eq!(journal.kept(0, "encoded-1", 100).unwrap(), None);
    assert_eq!(journal.kept_names(0).unwrap(), ["encoded-0"]);
    let path = folder.path().join("s/units/000000/kept/encoded-0");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(journal.kept(0, "encoded-0", 100).unwrap(), None, "damaged");
    assert!(journal.keep(2, "a", b"").is_err() && journal.keep(0, "../a", b"").is_err());

    // A piece of an attempt that died, and an attempt that goes on from it.
    let mut dead = journal.attempt(0).unwrap();
    dead.put_bytes("piece-0.nut", b"first".to_vec()).unwrap();
    let piece = |attempt: &Attempt, number: u32| Piece {
        plan: journal.plan().hash(),
        unit: 0,
        piece: number,
        file: attempt.files()[0].clone(),
        frames: 5,
    };
    assert!(matches!(journal.keep_piece(&piece(&dead, 0)).unwrap(), Verdict::Won(_)));
    let mut stale = journal.attempt(0).unwrap();
    stale.put_bytes("piece-0.nut", b"later".to_vec()).unwrap();
    let lost = journal.keep_piece(&piece(&stale, 0)).unwrap();
    assert_eq!(lost.record().file.attempt, *dead.id(), "the first one counts");
    let cleaned = journal.clean(Sweep::Everything).unwrap();
    assert_eq!((cleaned.attempts, cleaned.objects), (1, 1), "only the attempt without a piece");
    let pieces = journal.pieces(0).unwrap();
    assert_eq!(pieces.keys().copied().collect::<Vec<_>>(), [0]);
    let mut alive = journal.attempt(0).unwrap();
    alive.adopt(pieces[&0].file.clone()).unwrap();
    assert!(alive.adopt(pieces[&0].file.clone()).is_err(), "twice");
    alive.put_bytes("piece-1.nut", b"second".to_vec()).unwrap();
    let commit = alive.commit(Notes { frames: 10, ..Notes::default() }).unwrap().record().clone();
    let cleaned = journal.clean(Sweep::Everything).unwrap();
    assert_eq!((cleaned.attempts, cleaned.objects), (0, 1), "what was kept of a unit that is done");
    assert!(journal.kept_names(0).unwrap().is_empty() && journal.pieces(0).unwrap().is_empty());
    for (file, expected) in commit.files.iter().zip(["first", "second"]) {
        let to = folder.path().join(&file.name);
        journal.fetch(&commit, file, &to).unwrap();
        assert_eq!(std::fs::read_to_string(to).unwrap(), expected);
    }

    // A record whose file is gone counts for nothing.
    let mut other = journal.attempt(1).unwrap();
    other.put_bytes("piece-0.nut", b"gone".to_vec()).unwrap();
    journal.keep_piece(&Piece { unit: 1, ..piece(&other, 0) }).unwrap();
    std::fs::remove_file(folder.path().join(format!("s/units/000001/attempts/{}/piece-0.nut", other.id())))
        .unwrap();
    assert!(journal.pieces(1).unwrap().is_empty());
    journal.drop_kept(1).unwrap();
}
