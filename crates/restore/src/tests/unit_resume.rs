//! Units that are killed and go on with what was kept: the same bits, and little that is done twice.

use std::collections::BTreeMap;

use remaster_picture::{Edges, Frame, crop};
use remaster_plan::ShotRange;

use super::invariance::{film, narrow, recipe, run, shots};
use super::unit::{Fuse, Memory, Stage, Trace, is_damaged, long, unit_of};
use crate::cuts::Cuts;
use crate::finish::Pool;
use crate::geometry::{Geometry, Resize};
use crate::unit::{Unit, units_of};

/// Bytes of a latent of 2 x 2 cells: these tests have many runs.
const LATENT: u64 = 4 * 2 * 2 * 16;

/// A corner of a film, how it is restored, and what comes out.
fn corner(film: &[Frame], cuts: Cuts, pool: Pool) -> (Stage, Vec<Frame>) {
    let film: Vec<Frame> = film.iter().map(|frame| crop(frame, 16, 16)).collect();
    let mut recipe = recipe(cuts, pool);
    recipe.geometry = Geometry::new([16, 16], Resize::Keep, Edges::Black);
    recipe.shown = recipe.geometry.shown;
    let (expected, _) = run(&film, &recipe, &narrow());
    let mut stage = Stage::new(film, recipe);
    stage.chunk = 3 * LATENT;
    (stage, expected)
}

/// Shots of 40, 24 and 33 frames in one unit.
fn three(stage: &Stage) -> Unit {
    let shots = [(40, None), (24, None), (33, None)];
    units_of(&shots, 97, &stage.recipe.sampling.windows, stage.recipe.finish.pool).remove(0)
}

type Kept = BTreeMap<String, Vec<f32>>;

/// Latents of a name `encoded-FIRST-END`.
fn chunk(name: &str) -> Option<(usize, usize)> {
    let (first, end) = name.strip_prefix("encoded-")?.split_once('-')?;
    Some((first.parse().ok()?, end.parse().ok()?))
}

/// Latents from the first on that are kept whole.
fn prefix(kept: &Kept) -> usize {
    let whole = |(name, values): (&String, &Vec<f32>)| {
        chunk(name).filter(|(first, end)| values.len() as u64 * 4 == (end - first) as u64 * LATENT)
    };
    let mut chunks: Vec<(usize, usize)> = kept.iter().filter_map(whole).collect();
    chunks.sort_unstable();
    chunks.iter().fold(0, |next, (first, end)| if *first <= next { next.max(*end) } else { next })
}

/// Windows of 5 latents that are kept whole.
fn windows(kept: &Kept) -> usize {
    let whole = |(name, values): &(&String, &Vec<f32>)| {
        name.starts_with("restored-") && values.len() as u64 * 4 == 5 * LATENT
    };
    kept.iter().filter(whole).count()
}

/// Runs a unit whose fuse blows after `k` operations, and again with what is left of it. Returns whether it was killed,
/// what was kept then, and where the second run began and what it did.
fn killed(
    stage: &Stage,
    unit: &Unit,
    k: usize,
    pace: usize,
    expected: &[Frame],
) -> Option<(Kept, usize, Trace)> {
    let fuse = Fuse::new(k);
    let frames = unit.frames();
    let mut memory = Memory::new(Kept::new(), &fuse, pace);
    let (done, first) = stage.run(unit, frames.start, Some(&mut memory), &fuse);
    if done.is_ok() {
        assert!(first.frames == expected[frames]);
        return None;
    }
    // Whole pieces are kept elsewhere.
    let pieces = unit.pieces(20, &stage.recipe.sampling.windows, stage.recipe.finish.pool);
    let made = frames.start + first.frames.len();
    let from = pieces.iter().take_while(|piece| piece.end <= made).last().map_or(frames.start, |p| p.end);
    assert!(first.frames == expected[frames.start..made]);
    let kept = memory.kept;
    let mut memory = Memory::new(kept.clone(), &Fuse::new(usize::MAX), pace);
    let second = stage.all(unit, from, Some(&mut memory));
    assert!(second.frames == expected[from..frames.end], "killed after {k}");
    Some((kept, from, second))
}

