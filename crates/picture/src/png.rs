//! PNG files of 8 and 16 bits.
//!
//! Grey, palettes and fewer bits are read as RGB; a transparent colour is read as alpha. What the file says about
//! its colours is not applied but handed over, and goes back into the file that is written. Of an animation the
//! first picture is read.

use std::io::{BufRead, Seek};
use std::path::Path;

use png::chunk::ChunkType;
use png::text_metadata::ITXtChunk;
use png::{
    BitDepth, ColorType, Compression, Decoder, EncodingError, Info, Limits, ScaledFloat,
    SourceChromaticities, SrgbRenderingIntent, Transformations,
};

use crate::error::PictureError;
use crate::exif;
use crate::file::{admit, check_size, write_whole};
use crate::frame::Frame;
use crate::layout::{Kind, Layout};
use crate::still::{Decoded, MAX_BLOCK, StillInfo};

const FORMAT: &str = "PNG";

/// The keyword of the text chunk with XMP in it.
const XMP: &str = "XML:com.adobe.xmp";

/// What the decoder may hold of descriptions. It takes twice as much while it unpacks one.
const LIMIT: usize = MAX_BLOCK / 2 * 3;

/// Most bytes of rows that a byte of file can stand for: what deflate reaches.
const MAX_RATIO: u64 = 1032;

pub(crate) fn decode_from(reader: impl BufRead + Seek, stored: u64, most: u64) -> Decoded {
    let mut decoder = Decoder::new_with_limits(reader, Limits { bytes: LIMIT });
    decoder.set_transformations(Transformations::EXPAND);
    let header = decoder.read_header_info().map_err(damaged)?;
    let (width, height) = (u64::from(header.width), u64::from(header.height));
    let row_bits = width.saturating_mul(header.bits_per_pixel() as u64);
    // A transparent colour becomes alpha later on.
    let channels = if header.color_type == ColorType::Rgb { 3 } else { 4 };
    check_size([width, height], (row_bits / 8).saturating_mul(height), stored, MAX_RATIO)?;
    admit([width, height], channels, most)?;
    let mut reader = decoder.read_info().map_err(damaged)?;
    let too_large = PictureError::TooLarge { width, height, max: crate::file::MAX_PIXELS };
    let mut bytes = vec![0; reader.output_buffer_size().ok_or(too_large)?];
    let output = reader.next_frame(&mut bytes).map_err(damaged)?;
    bytes.truncate(output.buffer_size());
    if (u64::from(output.width), u64::from(output.height)) != (width, height) {
        let reason = format!("its first picture is {} x {} instead", output.width, output.height);
        return Err(PictureError::Damaged { format: FORMAT, reason });
    }
    let mut info = info_of(reader.info());
    // Text and EXIF may also stand behind the picture; only a file that is whole has them.
    if reader.finish().is_ok() {
        let whole = reader.info();
        info.exif = whole.exif_metadata.as_deref().map(<[u8]>::to_vec).map(exif::stripped);
        info.xmp = whole.utf8_text.iter().find(|t| t.keyword == XMP).and_then(packet);
    }
    let (kind, alpha) = match output.color_type {
        ColorType::Grayscale => (Kind::Gray, false),
        ColorType::GrayscaleAlpha => (Kind::Packed, true),
        ColorType::Rgb | ColorType::Indexed => (Kind::Packed, false),
        ColorType::Rgba => (Kind::Packed, true),
    };
    let depth = if output.bit_depth == BitDepth::Sixteen { 16 } else { 8 };
    if depth == 16 {
        swap(&mut bytes);
    }
    if output.color_type == ColorType::GrayscaleAlpha {
        bytes = spread(&bytes, depth as usize / 8);
    }
    info.alpha = alpha;
    let mut frame = Frame::new(width as usize, height as usize, if alpha { 4 } else { 3 });
    Layout { kind, depth, alpha }.unpack(&bytes, &info.coding(), &mut frame)?;
    Ok((frame, info))
}

/// The text of an XMP chunk, which may be compressed.
fn packet(text: &ITXtChunk) -> Option<Vec<u8>> {
    let mut text = text.clone();
    text.decompress_text_with_limit(MAX_BLOCK).ok()?;
    text.get_text().ok().map(String::into_bytes)
}

fn info_of(info: &Info<'_>) -> StillInfo {
    let cicp = info.coding_independent_code_points.map(|c| {
        [c.color_primaries, c.transfer_function, c.matrix_coefficients, u8::from(c.is_video_full_range_image)]
    });
    let chromaticities = info.chrm_chunk.map(|c| {
        let [white, red, green, blue] = [c.white, c.red, c.green, c.blue].map(|(x, y)| [x, y]);
        let all = [white[0], white[1], red[0], red[1], green[0], green[1], blue[0], blue[1]];
        all.map(ScaledFloat::into_scaled)
    });
    // Next to an sRGB chunk those two only repeat it.
    let srgb = info.srgb.map(|intent| intent as u8);
    let mut said = StillInfo {
        depth: info.bit_depth as u32,
        alpha: false,
        gray: matches!(info.color_type, ColorType::Grayscale | ColorType::GrayscaleAlpha),
        cicp,
        srgb,
        gamma: info.gama_chunk.map(ScaledFloat::into_scaled).filter(|_| srgb.is_none()),
        chromaticities: chromaticities.filter(|_| srgb.is_none()),
        ..StillInfo::default()
    };
    said.keep_icc(info.icc_profile.as_deref().map(<[u8]>::to_vec));
    if info.animation_control.is_some_and(|a| a.num_frames > 1) {
        said.notes.push("it is an animation; only its first picture is read");
    }
    said
}

