//! The protocol: plans, attempts, commits, damage, cleaning.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{bytes, done, folder, in_memory, key, limits, notes, race, settings};
use remaster_store::testkit::{Faults, Memory};
use remaster_store::{
    Cleaned, Journal, JournalError, Key, Notes, Piece, Pieces, RecordError, Store, StoreError, Sweep, Verdict,
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
    assert_eq!(journal.commits().unwrap().whole, std::slice::from_ref(&commit));
    assert_eq!((commit.unit, commit.frames, commit.worker.as_str()), (1, 97, "test"));
    assert_eq!(second.commit(notes()).unwrap(), Verdict::Lost(commit.clone()));
    // Again, after an answer was lost, with another time.
    let later = remaster_store::Notes { milliseconds: 9, ..notes() };
    assert_eq!(first.commit(later).unwrap(), Verdict::Won(commit.clone()));

    journal.clean(Sweep::Losers).unwrap();
    let back = scratch.path().join("back");
    journal.fetch(&commit, commit.file("segment.nut").unwrap(), &back).unwrap();
    assert_eq!(std::fs::read(&back).unwrap(), bytes(1, 200_000));
    let objects = journal.store().list("units").unwrap().count();
    assert_eq!(objects, 3, "the winner's two files and its commit");
}

#[test]
fn what_is_not_whole_does_not_count() {
    let journal = in_memory(1);
    let store = journal.store();
    let mut attempt = journal.attempt(0).unwrap();
    attempt.put_bytes("film", vec![1; 100]).unwrap();
    let film = key(&format!("units/000000/attempts/{}/film", attempt.id()));
    let mut not_whole = || {
        let error = attempt.commit(notes()).unwrap_err();
        assert!(matches!(error, JournalError::NotWhole { .. }), "{error}");
    };
    store.put(&film, vec![1; 50]).unwrap();
    not_whole();
    store.delete(&film).unwrap();
    not_whole();
    assert!(journal.done().unwrap().is_empty());
    let error = journal.attempt(0).unwrap().commit(notes()).unwrap_err();
    assert!(matches!(error, JournalError::Write { .. }), "an attempt without files: {error}");
}

#[test]
fn mistakes_of_callers_are_named() {
    let journal = in_memory(2);
    assert!(matches!(journal.attempt(2), Err(JournalError::Unit { unit: 2, units: 2 })));
    assert!(matches!(journal.commit_of(7), Err(JournalError::Unit { .. })));
    let mut attempt = journal.attempt(0).unwrap();
    attempt.put_bytes("a", vec![1]).unwrap();
    assert!(matches!(attempt.put_bytes("a", vec![1]), Err(JournalError::Twice { .. })));
    for name in ["", "..", "a/b", "a b", "ä"] {
        let error = attempt.put_bytes(name, vec![1]).unwrap_err();
        assert!(matches!(error, JournalError::Store(StoreError::Key { .. })), "{name}");
    }
}

#[test]
fn records_of_other_plans_and_units_count_for_nothing() {
    let journal = in_memory(2);
    let other = Journal::make(Memory::new().unwrap().store(limits()), 2, "[]").unwrap();
    let commit = done(&other, 0, vec![1]);
    assert!(matches!(journal.commit(&commit), Err(JournalError::OtherPlan { .. })));
    let bytes = other.store().get(&key("units/000000/done.json"), 10_000).unwrap();
    journal.store().put(&key("units/000000/done.json"), bytes.clone()).unwrap();
    let found = journal.commits().unwrap();
    assert!(found.whole.is_empty() && found.damaged[0].reason.contains("another plan"), "{found:?}");
    assert!(matches!(journal.commit_of(0), Err(JournalError::Foreign { what: "plan", .. })));
    other.store().put(&key("units/000001/done.json"), bytes.clone()).unwrap();
    let found = other.commits().unwrap();
    assert_eq!((found.whole.len(), found.damaged.len(), found.damaged[0].unit), (1, 1, 1));
    assert!(found.damaged[0].to_string().contains("units/000001/done.json: it belongs to another unit"));
    // A unit that this plan does not have.
    journal.store().put(&key("units/000002/done.json"), bytes).unwrap();
    assert_eq!(journal.done().unwrap().into_iter().collect::<Vec<_>>(), [0]);
    journal.undo(0).unwrap();
    assert_eq!((journal.done().unwrap().len(), journal.commit_of(0).unwrap()), (0, None));
    journal.clean(Sweep::Everything).unwrap();
    assert_eq!(journal.store().list("units").unwrap().count(), 0);
}

