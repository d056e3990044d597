//! Goldens as frames.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]

use std::path::Path;

use remaster_picture::Frame;
use safetensors::SafeTensors;

/// A file of `testdata/colour`, read whole.
pub(crate) struct Golden(Vec<u8>);

impl Golden {
    pub(crate) fn open(name: &str) -> Golden {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/colour").join(name);
        Golden(std::fs::read(path).unwrap())
    }

    /// A tensor [t, c, h, w] as frames of c channels.
    pub(crate) fn frames(&self, tensor: &str) -> Vec<Frame> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let view = file.tensor(tensor).unwrap();
        let &[t, channels, height, width] = view.shape() else { panic!("{tensor}") };
        let (values, _) = view.data().as_chunks::<4>();
        let at = |i: usize| f32::from_le_bytes(values[i]);
        let plane = height * width;
        (0..t)
            .map(|t| {
                let value = |i: usize| at((t * channels + i % channels) * plane + i / channels);
                let data = (0..plane * channels).map(value).collect();
                Frame { width, height, channels, data }
            })
            .collect()
    }

    /// As [`Golden::frames`], from -1..1 to 0..1.
    pub(crate) fn pictures(&self, tensor: &str) -> Vec<Frame> {
        let mut frames = self.frames(tensor);
        for frame in &mut frames {
            frame.data.iter_mut().for_each(|v| *v = (*v + 1.0) / 2.0);
        }
        frames
    }
}

/// Largest and mean difference of two lists of frames where `mask`, one value a pixel, is 1.
pub(crate) fn distance(a: &[Frame], b: &[Frame], mask: Option<&[Frame]>) -> (f64, f64) {
    let (mut largest, mut sum, mut count) = (0.0f64, 0.0, 0);
    for (t, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!((a.width, a.height, a.data.len()), (b.width, b.height, b.data.len()));
        for (i, (x, y)) in a.data.iter().zip(&b.data).enumerate() {
            if mask.is_none_or(|mask| mask[t].data[i / a.channels] == 1.0) {
                let d = f64::from((x - y).abs());
                // A NaN must not pass as no difference.
                largest = if d <= largest { largest } else { d };
                sum += d;
                count += 1;
            }
        }
    }
    (largest, sum / f64::from(count.max(1)))
}
