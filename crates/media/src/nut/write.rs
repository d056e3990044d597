//! Writing one video stream.

use std::io::Write;

use super::{ID, INFO, MAIN, MAX_DISTANCE, STREAM, SYNCPOINT, VideoStream, checksum, flag, pipe};
use crate::error::MediaError;

/// Numbers in groups of seven bits, the highest first.
fn put(out: &mut Vec<u8>, values: &[u64]) {
    for value in values {
        let groups = (64 - value.leading_zeros()).div_ceil(7).max(1);
        for i in (0..groups).rev() {
            let more = if i > 0 { 0x80 } else { 0 };
            out.push((value >> (7 * i) & 0x7F) as u8 | more);
        }
    }
}

/// Bytes behind their number.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, &[bytes.len() as u64]);
    out.extend(bytes);
}

fn put_packet(out: &mut Vec<u8>, startcode: u64, payload: &[u8]) {
    let mut head = startcode.to_be_bytes().to_vec();
    let length = payload.len() as u64 + 4;
    put(&mut head, &[length]);
    if length > 4096 {
        let sum = checksum(&head);
        head.extend(sum.to_be_bytes());
    }
    out.extend(head);
    out.extend(payload);
    out.extend(checksum(payload).to_be_bytes());
}

/// A text about the stream.
fn info(name: &str, value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    // Of the first stream, of all of its time, and one text; -1 is a text in UTF-8, in the signed numbers of NUT.
    put(&mut out, &[1, 0, 0, 0, 1]);
    put_bytes(&mut out, name.as_bytes());
    put(&mut out, &[2]);
    put_bytes(&mut out, value.as_bytes());
    out
}

/// Writes one video stream.
pub(crate) struct NutWriter<W> {
    pub(super) out: W,
    written: u64,
    last_sync: Option<u64>,
    last_key: u64,
}

impl<W: Write> NutWriter<W> {
    /// Writes the headers.
    pub(crate) fn new(mut out: W, stream: &VideoStream) -> Result<Self, MediaError> {
        let mut bytes = ID.to_vec();
        let mut main = Vec::new();
        put(&mut main, &[3, 1, MAX_DISTANCE, 1, stream.time_base.num, stream.time_base.den]);
        // Code 0 is a key frame, all others are not; everything else is said in the frame's own header.
        let flags = flag::CODED_PTS | flag::SIZE_MSB | flag::CHECKSUM;
        put(&mut main, &[flags | flag::KEY, 6, 0, 1, 0, 0, 0, 1, flags, 6, 0, 1, 0, 0, 0, 254]);
        put(&mut main, &[0]);
        put_packet(&mut bytes, MAIN, &main);
        let mut head = Vec::new();
        put(&mut head, &[0, 0]);
        put_bytes(&mut head, &stream.fourcc);
        // Time base 0, whole timestamps, any distance, then no flags.
        put(&mut head, &[0, 0, 1 << 30, stream.delay, 0]);
        put_bytes(&mut head, &stream.specific);
        put(&mut head, &[stream.width as u64, stream.height as u64, stream.aspect[0], stream.aspect[1], 0]);
        put_packet(&mut bytes, STREAM, &head);
        if let Some(rate) = stream.rate {
            put_packet(&mut bytes, INFO, &info("r_frame_rate", &format!("{}/{}", rate.num, rate.den)));
        }
        out.write_all(&bytes).map_err(pipe)?;
        Ok(NutWriter { out, written: bytes.len() as u64, last_sync: None, last_key: 0 })
    }

    /// Writes a frame, in the order in which they are decoded. A key frame needs no other one.
    pub(crate) fn packet(&mut self, pts: u64, is_key: bool, data: &[u8]) -> Result<(), MediaError> {
        // The clock of syncpoints does not run back, as that of frames does.
        if is_key {
            self.last_key = self.last_key.max(pts);
        }
        let mut bytes = Vec::new();
        let mut sync = Vec::new();
        let back = self.last_sync.map_or(0, |last| (self.written - last) / 16);
        put(&mut sync, &[self.last_key, back]);
        self.last_sync = Some(self.written);
        put_packet(&mut bytes, SYNCPOINT, &sync);
        let start = bytes.len();
        bytes.push(u8::from(!is_key));
        // Behind the 2^0 timestamps that would be relative: absolute ones.
        put(&mut bytes, &[pts + 1, data.len() as u64]);
        let sum = checksum(&bytes[start..]);
        bytes.extend(sum.to_be_bytes());
        self.out.write_all(&bytes).and_then(|()| self.out.write_all(data)).map_err(pipe)?;
        self.written += (bytes.len() + data.len()) as u64;
        Ok(())
    }

    /// Gives the pipe back.
    pub(crate) fn into_inner(self) -> W {
        self.out
    }
}
