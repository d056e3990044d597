//! JPEG files of 8 bits: baseline and progressive, grey and colour.
//!
//! The segments in front of the picture are read here, so that its size is known before a decoder asks for memory.
//! Written are 4:4:4 files of quality 95: see `jpeg_encode`.

use std::io::{BufRead, Seek};

use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::error::PictureError;
use crate::exif;
use crate::file::admit;
use crate::frame::Frame;
use crate::jpeg_encode;
use crate::layout::{Kind, Layout};
use crate::still::{Decoded, MAX_BLOCK, StillInfo};

const FORMAT: &str = "JPEG";
const INSTEAD: &str = "an RGB or grey JPEG of 8 bits, or a PNG or TIFF";

const EXIF: &[u8] = b"Exif\0\0";
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";
const ICC: &[u8] = b"ICC_PROFILE\0";

/// Most bytes after the two that say how many there are.
const MAX_SEGMENT: usize = 0xffff - 2;
/// Most bytes of EXIF: it cannot be split.
pub(crate) const MAX_EXIF: usize = MAX_SEGMENT - EXIF.len();
/// Most bytes of XMP in one piece.
pub(crate) const MAX_XMP: usize = MAX_SEGMENT - XMP.len();
/// A profile goes into as many pieces as it needs, each with its number and their count.
const MAX_ICC: usize = MAX_SEGMENT - ICC.len() - 2;

/// What stands in front of the picture.
#[derive(Default)]
struct Head {
    width: u64,
    height: u64,
    components: u8,
    exif: Option<Vec<u8>>,
    xmp: Option<Vec<u8>>,
    /// Pieces of the profile by their numbers.
    icc: Vec<(u8, Vec<u8>)>,
}

/// Reads segments up to the first scan, and looks whether the rest is there.
fn head(reader: &mut impl BufRead) -> Result<Head, PictureError> {
    let cut = |_| damaged("it is cut off in its header".into());
    let mut head = Head::default();
    let mut two = [0; 2];
    reader.read_exact(&mut two).map_err(cut)?;
    let mut kept = 0;
    loop {
        let mut byte = [0];
        // Fill bytes may stand before a marker.
        while byte[0] != 0xff {
            reader.read_exact(&mut byte).map_err(cut)?;
        }
        while byte[0] == 0xff {
            reader.read_exact(&mut byte).map_err(cut)?;
        }
        let marker = byte[0];
        match marker {
            // Without a length.
            0x00 | 0x01 | 0xd0..=0xd8 => continue,
            0xd9 => return Err(damaged("it ends before a picture".into())),
            _ => {}
        }
        reader.read_exact(&mut two).map_err(cut)?;
        let length = usize::from(u16::from_be_bytes(two));
        let Some(length) = length.checked_sub(2) else {
            return Err(damaged("a segment is shorter than its own length".into()));
        };
        if marker == 0xda {
            return match is_whole(reader, length as u64) {
                Ok(true) => Ok(head),
                Ok(false) => Err(damaged("it is cut off".into())),
                Err(error) => Err(damaged(error.to_string())),
            };
        }
        let mut segment = vec![0; length];
        reader.read_exact(&mut segment).map_err(cut)?;
        match marker {
            0xc0..=0xc2 => frame_header(&mut head, &segment)?,
            0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Err(unsupported("lossless or arithmetic coding"));
            }
            0xe1 | 0xe2 if kept + length > MAX_BLOCK => {}
            0xe1 if segment.starts_with(EXIF) && head.exif.is_none() => {
                kept += length;
                head.exif = Some(segment.split_off(EXIF.len()));
            }
            0xe1 if segment.starts_with(XMP) && head.xmp.is_none() => {
                kept += length;
                head.xmp = Some(segment.split_off(XMP.len()));
            }
            0xe2 if segment.starts_with(ICC) && length > ICC.len() + 2 => {
                kept += length;
                let number = segment[ICC.len()];
                head.icc.push((number, segment.split_off(ICC.len() + 2)));
            }
            _ => {}
        }
    }
}

/// Whether the file goes on to its end marker. The reader stands behind the length of the first scan's header. A
/// decoder fills up what is missing at the end of a picture without a word.
fn is_whole(reader: &mut impl BufRead, mut length: u64) -> std::io::Result<bool> {
    loop {
        // The rest of a segment.
        while length > 0 {
            let available = reader.fill_buf()?.len() as u64;
            if available == 0 {
                return Ok(false);
            }
            let step = available.min(length);
            reader.consume(step as usize);
            length -= step;
        }
        // Samples, up to a marker that is neither stuffing nor a restart.
        let marker = loop {
            let buffer = reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(false);
            }
            let found = buffer.iter().position(|b| *b == 0xff);
            let step = found.map_or(buffer.len(), |at| at + 1);
            reader.consume(step);
            if found.is_none() {
                continue;
            }
            let mut byte = [0xff];
            while byte[0] == 0xff {
                if reader.read(&mut byte)? == 0 {
                    return Ok(false);
                }
            }
            if !matches!(byte[0], 0x00 | 0x01 | 0xd0..=0xd7) {
                break byte[0];
            }
        };
        if marker == 0xd9 {
            return Ok(true);
        }
        let mut two = [0; 2];
        if reader.read_exact(&mut two).is_err() {
            return Ok(false);
        }
        length = u64::from(u16::from_be_bytes(two)).saturating_sub(2);
    }
}

