//! WebP files of 8 bits: lossy and lossless ones are read, lossless ones are written.
//!
//! Of an animation the first picture is read.

use std::io::{BufRead, Seek};

use image_webp::{ColorType, WebPDecoder, WebPEncoder};

use crate::error::PictureError;
use crate::exif;
use crate::file::admit;
use crate::frame::Frame;
use crate::layout::{Kind, Layout};
use crate::still::{Decoded, MAX_BLOCK, StillInfo};

const FORMAT: &str = "WebP";

/// Most pixels each way.
const MAX_SIDE: usize = 16384;

/// Most parts of a file; each picture of an animation is two or three.
const MAX_CHUNKS: usize = 1 << 16;

pub(crate) fn decode_from(mut reader: impl BufRead + Seek, most: u64) -> Decoded {
    let [inner_width, inner_height] = coded_size(&mut reader).map_err(damaged)?;
    admit([inner_width, inner_height], 3, most)?;
    reader.rewind().map_err(damaged)?;
    let mut decoder = WebPDecoder::new(reader).map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    let alpha = decoder.has_alpha();
    let channels = 3 + usize::from(alpha);
    admit([width.into(), height.into()], channels as u64, most)?;
    decoder.set_memory_limit(MAX_BLOCK);
    let mut info = StillInfo { depth: 8, alpha, ..StillInfo::default() };
    info.exif = decoder.exif_metadata().map_err(damaged)?.map(exif::stripped);
    info.xmp = decoder.xmp_metadata().map_err(damaged)?;
    info.keep_icc(decoder.icc_profile().map_err(damaged)?);
    if decoder.is_animated() && decoder.num_frames() > 1 {
        info.notes.push("it is an animation; only its first picture is read");
    }
    let mut bytes = vec![0; decoder.output_buffer_size().unwrap_or(0)];
    decoder.read_image(&mut bytes).map_err(damaged)?;
    let mut frame = Frame::new(width as usize, height as usize, channels);
    Layout { kind: Kind::Packed, depth: 8, alpha }.unpack(&bytes, &info.coding(), &mut frame)?;
    Ok((frame, info))
}

/// The largest size that the coded pictures inside the file claim; the decoder believes it before it compares.
fn coded_size(reader: &mut (impl BufRead + Seek)) -> std::io::Result<[u64; 2]> {
    let mut largest = [0, 0];
    reader.seek_relative(12)?;
    for _ in 0..MAX_CHUNKS {
        let mut head = [0; 18];
        let mut filled = 0;
        while filled < head.len() {
            match reader.read(&mut head[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        if filled < 8 {
            return Ok(largest);
        }
        let number = |from: usize, bytes: usize| {
            (0..bytes).fold(0u64, |n, i| n | u64::from(head[from + i]) << (8 * i))
        };
        let size = match &head[..4] {
            b"VP8 " => [number(14, 2) & 0x3fff, number(16, 2) & 0x3fff],
            b"VP8L" => {
                let bits = number(9, 4);
                [(bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1]
            }
            _ => [0, 0],
        };
        if size[0] * size[1] > largest[0] * largest[1] {
            largest = size;
        }
        // The pictures of an animation follow behind a header of their own.
        let length = if head.starts_with(b"ANMF") { 16 } else { number(4, 4).next_multiple_of(2) };
        reader.seek_relative(8 + length as i64 - filled as i64)?;
    }
    Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "it has too many parts"))
}

/// `frame` as the bytes of a lossless file.
pub(crate) fn encode(frame: &Frame, info: &StillInfo) -> Result<Vec<u8>, PictureError> {
    if frame.width > MAX_SIDE || frame.height > MAX_SIDE {
        let what = format!("room for {MAX_SIDE} pixels each way, not for {} x {}", frame.width, frame.height);
        return Err(PictureError::Unsupported { format: FORMAT, what, instead: "PNG or TIFF" });
    }
    let alpha = frame.channels == 4;
    let mut bytes = Vec::new();
    Layout { kind: Kind::Packed, depth: 8, alpha }.pack(frame, &info.coding(), &mut bytes)?;
    let mut out = Vec::new();
    let mut encoder = WebPEncoder::new(&mut out);
    if let Some(profile) = &info.icc {
        encoder.set_icc_profile(profile.clone());
    }
    if let Some(block) = &info.exif {
        encoder.set_exif_metadata(block.clone());
    }
    if let Some(packet) = &info.xmp {
        encoder.set_xmp_metadata(packet.clone());
    }
    let colours = if alpha { ColorType::Rgba8 } else { ColorType::Rgb8 };
    let (width, height) = (frame.width as u32, frame.height as u32);
    encoder.encode(&bytes, width, height, colours).map_err(damaged)?;
    Ok(out)
}

fn damaged(error: impl std::error::Error) -> PictureError {
    PictureError::Damaged { format: FORMAT, reason: error.to_string() }
}
