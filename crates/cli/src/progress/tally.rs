//! What was done, what is left, and how long that takes: arithmetic without a clock or a screen.

use std::time::Duration;

/// How many frames a phase has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Total {
    Unknown,
    /// A container said so, or it follows from a duration; it may be wrong.
    #[allow(dead_code, reason = "as `Progress::phase_about`")]
    About(usize),
    Exactly(usize),
}

impl Total {
    pub(super) fn frames(self) -> Option<usize> {
        match self {
            Total::Unknown => None,
            Total::About(n) | Total::Exactly(n) => Some(n),
        }
    }
}

/// One kind of work. Phases may take turns.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) total: Total,
    pub(super) done: usize,
    pub(super) busy: Duration,
    /// Work of one frame, in a unit that all phases share; 0 if nobody said.
    work: f64,
    /// The most bytes seen while it was at work.
    pub(super) peak: u64,
}

impl Phase {
    /// Frames per second of its own time.
    pub(super) fn rate(&self) -> Option<f64> {
        let seconds = self.busy.as_secs_f64();
        (self.done > 0 && seconds > 0.0).then(|| self.done as f64 / seconds)
    }

    fn left(&self) -> Option<usize> {
        self.total.frames().map(|total| total.saturating_sub(self.done))
    }
}

/// When it will be over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Eta {
    pub(super) left: Duration,
    pub(super) trust: Trust,
}

