//! Frames that go through no network.

use std::ops::Range;
use std::sync::Arc;

use remaster_colour::Mode as Colour;
use remaster_compute::CancelToken;
use remaster_engine::Event;
use remaster_picture::{Edges, Frame};
use remaster_plan::{LookBack, Windows};
use remaster_testkit::Rng;

use super::invariance::plain;
use super::{Kept, NOISE, made, noise, plenty, source, source_at};
use crate::cuts::Cuts;
use crate::decode_thread::Footage;
use crate::dispatch::{Networks, restore, restore_unit};
use crate::error::RestoreError;
use crate::film::{Done, Film, Recipe};
use crate::finish::Pool;
use crate::geometry::{Geometry, Resize};
use crate::prepare::reference;
use crate::sample::{Sampling, Start};
use crate::unit::{UnitWork, units_of};
use crate::upscale::Upscale;
use remaster_media::FrameSource;

fn recipe(source: [usize; 2], shown: [usize; 2], alpha: bool) -> Recipe {
    let geometry = Geometry::new(source, Resize::Exactly(shown), Edges::Black).with_alpha(alpha).unpadded();
    let windows = Windows::new(1).unwrap();
    let sampling = Sampling { start: Start::Seed(3), windows, scale: 1.0, latent_noise: 0.0 };
    let recipe = plain(geometry, Cuts::None, sampling, Pool::Frame, Colour::None);
    Recipe { upscale: Some(Upscale::none(shown)), ..recipe }
}

fn through(
    source: Box<dyn FrameSource>,
    recipe: &Recipe,
    events: &mut dyn FnMut(Event<'_>),
    cancel: &CancelToken,
) -> Result<(Vec<(Frame, i64)>, Done), RestoreError> {
    let kept = Kept::default();
    let film = Film { footage: Footage::from(source), input: None, sink: Box::new(kept.clone()), keep: None };
    let done = restore(film, recipe, Networks::None(cancel), &plenty(), events)?;
    Ok((kept.take(), done))
}

/// Values beyond the range of pictures, which samples of video can have.
fn frames(count: usize, [width, height]: [usize; 2]) -> Vec<Frame> {
    let frame = |i| Frame { width, height, channels: 3, data: Rng::new(i).values(width * height * 3) };
    (0..count as u64).map(frame).collect()
}

#[test]
fn what_nothing_changes_comes_out_to_the_bit_with_its_alpha_and_times() {
    let (mut advanced, mut loaded) = (0, false);
    let mut events = |event: Event<'_>| match event {
        Event::SliceDone { frames, .. } => advanced += frames,
        Event::Loaded | Event::Planned(_) => loaded = true,
        _ => {}
    };
    let all = || noise(9, |n| n * 3 - n % 2);
    let (made, done) =
        through(all(), &recipe(NOISE, NOISE, true), &mut events, &CancelToken::default()).unwrap();
    let (mut source, mut frame) = (all(), Frame::new(0, 0, 3));
    for (out, pts) in &made {
        assert_eq!(source.next(&mut frame).unwrap(), Some(*pts));
        assert!(frame == *out);
    }
    assert_eq!((made.len(), done.frames, advanced, loaded), (9, 9, 9, false));
}

#[test]
fn a_resize_is_all_that_is_done_and_units_have_its_bits() {
    let film = frames(23, [40, 24]);
    let (cancel, frames) = (CancelToken::default(), Arc::new(film.clone()));
    let recipe = recipe([40, 24], [60, 36], false);
    let (whole, _) = through(source(&frames), &recipe, &mut |_| (), &cancel).unwrap();
    let whole: Vec<Frame> = whole.into_iter().map(|(frame, _)| frame).collect();
    for (out, frame) in whole.iter().zip(&film) {
        assert!(*out == reference(&recipe.geometry, frame));
    }
    let windows = recipe.sampling.windows;
    for unit in units_of(&[(23, None)], 10, &windows, Pool::Frame) {
        for piece in unit.pieces(4, &windows, Pool::Frame) {
            let kept = Kept::default();
            let mut open =
                |range: Range<usize>| Ok(source_at(&Arc::new(film[range.clone()].to_vec()), range.start));
            let (from, sink) = (piece.start, Box::new(kept.clone()));
            let work = UnitWork { unit: &unit, from, open: &mut open, sink, checkpoint: None };
            let networks = Networks::None(&cancel);
            restore_unit(work, &recipe, networks, LookBack::default(), &plenty(), &mut |_| ()).unwrap();
            assert!(kept.frames_from(from) == whole[from..unit.frames().end]);
        }
    }
}

#[test]
fn frames_without_an_end_end_when_they_are_cancelled() {
    let cancel = CancelToken::default();
    let format = super::format("rgb24", [8, 8]);
    let endless = made(format, usize::MAX, |i| (Frame::new(8, 8, 3), i as i64));
    let mut events = |event: Event<'_>| {
        if let Event::SliceDone { slice: 20, .. } = event {
            cancel.cancel();
        }
    };
    let error = through(endless, &recipe([8, 8], [8, 8], false), &mut events, &cancel).unwrap_err();
    assert!(error.is_cancelled(), "{error}");
}
