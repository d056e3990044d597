//! Raw video with timestamps over a pipe: the NUT container, as much of it as one raw video stream needs.
//!
//! Raw frames alone carry no time: a variable frame rate would be lost, and ffmpeg would repeat or drop
//! frames to make it constant. <https://ffmpeg.org/~michael/nut.txt>

use std::io::{self, Read, Write};

use remaster_picture::{Kind, Layout};
use serde::{Deserialize, Serialize};

use crate::error::MediaError;

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

/// A fraction of a second, or a number of frames per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fraction")]
pub struct TimeBase {
    /// Numerator.
    pub num: u64,
    /// Denominator.
    pub den: u64,
}

impl TimeBase {
    /// This fraction times `num / den`, in lowest terms.
    pub(crate) fn times(self, num: u64, den: u64) -> TimeBase {
        TimeBase::new(self.num.saturating_mul(num), self.den.saturating_mul(den)).unwrap_or(self)
    }

    /// The fraction in lowest terms: NUT takes no other. `None` if one side is zero.
    pub fn new(num: u64, den: u64) -> Option<Self> {
        let (mut a, mut b) = (num, den);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (num > 0 && den > 0).then(|| TimeBase { num: num / a, den: den / a })
    }
}

/// A fraction as files have it.
#[derive(Deserialize)]
struct Fraction {
    num: u64,
    den: u64,
}

impl TryFrom<Fraction> for TimeBase {
    type Error = String;

    fn try_from(Fraction { num, den }: Fraction) -> Result<Self, String> {
        TimeBase::new(num, den).ok_or_else(|| format!("{num}/{den} is not a time base; both must be above 0"))
    }
}

/// The one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawStream {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Name of the pixel format, four bytes.
    pub fourcc: [u8; 4],
    /// Unit of timestamps.
    pub time_base: TimeBase,
    /// Shape of a pixel, width by height; 0 by 0 if unknown.
    pub aspect: [u64; 2],
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
    out: W,
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

#[derive(Clone, Copy, Default)]
struct Code {
    flags: u64,
    stream: u64,
    mul: u64,
    lsb: u64,
    delta: i64,
    reserved: u64,
    header: u64,
}

/// What comes next in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A frame, to be shown at this time.
    Frame(i64),
    /// A frame of more bytes than are believed. Nothing can be read after it.
    TooLong,
    /// Nothing.
    End,
}

/// Reads one raw video stream.
pub(crate) struct NutReader<R> {
    input: R,
    codes: Vec<Code>,
    headers: Vec<Vec<u8>>,
    bases: Vec<TimeBase>,
    stream: RawStream,
    base: usize,
    shift: u64,
    version: u64,
    last: i64,
    /// Largest frame that is believed.
    limit: usize,
}

/// A payload being read.
struct Payload<'a>(&'a [u8]);

impl Payload<'_> {
    fn v(&mut self) -> Result<u64, MediaError> {
        let mut value = 0u64;
        loop {
            let (byte, rest) = self.0.split_first().ok_or_else(broken)?;
            self.0 = rest;
            if value >> 57 != 0 {
                return Err(broken());
            }
            value = value << 7 | u64::from(byte & 0x7F);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
    }

    fn s(&mut self) -> Result<i64, MediaError> {
        let value = self.v()?.wrapping_add(1);
        let half = (value >> 1) as i64;
        Ok(if value & 1 == 1 { -half } else { half })
    }

    fn vb(&mut self) -> Result<Vec<u8>, MediaError> {
        let n = usize::try_from(self.v()?).unwrap_or(usize::MAX);
        if n > self.0.len() {
            return Err(broken());
        }
        let (bytes, rest) = self.0.split_at(n);
        self.0 = rest;
        Ok(bytes.to_vec())
    }
}

