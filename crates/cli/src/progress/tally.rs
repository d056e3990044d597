//! What was done, what is left, and how long that takes: arithmetic without a clock or a screen.

use std::time::Duration;

use serde::Serialize;

/// One kind of work. Phases may take turns.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    /// How many frames it has, if that is known.
    pub(super) total: Option<usize>,
    /// A container said so, or it follows from a duration; it may be wrong.
    pub(super) estimated: bool,
    /// Frames that this run made.
    pub(super) done: usize,
    /// Frames that an earlier run made: they count as done, and say nothing about speed.
    pub(super) adopted: usize,
    pub(super) busy: Duration,
    /// Work of one frame, in a unit that all phases share; 0 if unknown.
    work: f64,
    /// Frames of a slice; 0 if unknown.
    slice: usize,
    /// The most bytes seen while it was at work.
    pub(super) peak: u64,
}

impl Phase {
    /// Frames per second of its own time.
    pub(super) fn rate(&self) -> Option<f64> {
        let seconds = self.busy.as_secs_f64();
        (self.done > 0 && seconds > 0.0).then(|| self.done as f64 / seconds)
    }

    /// Frames done, by this run or an earlier one.
    pub(super) fn reached(&self) -> usize {
        self.done.saturating_add(self.adopted)
    }

    fn left(&self) -> Option<usize> {
        self.total.map(|total| total.saturating_sub(self.reached()))
    }
}

/// When it will be over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Eta {
    pub(super) left: Duration,
    pub(super) trust: Trust,
}

/// What an [`Eta`] rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Trust {
    /// Every phase that is left was measured.
    Measured,
    /// A total is estimated, or the rate of a phase follows from the measured one of another.
    Estimated,
    /// Something is left that nothing is known about.
    AtLeast,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    phases: Vec<Phase>,
    current: Option<usize>,
    /// When the first measured work began and the last one ended, since the start.
    span: Option<(Duration, Duration)>,
    /// Frames of the last advance: what is at work now is most likely as large.
    step: usize,
    /// The slice at work.
    partial: Option<Partial>,
    /// The largest share so far: a slice may turn out smaller than expected.
    most: f64,
}

/// A slice that was begun.
#[derive(Clone, Copy, Debug)]
struct Partial {
    phase: usize,
    /// Frames it is expected to have.
    frames: f64,
    /// When and where its measured part begins.
    began: Duration,
    from: f64,
    /// When and how far it was seen last, 0 to 1.
    last: Duration,
    done: f64,
}

impl Partial {
    /// Frames' worth of work that is done.
    fn made(&self) -> f64 {
        self.frames * self.done
    }

    /// Frames' worth of work that was timed, and the seconds it took.
    fn timed(&self) -> (f64, f64) {
        (self.frames * (self.done - self.from), self.last.saturating_sub(self.began).as_secs_f64())
    }
}

impl Tally {
    pub(super) fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The phase at work.
    pub(super) fn current(&self) -> Option<&Phase> {
        self.phases.get(self.current?)
    }

    /// Declares a phase, or corrects its total.
    pub(super) fn declare(&mut self, name: &'static str, total: Option<usize>, estimated: bool) {
        let index = self.index(name);
        (self.phases[index].total, self.phases[index].estimated) = (total, estimated);
        self.current.get_or_insert(index);
    }

    /// A phase begins or goes on.
    pub(super) fn enter(&mut self, name: &'static str) {
        self.current = Some(self.index(name));
    }

    /// Work of one frame of a phase, against that of the others.
    pub(super) fn work(&mut self, name: &'static str, per_frame: f64) {
        let index = self.index(name);
        self.phases[index].work = per_frame;
    }

    /// Frames that a slice of a phase is expected to have.
    pub(super) fn slice(&mut self, name: &'static str, frames: usize) {
        let index = self.index(name);
        self.phases[index].slice = frames;
    }

    /// The slice at work is done up to this share of it.
    pub(super) fn within(&mut self, now: Duration, name: &'static str, done: f64) {
        self.enter(name);
        let index = self.index(name);
        let done = if done.is_finite() { done.clamp(0.0, 1.0) } else { 0.0 };
        match &mut self.partial {
            Some(partial) if partial.phase == index && done >= partial.done => {
                (partial.last, partial.done) = (now, done);
            }
            partial => {
                let phase = &self.phases[index];
                let expected = match (phase.slice, self.step) {
                    (0, 0) => phase.left().unwrap_or(0),
                    (0, step) => step,
                    (slice, _) => slice,
                };
                let frames = phase.left().map_or(expected, |left| expected.min(left)) as f64;
                *partial = Some(Partial { phase: index, frames, began: now, from: done, last: now, done });
            }
        }
        self.note_share();
    }

