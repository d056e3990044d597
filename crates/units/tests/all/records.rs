//! Units against a store in memory: done, damaged, left, done again.

use crate::common::{Desk, Way};
use remaster_store::{Hash, Sweep};
use remaster_units::{Outcome, UnitsError};

#[test]
fn a_film_is_done_unit_by_unit_and_joined() {
    let desk = Desk::new();
    assert!(matches!(desk.film(), Err(UnitsError::Missing { missing: 3, units: 3, first: 0 })));
    for unit in 0..3 {
        assert_eq!(desk.restored(unit), Outcome::Done { frames: desk.frames(unit) });
        assert_eq!(desk.restored(unit), Outcome::Elsewhere);
    }
    let (film, commits) = desk.film().unwrap();
    assert_eq!(film, desk.expected(Way::Restore));
    assert!(commits.iter().all(|commit| !commit.left));
}

#[test]
fn pieces_of_a_worker_that_died_are_gone_on_from() {
    let desk = Desk::new();
    assert!(desk.dies_after(0, Way::Restore, 1).is_err());
    assert_eq!(desk.restored(0), Outcome::Done { frames: desk.frames(0) - desk.piece(0, 0) });
    desk.all_restored();
    assert_eq!(desk.film().unwrap().0, desk.expected(Way::Restore));
}

#[test]
fn frames_that_were_given_up_never_pass_as_restored() {
    let desk = Desk::new();
    // Leaving a unit is stopped after its first piece; then it is restored.
    assert!(desk.dies_after(1, Way::Leave, 1).is_err());
    assert!(desk.journal.pieces(1).unwrap().whole[&0].left);
    assert_eq!(desk.restored(1), Outcome::Done { frames: desk.frames(1) }, "every frame is made");
    desk.all_restored();
    let (film, commits) = desk.film().unwrap();
    assert_eq!(film, desk.expected(Way::Restore));
    assert!(commits.iter().all(|commit| !commit.left));
}

#[test]
fn a_unit_with_frames_of_the_input_says_so_however_few_there_are() {
    let desk = Desk::new();
    // One piece is restored, and the rest is given up.
    assert!(desk.dies_after(1, Way::Restore, 1).is_err());
    assert_eq!(desk.left(1), Outcome::Done { frames: desk.frames(1) - desk.piece(1, 0) });
    // All of a unit is given up, in two turns.
    assert!(desk.dies_after(2, Way::Leave, 1).is_err());
    assert_eq!(desk.left(2), Outcome::Done { frames: desk.frames(2) - desk.piece(2, 0) });
    // All pieces are restored, and only the last word is missing.
    assert!(desk.dies_after(0, Way::Restore, 2).is_err());
    assert_eq!(desk.left(0), Outcome::Done { frames: 0 });
    let (film, commits) = desk.film().unwrap();
    assert_eq!(commits.iter().map(|commit| commit.left).collect::<Vec<_>>(), [false, true, true]);
    assert_ne!(film, desk.expected(Way::Restore));
}

#[test]
fn every_damaged_object_is_made_again_and_the_film_is_the_same() {
    let expected = {
        let desk = Desk::new();
        desk.all_restored();
        desk.film().unwrap().0
    };
    let store = Desk::half_done();
    let objects = store.objects();
    assert!(objects.iter().any(|key| key.ends_with("done.json")), "{objects:?}");
    assert!(objects.iter().any(|key| key.contains("kept/piece-")), "{objects:?}");
    assert!(objects.iter().any(|key| key.contains("kept/encoded")), "{objects:?}");
    let mut said = 0;
    for i in 0..objects.len() {
        for harm in 0..4 {
            let desk = Desk::half_done();
            let key = desk.objects()[i].clone();
            desk.harm(&key, harm);
            // As the program does: bad records are undone, units are done, and whatever joining finds is done again.
            desk.journal.clean(Sweep::Everything).unwrap();
            for damage in desk.journal.commits().unwrap().damaged {
                desk.journal.undo(damage.unit).unwrap();
                said += 1;
            }
            desk.all_restored();
            let film = match desk.film() {
                Err(UnitsError::Undone { units, damaged }) => {
                    assert_eq!((units.len(), damaged.len()), (1, 1), "{key}");
                    said += 1;
                    desk.all_restored();
                    desk.film()
                }
                film => film,
            };
            assert_eq!(film.unwrap().0, expected, "{key}, harm {harm}");
            said += desk.damaged.take();
        }
    }
    // Everything but attempts that never counted, and values that are removed in silence.
    assert!(said >= 4 * 4, "{said} of {} kinds of damage were said", 4 * objects.len());
}