impl<R: Read> NutReader<R> {
    /// Reads the headers. Frames of more than `limit` bytes are not read.
    pub(crate) fn new(mut input: R, limit: usize) -> Result<Self, MediaError> {
        let mut id = [0; ID.len()];
        input.read_exact(&mut id).map_err(pipe)?;
        if id != ID {
            return Err(broken());
        }
        let stream = RawStream {
            width: 0,
            height: 0,
            fourcc: [0; 4],
            time_base: TimeBase { num: 1, den: 1 },
            aspect: [0; 2],
        };
        let mut reader = NutReader {
            input,
            codes: Vec::new(),
            headers: vec![Vec::new()],
            bases: Vec::new(),
            stream,
            base: 0,
            shift: 0,
            version: 3,
            last: 0,
            limit,
        };
        // Main header first, then the stream's; anything else is skipped.
        let mut seen = (false, false);
        while seen != (true, true) {
            let startcode = u64::from_be_bytes(reader.bytes()?);
            let payload = reader.packet(startcode)?;
            match startcode {
                MAIN if !seen.0 => {
                    reader.main_header(&payload)?;
                    seen.0 = true;
                }
                STREAM if seen.0 => {
                    reader.stream_header(&payload)?;
                    seen.1 = true;
                }
                _ => {}
            }
        }
        Ok(reader)
    }

