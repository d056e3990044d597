//! TIFF files of 8 and 16 bits: grey, RGB and RGBA.
//!
//! The first picture of a file is read. Written is RGB or RGBA in strips, deflated with a predictor.

use std::io::{BufRead, Cursor, Seek};

use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::encoder::colortype::{ColorType as Samples, RGB8, RGB16, RGBA8, RGBA16};
use tiff::encoder::{
    Compression, DeflateLevel, DirectoryEncoder, Predictor, TiffEncoder, TiffKindStandard, TiffValue,
};
use tiff::tags::{ExtraSamples, Tag as Number, Type};
use tiff::{ColorType, Directory, TiffError};

use crate::error::PictureError;
use crate::file::{admit, check_size};
use crate::frame::Frame;
use crate::layout::{Kind, Layout};
use crate::png::spread;
use crate::still::{MAX_BLOCK, StillInfo};
use crate::tags::{self, Tags};

const FORMAT: &str = "TIFF";
const INSTEAD: &str = "RGB or grey of 8 or 16 bits, uncompressed or with LZW, Deflate or PackBits";

/// Most bytes of samples that a byte of file can stand for: deflate reaches 1032, LZW about 1400.
const MAX_RATIO: u64 = 2048;

/// Bytes of a strip before it is compressed: small enough for any reader, large enough to compress well.
const STRIP: usize = 1 << 18;

const NEW_SUBFILE: Number = Number::NewSubfileType;
const DNG_VERSION: Number = Number::Unknown(50706);

/// The picture as it is stored, and its orientation.
pub(crate) fn decode_from(
    mut reader: impl BufRead + Seek,
    stored: u64,
    most: u64,
) -> Result<(Frame, StillInfo, u32), PictureError> {
    if !tags::is_plausible(&mut reader, stored) {
        return Err(damaged("its directory points outside the file".into()));
    }
    let tags = Tags::read(&mut reader).unwrap_or_default();
    reader.rewind().map_err(|e| damaged(e.to_string()))?;
    let limits = |decoded: usize| {
        let mut limits = Limits::default();
        limits.decoding_buffer_size = decoded;
        limits.intermediate_buffer_size = decoded.saturating_add(1 << 20);
        // Offsets of strips; descriptions are read on their own.
        limits.ifd_value_size = 1 << 20;
        limits
    };
    let mut decoder = Decoder::new(reader).map_err(refused)?;
    let (width, height) = decoder.dimensions().map_err(refused)?;
    let size = [u64::from(width), u64::from(height)];
    let mut number = |tag: Number| decoder.find_tag_unsigned::<u32>(tag).ok().flatten();
    if number(DNG_VERSION).is_some() || number(NEW_SUBFILE).is_some_and(|n| n & 1 == 1) {
        return Err(unsupported("a thumbnail in front, as camera raw files have"));
    }
    let samples = number(Number::SamplesPerPixel).unwrap_or(1);
    if samples > 1 && number(Number::PlanarConfiguration) == Some(2) {
        return Err(unsupported("a plane for each colour"));
    }
    let orientation = number(Number::Orientation).unwrap_or(1);
    let premultiplied = number(Number::ExtraSamples) == Some(1);
    let (kind, alpha, depth) = match decoder.colortype().map_err(refused)? {
        ColorType::Gray(depth) => (Kind::Gray, false, depth),
        ColorType::RGB(depth) => (Kind::Packed, false, depth),
        ColorType::RGBA(depth) => (Kind::Packed, true, depth),
        // Grey with alpha, if that is what the second sample is.
        ColorType::GrayA(depth) | ColorType::Multiband { bit_depth: depth, num_samples: 2 } => {
            (Kind::Packed, true, depth)
        }
        other => return Err(unsupported(&format!("{other:?} colours"))),
    };
    let gray = samples <= 2;
    let channels = 3 + u32::from(alpha);
    let expected = if gray { 1 + u32::from(alpha) } else { channels };
    if samples != expected {
        return Err(unsupported(&format!("{samples} samples per pixel")));
    }
    if !matches!(depth, 8 | 16) {
        return Err(unsupported(&format!("{depth} bits per sample")));
    }
    let raw = size[0].saturating_mul(size[1]).saturating_mul(u64::from(samples) * u64::from(depth) / 8);
    check_size(size, raw, stored, MAX_RATIO)?;
    admit(size, u64::from(channels), most)?;
    let more = decoder.more_images();
    let mut decoder = decoder.with_limits(limits(raw as usize));
    let decoded = decoder.read_image().map_err(refused)?;
    let bytes = match (decoded, depth) {
        (DecodingResult::U8(values), 8) => values,
        (DecodingResult::U16(values), 16) => values.into_iter().flat_map(u16::to_le_bytes).collect(),
        _ => return Err(unsupported("signed or floating-point samples")),
    };
    let bytes = if gray && alpha { spread(&bytes, usize::from(depth) / 8) } else { bytes };
    let layout = Layout { kind, depth: depth.into(), alpha };
    let mut info = StillInfo { depth: depth.into(), alpha, gray, ..StillInfo::default() };
    let mut frame = Frame::new(width as usize, height as usize, channels as usize);
    layout.unpack(&bytes, &info.coding(), &mut frame)?;
    if alpha && premultiplied {
        for pixel in frame.data.chunks_exact_mut(4) {
            let alpha = pixel[3];
            pixel[..3].iter_mut().for_each(|v| *v = if alpha > 0.0 { *v / alpha } else { 0.0 });
        }
    }
    info.exif = tags.block();
    info.xmp = tags.xmp;
    info.keep_icc(tags.icc);
    if more {
        info.notes.push("it has several pages; only the first is read");
    }
    Ok((frame, info, orientation))
}