/// What an [`Eta`] rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub(super) fn declare(&mut self, name: &'static str, total: Total) {
        let index = self.index(name);
        self.phases[index].total = total;
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
    }

    /// The current phase held this much.
    pub(super) fn held(&mut self, bytes: u64) {
        if let Some(phase) = self.current.and_then(|i| self.phases.get_mut(i)) {
            phase.peak = phase.peak.max(bytes);
        }
    }

    pub(super) fn forget_peaks(&mut self) {
        self.phases.iter_mut().for_each(|p| p.peak = 0);
    }

    /// Share of all frames of all phases, by work where that is known. Never goes back, because it does not
    /// depend on what is measured. `None` if a total is not known.
    pub(super) fn share(&self) -> Option<f64> {
        let weighted = self.phases.iter().all(|p| p.work > 0.0 || p.total == Total::Exactly(0));
        let (mut done, mut all) = (0.0, 0.0);
        for phase in &self.phases {
            let total = phase.total.frames()?.max(phase.done);
            let work = if weighted { phase.work } else { 1.0 };
            done += work * phase.done as f64;
            all += work * total as f64;
        }
        (all > 0.0).then(|| done / all)
    }

    /// Time until all phases are done; `None` before a frame was measured or when nothing is left.
    pub(super) fn eta(&self, now: Duration) -> Option<Eta> {
        let (began, ended) = self.span?;
        let framed = || self.phases.iter().filter(|p| p.done > 0);
        let busy: f64 = framed().map(|p| p.busy.as_secs_f64()).sum();
        let done: f64 = framed().filter(|p| p.work > 0.0).map(|p| p.work * p.done as f64).sum();
        let per_work = (done > 0.0)
            .then(|| framed().filter(|p| p.work > 0.0).map(|p| p.busy.as_secs_f64()).sum::<f64>() / done);
        // Phases may run side by side, and there is time between them that is nobody's.
        let pace = if busy > 0.0 { (ended.saturating_sub(began)).as_secs_f64() / busy } else { 1.0 };

        let (mut seconds, mut trust) = (0.0, Trust::Measured);
        for phase in &self.phases {
            let cost = match (phase.rate(), per_work) {
                (Some(rate), _) => Some(1.0 / rate),
                (None, Some(per_work)) if phase.work > 0.0 => {
                    trust = trust.at_most(Trust::Estimated);
                    Some(phase.work * per_work)
                }
                _ => None,
            };
            match (phase.left(), cost) {
                (Some(0), _) => {}
                (Some(left), Some(cost)) => seconds += left as f64 * cost,
                (None, _) | (_, None) => trust = Trust::AtLeast,
            }
            if matches!(phase.total, Total::About(_)) {
                trust = trust.at_most(Trust::Estimated);
            }
        }
        if seconds <= 0.0 {
            return None;
        }
        // What is at work now counts as begun, but not as more than one step.
        let step = self.current().and_then(Phase::rate).map_or(0.0, |rate| self.step as f64 / rate);
        let since = now.saturating_sub(ended).as_secs_f64().min(step * pace);
        let left = Duration::try_from_secs_f64((seconds * pace - since).max(0.0)).ok()?;
        Some(Eta { left, trust })
    }

    fn index(&mut self, name: &'static str) -> usize {
        let found = self.phases.iter().position(|p| p.name == name);
        found.unwrap_or_else(|| {
            let (total, busy) = (Total::Unknown, Duration::ZERO);
            self.phases.push(Phase { name, total, done: 0, busy, work: 0.0, peak: 0 });
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

    fn eta(tally: &Tally, now: f64) -> (f64, Trust) {
        let eta = tally.eta(s(now)).unwrap();
        ((eta.left.as_secs_f64() * 1e6).round() / 1e6, eta.trust)
    }

    #[test]
    fn nothing_measured_is_no_promise() {
        let mut tally = Tally::default();
        assert_eq!((tally.eta(s(9.0)), tally.share()), (None, None));
        tally.declare("load", Total::Exactly(0));
        tally.declare("encode", Total::Exactly(65));
        // Loading took its time, but no frame is done.
        tally.advance(s(20.0), "load", 0, s(20.0));
        assert_eq!((tally.eta(s(20.0)), tally.share()), (None, Some(0.0)));
    }

    #[test]
    fn phases_that_take_turns_are_counted_with_their_own_rates() {
        let mut tally = Tally::default();
        tally.declare("encode", Total::Exactly(40));
        tally.declare("decode", Total::Exactly(40));
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
        let mut tally = Tally::default();
        tally.declare("encode", Total::Exactly(10));
        tally.declare("decode", Total::Exactly(10));
        tally.work("encode", 1.0);
        tally.work("decode", 2.0);
        tally.advance(s(5.0), "encode", 5, s(5.0));
        assert_eq!(eta(&tally, 5.0), (25.0, Trust::Estimated));
        assert!((tally.share().unwrap() - 5.0 / 30.0).abs() < 1e-12);
    }

    #[test]
    fn phases_side_by_side_and_time_of_nobody_change_the_pace() {
        let mut tally = Tally::default();
        tally.declare("read", Total::Exactly(100));
        tally.declare("encode", Total::Exactly(100));
        // Both were busy for the same 10 seconds, on two threads.
        tally.advance(s(10.0), "read", 50, s(10.0));
        tally.advance(s(10.0), "encode", 50, s(10.0));
        assert_eq!(eta(&tally, 10.0), (10.0, Trust::Measured));

        let mut tally = Tally::default();
        tally.declare("encode", Total::About(20));
        tally.advance(s(1.0), "encode", 1, s(1.0));
        // The second frame came three seconds later, though encoding took one.
        tally.advance(s(4.0), "encode", 1, s(1.0));
        assert_eq!(eta(&tally, 4.0), (36.0, Trust::Estimated));
    }

    #[test]
    fn more_frames_than_said_and_an_unknown_total_do_no_harm() {
        let mut tally = Tally::default();
        tally.declare("decode", Total::About(3));
        tally.advance(s(1.0), "decode", 5, s(1.0));
        assert_eq!((tally.eta(s(1.0)), tally.share()), (None, Some(1.0)));
        tally.advance(s(2.0), "other", 5, s(1.0));
        assert_eq!((tally.eta(s(2.0)), tally.share()), (None, None));
        tally.declare("last", Total::Exactly(7));
        assert_eq!(tally.eta(s(2.0)), None);
    }

    #[test]
    fn a_peak_belongs_to_the_phase_at_work() {
        let mut tally = Tally::default();
        tally.held(5);
        tally.declare("encode", Total::Unknown);
        tally.held(7);
        tally.enter("decode");
        tally.held(3);
        assert_eq!(tally.phases().iter().map(|p| p.peak).collect::<Vec<_>>(), [7, 3]);
    }
}
