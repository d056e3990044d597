//! The measures against values that others computed or that a formula gives.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use crate::common::{offset, picture, quiet, run, scores};
use remaster_metrics::{Axis, Borders, Metric, Options, Report};

/// Size; SSIM, PSNR of RGB and luma, CIEDE2000 mean, 95th percentile, max. Computed once with scikit-image
/// 0.26.0: `structural_similarity(gaussian_weights=True, sigma=1.5, use_sample_covariance=False)` of luma in
/// f64, `peak_signal_noise_ratio`, and `deltaE_ciede2000(rgb2lab(a), rgb2lab(b))`.
type Row = (usize, usize, f64, f64, f64, [f64; 3]);
const SKIMAGE: [Row; 3] = [
    (11, 11, 0.8345254617, 24.70168683, 27.33897319, [8.908522, 19.981887, 22.907136]),
    (17, 13, 0.8160118179, 24.59337961, 27.07212142, [7.907659, 15.689490, 25.870512]),
    (64, 48, 0.7907684229, 24.77400271, 27.37037433, [6.295294, 13.898469, 27.931464]),
];

#[test]
fn scikit_image_says_the_same() {
    for (width, height, structure, rgb, luma, [mean, p95, max]) in SKIMAGE {
        let (a, b) = (picture(width, height, 1, 0.0), picture(width, height, 7, 0.2));
        let measured = scores(width, height, &a, &b);
        let near = |what: &str, got: f64, expected: f64, tolerance: f64| {
            assert!((got - expected).abs() < tolerance, "{width} x {height} {what}: {got}, not {expected}");
        };
        // Luma is f32 here, and the pictures' sines are rounded by another library.
        near("ssim", measured.ssim.unwrap(), structure, 2e-6);
        near("psnr", measured.psnr.unwrap(), rgb, 1e-4);
        near("psnr of luma", measured.psnr_luma.unwrap(), luma, 1e-4);
        // Their white point and matrix have six digits and differ in the sixth.
        let delta = measured.delta_e.unwrap();
        near("mean", delta.mean, mean, 2e-3);
        near("p95", delta.p95, p95, 5e-3);
        near("max", delta.max, max, 5e-3);
    }
}

#[test]
fn psnr_is_its_formula() {
    let a = vec![0.5f32; 4 * 4 * 3];
    // Two levels everywhere: 20 log10(255 / 2).
    let b = vec![0.5f32 + 2.0 / 255.0; 4 * 4 * 3];
    let expected = 20.0 * (255.0f64 / 2.0).log10();
    let measured = scores(4, 4, &a, &b);
    for value in [measured.psnr, measured.psnr_luma] {
        assert!((value.unwrap() - expected).abs() < 1e-4, "{value:?}");
    }
    // Infinite.
    assert_eq!(scores(4, 4, &a, &a).psnr, None);
}

#[test]
fn ssimulacra2_falls_with_noise() {
    let a = picture(64, 48, 1, 0.0);
    let score = |noise: f32| scores(64, 48, &a, &picture(64, 48, 7, noise)).ssimulacra2.unwrap();
    assert_eq!(score(0.0), 100.0);
    let [little, more, most] = [0.02, 0.1, 0.4].map(score);
    assert!(little > more && more > most, "{little} {more} {most}");
}

#[test]
fn pooled_psnr_is_of_all_errors_together() {
    let a = vec![0.5f32; 12 * 12 * 3];
    // One frame is off by 3 levels, three are equal: the mean square is 9 / 4.
    let pair = |levels: f32| (a.clone(), vec![0.5f32 + levels / 255.0; 12 * 12 * 3]);
    let report = run(12, 12, &[0.0, 3.0, 0.0, 0.0].map(pair), quiet());
    let expected = 10.0 * (255.0f64 * 255.0 / 2.25).log10();
    assert!((report.pooled.psnr.unwrap() - expected).abs() < 1e-3, "{:?} {expected}", report.pooled);
    let stat = report.summary[&Metric::Psnr];
    assert_eq!((stat.frames, stat.worst_frame), (1, 1));
    assert_eq!(report.summary[&Metric::Ssim].worst_frame, 1);
    // To the step up at frame 1 and the step down at frame 2 the original has no match.
    let flicker: Vec<_> = report.per_frame.iter().map(|s| s.flicker.map(|f| f.round())).collect();
    assert_eq!(flicker, [None, Some(3.0), Some(3.0), Some(0.0)]);
    assert_eq!(report.per_frame[2].flicker_b.map(f64::round), Some(3.0));
    assert_eq!(report.per_frame[2].flicker_a, Some(0.0));
}

/// Six frames in tiles of 64 pixels, one of them so many levels off. Noise of 5 levels either way hides it from the eye.
fn tiled(levels: f32) -> Report {
    let (width, height) = (256, 192);
    let options = Options { borders: Some(Borders::every(64, 64, width, height)), ..quiet() };
    let noisy = |frame: u32| picture(width, height, 10 + frame, 10.0 / 255.0);
    let pair =
        |frame| (picture(width, height, 1, 0.0), offset(&noisy(frame), width, 128..192, 64..128, levels));
    run(width, height, &[0, 1, 2, 3, 4, 5].map(pair), options)
}

#[test]
fn a_tile_that_is_two_levels_off_is_found_below_noise() {
    let report = tiled(2.0);
    for (i, block) in report.drift.map.iter().enumerate() {
        let (x, y) = (i % report.drift.columns * 32, i / report.drift.columns * 32);
        let inside = (128..192).contains(&x) && (64..128).contains(&y);
        for levels in block {
            let expected = if inside { 2.0 } else { 0.0 };
            assert!((levels - expected).abs() < 0.25, "{x} {y}: {levels}");
        }
    }
    let largest = report.drift.largest.unwrap();
    assert!((128..192).contains(&largest.x) && (64..128).contains(&largest.y));
    let score = report.seams.score.unwrap();
    assert!(score > 2.0, "{score}");
    let found: Vec<_> = report.seams.strongest.iter().take(4).map(|l| (l.axis, l.at)).collect();
    for line in [(Axis::Column, 128), (Axis::Column, 192), (Axis::Row, 64), (Axis::Row, 128)] {
        assert!(found.contains(&line), "{line:?} is not in {found:?}");
    }
}

#[test]
fn noise_alone_has_no_seams() {
    let score = tiled(0.0).seams.score.unwrap();
    assert!((0.7..1.4).contains(&score), "{score}");
}