/// `frame` as the bytes of a file.
pub(crate) fn encode(frame: &Frame, info: &StillInfo) -> Result<Vec<u8>, PictureError> {
    let depth = match info.depth {
        8 | 16 => info.depth,
        depth => return Err(PictureError::Depth { format: FORMAT, depth, allowed: "8 or 16 bits" }),
    };
    let alpha = frame.channels == 4;
    let mut bytes = Vec::new();
    Layout { kind: Kind::Packed, depth, alpha }.pack(frame, &info.coding(), &mut bytes)?;
    let wide = || bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect::<Vec<_>>();
    let written = match (depth, alpha) {
        (8, false) => write::<RGB8>(frame, info, &bytes),
        (8, true) => write::<RGBA8>(frame, info, &bytes),
        (_, false) => write::<RGB16>(frame, info, &wide()),
        (_, true) => write::<RGBA16>(frame, info, &wide()),
    };
    written.map_err(refused)
}

fn write<S: Samples>(frame: &Frame, info: &StillInfo, samples: &[S::Inner]) -> Result<Vec<u8>, TiffError>
where
    [S::Inner]: TiffValue,
{
    let mut out = Cursor::new(Vec::new());
    let encoder = TiffEncoder::new(&mut out)?;
    let mut encoder = encoder
        .with_compression(Compression::Deflate(DeflateLevel::Fast))
        .with_predictor(Predictor::Horizontal);
    let tags = info.exif.as_ref().and_then(|block| Tags::read(&mut Cursor::new(block))).unwrap_or_default();
    let mut inner = Vec::new();
    for (number, tags) in [(tags::EXIF, &tags.exif), (tags::GPS, &tags.gps)] {
        if !tags.is_empty() {
            let mut directory = encoder.extra_directory()?;
            put(&mut directory, tags)?;
            inner.push((number, directory.finish_with_offsets()?.offset));
        }
    }
    let (width, height) = (u32::try_from(frame.width)?, u32::try_from(frame.height)?);
    let mut image = encoder.new_image::<S>(width, height)?;
    let row = size_of::<S::Inner>() * frame.row_len();
    image.rows_per_strip((STRIP / row.max(1)).clamp(1, frame.height) as u32)?;
    let directory = image.encoder();
    put(directory, &tags.main)?;
    for (number, offset) in inner {
        directory.write_tag(Number::from_u16_exhaustive(number), offset)?;
    }
    if frame.channels == 4 {
        directory.write_tag(Number::ExtraSamples, ExtraSamples::UnassociatedAlpha.to_u16())?;
    }
    for (number, block) in [(700, &info.xmp), (34675, &info.icc)] {
        if let Some(block) = block.as_ref().filter(|b| b.len() <= MAX_BLOCK) {
            let kind = if number == 700 { Type::BYTE } else { Type::UNDEFINED };
            let entry = directory.write_entry_bytes(kind, block)?;
            insert(directory, number, entry);
        }
    }
    image.write_data(samples)?;
    Ok(out.into_inner())
}

type Target<'a, 'w> = DirectoryEncoder<'a, &'w mut Cursor<Vec<u8>>, TiffKindStandard>;

fn insert(directory: &mut Target<'_, '_>, number: u16, entry: tiff::decoder::ifd::Entry) {
    let mut one = Directory::empty();
    one.extend([(Number::from_u16_exhaustive(number), entry)]);
    directory.extend_from(&one);
}

/// Writes describing tags.
fn put(directory: &mut Target<'_, '_>, tags: &[tags::Tag]) -> Result<(), TiffError> {
    for tag in tags {
        // Types that only BigTIFF has stay behind.
        let Some(kind) = Type::from_u16(tag.kind).filter(|_| tag.kind < 16) else { continue };
        let entry = directory.write_entry_bytes(kind, &tag.in_native_order())?;
        insert(directory, tag.number, entry);
    }
    Ok(())
}

fn damaged(reason: String) -> PictureError {
    PictureError::Damaged { format: FORMAT, reason }
}

fn unsupported(what: &str) -> PictureError {
    PictureError::Unsupported { format: FORMAT, what: what.into(), instead: INSTEAD }
}

fn refused(error: TiffError) -> PictureError {
    match error {
        TiffError::UnsupportedError(what) => unsupported(&format!("something unusual ({what})")),
        other => damaged(other.to_string()),
    }
}