    pub(super) fn advance(&mut self, now: Duration, name: &'static str, frames: usize, busy: Duration) {
        self.enter(name);
        let index = self.index(name);
        let phase = &mut self.phases[index];
        phase.done += frames;
        phase.busy += busy;
        // Loading weights makes no frames; its time says nothing about the frames that are left.
        if frames > 0 {
            self.step = frames;
            let began = self.span.map_or(now.saturating_sub(busy), |(began, _)| began);
            self.span = Some((began, now));
        }
        self.partial = self.partial.filter(|p| p.phase != index);
        self.note_share();
    }

    /// At least this many frames of a phase are done: the rest of them was there before.
    pub(super) fn reach(&mut self, name: &'static str, frames: usize) {
        let index = self.index(name);
        let phase = &mut self.phases[index];
        phase.adopted = phase.adopted.max(frames.saturating_sub(phase.done));
        self.note_share();
    }

    fn note_share(&mut self) {
        self.most = self.share().unwrap_or(0.0);
    }

    /// The slice at work, if it is of this phase.
    fn partial(&self, index: usize) -> Option<&Partial> {
        self.partial.as_ref().filter(|p| p.phase == index)
    }

    /// The current phase held this much.
    pub(super) fn held(&mut self, bytes: u64) {
        if let Some(phase) = self.current.and_then(|i| self.phases.get_mut(i)) {
            phase.peak = phase.peak.max(bytes);
        }
    }

    /// Share of all frames of all phases, by work where that is known, with the slice at work. Never goes back.
    /// `None` if a total is not known.
    pub(super) fn share(&self) -> Option<f64> {
        // Beside networks, reading a film to plan it is nearly nothing.
        let weighted = self.phases.iter().any(|p| p.work > 0.0);
        let (mut done, mut all) = (0.0, 0.0);
        for (index, phase) in self.phases.iter().enumerate() {
            let total = phase.total?.max(phase.reached());
            let work = if weighted { phase.work } else { 1.0 };
            let begun = self.partial(index).map_or(0.0, Partial::made);
            done += work * (phase.reached() as f64 + begun).min(total as f64);
            all += work * total as f64;
        }
        (all > 0.0).then(|| (done / all).max(self.most).min(1.0))
    }

    /// Frames of a phase that were timed, with those of the slice at work, and the seconds they took.
    fn timed(&self, index: usize) -> (f64, f64) {
        let phase = &self.phases[index];
        let (frames, seconds) = self.partial(index).map_or((0.0, 0.0), Partial::timed);
        // Loading weights makes no frames; its time says nothing about the frames that are left.
        let busy = if phase.done > 0 { phase.busy.as_secs_f64() } else { 0.0 };
        (phase.done as f64 + frames, busy + seconds)
    }

