//! The transformer over the latents of a shot, window by window.

use std::ops::Range;
use std::sync::Arc;

use remaster_compute::{HostTensor, Shape};
use remaster_engine::{ClipRunner, Event, Events, MemoryClip, Planner, Task};
use remaster_model::dit::{patches, unpatched};
use remaster_plan::{
    Budget, Candidate, Cells, Job, LookBack, Peaks, Plan, ShotRange, TIME, Windows, Wish, first_frame,
    share_before,
};

use crate::error::RestoreError;
use crate::latent_store::LatentStore;
use crate::noise::Noise;
use crate::planned::Planned;

/// Where the noise comes from.
#[derive(Clone, Debug)]
pub enum Start {
    /// A seed.
    Seed(u64),
    /// These values, `[t, h, w, 16]`, from the first latent of every shot on: to compare with another implementation.
    Values(Arc<Vec<f32>>),
}

/// How latents are restored.
#[derive(Clone, Debug)]
pub struct Sampling {
    /// Where the noise comes from.
    pub start: Start,
    /// How a long shot is cut.
    pub windows: Windows,
    /// Latents of the encoder times this are those of the transformer.
    pub scale: f32,
    /// 0 to 1: how much noise is mixed into what the transformer is shown.
    pub latent_noise: f32,
}

/// The transformer, loaded.
pub(crate) struct Sampler<'a> {
    task: &'a Task,
    sampling: &'a Sampling,
    /// Rows, columns and channels of a latent.
    size: [usize; 3],
    runner: Option<ClipRunner<'a>>,
    /// The way for which it was opened.
    opened: Candidate,
    /// How windows of each length are run; the longest first.
    plans: Vec<(usize, Plan)>,
}

impl<'a> Sampler<'a> {
    /// The transformer is loaded as planned for the longest window; `size` has the rows, columns and channels of a latent.
    pub(crate) fn new(
        runner: ClipRunner<'a>,
        Planned { task, plan }: Planned<'a>,
        sampling: &'a Sampling,
        size: [usize; 3],
    ) -> Self {
        let plans = vec![(plan.job.cells.steps, plan.clone())];
        Sampler { task, sampling, size, runner: Some(runner), opened: plan.how, plans }
    }

    /// Replaces latents of a shot in the store, from place `at` on, by restored ones: those that the windows of a range
    /// need. Latents that windows of the shot share with one that is not among them stay half mixed.
    pub(crate) fn range(
        &mut self,
        store: &mut LatentStore,
        at: usize,
        range: &ShotRange,
        back: LookBack,
        events: Events<'_>,
    ) -> Result<(), RestoreError> {
        let windows = range.windows(&self.sampling.windows, back);
        let first = windows.first().map_or(0, |w| w.start);
        let mut mixing = Mixing::default();
        for (i, window) in windows.iter().enumerate() {
            let place = |latent: usize| at + latent - first;
            let given = store.read(place(window.start)..place(window.end))?;
            let done = frames_done(range, &windows, i);
            let restored = self.window(window.clone(), &given, done, events)?;
            mixing.write(restored, (&windows, i), store, place(window.start))?;
        }
        Ok(())
    }

    /// Restored latents of one window. `frames` of the picture are told of as done.
    pub(crate) fn window(
        &mut self,
        window: Range<usize>,
        given: &[f32],
        frames: usize,
        events: Events<'_>,
    ) -> Result<Vec<f32>, RestoreError> {
        let [h, w, c] = self.size;
        let noise = self.noise(window.clone())?;
        let condition = self.condition(window.clone(), given, &noise);
        let cells: Vec<f32> = noise
            .chunks_exact(c)
            .zip(condition.chunks_exact(c))
            .flat_map(|(n, c)| n.iter().chain(c).copied().chain([1.0]))
            .collect();
        drop(condition);
        let steps = window.len();
        let tokens = patches(&cells, [steps, h, w], 2 * c + 1);
        drop(cells);
        let velocity = self.run(steps, tokens, frames, events)?;
        let velocity = unpatched(&velocity, [steps, h, w], c);
        Ok(noise.iter().zip(&velocity).map(|(n, v)| n - v).collect())
    }

    fn noise(&self, window: Range<usize>) -> Result<Vec<f32>, RestoreError> {
        let length = self.size.iter().product::<usize>();
        match &self.sampling.start {
            Start::Seed(seed) => {
                let noise = Noise::new(*seed);
                Ok(window.flat_map(|index| noise.latent(index, self.size)).collect())
            }
            Start::Values(values) => {
                let wanted = window.start * length..window.end * length;
                let (given, wants) = (values.len(), wanted.end);
                values.get(wanted).map(<[f32]>::to_vec).ok_or(RestoreError::Noise { given, wants })
            }
        }
    }

    /// What the transformer is shown of the latents: scaled, and mixed with noise if that is wanted.
    fn condition(&self, window: Range<usize>, given: &[f32], start: &[f32]) -> Vec<f32> {
        let Sampling { scale, latent_noise, start: from, .. } = self.sampling;
        let scaled = given.iter().map(|v| v * scale);
        let (Start::Seed(seed), true) = (from, *latent_noise > 0.0) else { return scaled.collect() };
        let share = shifted(*latent_noise, window.len(), self.size);
        let noise = Noise::new(*seed);
        let second = window.flat_map(|index| noise.condition(index, self.size));
        let mixed = scaled.zip(start).zip(second);
        mixed.map(|((v, n), m)| (1.0 - share) * v + share * (0.1 * n + 0.05 * m)).collect()
    }

