//! Shared-statistics mode: bands with the statistics of the whole frame.

use crate::common::{Bench, WHOLE, build, direction};
use remaster_compute::{Backend, DType, HostTensor};
use remaster_model::vae::{Direction, VaeConfig};
use remaster_plan::{Bands, Candidate, Clip, Mode, Tiers};
use remaster_testkit::{Rng, nightly};

fn psnr(a: &HostTensor, b: &HostTensor) -> f64 {
    a.difference(b).psnr(2.0)
}

/// With statistics of the frame itself instead of a smaller one nothing is estimated: what is left is the
/// cut, and that must not be seen.
#[test]
fn bands_with_exact_statistics_are_the_whole_frame_to_the_bit() {
    let mut rng = Rng::new(5);
    for _ in 0..nightly(8, 24) {
        let clip = Clip::new(1 + 4 * rng.below(4), 8 * (3 + rng.below(12)), 8 * (1 + rng.below(8))).unwrap();
        let direction = direction(&mut rng);
        let build = build(DType::F32, !rng.one_in(4));
        let bench = Bench::new(&VaeConfig::tiny(), direction, clip, Backend::cpu_with(2), build);
        let (whole, _) = bench.run(&bench.plan(WHOLE)).unwrap();
        let bands = Bands { level: 1 + rng.below(3), count: 1 + rng.below(6), halo: None, reduce: 1 };
        let (mode, slice) = (Mode::SharedStats(bands), 4 * rng.below(3));
        let state = if rng.one_in(2) { Tiers::file(0) } else { Tiers::DEVICE };
        let (stream_weights, read_ahead) = (rng.one_in(2), rng.one_in(2));
        let how = Candidate { mode, slice, state, stream_weights, read_ahead, ..WHOLE };
        let plan = bench.plan(how);
        let (cut, used) = bench.run(&plan).unwrap();
        assert_eq!(cut.difference(&whole).max_abs, 0.0, "{clip:?} {direction:?} {how:?}");
        assert_eq!(used.device_peak, plan.peaks.device);
    }
}

/// How far off the estimate is, and what a smaller halo costs: `cargo test --release -p remaster-engine
/// --test all bands:: -- --nocapture` prints the figures.
#[test]
fn estimated_statistics_are_close_and_the_halo_that_reaches_is_enough() {
    for direction in [Direction::Encode, Direction::Decode] {
        let clip = Clip::new(5, 160, 96).unwrap();
        let bench = Bench::tiny(direction, clip, 2);
        let (whole, _) = bench.run(&bench.plan(WHOLE)).unwrap();
        let run = |halo, reduce| {
            let bands = Bands { level: 2, count: 4, halo, reduce };
            let how = Candidate { mode: Mode::SharedStats(bands), ..WHOLE };
            bench.run(&bench.plan(how)).unwrap().0
        };
        let mut last = 0.0;
        for halo in 0..4 {
            let db = psnr(&run(Some(halo), 1), &whole);
            println!("{} exact statistics, halo {halo}: {db:.1} dB", direction.name());
            assert!(db >= last, "a larger halo is not worse");
            last = db;
        }
        assert_eq!(last, f64::INFINITY);
        // Measured: 35.7, 29.7, 27.1 and 19.5 dB.
        let least = if direction == Direction::Encode { [33.0, 27.0] } else { [25.0, 17.0] };
        for (reduce, least) in [2, 4].into_iter().zip(least) {
            let db = psnr(&run(None, reduce), &whole);
            println!("{} statistics at 1/{reduce}: {db:.1} dB", direction.name());
            assert!(db > least, "{} at 1/{reduce}: {db:.1} dB", direction.name());
        }
    }
}
