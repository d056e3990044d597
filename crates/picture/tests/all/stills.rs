//! Stills of every kind: what is written comes back, descriptions go along, odd files are read right or refused in
//! words.

use std::path::Path;
use std::process::{Command, Output};

use remaster_picture::still::{self, decode, encode};
use remaster_picture::{Frame, PictureError, PictureInfo, StillFormat, StillInfo};
use remaster_testkit::stills::psnr;

const MOST: u64 = 1 << 30;
const LOSSLESS: [StillFormat; 3] = [StillFormat::Png, StillFormat::WebP, StillFormat::Tiff];

/// A frame whose values are codes of `depth` bits, smooth with some noise.
fn picture(width: usize, height: usize, channels: usize, depth: u32) -> Frame {
    let top = ((1u32 << depth) - 1) as f32;
    let mut seed = 1u32;
    let mut frame = Frame::new(width, height, channels);
    for y in 0..height {
        for (i, v) in frame.row_mut(y).iter_mut().enumerate() {
            seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
            let (x, c) = (i / channels, i % channels);
            let wave = ((x + 3 * c) as f32 / 9.0).sin() * (y as f32 / 7.0).cos();
            *v = ((0.5 + 0.4 * wave + (seed >> 24) as f32 / 4096.0) * top).round() / top;
        }
    }
    frame
}

fn still(info: PictureInfo) -> StillInfo {
    match info {
        PictureInfo::Still(info) => info,
        PictureInfo::Exr(_) => panic!("no EXR was written"),
    }
}

fn srgb(depth: u32) -> PictureInfo {
    PictureInfo::Still(StillInfo::srgb(depth))
}

fn profile(space: &[u8; 4], length: usize) -> Vec<u8> {
    let mut profile = vec![7; length.max(128)];
    profile[16..20].copy_from_slice(space);
    profile
}

/// An EXIF block: make, orientation, and an exposure in an inner directory.
fn exif(orientation: u8) -> Vec<u8> {
    let mut block = b"II*\0\x08\0\0\0\x03\0".to_vec();
    block.extend(b"\x0f\x01\x02\0\x03\0\0\0Me\0\0");
    block.extend([0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0]);
    block.extend(b"\x69\x87\x04\0\x01\0\0\0\x32\0\0\0\0\0\0\0");
    block.extend(b"\x01\0\x27\x88\x03\0\x01\0\0\0\x90\x01\0\0\0\0\0\0");
    block
}

#[test]
fn lossless_files_come_back_to_the_bit() {
    for format in LOSSLESS {
        for depth in if format.is_deep() { &[8, 16][..] } else { &[8] } {
            for (w, h, channels) in [(1, 1, 3), (37, 23, 3), (40, 16, 4), (300, 5, 4), (3, 200, 3)] {
                let frame = picture(w, h, channels, *depth);
                let (back, info) = decode(&encode(&frame, format, &srgb(*depth)).unwrap(), MOST).unwrap();
                assert!(back == frame, "{format:?} {w} x {h} x {channels}, {depth} bits");
                let info = still(info);
                assert_eq!((info.depth, info.alpha, info.gray), (*depth, channels == 4, false), "{format:?}");
            }
        }
    }
}

/// Measured: 36.8 dB for this picture, whose three colours have noise of their own; photos are above 40 dB.
#[test]
fn a_jpeg_is_as_near_as_quality_95_without_subsampling_is() {
    let frame = picture(131, 77, 3, 8);
    let file = encode(&frame, StillFormat::Jpeg, &srgb(8)).unwrap();
    let (back, _) = decode(&file, MOST).unwrap();
    assert!(psnr(&frame, &back) > 36.5, "{}", psnr(&frame, &back));
    // One sample of chroma for each of luma: the factors of the three components are all 1 x 1.
    let header = file.windows(4).position(|w| w == [0xff, 0xc0, 0, 17]).unwrap();
    assert_eq!([11, 14, 17].map(|at| file[header + at]), [0x11; 3]);
    // Without the noise.
    let smooth = remaster_picture::resize(&picture(20, 12, 3, 8), 131, 77);
    let (back, _) = decode(&encode(&smooth, StillFormat::Jpeg, &srgb(8)).unwrap(), MOST).unwrap();
    assert!(psnr(&smooth, &back) > 44.0, "{}", psnr(&smooth, &back));
    // A red pixel beside a blue one stays red: with shared chroma it would not.
    let mut stripes = Frame::new(16, 16, 3);
    for (i, pixel) in stripes.data.chunks_exact_mut(3).enumerate() {
        pixel[if i % 2 == 0 { 0 } else { 2 }] = 1.0;
    }
    let (back, _) = decode(&encode(&stripes, StillFormat::Jpeg, &srgb(8)).unwrap(), MOST).unwrap();
    assert!(stripes.data.iter().zip(&back.data).all(|(a, b)| (a - b).abs() < 0.1));
}