#[test]
fn joining_names_all_damaged_units_at_once_and_they_are_done_again() {
    let desk = Desk::new();
    desk.all_restored();
    for unit in [0, 2] {
        let key = desk.objects().into_iter().find(|key| {
            key.starts_with(&format!("units/{unit:06}/attempts")) && key.ends_with("piece-000001.nut")
        });
        desk.harm(&key.unwrap(), 0);
    }
    let error = desk.film().unwrap_err();
    let UnitsError::Undone { units, .. } = &error else { panic!("{error}") };
    assert_eq!(*units, [0, 2]);
    assert!(error.to_string().contains("unit run --index 0,2"), "{error}");
    assert_eq!(desk.journal.done().unwrap().into_iter().collect::<Vec<_>>(), [1]);
    desk.all_restored();
    assert_eq!(desk.film().unwrap().0, desk.expected(Way::Restore));
}

#[test]
fn latents_of_another_film_are_never_used() {
    let desk = Desk::half_done();
    assert!(desk.loaded(2, "encoded-0-4").is_some());
    let other = desk.with_other_film();
    assert!(other.loaded(2, "encoded-0-4").is_none());
    other.journal.clean(Sweep::Everything).unwrap();
    other.all_restored();
    assert_eq!(other.film().unwrap().0, other.expected(Way::Restore));
}

#[test]
fn a_plan_with_huge_numbers_is_refused_at_once() {
    let plan = Desk::new().plan.to_json().unwrap();
    let began = std::time::Instant::now();
    for huge in
        ["1099511627776", "1099511627775", "18446744073709551615", "9223372036854775807", "4294967296"]
    {
        for field in
            ["\"frames\":", "\"piece_frames\":", "\"unit_frames\":", "\"to\":", "\"from\":", "\"first\":"]
        {
            for (at, _) in plan.match_indices(field) {
                let value = at + field.len();
                let end = plan[value..].find([',', '}']).unwrap() + value;
                let text = [&plan[..value], huge, &plan[end..]].concat();
                if let Ok(plan) = remaster_units::FilmPlan::from_json(&text) {
                    // Numbers that only say what is asked for at most are no matter.
                    assert!(["\"piece_frames\":", "\"unit_frames\":"].contains(&field), "{field} {huge}");
                    assert!(plan.frames < 1000);
                }
            }
        }
    }
    // One shot that is as long as all films together, in pieces of a frame.
    let whole = Desk::new().plan;
    let mut one = serde_json::to_value(&whole).unwrap();
    for frames in [1u64 << 40, 1 << 30, 1 << 24, 1 << 20] {
        one["frames"] = frames.into();
        one["piece_frames"] = 1.into();
        let unit = serde_json::json!({"first": 0, "shots": [{"frames": frames}]});
        let key = Hash::of(b"key").to_string();
        one["units"] = serde_json::json!([{"unit": unit, "anchor": 0, "shown": [0, 1], "key": key}]);
        let error = remaster_units::FilmPlan::from_json(&one.to_string()).unwrap_err();
        assert!(error.to_string().contains("at most"), "{error}");
    }
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

#[test]
fn a_plan_whose_units_would_have_too_many_pieces_is_refused_when_it_is_made() {
    let error = Desk::planned(1100, 1100, 1).unwrap_err().to_string();
    assert!(error.contains("--piece-frames"), "{error}");
}