    /// Time until all phases are done; `None` before something was measured or when nothing is left.
    pub(super) fn eta(&self, now: Duration) -> Option<Eta> {
        let timed: Vec<(f64, f64)> = (0..self.phases.len()).map(|i| self.timed(i)).collect();
        let busy: f64 = timed.iter().filter(|(frames, _)| *frames > 0.0).map(|(_, seconds)| seconds).sum();
        if busy <= 0.0 {
            return None;
        }
        let worked =
            || self.phases.iter().zip(&timed).filter(|(p, (frames, _))| p.work > 0.0 && *frames > 0.0);
        let done: f64 = worked().map(|(p, (frames, _))| p.work * frames).sum();
        let per_work = (done > 0.0).then(|| worked().map(|(_, (_, seconds))| seconds).sum::<f64>() / done);
        // Phases may run side by side, and there is time between them.
        let (began, ended) = match (self.span, &self.partial) {
            (Some((began, ended)), partial) => (began, partial.map_or(ended, |p| ended.max(p.last))),
            (None, Some(partial)) => (partial.began, partial.last),
            (None, None) => return None,
        };
        let pace = (ended.saturating_sub(began)).as_secs_f64() / busy;

        let (mut seconds, mut trust) = (0.0, Trust::Measured);
        for (index, phase) in self.phases.iter().enumerate() {
            let (frames, took) = timed[index];
            let cost = match per_work {
                _ if frames > 0.0 && took > 0.0 => Some(took / frames),
                Some(per_work) if phase.work > 0.0 => {
                    trust = trust.at_most(Trust::Estimated);
                    Some(phase.work * per_work)
                }
                _ => None,
            };
            let begun = self.partial(index).map_or(0.0, Partial::made);
            match (phase.left(), cost) {
                (Some(0), _) => {}
                (Some(left), Some(cost)) => seconds += (left as f64 - begun).max(0.0) * cost,
                (None, _) | (_, None) => trust = Trust::AtLeast,
            }
            // A part of a slice is not all of it: its layers differ.
            if phase.estimated || (phase.done == 0 && frames > 0.0) {
                trust = trust.at_most(Trust::Estimated);
            }
        }
        if seconds <= 0.0 {
            return None;
        }
        // What is at work now counts as begun, but not as more than one step.
        let step = self.partial.map_or(self.step as f64, |p| p.frames - p.made());
        let rate = self.current.map(|i| timed[i]).filter(|(frames, seconds)| *frames > 0.0 && *seconds > 0.0);
        let step = rate.map_or(0.0, |(frames, seconds)| step * seconds / frames);
        let since = now.saturating_sub(ended).as_secs_f64().min(step * pace);
        let left = Duration::try_from_secs_f64((seconds * pace - since).max(0.0)).ok()?;
        Some(Eta { left, trust })
    }

    fn index(&mut self, name: &'static str) -> usize {
        let found = self.phases.iter().position(|p| p.name == name);
        found.unwrap_or_else(|| {
            self.phases.push(Phase { name, ..Phase::default() });
            self.phases.len() - 1
        })
    }
}