#[test]
fn a_unit_of_shots_killed_anywhere_goes_on() {
    let (mut stage, expected) = corner(&film(), shots(), Pool::Window);
    let unit = three(&stage);
    // Frames of the latents of all shots, and where each begins.
    let starts = |place: usize| match place {
        0..11 => (0, place),
        11..18 => (40, place - 11),
        _ => (64, place - 18),
    };
    for (pace, chunk) in [(1, 1 << 20), (usize::MAX, 4)] {
        stage.chunk = chunk * if chunk == 4 { LATENT } else { 1 };
        let mut seen = [0; 3];
        let mut k = 0;
        while let Some((kept, from, second)) = killed(&stage, &unit, k, pace, &expected) {
            let (encoded, restored) = (prefix(&kept), windows(&kept));
            let is_decoding = restored == 8;
            seen[if is_decoding { 2 } else { usize::from(restored > 0) }] += 1;
            // No window that was kept is restored again.
            assert_eq!(second.windows, 8 - restored, "{k}");
            let mut loaded = vec!["decode"];
            if restored < 8 {
                loaded.insert(0, "dit");
            }
            if encoded < 27 && restored < 8 {
                loaded.insert(0, "encode");
                // All shots are so short that each is read from its start.
                assert_eq!(second.opened, [starts(encoded).0..97, from..97], "{k}");
            } else {
                assert_eq!(second.opened, [from..97; 1], "{k}");
            }
            assert_eq!(second.loaded, loaded, "{k}");
            // Frames are told of that were not done before.
            let told = if second.told[0] == 0 { 97 } else { 97 - second.told[0] };
            let (start, latent) = starts(encoded);
            assert!(told == 97 || told == start + (4 * latent).saturating_sub(3), "{k}: {told}");
            // Every step before the first frame is written, and some after it.
            k += if is_decoding { 13 } else { 1 };
        }
        assert!(seen.iter().all(|n| *n > 1), "{seen:?}");
    }
}

#[test]
fn a_stretch_of_a_long_shot_goes_on_with_a_warm_up() {
    let (stage, expected) = corner(&long(), Cuts::None, Pool::Window);
    let ranges = ShotRange::of(expected.len(), 120, &stage.recipe.sampling.windows);
    let unit = unit_of(&ranges[3]);
    let needs = ranges[3].needs(&stage.recipe.sampling.windows, stage.back);
    let all = ranges[3].windows(&stage.recipe.sampling.windows, stage.back).len();
    let mut warm = 0;
    // Chunks of three latents, then windows, then frames.
    for k in [0, 1, 2, 8, 12, 20, 25, 30, 40, 60, 90, 130] {
        let Some((kept, _, second)) = killed(&stage, &unit, k, usize::MAX, &expected) else { break };
        let (encoded, restored) = (prefix(&kept), windows(&kept));
        if encoded < needs.encoded.len() {
            let latent = needs.encoded.start + encoded;
            assert_eq!(second.opened[0], 4 * latent - stage.back.encode..needs.read.end, "{k}");
            warm += usize::from(encoded > 0);
        } else {
            assert!(!second.loaded.contains(&"encode".to_owned()), "{k}");
        }
        assert!(second.windows <= all - restored, "{k}");
    }
    assert!(warm > 1);
}

#[test]
fn a_run_can_be_killed_again_and_again() {
    let (stage, expected) = corner(&film(), shots(), Pool::Frame);
    let unit = three(&stage);
    let pieces = unit.pieces(20, &stage.recipe.sampling.windows, Pool::Frame);
    assert!(pieces.len() >= 4);
    let (mut kept, mut frames, mut from, mut runs) = (Kept::new(), Vec::new(), 0, 0);
    while from < 97 {
        // Each run does a few steps more, or one piece.
        let fuse = Fuse::new(27);
        let mut memory = Memory::new(std::mem::take(&mut kept), &fuse, 2);
        let (_, trace) = stage.run(&unit, from, Some(&mut memory), &fuse);
        kept = memory.kept;
        let made = from + trace.frames.len();
        let done = pieces.iter().take_while(|piece| piece.end <= made).last().map_or(0, |p| p.end).max(from);
        frames.extend(trace.frames.into_iter().take(done - from));
        (from, runs) = (done, runs + 1);
        assert!(runs < 12, "no progress: {from}");
    }
    assert!(frames == expected && runs > 3);
}

