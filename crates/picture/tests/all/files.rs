//! PNG and EXR files: what is written comes back, and no file can do harm.

use proptest::prelude::*;
use remaster_picture::exr::ExrInfo;
use remaster_picture::still;
use remaster_picture::{Frame, PictureError, PictureInfo, StillFormat, StillInfo};

use crate::hostile::mended;

const MOST: u64 = 1 << 30;

/// The doors of the two formats, through the one of all.
mod png {
    use super::*;

    pub(crate) fn encode(frame: &Frame, info: &StillInfo) -> Result<Vec<u8>, PictureError> {
        still::encode(frame, StillFormat::Png, &PictureInfo::Still(info.clone()))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<(Frame, StillInfo), PictureError> {
        match still::decode(bytes, MOST)? {
            (frame, PictureInfo::Still(info)) => Ok((frame, info)),
            (_, PictureInfo::Exr(_)) => panic!("a PNG is no EXR"),
        }
    }
}

mod exr {
    use super::*;

    pub(crate) fn encode(frame: &Frame, info: &ExrInfo) -> Result<Vec<u8>, PictureError> {
        still::encode(frame, StillFormat::Exr, &PictureInfo::Exr(*info))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<(Frame, ExrInfo), PictureError> {
        match still::decode(bytes, MOST)? {
            (frame, PictureInfo::Exr(info)) => Ok((frame, info)),
            (_, PictureInfo::Still(_)) => panic!("an EXR is no PNG"),
        }
    }
}

/// A frame whose values are codes of `depth` bits.
fn codes(width: usize, height: usize, channels: usize, depth: u32, seed: u64) -> Frame {
    let top = (1u32 << depth) - 1;
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) as u32 & top) as f32 / top as f32
    };
    Frame { width, height, channels, data: (0..width * height * channels).map(|_| next()).collect() }
}

/// A PNG made by hand of the `png` crate, with raw values.
fn raw_png(
    size: [u32; 2],
    color: ::png::ColorType,
    depth: ::png::BitDepth,
    data: &[u8],
    palette: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut out, size[0], size[1]);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if !palette.is_empty() {
        encoder.set_palette(palette.to_vec());
    }
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(data).unwrap();
    writer.finish().unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_png_comes_back_to_the_bit(w in 1usize..40, h in 1usize..40, alpha: bool, deep: bool, seed: u64) {
        let (channels, depth) = (3 + usize::from(alpha), if deep { 16 } else { 8 });
        let frame = codes(w, h, channels, depth, seed);
        let (back, info) = png::decode(&png::encode(&frame, &StillInfo::srgb(depth)).unwrap()).unwrap();
        prop_assert_eq!(&back, &frame);
        prop_assert_eq!(info, StillInfo { alpha, ..StillInfo::srgb(depth) });
    }

    #[test]
    fn an_exr_comes_back_to_the_bit(w in 1usize..40, h in 1usize..40, alpha: bool, wide: bool, seed: u64) {
        let mut frame = codes(w, h, 3 + usize::from(alpha), 10, seed);
        // Beyond 0 to 1, and exact in 16 bits: ten bits of mantissa.
        frame.data.iter_mut().for_each(|v| *v = (*v * 1023.0).round() * 0.25 - 64.0);
        if wide {
            frame.data.iter_mut().for_each(|v| *v += 1.0 / 1024.0);
        }
        let info = ExrInfo { depth: if wide { 32 } else { 16 }, aspect: 1.5, chromaticities: Some([0.25; 8]) };
        let (back, said) = exr::decode(&exr::encode(&frame, &info).unwrap()).unwrap();
        prop_assert_eq!(&back, &frame);
        prop_assert_eq!(said, info);
    }
}

#[test]
fn files_are_written_whole_and_errors_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let (path, linear) = (folder.path().join("a.png"), folder.path().join("a.exr"));
    let frame = codes(5, 4, 3, 8, 1);
    let png = PictureInfo::Still(StillInfo::srgb(8));
    let wide = PictureInfo::Exr(ExrInfo { depth: 32, ..ExrInfo::default() });
    still::write(&path, &frame, StillFormat::Png, &png).unwrap();
    still::write(&linear, &frame, StillFormat::Exr, &wide).unwrap();
    assert_eq!(still::read(&path, MOST).unwrap(), (frame.clone(), png.clone()));
    assert_eq!(still::read(&linear, MOST).unwrap(), (frame.clone(), wide));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);

    let missing = folder.path().join("none").join("a.png");
    assert!(matches!(still::read(&missing, MOST), Err(PictureError::Read { .. })));
    let unwritten = still::write(&missing, &frame, StillFormat::Png, &png);
    assert!(matches!(unwritten, Err(PictureError::Write { .. })));
    std::fs::write(&path, "words").unwrap();
    assert!(matches!(still::read(&path, MOST), Err(PictureError::File { .. })));
    assert!(still::read(folder.path(), MOST).is_err());
}