    /// What the stream is.
    pub(crate) fn stream(&self) -> &RawStream {
        &self.stream
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], MediaError> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes).map_err(pipe)?;
        Ok(bytes)
    }

    fn v(&mut self, copy: &mut Vec<u8>) -> Result<u64, MediaError> {
        let start = copy.len();
        loop {
            let [byte] = self.bytes()?;
            copy.push(byte);
            if byte & 0x80 == 0 {
                return Payload(&copy[start..]).v();
            }
            if copy.len() - start > 9 {
                return Err(broken());
            }
        }
    }

    /// The payload of a packet whose startcode was read, without its checksum, which is compared.
    fn packet(&mut self, startcode: u64) -> Result<Vec<u8>, MediaError> {
        if ![MAIN, STREAM, SYNCPOINT, INFO, INDEX].contains(&startcode) {
            return Err(broken());
        }
        let mut head = startcode.to_be_bytes().to_vec();
        let length = self.v(&mut head)?;
        if !(4..=MAX_PACKET).contains(&length) {
            return Err(broken());
        }
        if length > 4096 {
            self.bytes::<4>()?;
        }
        let mut payload = vec![0; length as usize];
        self.input.read_exact(&mut payload).map_err(pipe)?;
        let sum = payload.split_off(payload.len() - 4);
        if checksum(&payload).to_be_bytes() != sum[..] {
            return Err(broken());
        }
        Ok(payload)
    }

    fn main_header(&mut self, payload: &[u8]) -> Result<(), MediaError> {
        let mut p = Payload(payload);
        self.version = p.v()?;
        if self.version > 3 {
            p.v()?;
        }
        let (_streams, _distance, bases) = (p.v()?, p.v()?, p.v()?);
        for _ in 0..bases.min(256) {
            self.bases.push(TimeBase::new(p.v()?, p.v()?).ok_or_else(broken)?);
        }
        let (mut delta, mut mul, mut stream, mut header) = (0, 1, 0, 0);
        while self.codes.len() < 256 {
            let (flags, fields) = (p.v()?, p.v()?);
            if fields > 0 {
                delta = p.s()?;
            }
            if fields > 1 {
                mul = p.v()?;
            }
            if fields > 2 {
                stream = p.v()?;
            }
            let size = if fields > 3 { p.v()? } else { 0 };
            let reserved = if fields > 4 { p.v()? } else { 0 };
            let count = if fields > 5 { p.v()? } else { mul.saturating_sub(size) };
            if fields > 6 {
                p.s()?;
            }
            if fields > 7 {
                header = p.v()?;
            }
            for _ in 8..fields.min(64) {
                p.v()?;
            }
            let mut j = 0;
            while j < count && self.codes.len() < 256 {
                if self.codes.len() == usize::from(b'N') {
                    self.codes.push(Code { flags: flag::INVALID, ..Code::default() });
                    continue;
                }
                self.codes.push(Code {
                    flags,
                    stream,
                    mul,
                    lsb: size.saturating_add(j),
                    delta,
                    reserved,
                    header,
                });
                j += 1;
            }
            if count == 0 && fields <= 5 {
                return Err(broken());
            }
        }
        for _ in 0..p.v()?.min(127) {
            self.headers.push(p.vb()?);
        }
        Ok(())
    }

    fn stream_header(&mut self, payload: &[u8]) -> Result<(), MediaError> {
        let mut p = Payload(payload);
        let (_id, class) = (p.v()?, p.v()?);
        let fourcc = p.vb()?;
        let base = p.v()? as usize;
        self.shift = p.v()?;
        let (_distance, _delay, _flags, _specific) = (p.v()?, p.v()?, p.v()?, p.vb()?);
        let (width, height) = (p.v()?, p.v()?);
        let aspect = [p.v()?, p.v()?];
        let base_ok = self.bases.get(base).copied();
        let (0, Some(time_base), Ok(fourcc), 0..=16) =
            (class, base_ok, <[u8; 4]>::try_from(&fourcc[..]), self.shift)
        else {
            return Err(broken());
        };
        if !(1..=65536).contains(&width) || !(1..=65536).contains(&height) {
            return Err(broken());
        }
        self.base = base;
        self.stream = RawStream { width: width as usize, height: height as usize, fourcc, time_base, aspect };
        Ok(())
    }

    /// The next frame, whose bytes go into `data`.
    pub(crate) fn frame(&mut self, data: &mut Vec<u8>) -> Result<Next, MediaError> {
        loop {
            let mut first = Vec::new();
            if self.input.by_ref().take(1).read_to_end(&mut first).map_err(pipe)? == 0 {
                return Ok(Next::End);
            }
            if first[0] == b'N' {
                let rest: [u8; 7] = self.bytes()?;
                let startcode = rest.iter().fold(u64::from(b'N'), |n, b| n << 8 | u64::from(*b));
                let payload = self.packet(startcode)?;
                if startcode == SYNCPOINT {
                    let value = Payload(&payload).v()?;
                    let (pts, id) = (value / self.bases.len() as u64, value % self.bases.len() as u64);
                    self.last = rescale(pts, self.bases[id as usize], self.bases[self.base]);
                }
                continue;
            }
            return self.frame_behind(first, data);
        }
    }

    /// A frame whose first byte was read.
    fn frame_behind(&mut self, first: Vec<u8>, data: &mut Vec<u8>) -> Result<Next, MediaError> {
        let code = self.codes[usize::from(first[0])];
        let mut copy = first;
        let mut flags = code.flags;
        if flags & flag::CODED != 0 {
            flags ^= self.v(&mut copy)?;
        }
        if flags & flag::INVALID != 0 {
            return Err(broken());
        }
        let mut stream = code.stream;
        if flags & flag::STREAM_ID != 0 {
            stream = self.v(&mut copy)?;
        }
        let pts = match flags & flag::CODED_PTS != 0 {
            true => {
                let coded = self.v(&mut copy)?;
                self.whole_time(coded)
            }
            false => self.last.checked_add(code.delta),
        };
        let msb = if flags & flag::SIZE_MSB != 0 { self.v(&mut copy)? } else { 0 };
        if flags & flag::MATCH_TIME != 0 {
            self.v(&mut copy)?;
        }
        let header = if flags & flag::HEADER_IDX != 0 { self.v(&mut copy)? } else { code.header };
        let reserved = if flags & flag::RESERVED != 0 { self.v(&mut copy)? } else { code.reserved };
        for _ in 0..reserved.min(64) {
            self.v(&mut copy)?;
        }
        if flags & flag::CHECKSUM != 0 && self.bytes()? != checksum(&copy).to_be_bytes() {
            return Err(broken());
        }
        let size = msb.checked_mul(code.mul).and_then(|n| n.checked_add(code.lsb));
        let head = usize::try_from(header).ok().and_then(|i| self.headers.get(i));
        let (Some(size), Some(head), Some(pts), 0) = (size, head, pts, stream) else {
            return Err(broken());
        };
        if flags & flag::SIDE_DATA != 0 && self.version > 3 {
            return Err(broken());
        }
        let Some(size) = usize::try_from(size).ok().filter(|n| *n <= self.limit) else {
            return Ok(Next::TooLong);
        };
        data.clear();
        data.extend_from_slice(head);
        let rest = size.checked_sub(head.len()).ok_or_else(broken)?;
        data.resize(head.len() + rest, 0);
        self.input.read_exact(&mut data[head.len()..]).map_err(pipe)?;
        self.last = pts;
        Ok(Next::Frame(pts))
    }

    /// A timestamp that may be given by its lowest bits alone: the one nearest to the last.
    fn whole_time(&self, coded: u64) -> Option<i64> {
        let whole = 1u64 << self.shift;
        if coded >= whole {
            return i64::try_from(coded - whole).ok();
        }
        let (mask, coded) = (whole as i64 - 1, coded as i64);
        let delta = self.last.checked_sub(mask / 2)?;
        (coded.wrapping_sub(delta) & mask).checked_add(delta)
    }
}

