//! Clips whose cuts were labelled by eye, as the thumbnails that the detector makes of them: `testdata/scenes`.
//!
//! Each row of a picture is a frame, so that a still shot takes few bytes. `cuts` are hard cuts. At frames in `either` both
//! answers are right: fades, titles that appear on black, and splices of the film of 1906 within one view.
#![allow(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use std::path::Path;

use remaster_picture::still;
use remaster_scenes::{Detector, MIN_SHOT, Thumb};
use serde::Deserialize;

#[derive(Deserialize)]
struct Clip {
    clip: String,
    /// The file of thumbnails; some clips have licences that keep them out of here.
    thumbs: Option<String>,
    /// Frames that are in the file: first, and the one after the last.
    excerpts: Vec<[u64; 2]>,
    cuts: Vec<u64>,
    either: Vec<u64>,
}

/// Some frames of a clip.
struct Excerpt {
    name: String,
    thumbs: Vec<Thumb>,
    cuts: Vec<u64>,
    either: Vec<u64>,
}

fn excerpts() -> Vec<Excerpt> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/scenes");
    let clips: Vec<Clip> =
        serde_json::from_slice(&std::fs::read(folder.join("labels.json")).unwrap()).unwrap();
    let mut all = Vec::new();
    for clip in &clips {
        let Some(file) = &clip.thumbs else { continue };
        let (picture, _) = still::read(&folder.join(file), 1 << 30).unwrap();
        let bytes: Vec<u8> = picture.data.iter().map(|v| (v * 255.0).round() as u8).collect();
        let mut rows = bytes.chunks_exact(picture.row_len()).map(|row| Thumb::from_bytes(row).unwrap());
        for [from, to] in &clip.excerpts {
            let within = |frames: &[u64]| -> Vec<u64> {
                frames.iter().filter(|f| (from..to).contains(f)).map(|f| f - from).collect()
            };
            let (cuts, either) = (within(&clip.cuts), within(&clip.either));
            let thumbs = rows.by_ref().take((to - from) as usize).collect();
            all.push(Excerpt { name: format!("{} from {from}", clip.clip), thumbs, cuts, either });
        }
        assert!(rows.next().is_none(), "{file} has frames that no excerpt has");
    }
    all
}

fn cuts(thumbs: impl IntoIterator<Item = Thumb>) -> Vec<u64> {
    let mut detector = Detector::new();
    let mut verdicts: Vec<_> = thumbs.into_iter().filter_map(|thumb| detector.push_thumb(thumb)).collect();
    verdicts.extend(detector.finish());
    assert!(verdicts.iter().enumerate().all(|(i, v)| v.frame == i as u64), "each frame once and in order");
    assert!(verdicts.first().is_none_or(|v| v.cut));
    verdicts.iter().skip(1).filter(|v| v.cut).map(|v| v.frame).collect()
}

/// Found, false and missed.
fn count(found: &[u64], cuts: &[u64], either: &[u64]) -> [usize; 3] {
    let right = found.iter().filter(|f| cuts.contains(f)).count();
    let wrong = found.iter().filter(|f| !cuts.contains(f) && !either.contains(f)).count();
    [right, wrong, cuts.len() - right]
}

fn assert_good([right, wrong, missed]: [usize; 3]) {
    let (recall, precision) = (right as f64 / (right + missed) as f64, right as f64 / (right + wrong) as f64);
    assert!(recall >= 0.95 && precision >= 0.85, "recall {recall:.3}, precision {precision:.3}");
}

#[test]
fn labelled_cuts_are_found() {
    let mut sum = [0; 3];
    let mut wrong = Vec::new();
    for excerpt in excerpts() {
        let found = cuts(excerpt.thumbs);
        let counted = count(&found, &excerpt.cuts, &excerpt.either);
        sum.iter_mut().zip(counted).for_each(|(sum, n)| *sum += n);
        if counted[1..] != [0, 0] {
            wrong.push(format!("{}: found {found:?}, labelled {:?}", excerpt.name, excerpt.cuts));
        }
    }
    assert_eq!(sum.iter().sum::<usize>(), 14);
    assert_good(sum);
    assert!(wrong.is_empty(), "worse than before, if within the limits: {wrong:?}");
}

#[test]
fn shots_that_were_joined_are_told_apart() {
    // Shots without cuts or doubts in them.
    let shots: Vec<Excerpt> =
        excerpts().into_iter().filter(|e| e.cuts.is_empty() && e.either.is_empty()).collect();
    let (mut all, mut starts, mut seed) = (Vec::new(), Vec::new(), 7usize);
    let mut last = "";
    for _ in 0..80 {
        seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345) & 0x7fff_ffff;
        let shot = &shots[(seed >> 8) % shots.len()];
        let clip = shot.name.split(' ').next().unwrap();
        // Two pieces of one view are no two shots, and are not told apart: all 5 such joins were missed.
        if clip != last {
            starts.push(all.len() as u64);
            all.extend(shot.thumbs.iter().take(8 + (seed >> 16) % 5).cloned());
            last = clip;
        }
    }
    assert!(starts.len() > 30);
    assert_good(count(&cuts(all), &starts[1..], &[]));
}

#[test]
fn flashes_are_no_cuts_but_what_lies_between_two_shots_is_one() {
    let all = excerpts();
    let [bbb, rocket] = ["bbb_1080p24_cuts from 82", "rocket_launch_360p24_vp8 from 64"]
        .map(|name| all.iter().find(|e| e.name == name).unwrap());
    let white = Thumb::from_bytes(&[255; 64 * 36 * 3]).unwrap();
    let (a, b) = (&bbb.thumbs[..9], &rocket.thumbs[..9]);
    for length in 1..=4 {
        let flash = vec![white.clone(); length];
        assert_eq!(cuts([a, &flash, a].concat()), [0u64; 0], "a flash of {length}");
        // The frames between belong to the second shot, if they are too few for one of their own.
        assert_eq!(cuts([a, &flash, b].concat()), [9], "{length} frames between two shots");
    }
    let long = vec![white; MIN_SHOT as usize + 3];
    assert_eq!(cuts([a, &long, b].concat()), [9, 9 + long.len() as u64]);
}

#[test]
fn short_clips_and_still_ones_have_one_shot() {
    assert_eq!(cuts([]), [0u64; 0]);
    let black = Thumb::from_bytes(&[0; 64 * 36 * 3]).unwrap();
    for length in [1, 2, 5, 6, 7, 40] {
        assert_eq!(cuts(vec![black.clone(); length]), [0u64; 0]);
    }
}
