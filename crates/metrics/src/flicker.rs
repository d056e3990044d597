//! Flicker: what changes over time and should not.
//!
//! Both measures are of luma and in 8-bit levels, so 1 means that a pixel is off by one level on average.
//!
//! *Against the original*: the mean of `|(B[t] - B[t-1]) - (A[t] - A[t-1])|`. Motion that both clips have
//! cancels; a constant error cancels too, and only an error that changes with time is left. From the second
//! frame on.
//!
//! *Of one clip alone*: the mean of what a pixel changes and takes back at once: with the steps
//! `d = X[t] - X[t-1]` and `e = X[t-1] - X[t-2]`, `min(|d|, |e|)` where they have opposite signs, else 0. A
//! fade, a cut and a steady slide over a smooth picture give nothing, a light that alternates gives its full
//! swing. Noise and fine texture in motion count as well, so it is for comparing clips of the same content.
//! From the third frame on.

use crate::picture::LEVELS;

/// The luma of the last two frames, the later one first.
#[derive(Default)]
pub(crate) struct History {
    last: Option<Vec<f32>>,
    before: Option<Vec<f32>>,
}

impl History {
    /// Makes `luma` the last frame.
    pub(crate) fn push(&mut self, luma: Vec<f32>) {
        self.before = self.last.replace(luma);
    }

    /// What `now` takes back of the step before.
    pub(crate) fn reversal(&self, now: &[f32]) -> Option<f64> {
        let (last, before) = (self.last.as_ref()?, self.before.as_ref()?);
        let steps = now.iter().zip(last).zip(before);
        let sum: f64 = steps
            .map(|((now, last), before)| {
                let (d, e) = (now - last, last - before);
                f64::from(if (d < 0.0) != (e < 0.0) { d.abs().min(e.abs()) } else { 0.0 })
            })
            .sum();
        Some(LEVELS * sum / now.len().max(1) as f64)
    }

    /// How differently two clips step to `a` and `b`.
    pub(crate) fn against(&self, a: &[f32], other: &History, b: &[f32]) -> Option<f64> {
        let (last_a, last_b) = (self.last.as_ref()?, other.last.as_ref()?);
        let steps = a.iter().zip(last_a).zip(b.iter().zip(last_b));
        let sum: f64 = steps.map(|((a, la), (b, lb))| f64::from(((b - lb) - (a - la)).abs())).sum();
        Some(LEVELS * sum / a.len().max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(l: f32) -> Vec<f32> {
        vec![l / 255.0; 6]
    }

    #[test]
    fn fades_and_cuts_are_no_flicker_and_alternation_is_its_swing() {
        let run = |levels: &[f32]| {
            let mut history = History::default();
            let mut last = None;
            for l in levels {
                last = history.reversal(&level(*l));
                history.push(level(*l));
            }
            last
        };
        assert_eq!(run(&[1.0, 2.0]), None);
        assert_eq!(run(&[10.0, 20.0, 30.0]), Some(0.0));
        assert_eq!(run(&[10.0, 200.0, 200.0]), Some(0.0));
        assert!((run(&[10.0, 14.0, 10.0]).unwrap() - 4.0).abs() < 1e-5);
        assert!((run(&[10.0, 14.0, 12.0]).unwrap() - 2.0).abs() < 1e-5);
    }

    #[test]
    fn common_motion_and_constant_errors_cancel() {
        let (mut a, mut b) = (History::default(), History::default());
        assert_eq!(a.against(&level(1.0), &b, &level(2.0)), None);
        a.push(level(10.0));
        b.push(level(12.0));
        assert!(a.against(&level(40.0), &b, &level(42.0)).unwrap() < 1e-4);
        assert!((a.against(&level(40.0), &b, &level(45.0)).unwrap() - 3.0).abs() < 1e-4);
    }
}
