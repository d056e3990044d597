//! No picture file can do harm: mutations of good ones, and small files that stand for huge pictures.

use remaster_picture::exr::ExrInfo;
use remaster_picture::still::{decode, encode};
use remaster_picture::{Frame, PictureError, PictureInfo, StillFormat, StillInfo};
use remaster_testkit::hostile::{attack, crc32, measured};

/// What a picture may take; what decoders hold beside it comes on top.
const MOST: u64 = 16 << 20;
const BESIDE: usize = 64 << 20;

fn picture(width: usize, height: usize, channels: usize) -> Frame {
    let data = (0..width * height * channels).map(|i| (i * i % 251) as f32 / 250.0).collect();
    Frame { width, height, channels, data }
}

/// A block with two directories and a thumbnail.
fn exif() -> Vec<u8> {
    let mut block = b"II*\0\x08\0\0\0\x03\0".to_vec();
    block.extend(b"\x0f\x01\x02\0\x03\0\0\0Me\0\0");
    block.extend(b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0");
    block.extend(b"\x69\x87\x04\0\x01\0\0\0\x32\0\0\0\x44\0\0\0");
    block.extend(b"\x01\0\x27\x88\x03\0\x01\0\0\0\x90\x01\0\0\0\0\0\0");
    block.extend(b"\x02\0\x01\x02\x04\0\x01\0\0\0\x62\0\0\0\x02\x02\x04\0\x01\0\0\0\x05\0\0\0\0\0\0\0thumb");
    block
}

fn profile() -> Vec<u8> {
    [&[3; 16][..], b"RGB ", &[3; 180]].concat()
}

fn info(depth: u32, described: bool) -> PictureInfo {
    let bare = StillInfo::srgb(depth);
    if !described {
        return PictureInfo::Still(bare);
    }
    let xmp = Some(b"<x:xmpmeta tiff:Orientation=\"6\"/>".to_vec());
    PictureInfo::Still(StillInfo { icc: Some(profile()), exif: Some(exif()), xmp, ..bare })
}

fn stills(format: StillFormat) -> Vec<Vec<u8>> {
    let channels = if format.has_alpha() { 4 } else { 3 };
    let depth = if format.is_deep() { 16 } else { 8 };
    vec![
        encode(&picture(9, 7, 3), format, &info(8, false)).unwrap(),
        encode(&picture(33, 20, channels), format, &info(depth, true)).unwrap(),
    ]
}

fn attacked(name: &str, good: &[Vec<u8>]) {
    for file in good {
        decode(file, MOST).unwrap();
    }
    attack(name, good, MOST as usize + BESIDE, |bytes| drop(decode(bytes, MOST)));
}

#[test]
fn png() {
    attacked("png", &stills(StillFormat::Png));
}

/// Checksums stop most changes to a PNG at once; here they are made good again.
#[test]
fn png_with_good_checksums() {
    let good = stills(StillFormat::Png);
    attack("png-sums", &good, MOST as usize + BESIDE, |bytes| drop(decode(&mended(bytes), MOST)));
}

/// A PNG whose checksums fit what it says.
pub(crate) fn mended(file: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    let mut at = 8;
    while let Some(length) = file.get(at..at + 4) {
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        let Some(end) = at.checked_add(8 + length).filter(|end| end + 4 <= file.len()) else { break };
        let crc = crc32(&file[at + 4..end]);
        file[end..end + 4].copy_from_slice(&crc.to_be_bytes());
        at = end + 4;
    }
    file
}

#[test]
fn jpeg() {
    attacked("jpeg", &stills(StillFormat::Jpeg));
}

/// Progressive, with subsampled chroma and restarts: none of it is written here.
#[test]
fn jpeg_of_others() {
    attacked("jpeg-others", &[include_bytes!("../data/progressive.jpg").to_vec()]);
}

#[test]
fn webp() {
    attacked("webp", &stills(StillFormat::WebP));
}

#[test]
fn webp_of_others() {
    let files = [&include_bytes!("../data/lossy_alpha.webp")[..], include_bytes!("../data/animated.webp")];
    attacked("webp-others", &files.map(<[u8]>::to_vec));
}

#[test]
fn tiff() {
    attacked("tiff", &stills(StillFormat::Tiff));
}

#[test]
fn bmp() {
    let head = |bits: u8, compression: u8| {
        let mut file = b"BM\0\0\0\0\0\0\0\0\x7a\0\0\0\x6c\0\0\0\x05\0\0\0\x04\0\0\0\x01\0".to_vec();
        file.extend([bits, 0, compression, 0, 0, 0]);
        file.resize(54, 0);
        for mask in [0xff0000u32, 0xff00, 0xff, 0xff00_0000] {
            file.extend(mask.to_le_bytes());
        }
        file.resize(122, 0);
        if bits <= 8 {
            file.resize(122 + (4 << bits), 9);
        }
        file.resize(file.len() + 200, 77);
        file
    };
    attacked("bmp", &[head(32, 3), head(24, 0), head(8, 0), head(1, 0), head(16, 0)]);
}

#[test]
fn exr() {
    let exr = |channels, depth| {
        let info = PictureInfo::Exr(ExrInfo { depth, ..ExrInfo::default() });
        encode(&picture(20, 18, channels), StillFormat::Exr, &info).unwrap()
    };
    attacked("exr", &[exr(3, 16), exr(4, 32)]);
}

/// The description of a picture changes and the file around it stays whole.
#[test]
fn descriptions() {
    let frame = picture(6, 5, 3);
    attack("exif", &[exif()], MOST as usize + BESIDE, |bytes| {
        for format in [StillFormat::Jpeg, StillFormat::Tiff, StillFormat::Png] {
            let info = StillInfo { exif: Some(bytes.to_vec()), ..StillInfo::srgb(8) };
            let file = encode(&frame, format, &PictureInfo::Still(info)).unwrap();
            decode(&file, MOST).unwrap();
        }
    });
    let packet = b"<x:xmpmeta tiff:Orientation=\"6\"><tiff:Orientation>3</tiff:Orientation>".to_vec();
    attack("xmp-icc", &[packet, profile()], MOST as usize + BESIDE, |bytes| {
        for format in [StillFormat::Jpeg, StillFormat::Tiff, StillFormat::WebP, StillFormat::Png] {
            let (icc, xmp) = (Some(bytes.to_vec()), Some(bytes.to_vec()));
            let info = StillInfo { icc, xmp, ..StillInfo::srgb(8) };
            let file = encode(&frame, format, &PictureInfo::Still(info)).unwrap();
            decode(&file, MOST).unwrap();
        }
    });
}

/// 16384 x 8192 black pixels compress to some hundred kilobytes and would take gigabytes.
#[test]
fn bombs_are_refused_before_they_are_unpacked() {
    let black = Frame::new(4096, 2048, 3);
    let bombs: Vec<(StillFormat, Vec<u8>)> =
        [StillFormat::Png, StillFormat::Jpeg, StillFormat::WebP, StillFormat::Tiff, StillFormat::Exr]
            .into_iter()
            .map(|format| (format, encode(&black, format, &info(8, false)).unwrap()))
            .collect();
    for (format, bomb) in &bombs {
        let (ended, held) = measured(|| decode(bomb, MOST));
        let error = ended.unwrap_err();
        let typed = matches!(error, PictureError::OverBudget { width: 4096, height: 2048, .. });
        assert!(typed, "{format:?}: {error}");
        assert!(error.to_string().contains("--ram"), "{error}");
        assert!(held < 2 << 20, "{format:?} held {held} bytes before it refused");
    }
    // With enough allowed, what was said to be enough is.
    for (format, bomb) in &bombs {
        let needs = 4096 * 2048 * 4 * 4 * 2;
        let (ended, held) = measured(|| decode(bomb, needs).map(drop));
        ended.unwrap();
        assert!(held as u64 <= needs + (64 << 20), "{format:?} held {held} bytes of {needs}");
    }
}

/// A few kilobytes of text or profile that unpack to a gigabyte.
#[test]
fn descriptions_that_unpack_to_gigabytes_are_left_out() {
    let good = encode(&picture(5, 5, 3), StillFormat::Png, &info(8, false)).unwrap();
    let zeros = vec![0u8; 100 << 20];
    let mut packed = Vec::new();
    {
        let mut encoder = png::Encoder::new(&mut packed, 10240, 10240);
        encoder.set_color(png::ColorType::Grayscale);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&zeros).unwrap();
        writer.finish().unwrap();
    }
    drop(zeros);
    // The deflated rows of that picture, as the body of other chunks.
    let mut stream = Vec::new();
    let mut at = 8;
    while at + 8 <= packed.len() {
        let length = u32::from_be_bytes(packed[at..at + 4].try_into().unwrap()) as usize;
        if &packed[at + 4..at + 8] == b"IDAT" {
            stream.extend_from_slice(&packed[at + 8..at + 8 + length]);
        }
        at += 12 + length;
    }
    let cases = [(b"iCCP", &b"p\0\0"[..]), (b"iTXt", b"XML:com.adobe.xmp\0\x01\0\0\0"), (b"zTXt", b"a\0\0")];
    for (kind, head) in cases {
        let body = [head, &stream].concat();
        let mut chunk = (body.len() as u32).to_be_bytes().to_vec();
        chunk.extend_from_slice(kind);
        chunk.extend(&body);
        chunk.extend([0; 4]);
        let bomb = mended(&[&good[..33], &chunk, &good[33..]].concat());
        let (ended, held) = measured(|| decode(&bomb, MOST));
        let PictureInfo::Still(info) = ended.unwrap().1 else { panic!() };
        assert!(info.icc.is_none() && info.xmp.is_none());
        assert!(held < bomb.len() + BESIDE, "{held} bytes for {}", bomb.len());
    }
}
