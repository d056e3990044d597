//! Equal clips, tiny ones, none at all, and pictures that are wrong: values or typed errors, never a panic.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use crate::common::{picture, quiet, run};
use remaster_metrics::{
    BeforeAfter, Comparison, MetricsError, Options, Picture, Report, Side, drift_map, plot, sheet,
};

/// Every picture can be drawn and holds together, and the JSON and the SVG have numbers only.
fn draw(report: &Report) -> serde_json::Value {
    for image in [sheet(report, "a.mkv", "b.mkv"), drift_map(report)] {
        assert_eq!(image.data.len(), image.width * image.height * 3);
        assert!(image.width > 300 && image.height > 100);
    }
    let svg = plot(report, "a < b & \u{1}");
    assert!(svg.contains("a &lt; b &amp;") && svg.ends_with("</svg>\n"));
    assert!(!svg.contains("NaN") && !svg.contains("inf,") && !svg.contains(",inf"), "{svg}");
    let json = serde_json::to_string(report).unwrap();
    assert!(!json.contains("NaN"));
    serde_json::from_str(&json).unwrap()
}

#[test]
fn equal_clips_are_identical_and_their_psnr_is_null() {
    let frame = picture(40, 30, 1, 0.1);
    let report = run(40, 30, &vec![(frame.clone(), frame); 4], Options::default());
    assert!(report.identical);
    let json = draw(&report);
    assert_eq!(json["identical"], true);
    assert!(json["pooled"]["psnr"].is_null() && json["pooled"]["psnr_luma"].is_null());
    assert!(json["summary"].get("psnr").is_none());
    assert_eq!(json["summary"]["ssimulacra2"]["min"], 100.0);
    assert_eq!(json["summary"]["ssim"]["min"], 1.0);
    assert_eq!(json["summary"]["delta_e"]["max"], 0.0);
    assert_eq!(json["summary"]["flicker"]["max"], 0.0);
    let frame = &json["per_frame"][0];
    assert!(frame["identical"] == true && frame["psnr"].is_null());
    assert!(frame.get("flicker").is_none() && json["per_frame"][2].get("flicker_a").is_some());
    assert!(plot(&report, "").contains("nothing differs"));
}

#[test]
fn tiny_pictures_have_what_they_can_have() {
    for (width, height) in [(1, 1), (7, 5), (8, 8), (1, 40), (11, 11), (33, 2)] {
        let (a, b) = (picture(width, height, 1, 0.0), picture(width, height, 2, 0.3));
        let report = run(width, height, &vec![(a, b); 3], Options::default());
        let scores = &report.per_frame[2];
        assert_eq!(scores.ssim.is_some(), width.min(height) >= 11, "{width} x {height}");
        assert_eq!(scores.ssimulacra2.is_some(), width.min(height) >= 8, "{width} x {height}");
        assert!(scores.psnr.is_some() && scores.delta_e.is_some() && scores.flicker.is_some());
        draw(&report);
    }
}

#[test]
fn a_tall_clip_and_one_without_pictures_can_be_drawn() {
    let (a, b) = (picture(30, 700, 1, 0.0), picture(30, 700, 2, 0.3));
    let report = run(30, 700, &[(a.clone(), b.clone())], Options { cell: Some(64), ..quiet() });
    assert_eq!(report.picks.iter().map(|p| p.label).collect::<Vec<_>>(), ["worst", "detail"]);
    draw(&report);
    draw(&run(30, 700, &[(a, b)], Options { cell: None, block: 4, ..quiet() }));
}

#[test]
fn without_a_frame_there_is_an_empty_report() {
    let report = run(16, 16, &[], Options::default());
    assert!(report.frames == 0 && !report.identical && report.summary.is_empty() && report.picks.is_empty());
    draw(&report);
}

#[test]
fn a_long_clip_is_plotted_in_few_points() {
    let (a, b) = (picture(2, 2, 1, 0.0), picture(2, 2, 2, 0.3));
    let report = run(2, 2, &vec![(a, b); 5000], quiet());
    assert!(plot(&report, "long").len() < 100_000);
}

#[test]
fn what_is_not_a_number_is_named() {
    let good = picture(6, 4, 1, 0.0);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
        let mut data = good.clone();
        data[(2 * 6 + 3) * 3 + 1] = bad;
        let (good, bad) = (Picture::new(6, 4, &good).unwrap(), Picture::new(6, 4, &data).unwrap());
        let mut comparison = Comparison::new(6, 4, Options::default()).unwrap();
        comparison.push(good, good).unwrap();
        let error = comparison.push(good, bad).unwrap_err();
        let MetricsError::Value { frame: 1, side: Side::B, x: 3, y: 2, channel: 1, .. } = error else {
            panic!("{error:?}");
        };
        assert!(error.to_string().contains("frame 1 of the second clip"), "{error}");
        // The pair counts as never given.
        assert_eq!(comparison.frames(), 1);
        comparison.push(good, good).unwrap();
        let first = comparison.push(bad, good).err();
        assert!(comparison.finish().identical);
        for failed in [first, BeforeAfter::new(bad, good, String::new()).err()] {
            assert!(matches!(failed, Some(MetricsError::Value { side: Side::A, .. })), "{failed:?}");
        }
    }
}

#[test]
fn values_beyond_the_range_are_measured() {
    // Bright linear light: far out of 0 to 1, but still numbers everywhere.
    let a: Vec<f32> = picture(24, 20, 1, 0.0).iter().map(|v| v * 60_000.0 - 20_000.0).collect();
    let b: Vec<f32> = picture(24, 20, 2, 0.3).iter().map(|v| v * 60_000.0 - 20_000.0).collect();
    draw(&run(24, 20, &vec![(a, b); 3], Options::default()));
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let data = vec![0.0; 12];
    assert!(matches!(Picture::new(0, 4, &data), Err(MetricsError::Size { .. })));
    assert!(matches!(Picture::new(usize::MAX, 4, &data), Err(MetricsError::Size { .. })));
    assert!(matches!(Picture::new(3, 3, &data), Err(MetricsError::Values { values: 12, expected: 27, .. })));
    // The fields are public: a wrong one gets no further.
    let wrong = Picture { width: 3, height: 3, data: &data };
    let against = |a, b| BeforeAfter::new(a, b, String::new());
    assert!(matches!(against(wrong, wrong), Err(MetricsError::Values { .. })));
    let (wide, high) = (Picture::new(4, 1, &data).unwrap(), Picture::new(1, 4, &data).unwrap());
    assert!(matches!(against(wide, high), Err(MetricsError::Mismatch { side: Side::B, .. })));
    let mut comparison = Comparison::new(4, 1, Options::default()).unwrap();
    assert!(matches!(comparison.push(high, wide), Err(MetricsError::Mismatch { side: Side::A, .. })));
    assert!(matches!(Comparison::new(0, 1, Options::default()), Err(MetricsError::Size { .. })));
    for options in [
        Options { block: 0, ..Options::default() },
        Options { block: 5000, ..Options::default() },
        Options { cell: Some(1), ..Options::default() },
    ] {
        let error = Comparison::new(4, 1, options).err();
        assert!(matches!(error, Some(MetricsError::Setting { .. })), "{error:?}");
    }
}
