//! How long frames take on their way to the networks and behind them, measured on small ones.

use std::time::{Duration, Instant};

use remaster_compute::{HostTensor, Shape};
use remaster_media::{Format, FrameSink, FrameSource, MediaError};
use remaster_picture::Frame;

use crate::film::Recipe;
use crate::finish::{Finish, Finisher, Pool, ShotShown};
use crate::geometry::{Geometry, Resize};
use crate::upscale::Upscale;

/// Pixels of a frame that is timed: it takes some milliseconds.
const AREA: f64 = 60_000.0;

/// Frames that are timed.
const FRAMES: usize = 3;

/// Seconds of one thread for each frame: to prepare it, and to finish what a network makes of it. Nothing is kept of what
/// comes out.
pub fn frame_seconds(recipe: &Recipe, format: &Format) -> [f64; 2] {
    let (small, times) = smaller(recipe);
    let [width, height] = small.geometry.source;
    let channels = if small.geometry.alpha { 4 } else { 3 };
    let mut frame = Frame::new(width, height, channels);
    ramp(&mut frame.data);
    let prepare = small.prepare();
    let prepared = (0..FRAMES).map(|_| {
        let began = Instant::now();
        std::hint::black_box(prepare.frame(&frame));
        began.elapsed()
    });
    let prepared = prepared.min().unwrap_or_default();
    let source = Repeated { frame, format: Format { width, height, ..format.clone() }, next: 0 };
    // Without a sink that fails there is no error; then nothing is known.
    let finished = finished(&small, source).unwrap_or_default();
    [prepared, finished].map(|took| took.as_secs_f64() * times)
}

/// Time to finish a frame.
fn finished(recipe: &Recipe, source: Repeated) -> Option<Duration> {
    let [width, height] = recipe.upscale.as_ref().map_or(recipe.geometry.padded, Upscale::made);
    let mut data = vec![0.0; width * height * 3];
    ramp(&mut data);
    let shape = Shape::new(1, height, width, 3);
    let (mut finisher, _) =
        Finisher::start(Box::new(Nowhere), Box::new(source), recipe.sizes(), &recipe.finish, 0, None);
    let began = Instant::now();
    finisher.shot(ShotShown::of_frames()).ok()?;
    for _ in 0..FRAMES {
        finisher.frames(HostTensor { shape, data: data.clone() }).ok()?;
    }
    finisher.complete().ok()?;
    Some(began.elapsed() / FRAMES as u32)
}

/// Values that are not all the same.
fn ramp(data: &mut [f32]) {
    data.iter_mut().enumerate().for_each(|(i, value)| *value = (i % 251) as f32 / 251.0);
}

/// The same for frames of fewer pixels, and how many times more the real ones have.
fn smaller(recipe: &Recipe) -> (Recipe, f64) {
    let Geometry { source, shown, edges, alpha, .. } = recipe.geometry;
    let area = |[width, height]: [usize; 2]| width as f64 * height as f64;
    let factor = (area(source).max(area(shown)) / AREA).sqrt().max(1.0);
    let less = |size: [usize; 2]| size.map(|n| ((n as f64 / factor).round() as usize).max(8));
    let geometry = Geometry::new(less(source), Resize::Exactly(less(shown)), edges).with_alpha(alpha);
    let geometry = if recipe.upscale.is_some() { geometry.unpadded() } else { geometry };
    let upscale = recipe.upscale.map(|upscale| match upscale.fitted == source {
        true => Upscale { fitted: geometry.source, ..upscale },
        false => Upscale { fitted: less(upscale.fitted), ..upscale },
    });
    // A pool of a whole shot would wait on the disk.
    let finish = Finish { pool: Pool::Frame, ..recipe.finish.clone() };
    let small = Recipe { geometry, shown: geometry.shown, upscale, finish, ..recipe.clone() };
    (small, area(shown) / area(geometry.shown))
}

/// The same frame again and again.
struct Repeated {
    frame: Frame,
    format: Format,
    next: i64,
}

impl FrameSource for Repeated {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        frame.clone_from(&self.frame);
        self.next += 1;
        Ok(Some(self.next))
    }
}

/// Takes frames and keeps none.
struct Nowhere;

impl FrameSink for Nowhere {
    fn write(&mut self, _: &Frame, _: i64) -> Result<(), MediaError> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use remaster_colour::Mode;

    use super::*;
    use crate::cuts::Cuts;
    use crate::tests::{format, recipe};
    use remaster_picture::Edges;

    #[test]
    fn more_pixels_and_a_correction_of_colours_take_longer() {
        let mut recipe = recipe(Cuts::None, Pool::Frame);
        let format = format("yuv420p", [640, 360]);
        let mut took = |size: [usize; 2], colour| {
            recipe.geometry = Geometry::new([640, 360], Resize::Exactly(size), Edges::Black);
            recipe.shown = recipe.geometry.shown;
            recipe.finish.colour = colour;
            frame_seconds(&recipe, &format)
        };
        let (small, large) = (took([640, 360], Mode::None), took([3840, 2160], Mode::None));
        let lab = took([3840, 2160], Mode::Lab);
        assert!(small.iter().chain(&large).all(|seconds| *seconds > 0.0), "{small:?} {large:?}");
        assert!(large[0] > 4.0 * small[0] && large[1] > 4.0 * small[1], "{small:?} {large:?}");
        assert!(lab[1] > large[1], "{large:?} {lab:?}");
    }
}
