//! Work of devices that are found to compute wrong numbers later.

use std::collections::BTreeSet;

use remaster_store::{Journal, Piece, Producer, Sweep, Verdict};

use crate::common::{done, in_memory, key, notes};

/// Piece 0 of a unit, by the handle that makes it.
fn piece(journal: &Journal, unit: u32, content: &[u8]) -> Piece {
    let mut attempt = journal.attempt(unit).unwrap();
    attempt.put_bytes("piece-0.nut", content.to_vec()).unwrap();
    let (plan, file, producers) = (journal.plan().hash(), attempt.files()[0].clone(), journal.producers());
    Piece { plan, unit, piece: 0, file, frames: 5, left: false, producers }
}

#[test]
fn what_a_producer_made_counts_until_it_is_taken_back() {
    let journal = in_memory(6);
    let [wrong, right] = [Producer::random(), Producer::random()];
    let by_wrong = journal.made_by(Some(&wrong));
    done(&by_wrong, 0, vec![0; 10]);
    done(&journal, 1, vec![1; 10]);
    done(&journal.made_by(Some(&right)), 2, vec![2; 10]);
    by_wrong.keep_piece(&piece(&by_wrong, 3, b"piece")).unwrap();
    by_wrong.keep(3, "latents-0", b"values").unwrap();
    journal.keep(3, "latents-1", b"others").unwrap();
    // So far all is well, for everybody.
    assert_eq!(journal.done().unwrap(), BTreeSet::from([0, 1, 2]));
    assert_eq!(journal.commits().unwrap().whole.len(), 3);
    assert_eq!(journal.kept(3, "latents-0", 100).unwrap().as_deref(), Some(&b"values"[..]));
    assert_eq!(journal.pieces(3).unwrap().whole.len(), 1);

    journal.distrust(&wrong).unwrap();
    journal.distrust(&wrong).unwrap();
    let other = Journal::open(journal.store().clone()).unwrap();
    assert_eq!(other.done().unwrap(), BTreeSet::from([1, 2]));
    let commits = other.commits().unwrap();
    assert_eq!(commits.whole.iter().map(|commit| commit.unit).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(commits.damaged.len(), 1);
    assert!(commits.damaged[0].to_string().contains("computed wrong numbers"), "{}", commits.damaged[0]);
    assert!(other.commit_of(0).unwrap_err().is_damage());
    let pieces = other.pieces(3).unwrap();
    assert!(pieces.whole.is_empty() && pieces.damaged.len() == 1, "{pieces:?}");
    assert_eq!(other.kept(3, "latents-0", 100).unwrap(), None);
    assert_eq!(other.kept(3, "latents-1", 100).unwrap().as_deref(), Some(&b"others"[..]));
    // It was removed, so that what is right can be kept there.
    other.keep(3, "latents-0", b"better").unwrap();
    assert_eq!(other.kept(3, "latents-0", 100).unwrap().as_deref(), Some(&b"better"[..]));
    // It goes on in ignorance, and gives way to whoever does the unit again; so does a piece.
    let late = done(&by_wrong, 4, vec![4; 10]);
    assert_eq!(other.done().unwrap(), BTreeSet::from([1, 2]));
    let mut attempt = other.attempt(4).unwrap();
    attempt.put_bytes("segment.nut", vec![4; 10]).unwrap();
    let commit = attempt.commit(notes()).unwrap();
    assert!(matches!(&commit, Verdict::Won(commit) if commit.attempt != late.attempt), "{commit:?}");
    let own = piece(&other, 3, b"piece");
    assert_eq!(other.keep_piece(&own).unwrap(), Verdict::Won(own));
    other.undo(0).unwrap();
    done(&other, 0, vec![0; 10]);
    assert_eq!(other.done().unwrap(), BTreeSet::from([0, 1, 2, 4]));
    assert_eq!(other.commits().unwrap().damaged, []);
    // What was taken back stays so when the store is cleaned.
    other.clean(Sweep::Everything).unwrap();
    done(&by_wrong, 5, vec![5; 10]);
    assert!(!other.done().unwrap().contains(&5));
}

#[test]
fn whoever_goes_on_from_wrong_work_makes_wrong_work() {
    let journal = in_memory(3);
    let [wrong, right] = [Producer::random(), Producer::random()];
    let by_wrong = journal.made_by(Some(&wrong));
    by_wrong.keep(0, "latents-0", b"values").unwrap();
    by_wrong.keep_piece(&piece(&by_wrong, 1, b"piece")).unwrap();
    // From values.
    let goes_on = journal.made_by(Some(&right));
    assert!(goes_on.kept(0, "latents-0", 100).unwrap().is_some());
    let commit = done(&goes_on, 0, vec![0; 10]);
    assert_eq!(commit.producers.iter().collect::<BTreeSet<_>>(), BTreeSet::from([&wrong, &right]));
    // From values that were made of such values.
    goes_on.keep(0, "latents-1", b"later").unwrap();
    let third = journal.made_by(None);
    assert!(third.kept(0, "latents-1", 100).unwrap().is_some());
    assert_eq!(third.producers().len(), 2);
    // From a piece, taken over at the start or because it was first.
    let takes = journal.made_by(None);
    assert!(takes.inherit(&takes.pieces(1).unwrap().whole[&0].producers));
    done(&takes, 1, vec![1; 10]);
    let loses = journal.made_by(None);
    by_wrong.keep_piece(&piece(&by_wrong, 2, b"piece")).unwrap();
    assert!(matches!(loses.keep_piece(&piece(&loses, 2, b"piece")).unwrap(), Verdict::Lost(_)));
    done(&loses, 2, vec![2; 10]);
    assert_eq!(journal.done().unwrap().len(), 3);
    journal.distrust(&wrong).unwrap();
    assert_eq!(journal.done().unwrap(), BTreeSet::new());
    assert_eq!(journal.kept(0, "latents-1", 100).unwrap(), None);
    // Nobody is asked to remember more producers than a record has room for.
    let many: Vec<Producer> = (0..300).map(|_| Producer::random()).collect();
    assert!(!loses.inherit(&many) && loses.inherit(&many[..200]) && loses.inherit(&many[..200]));
}

#[test]
fn records_of_work_that_is_not_watched_are_those_of_earlier_releases() {
    let journal = in_memory(1);
    done(&journal, 0, vec![0; 10]);
    journal.keep(0, "latents-0", b"values").unwrap();
    let text = journal.store().get(&key("units/000000/done.json"), 10_000).unwrap();
    assert!(!String::from_utf8(text).unwrap().contains("producers"));
    let values = journal.store().get(&key("units/000000/kept/latents-0"), 10_000).unwrap();
    assert_eq!(values.len(), 32 + b"values".len());
}

#[test]
fn values_with_producers_are_checked_before_they_are_believed() {
    let journal = in_memory(1);
    let producer = Producer::random();
    journal.made_by(Some(&producer)).keep(0, "latents-0", b"values").unwrap();
    let at = key("units/000000/kept/latents-0");
    let whole = journal.store().get(&at, 10_000).unwrap();
    for cut in 0..whole.len() {
        journal.store().put(&at, whole[..cut].to_vec()).unwrap();
        assert_eq!(journal.kept(0, "latents-0", 100).unwrap(), None, "cut at {cut}");
    }
    for at_byte in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at_byte] ^= 1;
        journal.store().put(&at, changed).unwrap();
        assert_eq!(journal.kept(0, "latents-0", 100).unwrap(), None, "byte {at_byte}");
    }
    journal.store().put(&at, whole).unwrap();
    assert_eq!(journal.kept(0, "latents-0", 6).unwrap().as_deref(), Some(&b"values"[..]));
    assert!(Producer::try_from("x".to_owned()).is_err());
}

#[test]
fn what_does_not_count_is_removed_whole_and_nothing_else() {
    let journal = in_memory(2);
    let [wrong, right] = [Producer::random(), Producer::random()];
    let (by_wrong, by_right) = (journal.made_by(Some(&wrong)), journal.made_by(Some(&right)));
    for frame in 0..5 {
        by_wrong.keep(0, &format!("frames-{frame}-{}", frame + 1), b"wrong").unwrap();
    }
    by_right.keep(0, "frames-5-6", b"right").unwrap();
    journal.keep(0, "frames-6-7", b"plain").unwrap();
    journal.drop_untrusted(0).unwrap();
    assert_eq!(journal.kept_names(0).unwrap().len(), 7);
    journal.distrust(&wrong).unwrap();
    let next = journal.made_by(None);
    next.drop_untrusted(0).unwrap();
    let mut left = journal.kept_names(0).unwrap();
    left.sort();
    assert_eq!(left, ["frames-5-6", "frames-6-7"]);
    // Whoever makes room goes on from nothing by that.
    assert!(next.producers().is_empty());
}