/// A timestamp in another unit, rounded down.
fn rescale(pts: u64, from: TimeBase, to: TimeBase) -> i64 {
    let n = u128::from(pts) * u128::from(from.num) * u128::from(to.den);
    let d = u128::from(from.den) * u128::from(to.num);
    i64::try_from(n / d.max(1)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> RawStream {
        RawStream {
            width: 4,
            height: 2,
            fourcc: *b"RGB0",
            time_base: TimeBase { num: 1, den: 90_000 },
            aspect: [1, 1],
        }
    }

    #[test]
    fn a_time_base_is_in_lowest_terms_wherever_it_comes_from() {
        assert_eq!(TimeBase::new(1000, 25000), Some(TimeBase { num: 1, den: 25 }));
        assert_eq!(TimeBase::new(30000, 1001), Some(TimeBase { num: 30000, den: 1001 }));
        assert_eq!(TimeBase::new(u64::MAX, u64::MAX), Some(TimeBase { num: 1, den: 1 }));
        assert_eq!([TimeBase::new(0, 1), TimeBase::new(1, 0), TimeBase::new(0, 0)], [None; 3]);
        let stored: TimeBase = serde_json::from_str(r#"{"num":1000,"den":24000}"#).unwrap();
        assert_eq!(stored, TimeBase { num: 1, den: 24 });
        assert!(serde_json::from_str::<TimeBase>(r#"{"num":1,"den":0}"#).is_err());
    }

    #[test]
    fn frames_and_times_come_back() {
        let mut writer = NutWriter::new(Vec::new(), &stream()).unwrap();
        let frames: Vec<(u64, Vec<u8>)> = [0, 3003, 3004, 1 << 40]
            .iter()
            .enumerate()
            .map(|(i, t)| (*t, vec![i as u8; 70_000 * i]))
            .collect();
        for (pts, data) in &frames {
            writer.frame(*pts, data).unwrap();
        }
        let bytes = writer.into_inner();
        let mut reader = NutReader::new(&bytes[..], 1 << 20).unwrap();
        assert_eq!(*reader.stream(), stream());
        let mut data = Vec::new();
        for (pts, expected) in &frames {
            assert_eq!(reader.frame(&mut data).unwrap(), Next::Frame(*pts as i64));
            assert_eq!(data, *expected);
        }
        assert_eq!(reader.frame(&mut data).unwrap(), Next::End);
        let mut reader = NutReader::new(&bytes[..], 70_000).unwrap();
        let sizes: Vec<_> = (0..3).map(|_| reader.frame(&mut data).unwrap()).collect();
        assert_eq!(sizes, [Next::Frame(0), Next::Frame(3003), Next::TooLong]);
    }

    const DATA: usize = 600;

    /// Two frames, and where each of them begins and ends.
    fn two_frames() -> (Vec<u8>, [usize; 3]) {
        let mut ends = [0; 3];
        let mut writer = NutWriter::new(Vec::new(), &stream()).unwrap();
        for i in 0..2u8 {
            ends[usize::from(i)] = writer.out.len();
            writer.frame(u64::from(i) + 1, &[7 + i; DATA]).unwrap();
        }
        ends[2] = writer.out.len();
        (writer.into_inner(), ends)
    }

    /// All frames of a stream, or the error that it ends in.
    fn read(bytes: &[u8]) -> Result<Vec<(i64, Vec<u8>)>, MediaError> {
        let mut reader = NutReader::new(bytes, 1 << 16)?;
        let (mut frames, mut data) = (Vec::new(), Vec::new());
        loop {
            match reader.frame(&mut data)? {
                Next::Frame(pts) => frames.push((pts, data.clone())),
                Next::TooLong => return Err(broken()),
                Next::End => return Ok(frames),
            }
        }
    }

    #[test]
    fn a_stream_that_is_cut_ends_in_an_error_unless_it_is_cut_between_frames() {
        let (bytes, ends) = two_frames();
        for i in 0..bytes.len() {
            match ends.iter().position(|end| *end == i) {
                Some(frames) => assert_eq!(read(&bytes[..i]).unwrap().len(), frames, "byte {i}"),
                // A packet between frames that is whole is no half frame either.
                None => match read(&bytes[..i]) {
                    Ok(frames) => assert!(frames.len() < 2 && bytes[i..].len() > DATA, "byte {i}"),
                    Err(e) => assert!(matches!(e, MediaError::Io { .. }), "byte {i}: {e}"),
                },
            }
        }
    }

    #[test]
    fn a_flipped_bit_ends_in_an_error_or_stays_one_bit_of_a_picture() {
        let (bytes, ends) = two_frames();
        let good = read(&bytes).unwrap();
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 1 << (i % 8);
            let in_picture = ends[1..].iter().any(|end| (end - DATA..*end).contains(&i));
            match read(&damaged) {
                Err(_) => assert!(!in_picture, "byte {i}"),
                Ok(frames) => {
                    assert!(in_picture, "byte {i} is in no picture");
                    let times = |list: &[(i64, Vec<u8>)]| list.iter().map(|f| f.0).collect::<Vec<_>>();
                    assert_eq!(times(&frames), times(&good), "byte {i}");
                    let all =
                        |list: &[(i64, Vec<u8>)]| list.iter().flat_map(|f| f.1.clone()).collect::<Vec<_>>();
                    let changed = all(&frames).iter().zip(all(&good)).filter(|(a, b)| *a != b).count();
                    assert_eq!(changed, 1, "byte {i}");
                }
            }
        }
    }

    #[test]
    fn times_at_the_end_of_the_range_are_no_panic() {
        for pts in [0, 1, i64::MAX as u64 - 1, i64::MAX as u64, u64::MAX - 2] {
            let mut writer = NutWriter::new(Vec::new(), &stream()).unwrap();
            writer.frame(pts, &[1; 24]).unwrap();
            let read = read(&writer.into_inner());
            assert_eq!(read.is_ok(), pts <= i64::MAX as u64, "{pts}");
        }
        let reduced = TimeBase { num: 1000, den: 25000 }.times(1, 2);
        assert_eq!(reduced, TimeBase { num: 1, den: 50 });
    }
}
