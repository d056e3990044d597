//! Frames at the edge of what is possible, and beyond.

use remaster_colour::{ColourError, Mode, correct};
use remaster_picture::Frame;

fn picture(width: usize, height: usize, seed: u32) -> Frame {
    let mut state = seed.wrapping_mul(747_796_405) | 1;
    let data = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    });
    Frame { width, height, channels: 3, data: data.take(width * height * 3).collect() }
}

fn in_range(frames: &[Frame]) -> bool {
    frames.iter().all(|f| f.data.iter().all(|v| (0.0..=1.0).contains(v)))
}

#[test]
fn any_size_any_number_of_frames() {
    for mode in Mode::ALL {
        correct(mode, &mut [], &[]).unwrap();
        for (w, h) in [(1, 1), (2, 3), (3, 2), (1, 40), (40, 1), (17, 23)] {
            for count in [1, 3] {
                let mut frames: Vec<Frame> = (0..count).map(|i| picture(w, h, i)).collect();
                let references: Vec<Frame> = (0..count).map(|i| picture(w, h, 100 + i)).collect();
                correct(mode, &mut frames, &references).unwrap();
                assert!(in_range(&frames), "{mode} {w} x {h}");
                let mut again: Vec<Frame> = (0..count).map(|i| picture(w, h, i)).collect();
                correct(mode, &mut again, &references).unwrap();
                assert_eq!(frames, again, "{mode}");
            }
        }
    }
}

#[test]
fn one_colour_becomes_the_other() {
    for mode in [Mode::Lab, Mode::Wavelet, Mode::Adain] {
        let flat = |value: [f32; 3]| Frame { width: 20, height: 13, channels: 3, data: value.repeat(260) };
        let mut frames = [flat([0.7, 0.2, 0.4])];
        correct(mode, &mut frames, &[flat([0.3, 0.35, 0.5])]).unwrap();
        for pixel in frames[0].data.as_chunks::<3>().0 {
            let off =
                remaster_testkit::largest(pixel.iter().zip([0.3, 0.35, 0.5]).map(|(a, b)| (a - b).abs()));
            assert!(off < 1e-5, "{mode}: {pixel:?}");
        }
    }
    // Grey has no saturation to match, and black no hue.
    for mode in Mode::ALL {
        for value in [0.0, 0.5, 1.0] {
            let grey = Frame { width: 20, height: 13, channels: 3, data: vec![value; 780] };
            let mut frames = [grey.clone()];
            correct(mode, &mut frames, std::slice::from_ref(&grey)).unwrap();
            assert!(frames[0].data.iter().all(|v| (v - value).abs() < 1e-5), "{mode} {value}");
        }
    }
}

#[test]
fn a_frame_that_is_right_stays() {
    for mode in Mode::ALL {
        let references = [picture(31, 22, 5), picture(31, 22, 6)];
        let mut frames = references.clone();
        correct(mode, &mut frames, &references).unwrap();
        for (a, b) in frames.iter().zip(&references) {
            let off = remaster_testkit::largest(a.data.iter().zip(&b.data).map(|(a, b)| (a - b).abs()));
            assert!(off < 1e-5, "{mode}: {off}");
        }
    }
}

#[test]
fn values_that_are_no_numbers_count_as_black_and_huge_ones_do_not_spread() {
    for mode in Mode::ALL {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN] {
            let (mut frames, mut references) = ([picture(33, 40, 1)], [picture(33, 40, 2)]);
            frames[0].data[100] = bad;
            frames[0].data[3000..3030].fill(bad);
            references[0].data[200] = bad;
            correct(mode, &mut frames, &references).unwrap();
            assert!(in_range(&frames), "{mode} {bad}");
        }
        let (mut nan, mut black) = ([picture(9, 8, 1)], [picture(9, 8, 1)]);
        nan[0].data[7] = f32::NAN;
        black[0].data[7] = 0.0;
        let references = [picture(9, 8, 2)];
        correct(mode, &mut nan, &references).unwrap();
        correct(mode, &mut black, &references).unwrap();
        assert_eq!(nan, black, "{mode}");
    }
}

#[test]
fn frames_that_do_not_fit_are_refused_with_their_numbers() {
    let said = |frames: &[Frame], references: &[Frame]| {
        let errors = Mode::ALL.map(|mode| correct(mode, &mut frames.to_vec(), references).unwrap_err());
        assert!(errors.iter().all(|e| *e == errors[0]));
        errors[0].clone()
    };
    let [a, b] = [Frame::new(4, 3, 3), Frame::new(3, 4, 3)];
    let count = said(&[a.clone(), a.clone()], std::slice::from_ref(&a));
    assert_eq!(count.to_string(), "2 frames came with 1 references; give one reference for each frame");
    let size = said(&[a.clone(), a.clone()], &[a.clone(), b]);
    assert_eq!(
        size.to_string(),
        "reference 1 is 3 x 4 pixels, but the first frame is 4 x 3; resize it to that size"
    );
    let mut short = a.clone();
    short.data.pop();
    for wrong in [short, Frame::new(4, 3, 4), Frame::new(4, 3, 1), Frame::new(0, 3, 3), Frame::default()] {
        let frame = said(std::slice::from_ref(&wrong), std::slice::from_ref(&a));
        assert!(matches!(frame, ColourError::Frame { what: "frame", index: 0, needed: 3, .. }), "{frame}");
        let reference = said(std::slice::from_ref(&a), std::slice::from_ref(&wrong));
        assert!(matches!(reference, ColourError::Frame { what: "reference", .. }), "{reference}");
    }
}