#[test]
fn what_a_png_says_about_colour_is_kept() {
    let frame = codes(3, 3, 3, 16, 1);
    let none = StillInfo { depth: 16, ..StillInfo::default() };
    for info in [
        none.clone(),
        StillInfo { srgb: Some(3), ..none.clone() },
        StillInfo { gamma: Some(45455), ..none.clone() },
        StillInfo {
            chromaticities: Some([31270, 32900, 64000, 33000, 21000, 71000, 15000, 6000]),
            ..none.clone()
        },
        StillInfo { icc: Some([&[7; 16][..], b"RGB ", &[7; 200]].concat()), ..none.clone() },
        StillInfo { cicp: Some([9, 16, 0, 1]), ..none.clone() },
        // Limited range: the codes are other ones, the values the same.
        StillInfo { cicp: Some([1, 13, 0, 0]), srgb: Some(0), ..none.clone() },
    ] {
        let (back, said) = png::decode(&png::encode(&frame, &info).unwrap()).unwrap();
        assert_eq!(said, info);
        for (a, b) in back.data.iter().zip(&frame.data) {
            assert!((a - b).abs() < 1e-5, "{info:?}");
        }
    }
    // A matrix other than RGB does not exist in PNG.
    let info = StillInfo { cicp: Some([9, 16, 9, 1]), ..none };
    assert_eq!(png::decode(&png::encode(&frame, &info).unwrap()).unwrap().1.cicp, Some([9, 16, 0, 1]));
}

#[test]
fn every_kind_of_png_is_read() {
    use ::png::{BitDepth, ColorType};
    let grey = |v: f32| vec![v; 3];
    let read = |size, color, depth, data: &[u8], palette: &[u8]| {
        png::decode(&raw_png(size, color, depth, data, palette)).unwrap()
    };
    let (frame, info) = read([2, 1], ColorType::Grayscale, BitDepth::Eight, &[0, 255], &[]);
    let expected = (3, [grey(0.0), grey(1.0)].concat(), true, false);
    assert_eq!((frame.channels, frame.data, info.gray, info.alpha), expected);
    let (frame, info) = read([1, 1], ColorType::GrayscaleAlpha, BitDepth::Eight, &[51, 102], &[]);
    assert_eq!((frame.channels, frame.data, info.alpha), (4, vec![0.2, 0.2, 0.2, 0.4], true));
    let deep = [0x33, 0x33, 0xff, 0xff];
    let (frame, info) = read([1, 1], ColorType::GrayscaleAlpha, BitDepth::Sixteen, &deep, &[]);
    assert_eq!((frame.data, info.depth), (vec![0.2, 0.2, 0.2, 1.0], 16));
    let (frame, info) = read([3, 1], ColorType::Grayscale, BitDepth::One, &[0b0100_0000], &[]);
    assert_eq!((frame.data, info.depth), ([grey(0.0), grey(1.0), grey(0.0)].concat(), 1));
    let palette = [255, 0, 0, 0, 0, 255];
    let (frame, info) = read([2, 1], ColorType::Indexed, BitDepth::Eight, &[1, 0], &palette);
    assert_eq!((frame.data, info.gray), (vec![0.0, 0.0, 1.0, 1.0, 0.0, 0.0], false));
    let (frame, _) = read([1, 1], ColorType::Rgba, BitDepth::Eight, &[255, 0, 51, 0], &[]);
    assert_eq!(frame.data, [1.0, 0.0, 0.2, 0.0]);
}

#[test]
fn other_depths_are_refused() {
    let frame = Frame::new(2, 2, 3);
    for depth in [0, 1, 10, 32] {
        let info = StillInfo { depth, ..StillInfo::default() };
        assert!(matches!(png::encode(&frame, &info), Err(PictureError::Depth { .. })));
    }
    assert!(matches!(
        exr::encode(&frame, &ExrInfo { depth: 8, ..ExrInfo::default() }),
        Err(PictureError::Depth { .. })
    ));
    let nothing = Frame::new(0, 2, 3);
    assert!(png::encode(&nothing, &StillInfo::srgb(8)).is_err());
    assert!(exr::encode(&nothing, &ExrInfo::default()).is_err());
}

/// `file` with a chunk's bytes changed and its checksum made good again.
fn with_header(file: &[u8], change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut file = file.to_vec();
    change(&mut file[16..29]);
    mended(&file)
}

#[test]
fn a_small_png_that_claims_to_be_huge_is_refused_at_once() {
    let file = png::encode(&codes(4, 4, 3, 8, 1), &StillInfo::srgb(8)).unwrap();
    let sized = |w: u32, h: u32| {
        with_header(&file, |head| {
            head[..4].copy_from_slice(&w.to_be_bytes());
            head[4..8].copy_from_slice(&h.to_be_bytes());
        })
    };
    for (w, h) in [(0x7fff_ffff, 0x7fff_ffff), (1, 0x7fff_ffff), (20_000, 20_000)] {
        let error = png::decode(&sized(w, h)).unwrap_err();
        assert!(matches!(error, PictureError::TooLarge { .. }), "{error}");
    }
    let error = png::decode(&sized(10_000, 10_000)).unwrap_err();
    assert!(matches!(error, PictureError::Implausible { .. }), "{error}");
    for (w, h) in [(0, 4), (4, 0), (4, 5), (5, 4)] {
        let error = png::decode(&sized(w, h)).unwrap_err();
        assert!(matches!(error, PictureError::Damaged { .. }), "{error}");
    }
}