/// What ffmpeg reads in a file, in 8 bits.
fn shown(path: &Path) -> Output {
    let pixels = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-sws_flags", "accurate_rnd+full_chroma_int", "-"];
    Command::new("ffmpeg").args(["-v", "error", "-i"]).arg(path).args(pixels).output().unwrap()
}

fn codes(frame: &Frame) -> Vec<u8> {
    frame.data.iter().map(|v| (v * 255.0).round() as u8).collect()
}

/// Another decoder sees the same.
#[test]
fn ffmpeg_reads_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let frame = picture(67, 45, 3, 8);
    let codes = codes(&frame);
    for (name, format, depth) in [
        ("a.jpg", StillFormat::Jpeg, 8),
        ("a.webp", StillFormat::WebP, 8),
        ("a.tif", StillFormat::Tiff, 8),
        ("b.tif", StillFormat::Tiff, 16),
        ("a.png", StillFormat::Png, 8),
    ] {
        let path = folder.path().join(name);
        let (exif, icc, xmp) = (exif(1), profile(b"RGB ", 200), b"<x:xmpmeta/>");
        let (exif, icc, xmp) = (Some(exif), Some(icc), Some(xmp.to_vec()));
        let info = StillInfo { exif, xmp, icc, ..StillInfo::srgb(depth) };
        still::write(&path, &frame, format, &PictureInfo::Still(info)).unwrap();
        let run = shown(&path);
        assert_eq!(run.stdout.len(), codes.len(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        let most = run.stdout.iter().zip(&codes).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        // ffmpeg rounds 16 bits down to 8 in its own way.
        let allowed = match name {
            "a.jpg" => 24,
            "b.tif" => 1,
            _ => 0,
        };
        assert!(most <= allowed, "{name} is off by {most}");
    }
}

/// What ffmpeg writes is read as ffmpeg reads it: progressive and subsampled JPEG aside, to the bit.
#[test]
fn what_ffmpeg_writes_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let source = ["-v", "error", "-f", "lavfi", "-i", "testsrc2=size=60x44", "-frames:v", "1"];
    for (name, options, most) in [
        ("a.jpg", &["-pix_fmt", "yuvj420p", "-q:v", "2"][..], 64),
        ("b.jpg", &["-pix_fmt", "yuvj444p", "-q:v", "2"], 4),
        ("gray.jpg", &["-pix_fmt", "gray", "-q:v", "2"], 4),
        ("a.png", &["-pix_fmt", "rgb24"], 0),
        ("pal.png", &["-pix_fmt", "pal8"], 0),
        ("a.tif", &["-pix_fmt", "rgb24", "-compression_algo", "raw"], 0),
        ("b.tif", &["-pix_fmt", "rgb48le", "-compression_algo", "lzw"], 1),
        ("c.tif", &["-pix_fmt", "gray", "-compression_algo", "packbits"], 0),
        ("d.tif", &["-pix_fmt", "rgba", "-compression_algo", "deflate"], 0),
        ("a.bmp", &["-pix_fmt", "bgr24"], 0),
        ("b.bmp", &["-pix_fmt", "bgra"], 0),
        ("c.bmp", &["-pix_fmt", "rgb565le"], 4),
        ("d.bmp", &["-pix_fmt", "pal8"], 0),
        ("e.bmp", &["-pix_fmt", "monob"], 0),
    ] {
        let path = folder.path().join(name);
        let run = Command::new("ffmpeg").args(source).args(options).arg(&path).output().unwrap();
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        let (frame, _) = still::read(&path, MOST).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let run = shown(&path);
        assert_eq!((frame.width, frame.height), (60, 44), "{name}");
        let ours = frame.without_alpha();
        assert_eq!(run.stdout.len(), ours.data.len(), "{name}");
        let apart: Vec<u8> = codes(&ours).iter().zip(&run.stdout).map(|(a, b)| a.abs_diff(*b)).collect();
        let off = apart.iter().max().unwrap();
        assert!(*off <= most, "{name} is off by {off}");
        // At hard edges of shared chroma decoders differ; elsewhere they do not.
        let sum: u64 = apart.iter().map(|off| u64::from(*off)).sum();
        assert!(sum < 4 * run.stdout.len() as u64, "{name} is off by {sum} in all");
    }
}