impl Trust {
    fn at_most(self, other: Trust) -> Trust {
        match (self, other) {
            (Trust::Measured, other) => other,
            (trust, _) => trust,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Phases whose numbers of frames are known.
    fn of(phases: &[(&'static str, usize)]) -> Tally {
        let mut tally = Tally::default();
        phases.iter().for_each(|(name, total)| tally.declare(name, Some(*total), false));
        tally
    }

    fn eta(tally: &Tally, now: f64) -> (f64, Trust) {
        let eta = tally.eta(s(now)).unwrap();
        ((eta.left.as_secs_f64() * 1e6).round() / 1e6, eta.trust)
    }

    #[test]
    fn nothing_measured_is_no_promise() {
        let mut tally = Tally::default();
        assert_eq!((tally.eta(s(9.0)), tally.share()), (None, None));
        tally.declare("load", Some(0), false);
        tally.declare("encode", Some(65), false);
        // Loading took its time, but no frame is done.
        tally.advance(s(20.0), "load", 0, s(20.0));
        assert_eq!((tally.eta(s(20.0)), tally.share()), (None, Some(0.0)));
    }

    #[test]
    fn phases_that_take_turns_are_counted_with_their_own_rates() {
        let mut tally = of(&[("encode", 40), ("decode", 40)]);
        tally.advance(s(11.0), "encode", 10, s(1.0));
        // Of decoding nothing is known yet.
        assert_eq!(eta(&tally, 11.0), (3.0, Trust::AtLeast));
        tally.advance(s(14.0), "decode", 10, s(3.0));
        // 30 frames at 0.1 s and 30 at 0.3 s, and the load before was not counted.
        assert_eq!(eta(&tally, 14.0), (12.0, Trust::Measured));
        assert_eq!(tally.share(), Some(0.25));
        // A step of encoding would not take more than 3 s here, since decode was last.
        assert_eq!(eta(&tally, 15.0), (11.0, Trust::Measured));
        assert_eq!(eta(&tally, 60.0), (9.0, Trust::Measured));
    }

    #[test]
    fn a_phase_that_was_not_measured_is_judged_by_its_work() {
        let mut tally = of(&[("encode", 10), ("decode", 10)]);
        tally.work("encode", 1.0);
        tally.work("decode", 2.0);
        tally.advance(s(5.0), "encode", 5, s(5.0));
        assert_eq!(eta(&tally, 5.0), (25.0, Trust::Estimated));
        assert!((tally.share().unwrap() - 5.0 / 30.0).abs() < 1e-12);
    }

    #[test]
    fn phases_side_by_side_and_time_of_nobody_change_the_pace() {
        let mut tally = of(&[("read", 100), ("encode", 100)]);
        // Both were busy for the same 10 seconds, on two threads.
        tally.advance(s(10.0), "read", 50, s(10.0));
        tally.advance(s(10.0), "encode", 50, s(10.0));
        assert_eq!(eta(&tally, 10.0), (10.0, Trust::Measured));

        let mut tally = Tally::default();
        tally.declare("encode", Some(20), true);
        tally.advance(s(1.0), "encode", 1, s(1.0));
        // The second frame came three seconds later, though encoding took one.
        tally.advance(s(4.0), "encode", 1, s(1.0));
        assert_eq!(eta(&tally, 4.0), (36.0, Trust::Estimated));
    }

    #[test]
    fn frames_of_an_earlier_run_count_as_done_and_not_for_the_speed() {
        let mut tally = of(&[("decode", 100)]);
        tally.reach("decode", 80);
        assert_eq!((tally.share(), tally.eta(s(1.0))), (Some(0.8), None));
        tally.advance(s(12.0), "decode", 10, s(10.0));
        assert_eq!((tally.share(), tally.phases()[0].rate()), (Some(0.9), Some(1.0)));
        assert_eq!(eta(&tally, 12.0), (10.0, Trust::Measured));
        // What was reached in the meantime takes nothing back.
        tally.reach("decode", 50);
        assert_eq!(tally.phases()[0].reached(), 90);
        tally.reach("decode", 100);
        assert_eq!((tally.share(), tally.eta(s(12.0))), (Some(1.0), None));
    }

    #[test]
    fn more_frames_than_said_and_an_unknown_total_do_no_harm() {
        let mut tally = Tally::default();
        tally.declare("decode", Some(3), true);
        tally.advance(s(1.0), "decode", 5, s(1.0));
        assert_eq!((tally.eta(s(1.0)), tally.share()), (None, Some(1.0)));
        tally.advance(s(2.0), "other", 5, s(1.0));
        assert_eq!((tally.eta(s(2.0)), tally.share()), (None, None));
        tally.declare("last", Some(7), false);
        assert_eq!(tally.eta(s(2.0)), None);
    }

    #[test]
    fn a_slice_moves_before_it_is_done_and_never_back() {
        let mut tally = of(&[("encode", 10), ("decode", 10)]);
        tally.work("encode", 1.0);
        tally.work("decode", 3.0);
        tally.slice("encode", 8);
        tally.within(s(5.0), "encode", 0.0);
        // Begun, but nothing was measured.
        assert_eq!((tally.share(), tally.eta(s(5.0))), (Some(0.0), None));
        tally.within(s(7.0), "encode", 0.5);
        assert_eq!(tally.share(), Some(0.1));
        // 4 frames in 2 s: 6 are left at 0.5 s, and 10 at three times that.
        assert_eq!(eta(&tally, 7.0), (18.0, Trust::Estimated));
        assert_eq!(eta(&tally, 8.0), (17.0, Trust::Estimated));
        // It had fewer frames than expected.
        tally.advance(s(9.0), "encode", 3, s(4.0));
        assert_eq!(tally.share(), Some(0.1));
        for (done, share) in [(f64::NAN, 0.1), (0.25, 0.11875), (7.0, 0.25)] {
            tally.within(s(9.5), "encode", done);
            assert_eq!(tally.share(), Some(share), "{done}");
        }
        // Without a word about slices, one is as long as the last, or all there is.
        tally.advance(s(10.0), "encode", 7, s(1.0));
        tally.within(s(12.0), "decode", 0.5);
        assert_eq!(tally.share(), Some((10.0 + 3.0 * 3.5) / 40.0));
        let mut tally = Tally::default();
        tally.within(s(1.0), "decode", 0.5);
        assert_eq!((tally.share(), tally.eta(s(2.0))), (None, None));
    }

    #[test]
    fn a_peak_belongs_to_the_phase_at_work() {
        let mut tally = Tally::default();
        tally.held(5);
        tally.declare("encode", None, false);
        tally.held(7);
        tally.enter("decode");
        tally.held(3);
        assert_eq!(tally.phases().iter().map(|p| p.peak).collect::<Vec<_>>(), [7, 3]);
    }
}
