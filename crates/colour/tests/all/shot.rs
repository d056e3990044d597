//! A shot in two passes against the same frames in one.

use crate::common::{Golden, distance};
use remaster_colour::{ColourError, Mode, ShotStatistics, correct};
use remaster_picture::Frame;

fn two_passes(mode: Mode, frames: &mut [Frame], references: &[Frame]) -> Result<(), ColourError> {
    let mut statistics = ShotStatistics::new(mode);
    for (frame, reference) in frames.iter().zip(references) {
        statistics.add(frame, reference)?;
    }
    let maps = statistics.finish();
    for (frame, reference) in frames.iter_mut().zip(references) {
        maps.apply(frame, reference)?;
    }
    Ok(())
}

#[test]
fn histograms_come_close_to_exact_ranks_on_a_real_clip() {
    for file in ["color_t1", "color_t5", "color_t1_clamped"] {
        let golden = Golden::open(&format!("{file}.safetensors"));
        let references = golden.pictures("style");
        for mode in Mode::ALL {
            let (mut exact, mut close) = (golden.pictures("content"), golden.pictures("content"));
            correct(mode, &mut exact, &references).unwrap();
            two_passes(mode, &mut close, &references).unwrap();
            let mask = mode.pools().then(|| golden.frames(&format!("{mode}_mask")));
            let (largest, mean) = distance(&exact, &close, mask.as_deref());
            println!("{file} {mode}: largest {largest:.2e}, mean {mean:.2e}");
            // Hues of a hundred pixels have ranks far apart; between them one takes the nearest, the other the mean.
            let (most, most_mean) = match mode {
                Mode::Lab => (2e-3, 2e-5),
                Mode::Hsv | Mode::WaveletAdaptive => (0.08, 1e-4),
                Mode::Wavelet | Mode::Adain | Mode::None => (0.0, 0.0),
            };
            assert!(largest <= most && mean <= most_mean, "{file} {mode}: {largest:.2e}, mean {mean:.2e}");
        }
    }
}

#[test]
fn odd_frames_are_corrected_or_refused() {
    for mode in Mode::ALL {
        two_passes(mode, &mut [], &[]).unwrap();
        for (w, h) in [(1, 1), (2, 3), (9, 1)] {
            let mut frame = Frame::new(w, h, 3);
            frame.data[0] = f32::NAN;
            frame.data[1] = f32::INFINITY;
            let mut reference = Frame::new(w, h, 3);
            reference.data.fill(0.5);
            reference.data[2] = f32::NEG_INFINITY;
            two_passes(mode, std::slice::from_mut(&mut frame), &[reference]).unwrap();
            assert!(frame.data.iter().all(|v| (0.0..=1.0).contains(v)), "{mode} {w} x {h}: {frame:?}");
        }
        let size = two_passes(mode, &mut [Frame::new(2, 3, 3)], &[Frame::new(3, 2, 3)]);
        assert!(matches!(size, Err(ColourError::Size { what: "reference", index: 0, .. })), "{mode}");
        let maps = ShotStatistics::new(mode).finish();
        let grey = Frame { width: 2, height: 1, channels: 3, data: vec![0.5; 6] };
        let mut frame = grey.clone();
        // Maps of a shot without frames leave colours as they are.
        maps.apply(&mut frame, &grey).unwrap();
        assert!(frame.data.iter().all(|v| (v - 0.5).abs() < 1e-5), "{mode}: {frame:?}");
        assert!(maps.apply(&mut frame, &Frame::new(2, 1, 4)).is_err());
    }
}
