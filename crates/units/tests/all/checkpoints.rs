//! Frames that are saved while their piece is encoded: whoever goes on with the unit makes only those that come next, and the
//! film is the same.

use std::time::Duration;

use remaster_restore::Pool;
use remaster_units::Outcome;

use crate::common::{Desk, End, Saves};

/// Does all units, and returns the film.
fn finished(desk: &Desk) -> String {
    for unit in 0..3 {
        desk.saves(unit, &Saves::default(), None).0.unwrap();
        assert!(desk.checkpoints(unit).is_empty(), "unit {unit}");
    }
    desk.film().unwrap().0
}

#[test]
fn frames_of_a_worker_that_died_are_gone_on_from() {
    let (desk, saves) = (Desk::new(), Saves::default());
    // Unit 0 has frames 0 to 40, in two pieces.
    let cut = desk.piece(0, 0);
    let (died, asked) = desk.saves(0, &saves, Some((7, End::Dies)));
    assert!(died.is_err() && asked == (0..7).collect::<Vec<_>>());
    // The last one may be on its way.
    assert!(desk.progress.end() >= Some(6));
    let (died, asked) = desk.saves(0, &saves, Some((31, End::Dies)));
    assert!(died.is_err() && asked == (7..31).collect::<Vec<_>>());
    assert!(desk.progress.end() >= Some(30));
    // Those of the piece that is whole are gone.
    assert_eq!(desk.checkpoints(0).len(), 31 - cut, "{:?}", desk.checkpoints(0));
    let (done, asked) = desk.saves(0, &saves, None);
    assert_eq!((done.unwrap(), asked), (Outcome::Done { frames: 9 }, (31..40).collect()));
    assert_eq!(finished(&desk), Desk::numbered());
    assert_eq!(desk.damaged.get(), 0);
}

#[test]
fn a_worker_that_died_behind_the_last_frame_leaves_nothing_to_make() {
    let (desk, saves) = (Desk::new(), Saves::default());
    assert!(desk.saves(0, &saves, Some((39, End::Dies))).0.is_err());
    let one_more = desk.saves(0, &saves, None);
    assert_eq!((one_more.0.unwrap(), one_more.1), (Outcome::Done { frames: 1 }, vec![39]));
    assert_eq!(finished(&desk), Desk::numbered());
}

#[test]
fn a_stop_and_a_cancellation_lose_no_frame_and_a_failure_saves_none() {
    let rarely = Saves { every: Duration::from_secs(3600), ..Saves::default() };
    for (end, from) in [(End::IsStopped, 8), (End::IsCancelled, 7), (End::Dies, 0)] {
        let desk = Desk::new();
        let (ended, _) = desk.saves(0, &rarely, Some((7, end)));
        assert_eq!(ended.unwrap_err().is_cancelled(), end == End::IsStopped, "{end:?}");
        let (done, asked) = desk.saves(0, &Saves::default(), None);
        assert_eq!((done.unwrap(), asked[0]), (Outcome::Done { frames: 40 - from }, from), "{end:?}");
        assert_eq!(finished(&desk), Desk::numbered());
    }
}

#[test]
fn damaged_checkpoints_cost_their_frames_and_are_told_of() {
    for harm in 0..4 {
        let (desk, saves) = (Desk::new(), Saves::default());
        assert!(desk.saves(0, &saves, Some((7, End::Dies))).0.is_err());
        assert_eq!(desk.checkpoints(0).len(), 7);
        desk.harm("units/000000/kept/frames-4-5", harm);
        let (done, asked) = desk.saves(0, &saves, None);
        assert_eq!((done.unwrap(), asked[0]), (Outcome::Done { frames: 36 }, 4), "harm {harm}");
        // One that is lost is not known of.
        assert_eq!(desk.damaged.get(), usize::from(harm != 2), "harm {harm}");
        assert_eq!(finished(&desk), Desk::numbered());
    }
}

#[test]
fn checkpoints_that_lie_are_not_used() {
    let (desk, saves) = (Desk::new(), Saves::default());
    assert!(desk.saves(0, &saves, Some((3, End::Dies))).0.is_err());
    // Beyond the unit, more frames than a checkpoint can have, another number of bytes than it says, another unit's.
    let frame = |number: i64| [number.to_le_bytes().as_slice(), &9.0f32.to_le_bytes()].concat();
    desk.journal.keep(0, "frames-3-41", &frame(3)).unwrap();
    desk.journal.keep(0, "frames-3-99999999", &frame(3)).unwrap();
    desk.journal.keep(0, "frames-3-5", &frame(3)).unwrap();
    desk.journal.keep(0, "frames-3-3", &[]).unwrap();
    desk.journal.keep(1, "frames-3-4", &frame(3)).unwrap();
    let (_, asked) = desk.saves(0, &saves, None);
    assert_eq!(asked[0], 3);
    assert_eq!(finished(&desk), Desk::numbered());
    // Of another film in the same place.
    let desk = Desk::new();
    assert!(desk.saves(0, &saves, Some((3, End::Dies))).0.is_err());
    let other = desk.with_other_film();
    assert_eq!(other.saves(0, &saves, None).1[0], 0);
}

#[test]
fn checkpoints_take_no_more_room_than_they_may() {
    // Five frames of 12 bytes.
    let (desk, small) = (Desk::new(), Saves { room: 60, ..Saves::default() });
    assert!(desk.saves(0, &small, Some((17, End::Dies))).0.is_err());
    assert_eq!(desk.checkpoints(0).len(), 5);
    assert_eq!(desk.progress.end(), Some(5));
    // What is there counts.
    let (died, asked) = desk.saves(0, &small, Some((17, End::Dies)));
    assert!(died.is_err() && asked[0] == 5 && desk.checkpoints(0).len() == 5);
    // A piece that is whole makes room for the next one.
    let (died, _) = desk.saves(0, &small, Some((33, End::Dies)));
    assert!(died.is_err());
    let cut = desk.piece(0, 0);
    let names: Vec<_> = (cut..cut + 5).map(|number| format!("frames-{number}-{}", number + 1)).collect();
    assert_eq!(desk.checkpoints(0), names);
    assert_eq!(finished(&desk), Desk::numbered());
    let none = Saves { room: 0, ..Saves::default() };
    let desk = Desk::new();
    assert!(desk.saves(0, &none, Some((17, End::Dies))).0.is_err());
    assert!(desk.checkpoints(0).is_empty());
}

#[test]
fn a_shot_whose_colours_are_matched_as_a_whole_is_made_as_a_whole_and_no_frame_comes_twice() {
    let (desk, saves) = (Desk::new(), Saves { pool: Pool::Shot, ..Saves::default() });
    // Unit 1 is the shot of frames 40 to 67.
    assert!(desk.saves(1, &saves, Some((50, End::Dies))).0.is_err());
    assert!(desk.progress.end() >= Some(49));
    let (done, asked) = desk.saves(1, &saves, None);
    assert_eq!((done.unwrap(), asked[0]), (Outcome::Done { frames: 17 }, 40));
    assert_eq!(desk.journal.commit_of(1).unwrap().unwrap().frames, 27);
}