/// `frame` as the file at `path`, which appears whole or not at all. See [`encode`].
pub fn write(path: &Path, frame: &Frame, info: &StillInfo) -> Result<(), PictureError> {
    write_whole(path, &encode(frame, info)?)
}

/// `frame` as the bytes of a file: RGB, or RGBA if it has four channels, in the depth of `info` and with what it
/// says about colours.
pub fn encode(frame: &Frame, info: &StillInfo) -> Result<Vec<u8>, PictureError> {
    let depth = match info.depth {
        8 | 16 => info.depth,
        depth => return Err(PictureError::Depth { format: FORMAT, depth, allowed: "8 or 16 bits" }),
    };
    let layout = Layout { kind: Kind::Packed, depth, alpha: frame.channels == 4 };
    let mut bytes = Vec::new();
    layout.pack(frame, &info.coding(), &mut bytes)?;
    if depth == 16 {
        swap(&mut bytes);
    }
    let size = [frame.width, frame.height].map(|side| u32::try_from(side).ok());
    let [Some(width), Some(height)] = size else {
        let (width, height) = (frame.width as u64, frame.height as u64);
        return Err(PictureError::TooLarge { width, height, max: crate::file::MAX_PIXELS });
    };
    compress(width, height, layout, info, &bytes).map_err(damaged)
}

fn compress(
    width: u32,
    height: u32,
    layout: Layout,
    info: &StillInfo,
    bytes: &[u8],
) -> Result<Vec<u8>, EncodingError> {
    let mut out = Vec::new();
    let mut head = Info::with_size(width, height);
    // A file has one or the other.
    head.srgb = info.srgb.filter(|_| info.icc.is_none()).map(intent);
    head.icc_profile = info.icc.as_deref().map(Into::into);
    head.exif_metadata = info.exif.as_deref().map(Into::into);
    head.source_gamma = info.gamma.map(ScaledFloat::from_scaled);
    head.source_chromaticities = info.chromaticities.map(|c| {
        let [wx, wy, rx, ry, gx, gy, bx, by] = c.map(ScaledFloat::from_scaled);
        SourceChromaticities { white: (wx, wy), red: (rx, ry), green: (gx, gy), blue: (bx, by) }
    });
    let mut encoder = png::Encoder::with_info(&mut out, head)?;
    encoder.set_color(if layout.alpha { ColorType::Rgba } else { ColorType::Rgb });
    encoder.set_depth(if layout.depth == 16 { BitDepth::Sixteen } else { BitDepth::Eight });
    encoder.set_compression(Compression::Fast);
    let mut writer = encoder.write_header()?;
    if let Some([primaries, transfer, _, range]) = info.cicp {
        // RGB is the only matrix that PNG has.
        writer.write_chunk(ChunkType(*b"cICP"), &[primaries, transfer, 0, u8::from(range != 0)])?;
    }
    if let Some(packet) = info.xmp.as_deref().and_then(|x| std::str::from_utf8(x).ok()) {
        writer.write_text_chunk(&ITXtChunk::new(XMP, packet))?;
    }
    writer.write_image_data(bytes)?;
    writer.finish()?;
    Ok(out)
}

/// Intents beyond the four that exist are taken for the first.
fn intent(number: u8) -> SrgbRenderingIntent {
    match number {
        1 => SrgbRenderingIntent::RelativeColorimetric,
        2 => SrgbRenderingIntent::Saturation,
        3 => SrgbRenderingIntent::AbsoluteColorimetric,
        _ => SrgbRenderingIntent::Perceptual,
    }
}

/// PNG has the high byte first.
fn swap(bytes: &mut [u8]) {
    for pair in bytes.as_chunks_mut::<2>().0 {
        pair.swap(0, 1);
    }
}

/// Grey and alpha to red, green, blue and alpha.
pub(crate) fn spread(bytes: &[u8], sample: usize) -> Vec<u8> {
    let pixel = |p: &[u8]| {
        let (grey, alpha) = p.split_at(sample);
        [grey, grey, grey, alpha].concat()
    };
    bytes.chunks_exact(2 * sample).flat_map(pixel).collect()
}

fn damaged(error: impl std::error::Error) -> PictureError {
    PictureError::Damaged { format: FORMAT, reason: error.to_string() }
}
