//! Clips whose length is only known at their end.

use crate::common::{Bench, WHOLE, direction};
use remaster_compute::HostTensor;
use remaster_engine::MemoryClip;
use remaster_model::vae::Direction;
use remaster_plan::{Candidate, Clip, INPUT, Mode, Tiers};
use remaster_testkit::{Rng, nightly};

/// A plan for a clip of unknown length is enough for every length, and gives the bits of the uncut clip.
#[test]
fn an_open_end_fits_wherever_it_comes() {
    let mut rng = Rng::new(31);
    // Sizes at which a slice that was cut short did not fit: small tensors lie in another order than large ones.
    let mut cases = vec![(Direction::Decode, [208, 352], 16, 13), (Direction::Encode, [208, 352], 16, 13)];
    for _ in 0..nightly(6, 14) {
        let size = [8 * (1 + rng.below(8)), 8 * (1 + rng.below(8))];
        cases.push((direction(&mut rng), size, 4 * (1 + rng.below(6)), 1 + 4 * rng.below(11)));
    }
    for (direction, [height, width], slice, frames) in cases {
        let guess = Clip::new(1 + 4 * rng.below(8), height, width).unwrap();
        let mut bench = Bench::tiny(direction, guess, 2);
        bench.task.job.open_ended = true;
        let mode = if rng.one_in(3) { Mode::Exact { stripes: 3 } } else { Mode::Whole };
        let state = if rng.one_in(3) { Tiers::file(0) } else { Tiers::DEVICE };
        let plan = bench.plan(Candidate { slice, mode, state, ..WHOLE });
        let real = Clip::new(frames, height, width).unwrap();
        let whole = Bench::tiny(direction, real, 2);
        let (expected, _) = whole.run(&whole.plan(WHOLE)).unwrap();
        let (mut source, mut sink) = whole.ends();
        let used = bench.task.run(&plan, &mut source, &mut sink, &mut |_| ());
        let about = format!("{direction:?} {height} x {width}, slices of {slice}, {frames} frames");
        let used = used.unwrap_or_else(|e| panic!("{about}: {e}"));
        assert!(used.device_peak <= plan.peaks.device);
        assert_eq!(sink.clip, expected, "{about}");
        let input = bench.task.job.network.frames(INPUT, real.cells().steps);
        assert_eq!(whole.clip.shape.t, input);
    }
}

/// A source that ends between two steps is not whole.
#[test]
fn an_end_inside_a_step_is_an_error() {
    let clip = Clip::new(9, 16, 16).unwrap();
    let mut bench = Bench::tiny(Direction::Encode, clip, 1);
    bench.task.job.open_ended = true;
    let plan = bench.plan(Candidate { slice: 8, ..WHOLE });
    for frames in [2, 3, 7, 12] {
        let shape = remaster_compute::Shape { t: frames, ..bench.clip.shape };
        let (mut source, mut sink) = (MemoryClip::source(HostTensor::zeros(shape)), MemoryClip::sink());
        let error = bench.task.run(&plan, &mut source, &mut sink, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("the source ended"), "{error}");
    }
}