fn frame_header(head: &mut Head, segment: &[u8]) -> Result<(), PictureError> {
    let &[depth, h1, h0, w1, w0, components, ..] = segment else {
        return Err(damaged("its frame header is cut off".into()));
    };
    if head.components != 0 {
        return Err(damaged("it has two frame headers".into()));
    }
    if depth != 8 {
        return Err(unsupported("12 bits"));
    }
    match components {
        1 | 3 => {}
        4 => return Err(unsupported("CMYK colours")),
        _ => return Err(damaged(format!("it has {components} components"))),
    }
    head.height = u16::from_be_bytes([h1, h0]).into();
    head.width = u16::from_be_bytes([w1, w0]).into();
    head.components = components;
    Ok(())
}

pub(crate) fn decode_from(mut reader: impl BufRead + Seek, most: u64) -> Decoded {
    let head = head(&mut reader)?;
    if head.components == 0 || head.width == 0 || head.height == 0 {
        return Err(damaged("its header has no size".into()));
    }
    admit([head.width, head.height], 3, most)?;
    reader.rewind().map_err(|e| damaged(e.to_string()))?;
    let gray = head.components == 1;
    // Strict: what is cut off or does not decode is an error, not a picture with grey in it.
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_out_colorspace(if gray { ColorSpace::Luma } else { ColorSpace::RGB });
    let mut decoder = JpegDecoder::new_with_options(reader, options);
    let bytes = decoder.decode().map_err(refused)?;
    let (width, height) = (head.width as usize, head.height as usize);
    let layout = Layout { kind: if gray { Kind::Gray } else { Kind::Packed }, depth: 8, alpha: false };
    if decoder.dimensions() != Some((width, height)) || layout.bytes(width, height) != Some(bytes.len()) {
        return Err(damaged("its headers contradict each other".into()));
    }
    let mut info = StillInfo { depth: 8, gray, ..StillInfo::default() };
    info.exif = head.exif.map(exif::stripped);
    info.xmp = head.xmp;
    let mut pieces = head.icc;
    pieces.sort_by_key(|(number, _)| *number);
    info.keep_icc(Some(pieces.into_iter().flat_map(|(_, piece)| piece).collect()));
    let mut frame = Frame::new(width, height, 3);
    layout.unpack(&bytes, &info.coding(), &mut frame)?;
    Ok((frame, info))
}

/// `frame`, which has no alpha, as the bytes of a file.
pub(crate) fn encode(frame: &Frame, info: &StillInfo) -> Result<Vec<u8>, PictureError> {
    let size = [frame.width, frame.height].map(|side| u16::try_from(side).ok());
    let [Some(width), Some(height)] = size else {
        let what = format!("room for 65535 pixels each way, not for {} x {}", frame.width, frame.height);
        return Err(PictureError::Unsupported { format: FORMAT, what, instead: "PNG or TIFF" });
    };
    let mut out = vec![0xff, 0xd8];
    let mut segment = |marker: u8, parts: &[&[u8]]| {
        let length = 2 + parts.iter().map(|p| p.len()).sum::<usize>();
        if let Ok(length) = u16::try_from(length) {
            out.extend([0xff, marker]);
            out.extend(length.to_be_bytes());
            parts.iter().for_each(|part| out.extend_from_slice(part));
        }
    };
    match &info.exif {
        // One of the two says which pixels these are; EXIF wants to be the first.
        Some(block) if block.len() <= MAX_EXIF => segment(0xe1, &[EXIF, block]),
        _ => segment(0xe0, &[b"JFIF\0\x01\x02\0\0\x01\0\x01\0\0"]),
    }
    if let Some(packet) = info.xmp.as_ref().filter(|x| x.len() <= MAX_XMP) {
        segment(0xe1, &[XMP, packet]);
    }
    if let Some(profile) = &info.icc {
        let pieces: Vec<&[u8]> = profile.chunks(MAX_ICC).collect();
        if let Ok(count) = u8::try_from(pieces.len()) {
            for (number, piece) in (1..=count).zip(pieces) {
                segment(0xe2, &[ICC, &[number, count], piece]);
            }
        }
    }
    jpeg_encode::scan(frame, [width, height], &mut out);
    Ok(out)
}

fn damaged(reason: String) -> PictureError {
    PictureError::Damaged { format: FORMAT, reason }
}

fn unsupported(what: &str) -> PictureError {
    PictureError::Unsupported { format: FORMAT, what: what.into(), instead: INSTEAD }
}

fn refused(error: DecodeErrors) -> PictureError {
    match error {
        DecodeErrors::Unsupported(what) => unsupported(&format!("{what:?}")),
        DecodeErrors::ExhaustedData | DecodeErrors::IoErrors(_) => damaged("it is cut off".into()),
        other => damaged(format!("{other:?}").replace("[strict-mode]: ", "")),
    }
}
