//! Video with timestamps over a pipe or in a file: the NUT container, as much of it as one video stream needs.
//!
//! Raw frames alone carry no time: a variable frame rate would be lost, and ffmpeg would repeat or drop
//! frames to make it constant. Segments of a film are NUT files of compressed frames.
//! <https://ffmpeg.org/~michael/nut.txt>

mod read;
#[cfg(test)]
mod tests;
mod time_base;
mod write;

use std::io;

use remaster_picture::{Kind, Layout};

use crate::error::MediaError;

pub(crate) use read::{Next, NutReader};
pub use time_base::TimeBase;
pub(crate) use write::NutWriter;

const ID: &[u8] = b"nut/multimedia container\0";
const MAIN: u64 = 0x4E4D_7A56_1F5F_04AD;
const STREAM: u64 = 0x4E53_1140_5BF2_F9DB;
const SYNCPOINT: u64 = 0x4E4B_E4AD_EECA_4569;
const INFO: u64 = 0x4E49_AB68_B596_BA78;
const INDEX: u64 = 0x4E58_DD67_2F23_E64E;

/// Distance between syncpoints; the largest that ffmpeg takes.
const MAX_DISTANCE: u64 = 65536;

/// Headers of ours and of ffmpeg are a few hundred bytes.
const MAX_PACKET: u64 = 1 << 20;

fn broken() -> MediaError {
    MediaError::broken("the frame stream", "it is not the NUT that was asked for")
}

fn pipe(source: io::Error) -> MediaError {
    MediaError::Io { doing: "pass frames through the pipe".into(), source }
}

mod flag {
    pub(super) const KEY: u64 = 1;
    pub(super) const CODED_PTS: u64 = 8;
    pub(super) const STREAM_ID: u64 = 16;
    pub(super) const SIZE_MSB: u64 = 32;
    pub(super) const CHECKSUM: u64 = 64;
    pub(super) const RESERVED: u64 = 128;
    pub(super) const SIDE_DATA: u64 = 256;
    pub(super) const HEADER_IDX: u64 = 1024;
    pub(super) const MATCH_TIME: u64 = 2048;
    pub(super) const CODED: u64 = 4096;
    pub(super) const INVALID: u64 = 8192;
}

/// The one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VideoStream {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Name of the pixel format or of the codec, four bytes.
    pub fourcc: [u8; 4],
    /// Unit of timestamps.
    pub time_base: TimeBase,
    /// Shape of a pixel, width by height; 0 by 0 if unknown.
    pub aspect: [u64; 2],
    /// Frames that a decoder holds back to bring them into the order in which they are shown.
    pub delay: u64,
    /// What a decoder has to know before the first frame: headers of the codec.
    pub specific: Vec<u8>,
    /// Frames per second, so that they are not guessed from the first frames. It is written but not read.
    pub rate: Option<TimeBase>,
}

impl VideoStream {
    /// Raw frames, each of which stands for itself.
    pub(crate) fn raw([width, height]: [usize; 2], fourcc: [u8; 4], time_base: TimeBase) -> Self {
        let (aspect, specific) = ([1, 1], Vec::new());
        VideoStream { width, height, fourcc, time_base, aspect, delay: 0, specific, rate: None }
    }
}

/// The name that NUT has for samples; `None` if there is none.
pub(crate) fn fourcc(layout: &Layout) -> Option<[u8; 4]> {
    let depth = u8::try_from(layout.depth).ok().filter(|d| *d <= 16)?;
    Some(match (layout.kind, layout.alpha, depth) {
        (Kind::Gray, false, 8) => *b"Y800",
        (Kind::Gray, false, d) => [b'Y', b'1', 0, d],
        (Kind::Yuv { across: 1, down: 1 }, false, 8) => *b"I420",
        (Kind::Yuv { across: 1, down: 0 }, false, 8) => *b"Y42B",
        (Kind::Yuv { across: 0, down: 0 }, false, 8) => *b"444P",
        (Kind::Yuv { across: 0, down: 1 }, false, 8) => *b"440P",
        (Kind::Yuv { across: 2, down: 0 }, false, 8) => *b"Y41B",
        (Kind::Yuv { across: 2, down: 2 }, false, 8) => *b"YUV9",
        (Kind::Yuv { across: 1, down: 1 }, alpha, d) => [b'Y', b'3' + u8::from(alpha), 11, d],
        (Kind::Yuv { across: 1, down: 0 }, alpha, d) => [b'Y', b'3' + u8::from(alpha), 10, d],
        (Kind::Yuv { across: 0, down: 0 }, alpha, d) => [b'Y', b'3' + u8::from(alpha), 0, d],
        (Kind::Gbr, alpha, d) => [b'G', b'3' + u8::from(alpha), 0, d],
        (Kind::Packed, false, 8) => *b"RGB\x18",
        (Kind::Packed, true, 8) => *b"RGBA",
        (Kind::Packed, false, 16) => *b"RGB\x30",
        (Kind::Packed, true, 16) => *b"RBA\x40",
        _ => return None,
    })
}

/// CRC-32 with the polynomial 0x04C11DB7, highest bit first, from zero.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0u32, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte) << 24,
            |c, _| if c >> 31 == 1 { c << 1 ^ 0x04C1_1DB7 } else { c << 1 },
        )
    })
}
