//! Corrections against those of the original.

use crate::common::{Golden, distance};
use remaster_colour::{Mode, correct};

/// Largest and mean difference allowed, for values from -1 to 1: wavelet and adain four times what f32 against f64
/// shows; the others 3 to 4 times (7e-5), because neighbouring ranks change places.
fn tolerance(mode: Mode) -> (f64, f64) {
    match mode {
        Mode::Wavelet | Mode::Adain | Mode::None => (2e-6, 2e-6),
        Mode::WaveletAdaptive => (2e-4, 2e-6),
        Mode::Lab | Mode::Hsv => (3e-4, 2e-6),
    }
}

#[test]
fn colours_are_those_of_the_original() {
    for file in ["color_t1", "color_t5", "color_t1_clamped"] {
        let golden = Golden::open(&format!("{file}.safetensors"));
        let references = golden.pictures("style");
        for mode in Mode::ALL {
            if mode == Mode::None {
                continue;
            }
            let mut frames = golden.pictures("content");
            correct(mode, &mut frames, &references).unwrap();
            // The original sorts in no fixed order: the mask is where that makes no difference.
            let mask = mode.pools().then(|| golden.frames(&format!("{mode}_mask")));
            let mut expected = golden.pictures(mode.name());
            // It leaves the clamping to the next step.
            expected.iter_mut().for_each(|f| f.data.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0)));
            let (largest, mean) = distance(&frames, &expected, mask.as_deref());
            let (largest, mean) = (2.0 * largest, 2.0 * mean);
            println!("{file} {mode}: largest {largest:.2e}, mean {mean:.2e}");
            let (most, most_mean) = tolerance(mode);
            assert!(largest <= most && mean <= most_mean, "{file} {mode}: {largest:.2e}, mean {mean:.2e}");
        }
    }
}
