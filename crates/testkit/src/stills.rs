//! Pictures in files.
#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;

use remaster_picture::{Frame, PictureInfo, StillFormat, StillInfo, still};

/// Codes of `depth` bits: waves with some noise.
pub fn waves(width: usize, height: usize, depth: u32) -> Frame {
    let top = ((1u32 << depth) - 1) as f32;
    let mut frame = Frame::new(width, height, 3);
    for y in 0..height {
        for (i, v) in frame.row_mut(y).iter_mut().enumerate() {
            let wave = ((i / 3 + 7 * (i % 3)) as f32 / 11.0).sin() * (y as f32 / 9.0).cos();
            let noise = ((i * 31 + y * 17) % 13) as f32 / 400.0;
            *v = ((0.5 + 0.4 * wave + noise) * top).round() / top;
        }
    }
    frame
}

/// Writes a picture in the format that its name says.
pub fn put(path: &Path, frame: &Frame, info: StillInfo) {
    let format = StillFormat::of_ending(path).unwrap();
    still::write(path, frame, format, &PictureInfo::Still(info)).unwrap();
}

/// A picture of a file, which is no EXR.
pub fn read(path: &Path) -> (Frame, StillInfo) {
    match still::read(path, 1 << 30).unwrap() {
        (frame, PictureInfo::Still(info)) => (frame, info),
        (_, PictureInfo::Exr(_)) => panic!("{} is an EXR", path.display()),
    }
}

/// How near two pictures of the same size are, in dB.
pub fn psnr(a: &Frame, b: &Frame) -> f64 {
    assert_eq!((a.width, a.height, a.channels), (b.width, b.height, b.channels));
    let sum: f64 = a.data.iter().zip(&b.data).map(|(x, y)| f64::from(x - y).powi(2)).sum();
    -10.0 * (sum / a.data.len() as f64).log10()
}
