//! Resizing and padding against Pillow and torch (values stored by tools/resize_reference) and a slow twin.

use std::path::Path;

use proptest::prelude::*;
use remaster_picture::{Edges, Frame, pad, resize, resize_short, short_side};

/// A case of the reference file.
struct Case {
    before: Frame,
    after: Frame,
    kind: u32,
    options: [usize; 2],
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/resize_reference.bin");
    let bytes = std::fs::read(path).unwrap();
    let mut rest = &bytes[..];
    let mut take = |n: usize| {
        let (head, tail) = rest.split_at(n.min(rest.len()));
        rest = tail;
        head
    };
    let mut cases = Vec::new();
    loop {
        let head = take(32);
        if head.is_empty() {
            return cases;
        }
        let n: Vec<u32> = head.chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
        let [c, w, h, to_w, to_h] = [0, 1, 2, 3, 4].map(|i| n[i] as usize);
        let half = |b: &[u8]| half::f16::from_le_bytes([b[0], b[1]]).to_f32();
        let data = take(c * w * h * 2).chunks(2).map(half).collect();
        let before = Frame { width: w, height: h, channels: c, data };
        let data =
            take(c * to_w * to_h * 4).chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        let after = Frame { width: to_w, height: to_h, channels: c, data };
        cases.push(Case { before, after, kind: n[5], options: [n[6] as usize, n[7] as usize] });
    }
}

fn distance(a: &Frame, b: &Frame) -> f32 {
    assert_eq!((a.width, a.height, a.channels), (b.width, b.height, b.channels));
    assert_eq!(a.data.len(), b.data.len());
    remaster_testkit::largest(a.data.iter().zip(&b.data).map(|(a, b)| (a - b).abs()))
}

#[test]
fn a_plane_is_resized_as_a_channel_is() {
    let rgb =
        Frame { width: 9, height: 5, channels: 3, data: (0..135).map(|i| (i * 37 % 101) as f32).collect() };
    let plane = |frame: &Frame| {
        let data = frame.data.iter().skip(1).step_by(3).copied().collect();
        Frame { channels: 1, data, ..*frame }
    };
    for (w, h) in [(4, 13), (20, 2), (9, 7), (9, 5), (1, 1)] {
        assert_eq!(resize(&plane(&rgb), w, h), plane(&resize(&rgb, w, h)), "{w} x {h}");
    }
}

#[test]
fn resizing_and_padding_equal_pillow_and_torch() {
    let cases = cases();
    let mut worst = 0.0f32;
    for case in &cases {
        let [a, b] = case.options;
        let got = match case.kind {
            0 => resize(&case.before, case.after.width, case.after.height),
            1 => resize_short(&case.before, a, Some(b)),
            _ => pad(&case.before, a, Edges::Black),
        };
        let off = distance(&got, &case.after);
        assert!(off < 1.0 / 1024.0, "{} x {}: {off}", case.before.width, case.before.height);
        worst = worst.max(off);
    }
    println!("largest distance in {} cases: {worst:e}", cases.len());
    // The promise is 1/1024; f32 sums reach this.
    assert!(cases.len() == 23 && worst < 1e-5);
}

/// One weight, from the definition.
fn weight(from: usize, to: usize, i: usize, x: usize) -> f64 {
    let step = from as f64 / to as f64;
    let widen = step.max(1.0);
    let centre = (i as f64 + 0.5) * step;
    let d = ((x as f64 + 0.5 - centre) / widen).abs();
    match d {
        d if d < 1.0 => 1.5 * d.powi(3) - 2.5 * d.powi(2) + 1.0,
        d if d < 2.0 => -0.5 * d.powi(3) + 2.5 * d.powi(2) - 4.0 * d + 2.0,
        _ => 0.0,
    }
}