#[test]
fn a_damaged_commit_makes_its_unit_undone_and_no_other() {
    let journal = in_memory(4);
    let store = journal.store();
    let commit = |unit: u32| done(&journal, unit, vec![unit as u8]);
    let whole = [0, 1, 2, 3].map(commit);
    let at = |unit: u32| key(&format!("units/{unit:06}/done.json"));
    let bytes = store.get(&at(1), 10_000).unwrap();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    for damaged in [flipped, bytes[..bytes.len() / 2].to_vec(), Vec::new(), vec![b' '; 1 << 20]] {
        store.put(&at(1), damaged).unwrap();
        let found = journal.commits().unwrap();
        assert_eq!(found.whole, [&whole[..1], &whole[2..]].concat());
        assert_eq!(found.damaged.iter().map(|damage| damage.unit).collect::<Vec<_>>(), [1]);
        assert!(journal.commit_of(1).unwrap_err().is_damage());
        journal.clean(Sweep::Losers).unwrap();
    }
    journal.undo(1).unwrap();
    let again = commit(1);
    assert_eq!(journal.commits().unwrap().whole, [&whole[..1], &[again], &whole[2..]].concat());
}

#[test]
fn values_of_another_plan_unit_or_name_are_never_used() {
    let store = Memory::new().unwrap().store(limits());
    let one = Journal::make(store.clone(), 2, r#"{"film":"a"}"#).unwrap();
    one.keep(0, "encoded-0-4", b"latents of a").unwrap();
    let copy = |from: &str, to: &str| store.put(&key(to), store.get(&key(from), 1000).unwrap()).unwrap();
    copy("units/000000/kept/encoded-0-4", "units/000001/kept/encoded-0-4");
    copy("units/000000/kept/encoded-0-4", "units/000000/kept/encoded-4-8");
    assert_eq!(one.kept(1, "encoded-0-4", 100).unwrap(), None, "of another unit");
    assert_eq!(one.kept(0, "encoded-4-8", 100).unwrap(), None, "of another place");
    assert_eq!(one.kept_names(0).unwrap(), ["encoded-0-4"], "what cannot be used is removed");
    // The plan is lost, and another film comes to the same place.
    store.delete(&key("plan.json")).unwrap();
    let two = Journal::make(store, 2, r#"{"film":"b"}"#).unwrap();
    assert_eq!(two.kept(0, "encoded-0-4", 100).unwrap(), None, "of another film");
    two.keep(0, "encoded-0-4", b"latents of b").unwrap();
    assert_eq!(two.kept(0, "encoded-0-4", 100).unwrap().unwrap(), b"latents of b");
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
    let unfinished = place.path().join(format!("units/000001/attempts/{}/a#1", "0".repeat(32)));
    std::fs::create_dir_all(unfinished.parent().unwrap()).unwrap();
    std::fs::write(&unfinished, "half").unwrap();
    let writer = std::fs::File::open(&unfinished).unwrap();
    writer.lock().unwrap();
    let before = journal.commits().unwrap().whole;
    let losers = journal.clean(Sweep::Losers).unwrap();
    assert_eq!(losers, Cleaned { attempts: 1, objects: 2, unfinished: 0 }, "a writer is at it");
    drop(writer);
    let rest = journal.clean(Sweep::Everything).unwrap();
    assert_eq!(rest, Cleaned { attempts: 1, objects: 2, unfinished: 1 });
    assert_eq!(journal.clean(Sweep::Everything).unwrap(), Cleaned::default());
    assert_eq!(journal.commits().unwrap().whole, before);
    assert!(!place.path().join("units/000001").exists());
    let scratch = tempfile::tempdir().unwrap();
    for commit in before {
        journal.fetch(&commit, &commit.files[0], &scratch.path().join("a")).unwrap();
    }
}

#[test]
fn the_commits_of_a_film_of_three_hours_take_a_listing_and_a_call_each() {
    let calls = Arc::new(Faults::none());
    let journal = Journal::make(Memory::new().unwrap().faulty(limits(), &calls), 2800, "{}").unwrap();
    for unit in 0..2800 {
        done(&journal, unit, vec![1]);
    }
    let counted = |work: &dyn Fn() -> usize| {
        let before = calls.calls();
        assert_eq!(work(), 2800);
        calls.calls() - before
    };
    assert_eq!(counted(&|| journal.done().unwrap().len()), 1);
    assert_eq!(counted(&|| journal.commits().unwrap().whole.len()), 2801);
}

#[test]
#[ignore = "nightly: a limit of time, which nothing else may disturb"]
fn the_commits_of_a_film_of_three_hours_are_read_within_two_seconds() {
    let place = crate::common::quick_folder();
    let journal = Journal::make(folder(place.path()), 2800, "{}").unwrap();
    // Made in another place and copied: this test is about reading, and not about flushing 5,600 files.
    let source = in_memory(2800);
    for unit in 0..2800 {
        done(&source, unit, vec![1]);
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
    assert_eq!(journal.commits().unwrap().whole.len(), 2800);
    let both = start.elapsed();
    println!("2,800 commits: listed in {listed:?}, listed and read in {:?}", both - listed);
    assert!(both < Duration::from_secs(2), "{both:?}");
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
    let store = crate::common::folder(&folder.path().join("s"));
    let journal = Journal::make(store, 2, "{}").unwrap();
    // Values: the first one stays, damage is seen, other names are nobody's business.
    journal.keep(0, "encoded-0", b"values").unwrap();
    journal.keep(0, "encoded-0", b"others").unwrap();
    assert_eq!(journal.kept(0, "encoded-0", 100).unwrap().as_deref(), Some(&b"values"[..]));
    assert_eq!(journal.kept(0, "encoded-1", 100).unwrap(), None);
    assert_eq!(journal.kept_names(0).unwrap(), ["encoded-0"]);
    let path = folder.path().join("s/units/000000/kept/encoded-0");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(journal.kept(0, "encoded-0", 100).unwrap(), None, "damaged");
    assert!(journal.keep(2, "a", b"").is_err() && journal.keep(0, "../a", b"").is_err());

    // A piece of an attempt that died, and an attempt that goes on from it.
    let dead = piece_of(&journal, b"first", false);
    assert!(matches!(journal.keep_piece(&dead).unwrap(), Verdict::Won(_)));
    let stale = piece_of(&journal, b"later", false);
    let lost = journal.keep_piece(&stale).unwrap();
    assert_eq!(lost.record().file.attempt, dead.file.attempt, "the first one counts");
    let cleaned = journal.clean(Sweep::Everything).unwrap();
    assert_eq!((cleaned.attempts, cleaned.objects), (1, 1), "only the attempt without a piece");
    let pieces = journal.pieces(0).unwrap().whole;
    assert_eq!(pieces.keys().copied().collect::<Vec<_>>(), [0]);
    let mut alive = journal.attempt(0).unwrap();
    alive.adopt(pieces[&0].file.clone()).unwrap();
    assert!(alive.adopt(pieces[&0].file.clone()).is_err(), "twice");
    alive.put_bytes("piece-1.nut", b"second".to_vec()).unwrap();
    let commit = alive.commit(Notes { frames: 10, ..Notes::default() }).unwrap().record().clone();
    let cleaned = journal.clean(Sweep::Everything).unwrap();
    assert_eq!((cleaned.attempts, cleaned.objects), (0, 1), "what was kept of a unit that is done");
    assert!(journal.kept_names(0).unwrap().is_empty() && journal.pieces(0).unwrap().whole.is_empty());
    for (file, expected) in commit.files.iter().zip(["first", "second"]) {
        let to = folder.path().join(&file.name);
        journal.fetch(&commit, file, &to).unwrap();
        assert_eq!(std::fs::read_to_string(to).unwrap(), expected);
    }
}

/// The finished piece 0 of unit 0, as an attempt wrote it.
fn piece_of(journal: &Journal, content: &[u8], left: bool) -> Piece {
    let mut attempt = journal.attempt(0).unwrap();
    attempt.put_bytes("piece-0.nut", content.to_vec()).unwrap();
    let file = attempt.files()[0].clone();
    Piece {
        plan: journal.plan().hash(),
        unit: 0,
        piece: 0,
        file,
        frames: 5,
        left,
        producers: journal.producers(),
    }
}

#[test]
fn a_lost_or_damaged_piece_is_made_again() {
    let journal = in_memory(1);
    let store = journal.store();
    let record = key("units/000000/kept/piece-000000");
    let file = |piece: &Piece| key(&format!("units/000000/attempts/{}/piece-0.nut", piece.file.attempt));
    let put = |key: &Key, bytes: Vec<u8>| {
        store.put(key, bytes).unwrap();
    };
    type Harm<'a> = &'a dyn Fn(&Piece);
    let harms: [(&str, Harm<'_>); 6] = [
        ("no file", &|piece| store.delete(&file(piece)).unwrap()),
        ("a cut file", &|piece| put(&file(piece), b"pi".to_vec())),
        ("an empty record", &|_| put(&record, Vec::new())),
        ("a large record", &|_| put(&record, vec![b'x'; 1 << 20])),
        ("a flipped record", &|_| {
            let mut bytes = store.get(&record, 10_000).unwrap();
            bytes[100] ^= 1;
            put(&record, bytes);
        }),
        ("another plan's record", &|_| {
            let other = Journal::make(Memory::new().unwrap().store(limits()), 1, "[]").unwrap();
            other.keep_piece(&piece_of(&other, b"piece", false)).unwrap();
            put(&record, other.store().get(&record, 10_000).unwrap());
        }),
    ];
    for (what, harm) in harms {
        journal.drop_kept(0).unwrap();
        let first = piece_of(&journal, b"piece", false);
        assert!(matches!(journal.keep_piece(&first).unwrap(), Verdict::Won(_)));
        harm(&first);
        let found = journal.pieces(0).unwrap();
        assert!(found.whole.is_empty() && found.damaged.len() == 1, "{what}: {found:?}");
        // With or without a look before, the next one counts.
        let again = piece_of(&journal, b"piece", false);
        assert_eq!(journal.keep_piece(&again).unwrap(), Verdict::Won(again.clone()), "{what}");
        assert_eq!(journal.pieces(0).unwrap().whole[&0], again);
        journal.drop_piece(0, 0).unwrap();
        assert_eq!(journal.pieces(0).unwrap(), Pieces::default());
    }
}

#[test]
fn frames_of_the_input_give_way_to_restored_ones_and_not_the_other_way() {
    let journal = in_memory(1);
    let (left, restored) = (piece_of(&journal, b"input", true), piece_of(&journal, b"better", false));
    assert!(matches!(journal.keep_piece(&left).unwrap(), Verdict::Won(_)));
    assert_eq!(journal.keep_piece(&restored).unwrap(), Verdict::Won(restored.clone()));
    assert_eq!(journal.keep_piece(&left).unwrap(), Verdict::Lost(restored.clone()));
    assert_eq!(journal.pieces(0).unwrap().whole[&0], restored);
}

/// A worker died between its commit and the end: what it kept names files of the commit.
#[test]
fn a_unit_that_is_undone_is_not_gone_on_with_from_its_damaged_files() {
    let journal = in_memory(1);
    let piece = piece_of(&journal, b"piece", false);
    journal.keep_piece(&piece).unwrap();
    journal.keep(0, "encoded-0", b"values").unwrap();
    let mut attempt = journal.attempt(0).unwrap();
    attempt.adopt(piece.file.clone()).unwrap();
    attempt.commit(notes()).unwrap();
    journal.undo(0).unwrap();
    assert_eq!(journal.commit_of(0).unwrap(), None);
    assert_eq!(journal.pieces(0).unwrap(), Pieces::default());
    assert!(journal.kept_names(0).unwrap().is_empty());
}

#[test]
fn files_of_others_in_a_store_stay() {
    let place = tempfile::tempdir().unwrap();
    let store = folder(place.path());
    let at = |name: &str| place.path().join(name);
    let theirs = "takes/Scene#12 notes#1 probe/2024/raw.bin probe/one units/mine/film#3 \
        units/000000/mine/film#3 units/000000/attempts/mine/film.nut";
    for name in theirs.split(' ') {
        std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        std::fs::write(at(name), "theirs").unwrap();
    }
    for name in ["incoming", "units/empty", "probe/empty"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    let journal = Journal::make(store.clone(), 1, "{}").unwrap();
    let mut attempt = journal.attempt(0).unwrap();
    attempt.put_bytes("film.nut", b"frames".to_vec()).unwrap();
    std::fs::write(at("units/000000/done.json#12"), "half").unwrap();
    let probed = at(&format!("probe/{}", attempt.id()));
    std::fs::create_dir_all(&probed).unwrap();
    std::fs::write(probed.join("one"), "left by a killed probe").unwrap();
    store.forget_probes().unwrap();
    let cleaned = journal.clean(Sweep::Everything).unwrap();
    assert_eq!((cleaned.attempts, cleaned.unfinished), (1, 1));
    assert!(!probed.exists(), "a probe's");
    for name in theirs.split(' ').chain(["incoming", "units/empty", "probe/empty"]) {
        assert!(at(name).exists(), "{name} is not ours");
    }
}

#[test]
fn something_else_in_the_place_of_a_folder_or_an_object_makes_room() {
    let place = tempfile::tempdir().unwrap();
    let journal = Journal::make(folder(place.path()), 2, "{}").unwrap();
    let at = |name: &str| place.path().join("units/000000").join(name);
    let work = || {
        let piece = piece_of(&journal, b"first", false);
        journal.keep_piece(&piece)?;
        journal.keep(0, "encoded-0", b"values")?;
        let mut attempt = journal.attempt(0)?;
        attempt.adopt(piece.file)?;
        attempt.commit(notes()).map(drop)
    };
    work().unwrap();
    type Trap = fn(&std::path::Path);
    let (file, empty, full): (Trap, Trap, Trap) = (
        |path| std::fs::write(path, "theirs").unwrap(),
        |path| std::fs::create_dir(path).unwrap(),
        |path| {
            std::fs::create_dir(path).and_then(|()| std::fs::write(path.join("theirs"), "theirs")).unwrap()
        },
    );
    let traps = [
        ("kept", file, "and is now called kept.aside-1"),
        ("attempts", file, "and is now called attempts.aside-1"),
        ("done.json", empty, "and is removed"),
        ("done.json", full, "and is now called done.json.aside-1"),
        ("kept/piece-000000", empty, "and is removed"),
        ("kept/piece-000000", full, "and is now called piece-000000.aside-1"),
    ];
    for (name, trap, said) in traps {
        let _ = std::fs::remove_dir_all(place.path().join("units"));
        work().unwrap();
        let _ = std::fs::remove_file(at(name)).or_else(|_| std::fs::remove_dir_all(at(name)));
        trap(&at(name));
        // Nothing that is read fails for it.
        journal.done().unwrap();
        journal.commits().unwrap();
        journal.pieces(0).unwrap();
        journal.kept_names(0).unwrap();
        let _ = journal.commit_of(0).unwrap();
        let damaged = journal.mend(0).unwrap();
        assert_eq!(damaged.len(), 1, "{name}");
        assert!(damaged[0].to_string().contains(said), "{name}: {}", damaged[0]);
        assert!(damaged[0].key.ends_with(name), "{}", damaged[0]);
        work().unwrap();
        assert!(journal.commit_of(0).unwrap().is_some(), "{name}");
        assert!(journal.mend(0).unwrap().is_empty() && journal.mend(1).unwrap().is_empty());
    }
    // Nothing of others is lost.
    std::fs::write(at("notes.txt"), "theirs").unwrap();
    std::fs::create_dir(at("kept").join("holiday")).unwrap();
    assert!(journal.mend(0).unwrap().is_empty());
    assert!(at("notes.txt").is_file() && at("kept/holiday").is_dir());
}