#[test]
fn what_is_damaged_or_not_ours_is_made_again() {
    let (stage, expected) = corner(&film(), shots(), Pool::Window);
    let unit = three(&stage);
    let never = Fuse::new(usize::MAX);
    let mut memory = Memory::new(Kept::new(), &never, usize::MAX);
    stage.all(&unit, 0, Some(&mut memory));
    assert_eq!(never.left(), usize::MAX - 17);
    let whole = memory.kept;
    assert_eq!((prefix(&whole), windows(&whole), whole.len()), (27, 8, 17));
    let again = |kept: Kept, from: usize| {
        let mut memory = Memory::new(kept, &Fuse::new(usize::MAX), usize::MAX);
        let trace = stage.all(&unit, from, Some(&mut memory));
        assert!(trace.frames == expected[from..]);
        // What was kept again is what it was.
        for (name, values) in memory.kept.iter().filter(|(name, _)| whole.contains_key(*name)) {
            let harmed = is_damaged(values) || values.len() != whole[name].len();
            assert!(harmed || whole[name] == *values, "{name}");
        }
        trace
    };
    // Nothing to do but to decode.
    let trace = again(whole.clone(), 0);
    assert_eq!((trace.loaded, trace.opened), (vec!["decode".to_owned()], vec![0..97; 1]));
    // Every one of them missing, cut short, too long, not a number, or empty.
    for name in whole.keys() {
        for damage in 0..5 {
            let mut kept = whole.clone();
            let values = kept.get_mut(name).unwrap();
            match damage {
                0 => drop(kept.remove(name)),
                1 => drop(values.pop()),
                2 => values.push(0.0),
                3 => values[7] = f32::NAN,
                _ => values.clear(),
            }
            // One of five is enough for most.
            if damage != name.len() % 5 && name != "restored-1-0" {
                continue;
            }
            let trace = again(kept, 0);
            let is_window = name.starts_with("restored-");
            assert_eq!(trace.windows, usize::from(is_window), "{name}");
            assert!(!trace.loaded.contains(&"encode".to_owned()), "{name}");
        }
    }
    // Without windows what is encoded is used up to where it is damaged: here latent 12, of the second shot.
    let mut kept: Kept = whole.clone().into_iter().filter(|(name, _)| name.starts_with("encoded")).collect();
    kept.insert("encoded-12-15".into(), vec![1.0; 5]);
    let trace = again(kept, 0);
    assert_eq!((trace.opened, trace.windows, trace.told[0]), (vec![40..97, 0..97], 8, 97 - 41));
    // Without chunks only what windows need that are missing is encoded.
    let mut kept: Kept = whole.clone().into_iter().filter(|(name, _)| name.starts_with("restored")).collect();
    kept.remove("restored-2-3");
    let trace = again(kept.clone(), 0);
    assert_eq!((trace.opened, trace.windows, trace.told[0]), (vec![64..97, 0..97], 1, 33 - 9));
    // A later piece needs none of the shots before it, and a unit that has lost everything starts with it.
    kept.retain(|name, _| name.starts_with("restored-2"));
    let trace = again(kept, 64);
    assert_eq!((trace.opened, trace.windows), (vec![64..97; 2], 1));
    let trace = again(Kept::new(), 64);
    assert_eq!((trace.opened, trace.windows, trace.told), (vec![64..97; 2], 3, [33; 3]));
    // Names that are not ours, and chunks of other cuts that overlap.
    let all: Vec<f32> =
        (0..9).flat_map(|i| whole[&format!("encoded-{}-{}", 3 * i, 3 * i + 3)].clone()).collect();
    let part =
        |first: usize, end: usize| all[first * LATENT as usize / 4..end * LATENT as usize / 4].to_vec();
    let kept = Kept::from([
        ("encoded-0-2".into(), part(0, 2)),
        ("encoded-1-4".into(), part(1, 4)),
        ("encoded-3-5".into(), part(3, 5)),
        ("encoded-6-9".into(), part(6, 9)),
        ("encoded-9-6".into(), part(6, 9)),
        ("encoded-26-29".into(), part(0, 3)),
        ("encoded-0-27".into(), part(0, 27)),
        ("encoded-x".into(), vec![]),
        ("restored-9-0".into(), part(0, 5)),
        ("restored-0-1".into(), part(0, 5)),
        ("restored-0-00".into(), part(0, 5)),
        ("notes".into(), vec![1.0]),
    ]);
    let trace = again(kept, 0);
    assert_eq!((trace.opened, trace.told[0], trace.windows), (vec![0..97; 2], 97 - 17, 8));
}