/// Both axes at once, every input pixel for every output pixel.
fn slow(frame: &Frame, width: usize, height: usize) -> Frame {
    let mut out = Frame::new(width, height, frame.channels);
    for y in 0..height {
        for x in 0..width {
            for c in 0..frame.channels {
                let (mut sum, mut all) = (0.0, 0.0);
                for v in 0..frame.height {
                    for u in 0..frame.width {
                        let w = weight(frame.width, width, x, u) * weight(frame.height, height, y, v);
                        sum += w * f64::from(frame.pixel(u, v)[c]);
                        all += w;
                    }
                }
                out.row_mut(y)[x * frame.channels + c] = (sum / all) as f32;
            }
        }
    }
    out
}

fn noise(width: usize, height: usize, channels: usize, seed: usize) -> Frame {
    let value = |i: usize| ((i * 7919 + seed * 104729) % 1009) as f32 / 1009.0;
    Frame { width, height, channels, data: (0..width * height * channels).map(value).collect() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn resizing_equals_the_slow_twin(
        w in 1usize..20, h in 1usize..20, to_w in 1usize..20, to_h in 1usize..20, alpha: bool, seed in 0usize..1000,
    ) {
        let frame = noise(w, h, 3 + usize::from(alpha), seed);
        let off = distance(&resize(&frame, to_w, to_h), &slow(&frame, to_w, to_h));
        prop_assert!(off < 2e-6, "{w} x {h} to {to_w} x {to_h}: {off}");
    }

    #[test]
    fn sizes_follow_the_rule_in_floats(
        w in 1usize..9000, h in 1usize..9000, short in 1usize..3000, max in 1usize..5000,
    ) {
        // Python's own arithmetic: int() cuts, round() takes halves to even.
        let (short_f, max_f) = (short as f64, max as f64);
        let (least, most) = (w.min(h) as f64, w.max(h) as f64);
        let long = (short_f * most / least).trunc();
        let first = if w <= h { [short_f, long] } else { [long, short_f] };
        prop_assert_eq!(short_side([w, h], short, None).map(|v| v as f64), first);
        let longest = first[0].max(first[1]);
        let last = first.map(|v| if longest > max_f { (v * max_f / longest).round_ties_even().max(1.0) } else { v });
        prop_assert_eq!(short_side([w, h], short, Some(max)).map(|v| v as f64), last);
    }
}

#[test]
fn sizes_of_known_pictures() {
    assert_eq!(short_side([1920, 1080], 720, None), [1280, 720]);
    assert_eq!(short_side([1080, 1920], 720, None), [720, 1280]);
    assert_eq!(short_side([854, 480], 1080, None), [1921, 1080]);
    assert_eq!(short_side([854, 480], 1080, Some(1920)), [1920, 1079]);
    // 5 * 30 / 12 is 12.5 and goes to the even 12.
    assert_eq!(short_side([12, 5], 5, Some(30)), [12, 5]);
    assert_eq!(short_side([60, 25], 25, Some(30)), [30, 12]);
    assert_eq!(short_side([1920, 1080], 720, Some(0)), [1280, 720]);
    assert_eq!(short_side([10000, 1], 1, Some(100)), [100, 1]);
    assert_eq!(short_side([0, 5], 720, None), [0, 5]);
}

#[test]
fn the_same_size_is_the_same_picture() {
    let frame = noise(13, 7, 4, 1);
    assert_eq!(resize(&frame, 13, 7), frame);
    assert_eq!(resize_short(&frame, 7, None), frame);
}

#[test]
fn a_flat_picture_stays_flat() {
    for (w, h) in [(3, 40), (50, 2), (7, 7), (1, 1)] {
        let frame = Frame { width: 9, height: 11, channels: 3, data: vec![0.7; 9 * 11 * 3] };
        assert!(resize(&frame, w, h).data.iter().all(|v| (v - 0.7).abs() < 1e-6));
    }
}

#[test]
fn nothing_is_no_panic() {
    assert!(resize(&Frame::new(3, 3, 3), 0, 4).data.is_empty());
    assert_eq!(resize(&Frame::new(0, 3, 3), 2, 2).data, [0.0; 12]);
}
