//! BMP files, read only: palettes, and RGB of 16 to 32 bits, uncompressed.

use std::io::{BufRead, Seek, SeekFrom};

use crate::error::PictureError;
use crate::file::{admit, check_size};
use crate::frame::Frame;
use crate::still::{Decoded, StillInfo};

const FORMAT: &str = "BMP";
const INSTEAD: &str = "PNG, or an uncompressed BMP of 1, 4, 8, 16, 24 or 32 bits";

/// Sizes of headers, which tell the versions of the format apart.
pub(crate) const HEADERS: [u32; 7] = [12, 40, 52, 56, 64, 108, 124];

/// Header of the file, before that of the picture.
const FILE: usize = 14;

struct Head {
    width: u64,
    height: u64,
    /// Rows come from the bottom up.
    upwards: bool,
    bits: u16,
    /// Where red, green, blue and alpha are in a pixel of 16 or 32 bits.
    masks: [u32; 4],
    palette: Vec<[f32; 3]>,
    pixels: u64,
}

fn head(reader: &mut (impl BufRead + Seek)) -> Result<Head, PictureError> {
    let cut = |_| damaged("it is cut off in its header");
    let mut bytes = vec![0; FILE + 4];
    reader.read_exact(&mut bytes).map_err(cut)?;
    let length = u32::from_le_bytes([bytes[14], bytes[15], bytes[16], bytes[17]]);
    if !HEADERS.contains(&length) {
        return Err(damaged("its header has an unknown size"));
    }
    bytes.resize(FILE + length as usize, 0);
    reader.read_exact(&mut bytes[FILE + 4..]).map_err(cut)?;
    let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let long = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let pixels = u64::from(long(10));
    let core = length == 12;
    let (width, height, bits) = if core {
        (i64::from(short(18)), i64::from(short(20)), short(24))
    } else {
        (i64::from(long(18) as i32), i64::from(long(22) as i32), short(28))
    };
    if width < 1 || height == 0 {
        return Err(damaged("its header has no size"));
    }
    let compression = if core { 0 } else { long(30) };
    let mut masks = match bits {
        16 => [0x7c00, 0x3e0, 0x1f, 0],
        _ => [0xff_0000, 0xff00, 0xff, 0],
    };
    match (compression, bits) {
        (0, 1 | 4 | 8 | 16 | 24 | 32) => {}
        (3 | 6, 16 | 32) => {
            // The masks are part of longer headers and stand behind short ones.
            let count = if compression == 6 || length >= 56 { 4 } else { 3 };
            let mut behind = [0; 16];
            let raw = if length >= 52 {
                &bytes[FILE + 40..]
            } else {
                reader.read_exact(&mut behind[..4 * count]).map_err(cut)?;
                &behind[..]
            };
            for (mask, four) in masks.iter_mut().zip(raw.as_chunks::<4>().0).take(count) {
                *mask = u32::from_le_bytes(*four);
            }
        }
        (1 | 2, _) => return Err(unsupported("run-length compression".into())),
        (4 | 5, _) => return Err(unsupported("another picture inside".into())),
        _ => return Err(unsupported(format!("{bits} bits with compression {compression}"))),
    }
    let mut palette = Vec::new();
    if bits <= 8 {
        let used = if core { 0 } else { long(46) };
        let most = 1u32 << bits;
        let count = if used == 0 { most } else { used.min(most) };
        let mut colour = [0; 4];
        let size = if core { 3 } else { 4 };
        for _ in 0..count {
            reader.read_exact(&mut colour[..size]).map_err(cut)?;
            palette.push([2, 1, 0].map(|c| f32::from(colour[c]) / 255.0));
        }
    }
    let (width, upwards, height) = (width as u64, height > 0, height.unsigned_abs());
    Ok(Head { width, height, upwards, bits, masks, palette, pixels })
}

pub(crate) fn decode_from(mut reader: impl BufRead + Seek, stored: u64, most: u64) -> Decoded {
    let head = head(&mut reader)?;
    let alpha = head.masks[3] != 0;
    let channels = 3 + usize::from(alpha);
    let row = head.width.saturating_mul(u64::from(head.bits)).div_ceil(32).saturating_mul(4);
    check_size([head.width, head.height], row.saturating_mul(head.height), stored, 1)?;
    admit([head.width, head.height], channels as u64, most)?;
    let mut frame = Frame::new(head.width as usize, head.height as usize, channels);
    let mut bytes = vec![0; row as usize];
    reader.seek(SeekFrom::Start(head.pixels)).map_err(|e| damaged(&e.to_string()))?;
    for i in 0..frame.height {
        reader.read_exact(&mut bytes).map_err(|_| damaged("it is cut off"))?;
        let y = if head.upwards { frame.height - 1 - i } else { i };
        for (x, pixel) in frame.row_mut(y).chunks_exact_mut(channels).enumerate() {
            head.pixel(&bytes, x, pixel)?;
        }
    }
    let gray = !head.palette.is_empty() && head.palette.iter().all(|[r, g, b]| r == g && g == b);
    Ok((frame, StillInfo { depth: 8, alpha, gray, ..StillInfo::default() }))
}

impl Head {
    fn pixel(&self, row: &[u8], x: usize, out: &mut [f32]) -> Result<(), PictureError> {
        match self.bits {
            24 => {
                for (c, v) in out.iter_mut().enumerate() {
                    *v = f32::from(row[3 * x + 2 - c]) / 255.0;
                }
            }
            16 | 32 => {
                let value = if self.bits == 16 {
                    u32::from(u16::from_le_bytes([row[2 * x], row[2 * x + 1]]))
                } else {
                    u32::from_le_bytes([row[4 * x], row[4 * x + 1], row[4 * x + 2], row[4 * x + 3]])
                };
                for (v, mask) in out.iter_mut().zip(self.masks) {
                    let shift = mask.trailing_zeros().min(31);
                    // A mask of nothing is black.
                    let top = (mask >> shift).max(1);
                    *v = ((f64::from((value & mask) >> shift)) / f64::from(top)) as f32;
                }
            }
            bits => {
                let per_byte = 8 / usize::from(bits);
                let shift = 8 - usize::from(bits) * (x % per_byte + 1);
                let index = usize::from(row[x / per_byte] >> shift) & ((1 << bits) - 1);
                let colour = self.palette.get(index).ok_or_else(|| damaged("a pixel has no colour"))?;
                out.copy_from_slice(colour);
            }
        }
        Ok(())
    }
}

fn damaged(reason: &str) -> PictureError {
    PictureError::Damaged { format: FORMAT, reason: reason.into() }
}

fn unsupported(what: String) -> PictureError {
    PictureError::Unsupported { format: FORMAT, what, instead: INSTEAD }
}