#[test]
fn descriptions_go_along_in_every_format_that_holds_them() {
    let frame = picture(20, 10, 3, 8);
    let (icc, xmp) = (Some(profile(b"RGB ", 150_000)), Some(b"<x:xmpmeta>words</x:xmpmeta>".to_vec()));
    let said = StillInfo { icc, exif: Some(exif(1)), xmp, ..StillInfo::srgb(8) };
    for format in [StillFormat::Jpeg, StillFormat::Png, StillFormat::WebP, StillFormat::Tiff] {
        let file = encode(&frame, format, &PictureInfo::Still(said.clone())).unwrap();
        let back = still(decode(&file, MOST).unwrap().1);
        assert!((&back.icc, &back.xmp) == (&said.icc, &said.xmp), "{format:?}");
        assert!(said.lost_in(format).is_empty() && back.notes.is_empty());
        let block = back.exif.unwrap();
        assert!(block.windows(3).any(|w| w == b"Me\0"), "{format:?}");
        assert!(block.windows(4).any(|w| w == [0x27, 0x88, 3, 0]), "{format:?}: the inner directory is lost");
    }
    assert_eq!(said.lost_in(StillFormat::Exr), ["the colour profile", "EXIF", "XMP"]);
    let long =
        StillInfo { exif: Some(vec![0; 70_000]), xmp: Some(vec![b' '; 70_000]), ..StillInfo::default() };
    assert_eq!(long.lost_in(StillFormat::Jpeg), ["EXIF", "XMP"]);
    let pq = StillInfo { cicp: Some([9, 16, 0, 1]), ..StillInfo::default() };
    assert_eq!(pq.lost_in(StillFormat::Tiff).len(), 1);
}

#[test]
fn all_orientations_come_upright_and_are_reset() {
    let shown = picture(12, 7, 3, 8);
    // Stored so that `n` turns it upright: 6 and 8 undo each other, the others undo themselves.
    let stored = |n: u8| match n {
        6 => remaster_picture::upright(shown.clone(), 8),
        8 => remaster_picture::upright(shown.clone(), 6),
        n => remaster_picture::upright(shown.clone(), n.into()),
    };
    for format in [StillFormat::Png, StillFormat::WebP, StillFormat::Jpeg] {
        for n in 1..=8u8 {
            let xmp = format!("<x tiff:Orientation=\"{n}\"/>").into_bytes();
            let info = StillInfo { exif: Some(exif(n)), xmp: Some(xmp), ..StillInfo::srgb(8) };
            let file = encode(&stored(n), format, &PictureInfo::Still(info)).unwrap();
            let (back, said) = decode(&file, MOST).unwrap();
            if format == StillFormat::Jpeg {
                assert!(psnr(&back, &shown) > 30.0, "{n}");
            } else {
                assert!(back == shown, "{format:?} {n}");
            }
            let said = still(said);
            assert_eq!(said.exif.unwrap(), exif(1), "{format:?} {n}");
            assert_eq!(said.xmp.unwrap(), b"<x tiff:Orientation=\"1\"/>");
        }
    }
    // In a TIFF it is a tag of its own.
    for n in 1..=8u8 {
        let file = tiff_with(&encode(&stored(n), StillFormat::Tiff, &srgb(8)).unwrap(), 0x112, n.into());
        assert!(decode(&file, MOST).unwrap().0 == shown, "{n}");
    }
}

/// `file` with its `PhotometricInterpretation`-like tag `number` set: the directory is copied to the end of the file.
fn tiff_with(file: &[u8], number: u16, value: u16) -> Vec<u8> {
    let mut out = file.to_vec();
    let at = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let mut entries: Vec<[u8; 12]> =
        (0..count).map(|i| file[at + 2 + 12 * i..at + 14 + 12 * i].try_into().unwrap()).collect();
    entries.retain(|e| u16::from_le_bytes([e[0], e[1]]) != number);
    let (n, v) = (number.to_le_bytes(), value.to_le_bytes());
    entries.push([n[0], n[1], 3, 0, 1, 0, 0, 0, v[0], v[1], 0, 0]);
    entries.sort_by_key(|e| u16::from_le_bytes([e[0], e[1]]));
    if out.len() % 2 == 1 {
        out.push(0);
    }
    let to = (out.len() as u32).to_le_bytes();
    out[4..8].copy_from_slice(&to);
    out.extend((entries.len() as u16).to_le_bytes());
    entries.iter().for_each(|e| out.extend(e));
    out.extend([0; 4]);
    out
}

