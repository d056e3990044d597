//! Pictures by formula, so that another program can make the same ones.
#![allow(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use std::ops::Range;

use remaster_metrics::{Comparison, FrameScores, Options, Picture, Report};

/// Waves of three colours with noise of a linear congruential generator, `noise` from peak to peak.
pub(crate) fn picture(width: usize, height: usize, seed: u32, noise: f32) -> Vec<f32> {
    let mut state = seed;
    let mut data = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            let (x, y) = (x as f64, y as f64);
            let waves = [
                0.5 + 0.4 * (x * 0.21 + y * 0.13).sin(),
                0.5 + 0.4 * (x * 0.11 - y * 0.17 + 1.0).sin(),
                0.5 + 0.3 * (x * 0.05 * y * 0.05).cos(),
            ];
            for wave in waves {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let random = f64::from(state >> 8) / f64::from(1 << 24) - 0.5;
                data.push((wave + f64::from(noise) * random).clamp(0.0, 1.0) as f32);
            }
        }
    }
    data
}

/// A part of a picture that is `levels` 8-bit levels brighter.
pub(crate) fn offset(data: &[f32], width: usize, x: Range<usize>, y: Range<usize>, levels: f32) -> Vec<f32> {
    let inside = |i: usize| x.contains(&(i / 3 % width)) && y.contains(&(i / 3 / width));
    data.iter().enumerate().map(|(i, v)| if inside(i) { v + levels / 255.0 } else { *v }).collect()
}

/// Without the measures that take long.
pub(crate) fn quiet() -> Options {
    Options { ssimulacra2: false, delta_e: false, ..Options::default() }
}

/// The report on pairs of frames.
pub(crate) fn run(width: usize, height: usize, pairs: &[(Vec<f32>, Vec<f32>)], options: Options) -> Report {
    let mut comparison = Comparison::new(width, height, options).unwrap();
    for (a, b) in pairs {
        let (a, b) = (Picture::new(width, height, a).unwrap(), Picture::new(width, height, b).unwrap());
        comparison.push(a, b).unwrap();
    }
    comparison.finish()
}

/// All measures of one pair of frames.
pub(crate) fn scores(width: usize, height: usize, a: &[f32], b: &[f32]) -> FrameScores {
    run(width, height, &[(a.to_vec(), b.to_vec())], Options::default()).per_frame.remove(0)
}
