//! How much work a submission may hold. Systems end work that takes seconds (Windows after two), and devices differ by a
//! factor of a thousand, so the rate of every kernel is measured when it is first used. Nobody ends work on a software device,
//! so its rate is assumed, and the same work is cut in the same way every time.

use std::collections::HashMap;

use crate::gpu::kernels::Kernel;

/// Longest dispatch in seconds, and how long a batch may take before it is submitted: half a second together.
const DISPATCH: f64 = 0.25;
const BATCH: f64 = 0.25;
/// Multiply-adds of a kernel's first dispatch: 0.1 s at 10 GMAC/s, a tenth of what the slowest integrated GPUs do.
const FIRST: u64 = 1_000_000_000;
/// A measurement shorter than this is made of waiting. It is repeated when there is this many times the work.
const SHORT: f64 = 0.05;
const MORE: u64 = 4;

/// Work of a kernel and the seconds it took. Work is multiply-adds, or workgroups of kernels that do not multiply.
#[derive(Clone, Copy, Debug)]
struct Sample {
    work: u64,
    seconds: f64,
}

/// Multiply-adds a second that a software device is given work for: dispatches of 50 GMAC, so that a run can be cancelled.
const ASSUMED: f64 = 2e11;

/// What is known about the speed of a device.
#[derive(Debug, Default)]
pub(in crate::gpu) struct Pace {
    samples: HashMap<Kernel, Sample>,
    /// Nothing is measured.
    assumed: bool,
}

impl Pace {
    /// Of a device whose kernels are timed, or that of a software device.
    pub(in crate::gpu) fn new(timed: bool) -> Self {
        Pace { assumed: !timed, ..Pace::default() }
    }

    /// Whether anything is measured.
    pub(super) fn is_timed(&self) -> bool {
        !self.assumed
    }

    /// Whether a dispatch of this much work is to be timed on its own.
    pub(super) fn wants(&self, kernel: &Kernel, work: u64) -> bool {
        !self.assumed
            && self
                .samples
                .get(kernel)
                .is_none_or(|s| s.seconds < SHORT && work >= s.work.saturating_mul(MORE))
    }

    /// Notes what a dispatch took.
    pub(super) fn learn(&mut self, kernel: Kernel, work: u64, seconds: f64) {
        self.samples.insert(kernel, Sample { work: work.max(1), seconds: seconds.max(1e-6) });
    }

    /// The device is slower than it was.
    pub(super) fn slow_down(&mut self) {
        self.samples.values_mut().for_each(|s| s.seconds *= 2.0);
    }

    /// Seconds that work is expected to take.
    pub(super) fn seconds(&self, kernel: &Kernel, work: u64) -> f64 {
        if self.assumed {
            return work as f64 / ASSUMED;
        }
        self.samples.get(kernel).map_or(0.0, |s| s.seconds * work as f64 / s.work as f64)
    }

    /// Most multiply-adds of one dispatch.
    pub(super) fn most(&self, kernel: &Kernel) -> u64 {
        if self.assumed {
            return (DISPATCH * ASSUMED) as u64;
        }
        let Some(sample) = self.samples.get(kernel) else { return FIRST };
        let most = (DISPATCH / sample.seconds * sample.work as f64) as u64;
        // A short measurement is not trusted with all of it.
        if sample.seconds < SHORT {
            most.min(sample.work.saturating_mul(MORE)).max(FIRST)
        } else {
            most.max(1)
        }
    }

    /// Whether a batch that is expected to take this long is full.
    pub(super) fn is_full(seconds: f64) -> bool {
        seconds >= BATCH
    }

    /// Whether waiting so long for so many batches shows that they were too large.
    pub(super) fn is_late(waited: f64, batches: usize) -> bool {
        waited > (DISPATCH + BATCH) * batches as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::gpu::kernels::Role;

    const KERNEL: Kernel = Kernel { role: Role::Combine, dtype: DType::F32, vec_in: true };

    /// Runs a long op on a device of this rate, which takes `wait` seconds to begin. Returns the longest dispatch in
    /// seconds, all seconds, and the dispatches.
    fn run(pace: &mut Pace, rate: f64, wait: f64, mut left: u64) -> (f64, f64, usize) {
        let (mut longest, mut all, mut count) = (0.0f64, 0.0, 0);
        while left > 0 {
            let work = left.min(pace.most(&KERNEL));
            let took = wait + work as f64 / rate;
            if pace.wants(&KERNEL, work) {
                pace.learn(KERNEL, work, took);
            }
            (longest, all, count, left) = (longest.max(took), all + took, count + 1, left - work);
        }
        (longest, all, count)
    }

    #[test]
    fn no_dispatch_takes_longer_than_it_may_on_slow_and_fast_devices() {
        for rate in [1e10, 1e11, 1e12, 1e13, 1e14] {
            let (longest, all, count) = run(&mut Pace::default(), rate, 1e-4, (30.0 * rate) as u64);
            assert!(longest <= 0.3, "{longest} s at {rate:e}");
            // Nor is it cut smaller than needed for long.
            assert!((count as f64) < all / DISPATCH + 12.0, "{count} dispatches in {all} s at {rate:e}");
        }
    }

    #[test]
    fn a_tiny_first_dispatch_does_not_decide_for_all() {
        let mut pace = Pace::default();
        run(&mut pace, 1e13, 1e-3, 1000);
        let (longest, all, count) = run(&mut pace, 1e13, 1e-3, 1 << 46);
        assert!(longest <= 0.3 && (count as f64) < all / DISPATCH + 12.0, "{count} in {all} s, {longest} s");
    }

    #[test]
    fn a_device_that_became_slower_gets_less() {
        let mut pace = Pace::default();
        run(&mut pace, 1e12, 1e-4, 1 << 42);
        let before = pace.most(&KERNEL);
        pace.slow_down();
        assert!(pace.most(&KERNEL).abs_diff(before / 2) <= 1);
        assert!(Pace::is_late(1.6, 3) && !Pace::is_late(1.4, 3));
    }
}