    /// Tokens through the network.
    fn run(
        &mut self,
        steps: usize,
        tokens: Vec<f32>,
        frames: usize,
        events: Events<'_>,
    ) -> Result<Vec<f32>, RestoreError> {
        let plan = self.plan(steps)?;
        let Cells { rows, columns, .. } = plan.job.cells;
        let channels = tokens.len() / (steps * rows * columns).max(1);
        let clip = HostTensor { shape: Shape::new(steps, rows, columns, channels), data: tokens };
        let (mut source, mut sink) = (MemoryClip::source(clip), MemoryClip::sink());
        let mut left = frames;
        let events = &mut |mut event: Event<'_>| {
            // Its own frames are latents of which some are computed twice.
            if let Event::SliceDone { frames, .. } = &mut event {
                *frames = std::mem::take(&mut left);
            }
            events(event);
        };
        if self.runner.is_none() || plan.how != self.opened {
            self.runner = None;
            self.runner = Some(ClipRunner::start(self.task.network_run(&plan), events)?);
            self.opened = plan.how;
        }
        if let Some(runner) = &mut self.runner {
            runner.clip_as(&plan, &mut source, &mut sink, events)?;
        }
        Ok(sink.clip.data)
    }

    /// How a window of so many latents is run: as the longest one, if that is possible within its memory.
    fn plan(&mut self, steps: usize) -> Result<Plan, RestoreError> {
        if let Some((_, plan)) = self.plans.iter().find(|(known, _)| *known == steps) {
            return Ok(plan.clone());
        }
        let Some((_, longest)) = self.plans.first() else { return Err(RestoreError::Thread("planning")) };
        let job = Job { cells: Cells { steps, ..longest.job.cells }, ..longest.job.clone() };
        let settings = &self.task.settings;
        let sizing = || settings.backend.sizing();
        let mut planner = Planner::new(self.task.network.as_ref(), settings.dtype, sizing, job);
        let mut plan = planner.exactly(&longest.how)?;
        if !plan.peaks.is_within(&longest.peaks) {
            // Less lies in the arena in another order, which may take more.
            let Peaks { device: vram, host: ram, disk } = longest.peaks;
            let budget = settings.recovery.map(|recovery| recovery.budget);
            let budget = budget.unwrap_or(Budget::Apart { vram, ram, disk });
            plan = planner.plan(&budget, &Wish::default())?;
        }
        self.plans.push((steps, plan.clone()));
        Ok(plan)
    }
}

/// Restored latents that the next window of a shot takes part in.
#[derive(Debug, Default)]
pub(crate) struct Mixing(Vec<f32>);

impl Mixing {
    /// Mixes restored window number `i` of a shot, whose first latent is at `place` of the store, into what the one before
    /// has of it. Writes the latents in which the next window takes no part.
    pub(crate) fn write(
        &mut self,
        mut restored: Vec<f32>,
        (windows, i): (&[Range<usize>], usize),
        store: &mut LatentStore,
        place: usize,
    ) -> Result<(), RestoreError> {
        let length = store.length().max(1);
        let known = self.0.len() / length;
        let pairs = restored.chunks_exact_mut(length).zip(self.0.chunks_exact(length));
        for (j, (new, old)) in pairs.enumerate() {
            let before = share_before(j, known);
            new.iter_mut().zip(old).for_each(|(new, old)| *new = before * old + (1.0 - before) * *new);
        }
        let next = windows.get(i + 1).map_or(windows[i].end, |next| next.start);
        let done = (next - windows[i].start) * store.length();
        self.0 = restored.split_off(done.min(restored.len()));
        store.write(place, &restored)
    }
}

/// Frames of a range that are done with number `i` of its windows.
pub(crate) fn frames_done(range: &ShotRange, windows: &[Range<usize>], i: usize) -> usize {
    let made = &range.made;
    let told = |latent: usize| first_frame(latent).clamp(made.start, made.end);
    let from = windows.get(i).filter(|_| i > 0).map_or(made.start, |w| told(w.start));
    windows.get(i + 1).map_or(made.end, |w| told(w.start)) - from
}

/// How much noise a share of noise is for a clip of so many latents: more for larger ones, as the original has it.
fn shifted(share: f32, latents: usize, [h, w, _]: [usize; 3]) -> f32 {
    let area = (64 * h * w) as f64;
    let frames = (latents.saturating_sub(1) * TIME + 1) as f64;
    let line = |x: f64, [x0, y0]: [f64; 2], [x1, y1]: [f64; 2]| y0 + (x - x0) * (y1 - y0) / (x1 - x0);
    let shift = match latents {
        0 | 1 => line(area, [65_536.0, 1.0], [1_048_576.0, 3.2]),
        _ => line(area * frames, [65_536.0 * 37.0, 1.0], [921_600.0 * 145.0, 5.0]),
    };
    let share = f64::from(share);
    (shift * share / (1.0 + (shift - 1.0) * share)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_shifted_as_the_original_has_it() {
        // An image of 1024 x 1024: 3.2; 0 and 1 stay what they are.
        let image = |share| shifted(share, 1, [128, 128, 16]);
        assert_eq!([image(0.0), image(1.0)], [0.0, 1.0]);
        assert!((image(0.5) - 3.2 * 0.5 / 2.1).abs() < 1e-6);
        // 1080p and 5 frames: 1.24.
        let video = shifted(0.5, 2, [136, 240, 16]);
        let shift = video / (1.0 - video);
        assert!((shift - 1.24).abs() < 0.01, "{shift}");
    }
}
