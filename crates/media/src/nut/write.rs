//! Writing one raw video stream.

use std::io::Write;

use super::{ID, MAIN, MAX_DISTANCE, RawStream, STREAM, SYNCPOINT, checksum, flag, pipe};
use crate::error::MediaError;

fn put_v(out: &mut Vec<u8>, value: u64) {
    let groups = (64 - value.leading_zeros()).div_ceil(7).max(1);
    for i in (0..groups).rev() {
        let more = if i > 0 { 0x80 } else { 0 };
        out.push((value >> (7 * i) & 0x7F) as u8 | more);
    }
}

fn put_packet(out: &mut Vec<u8>, startcode: u64, payload: &[u8]) {
    let mut head = startcode.to_be_bytes().to_vec();
    let length = payload.len() as u64 + 4;
    put_v(&mut head, length);
    if length > 4096 {
        let sum = checksum(&head);
        head.extend(sum.to_be_bytes());
    }
    out.extend(head);
    out.extend(payload);
    out.extend(checksum(payload).to_be_bytes());
}

/// Writes one raw video stream.
pub(crate) struct NutWriter<W> {
    pub(super) out: W,
    written: u64,
    last_sync: Option<u64>,
}

impl<W: Write> NutWriter<W> {
    /// Writes the headers.
    pub(crate) fn new(mut out: W, stream: &RawStream) -> Result<Self, MediaError> {
        let mut bytes = ID.to_vec();
        let mut main = Vec::new();
        for value in [3, 1, MAX_DISTANCE, 1, stream.time_base.num, stream.time_base.den] {
            put_v(&mut main, value);
        }
        // One kind of frame for all codes: everything is said in the frame's own header.
        let flags = flag::KEY | flag::CODED_PTS | flag::SIZE_MSB | flag::CHECKSUM;
        for value in [flags, 6, 0, 1, 0, 0, 0, 255] {
            put_v(&mut main, value);
        }
        put_v(&mut main, 0);
        put_packet(&mut bytes, MAIN, &main);
        let mut head = Vec::new();
        put_v(&mut head, 0);
        put_v(&mut head, 0);
        put_v(&mut head, 4);
        head.extend(stream.fourcc);
        // Time base 0, whole timestamps, any distance, no reordering, no flags, no data of the codec.
        for value in [0, 0, 1 << 30, 0, 0, 0] {
            put_v(&mut head, value);
        }
        for value in [stream.width as u64, stream.height as u64, stream.aspect[0], stream.aspect[1], 0] {
            put_v(&mut head, value);
        }
        put_packet(&mut bytes, STREAM, &head);
        out.write_all(&bytes).map_err(pipe)?;
        Ok(NutWriter { out, written: bytes.len() as u64, last_sync: None })
    }

    /// Writes a frame.
    pub(crate) fn frame(&mut self, pts: u64, data: &[u8]) -> Result<(), MediaError> {
        let mut bytes = Vec::new();
        let mut sync = Vec::new();
        put_v(&mut sync, pts);
        put_v(&mut sync, self.last_sync.map_or(0, |last| (self.written - last) / 16));
        self.last_sync = Some(self.written);
        put_packet(&mut bytes, SYNCPOINT, &sync);
        let start = bytes.len();
        bytes.push(0);
        // Behind the 2^0 timestamps that would be relative: absolute ones.
        put_v(&mut bytes, pts + 1);
        put_v(&mut bytes, data.len() as u64);
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