#[test]
fn a_profile_that_is_not_for_rgb_is_dropped_with_a_word() {
    let frame = picture(4, 4, 3, 8);
    for (space, kept) in [(b"RGB ", true), (b"GRAY", false), (b"CMYK", false)] {
        let info = StillInfo { icc: Some(profile(space, 300)), ..StillInfo::srgb(8) };
        let file = encode(&frame, StillFormat::WebP, &PictureInfo::Still(info)).unwrap();
        let back = still(decode(&file, MOST).unwrap().1);
        assert_eq!((back.icc.is_some(), back.notes.is_empty()), (kept, kept));
    }
}

#[test]
fn what_is_not_read_is_refused_in_words() {
    let frame = picture(8, 8, 3, 8);
    let jpeg = encode(&frame, StillFormat::Jpeg, &srgb(8)).unwrap();
    let header = jpeg.windows(4).position(|w| w == [0xff, 0xc0, 0, 17]).unwrap();
    let changed = |at: usize, value: u8| {
        let mut file = jpeg.clone();
        file[header + at] = value;
        file
    };
    let tiff = encode(&frame, StillFormat::Tiff, &srgb(8)).unwrap();
    let mut rle =
        b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x04\0\0\0\x04\0\0\0\x01\0\x08\0\x01\0\0\0".to_vec();
    rle.resize(2000, 0);
    for (file, word) in [
        (changed(9, 4), "CMYK"),
        (changed(4, 12), "12 bits"),
        (changed(1, 0xc3), "lossless"),
        (changed(1, 0xc9), "arithmetic"),
        (tiff_with(&tiff, 0xfe, 1), "thumbnail"),
        (tiff_with(&tiff, 0x106, 5), "TIFF"),
        (tiff_with(&tiff, 0x11c, 2), "TIFF"),
        (tiff_with(&tiff, 0x103, 7), "convert it"),
        (rle, "run-length"),
    ] {
        let error = decode(&file, MOST).unwrap_err();
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    // Cut anywhere, a file is an error and never half a picture.
    for format in [StillFormat::Jpeg, StillFormat::Png, StillFormat::WebP, StillFormat::Tiff] {
        let file = encode(&picture(40, 40, 3, 8), format, &srgb(8)).unwrap();
        for end in (0..file.len() - 2).step_by(7) {
            // The last bytes of a PNG and of a JPEG say only that it ends.
            let tolerated = format == StillFormat::Png && end + 12 >= file.len();
            let refused = decode(&file[..end], MOST).is_err();
            assert!(refused || tolerated, "{format:?} cut at {end} of {}", file.len());
        }
    }
    let alpha = picture(4, 4, 4, 8);
    let error = encode(&alpha, StillFormat::Jpeg, &srgb(8)).unwrap_err();
    assert!(matches!(error, PictureError::Alpha { .. }), "{error}");
    let error = encode(&frame, StillFormat::Bmp, &srgb(8)).unwrap_err();
    assert!(error.to_string().contains(".png, .jpg, .webp, .tif or .exr"), "{error}");
}

#[test]
fn a_file_is_what_is_in_it_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photo.png");
    let frame = picture(9, 5, 3, 8);
    std::fs::write(&path, encode(&frame, StillFormat::WebP, &srgb(8)).unwrap()).unwrap();
    assert_eq!(still::sniff(&path).unwrap(), Some(StillFormat::WebP));
    assert!(still::read(&path, MOST).unwrap().0 == frame);
    std::fs::write(&path, "BMX is no bitmap, only a word").unwrap();
    assert_eq!(still::sniff(&path).unwrap(), None);
}

#[test]
fn a_budget_is_asked_before_memory_is() {
    let frame = picture(64, 32, 3, 8);
    let cases = [StillFormat::Jpeg, StillFormat::Png, StillFormat::WebP, StillFormat::Tiff, StillFormat::Exr];
    for format in cases {
        let file = encode(&frame, format, &srgb(8)).unwrap();
        let error = decode(&file, 10_000).unwrap_err();
        let typed = matches!(error, PictureError::OverBudget { width: 64, height: 32, .. });
        assert!(typed, "{format:?}: {error}");
        let PictureError::OverBudget { needs, .. } = error else { return };
        decode(&file, needs).unwrap();
    }
}