#[test]
fn a_small_exr_that_claims_to_be_huge_is_refused_at_once() {
    let file = exr::encode(&codes(4, 4, 3, 8, 1), &ExrInfo::default()).unwrap();
    // A window is x and y from, x and y to, after its name, type and size.
    let windows: Vec<usize> =
        (0..file.len() - 6).filter(|i| file[*i..].starts_with(b"box2i\0")).map(|i| i + 10).collect();
    assert_eq!(windows.len(), 2);
    let sized = |w: i32, h: i32| {
        let mut file = file.clone();
        for at in &windows {
            file[at + 8..at + 12].copy_from_slice(&w.to_le_bytes());
            file[at + 12..at + 16].copy_from_slice(&h.to_le_bytes());
        }
        file
    };
    exr::decode(&sized(3, 3)).unwrap();
    for (w, h) in [
        (i32::MAX, i32::MAX),
        (i32::MAX, 0),
        (0, 1 << 30),
        (20_000, 20_000),
        (10_000, 10_000),
        (-5, 3),
        (3, 9),
    ] {
        assert!(exr::decode(&sized(w, h)).is_err(), "{w} {h}");
    }
    let error = exr::decode(&sized(20_000, 20_000)).unwrap_err();
    assert!(matches!(error, PictureError::TooLarge { .. }), "{error}");
    let error = exr::decode(&sized(10_000, 10_000)).unwrap_err();
    assert!(matches!(error, PictureError::Implausible { .. }), "{error}");
}

#[test]
fn an_exr_shows_its_display_window() {
    let frame = codes(4, 4, 3, 8, 1);
    let file = exr::encode(&frame, &ExrInfo { depth: 32, ..ExrInfo::default() }).unwrap();
    let name = b"displayWindow\0box2i\0";
    let at = (0..file.len()).find(|i| file[*i..].starts_with(name)).unwrap() + name.len() + 4;
    // From (-1, 2) to (4, 4): a column before and one after, the last two rows and one below.
    let mut moved = file.clone();
    for (i, v) in [-1i32, 2, 4, 4].into_iter().enumerate() {
        moved[at + 4 * i..at + 4 * i + 4].copy_from_slice(&v.to_le_bytes());
    }
    let (back, _) = exr::decode(&moved).unwrap();
    assert_eq!((back.width, back.height), (6, 3));
    for y in 0..3 {
        for x in 0..6usize {
            let expected = match (x.checked_sub(1), y + 2) {
                (Some(x), y) if x < 4 && y < 4 => frame.pixel(x, y).to_vec(),
                _ => vec![0.0; 3],
            };
            assert_eq!(back.pixel(x, y), expected, "{x} {y}");
        }
    }
}

/// Cut at every place and changed at every byte: an error or a picture, never a panic, never for long.
fn survives(file: &[u8], decode: impl Fn(&[u8]) -> Option<PictureError>) {
    for end in 0..file.len() {
        if let Some(error) = decode(&file[..end]) {
            assert!(!matches!(error, PictureError::Frame { .. } | PictureError::Bytes { .. }), "{error}");
        }
    }
    let mut seed = 1u64;
    for at in 0..file.len() {
        for _ in 0..4 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let mut file = file.to_vec();
            file[at] = (seed >> 56) as u8;
            if seed >> 40 & 3 == 0 {
                let other = (seed >> 8) as usize % file.len();
                file[other] ^= (seed >> 48) as u8;
            }
            decode(&file);
        }
    }
}

#[test]
fn a_damaged_png_is_an_error() {
    for (channels, depth) in [(3, 8), (4, 16)] {
        let file = png::encode(&codes(6, 5, channels, depth, 3), &StillInfo::srgb(depth)).unwrap();
        survives(&file, |bytes| png::decode(bytes).err());
        // The same with checksums that fit, where the header lies.
        for at in 0..13 {
            for value in 0..=255 {
                let _ = png::decode(&with_header(&file, |head| head[at] = value));
            }
        }
    }
    assert!(png::decode(b"").is_err() && png::decode(b"not a PNG, only words").is_err());
}

#[test]
fn a_damaged_exr_is_an_error() {
    for (channels, depth) in [(3, 16), (4, 32)] {
        let file =
            exr::encode(&codes(6, 5, channels, 8, 3), &ExrInfo { depth, ..ExrInfo::default() }).unwrap();
        survives(&file, |bytes| exr::decode(bytes).err());
    }
    assert!(exr::decode(b"").is_err() && exr::decode(b"not an EXR, only words").is_err());
}
