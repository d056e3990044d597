//! Reading one video stream.

use std::io::{ErrorKind, Read};

use super::{
    ID, INDEX, INFO, MAIN, MAX_PACKET, STREAM, SYNCPOINT, TimeBase, VideoStream, broken, checksum, flag, pipe,
};
use crate::error::MediaError;

/// Frames that a decoder may hold back; H.264 and HEVC allow 16.
const MAX_DELAY: u64 = 1000;

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

/// Reads one video stream.
pub(crate) struct NutReader<R> {
    input: R,
    codes: Vec<Code>,
    headers: Vec<Vec<u8>>,
    bases: Vec<TimeBase>,
    stream: VideoStream,
    base: usize,
    shift: u64,
    version: u64,
    last: i64,
    /// The last frame needs no other.
    is_key: bool,
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
        let mut reader = NutReader {
            input,
            codes: Vec::new(),
            headers: vec![Vec::new()],
            bases: Vec::new(),
            stream: VideoStream::raw([0; 2], [0; 4], TimeBase { num: 1, den: 1 }),
            base: 0,
            shift: 0,
            version: 3,
            last: 0,
            is_key: false,
            limit,
        };
        // Main header first, then the stream's; anything else is skipped.
        loop {
            let startcode = u64::from_be_bytes(reader.bytes()?);
            let payload = reader.packet(startcode)?;
            match startcode {
                MAIN if reader.codes.is_empty() => reader.main_header(&payload)?,
                STREAM if !reader.codes.is_empty() => {
                    reader.stream_header(&payload)?;
                    return Ok(reader);
                }
                _ => {}
            }
        }
    }

    /// What the stream is.
    pub(crate) fn stream(&self) -> &VideoStream {
        &self.stream
    }

    /// Whether the last frame needs no other.
    pub(crate) fn is_key(&self) -> bool {
        self.is_key
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

    /// An index is as long as the file asks for, and is not needed.
    fn skip_index(&mut self) -> Result<(), MediaError> {
        let length = self.v(&mut Vec::new())?;
        let length = if length > 4096 { length.saturating_add(4) } else { length };
        let skipped = std::io::copy(&mut self.input.by_ref().take(length), &mut std::io::sink());
        if skipped.map_err(pipe)? < length {
            return Err(pipe(ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
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
            delta = if fields > 0 { p.s()? } else { delta };
            mul = if fields > 1 { p.v()? } else { mul };
            stream = if fields > 2 { p.v()? } else { stream };
            let size = if fields > 3 { p.v()? } else { 0 };
            let reserved = if fields > 4 { p.v()? } else { 0 };
            let count = if fields > 5 { p.v()? } else { mul.saturating_sub(size) };
            if fields > 6 {
                p.s()?;
            }
            header = if fields > 7 { p.v()? } else { header };
            for _ in 8..fields.min(64) {
                p.v()?;
            }
            let mut j = 0;
            while j < count && self.codes.len() < 256 {
                if self.codes.len() == usize::from(b'N') {
                    self.codes.push(Code { flags: flag::INVALID, ..Code::default() });
                    continue;
                }
                let lsb = size.saturating_add(j);
                self.codes.push(Code { flags, stream, mul, lsb, delta, reserved, header });
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
        let (_distance, delay, _flags, specific) = (p.v()?, p.v()?, p.v()?, p.vb()?);
        let (width, height) = (p.v()?, p.v()?);
        let aspect = [p.v()?, p.v()?];
        let base_ok = self.bases.get(base).copied();
        let (0, Some(time_base), Ok(fourcc), 0..=16) =
            (class, base_ok, <[u8; 4]>::try_from(&fourcc[..]), self.shift)
        else {
            return Err(broken());
        };
        let sides = 1..=65536;
        if !sides.contains(&width) || !sides.contains(&height) || delay > MAX_DELAY {
            return Err(broken());
        }
        self.base = base;
        let (width, height) = (width as usize, height as usize);
        self.stream = VideoStream { width, height, fourcc, time_base, aspect, delay, specific, rate: None };
        Ok(())
    }

    /// The next frame, whose bytes go into `data`.
    pub(crate) fn frame(&mut self, data: &mut Vec<u8>) -> Result<Next, MediaError> {
        loop {
            let mut first = Vec::new();
            if self.input.by_ref().take(1).read_to_end(&mut first).map_err(pipe)? == 0 {
                return Ok(Next::End);
            }
            if first[0] != b'N' {
                return self.frame_behind(first, data);
            }
            let rest: [u8; 7] = self.bytes()?;
            let startcode = rest.iter().fold(u64::from(b'N'), |n, b| n << 8 | u64::from(*b));
            if startcode == INDEX {
                self.skip_index()?;
                continue;
            }
            let payload = self.packet(startcode)?;
            if startcode == SYNCPOINT {
                let value = Payload(&payload).v()?;
                // At least one: the header of the stream names it.
                let bases = self.bases.len() as u64;
                // Frames that are held back can start before 0, which ffmpeg writes as it stands in memory.
                let (pts, id) = ((value / bases) as i64, value % bases);
                self.last = rescale(pts, self.bases[id as usize], self.bases[self.base]);
            }
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
        let stream = if flags & flag::STREAM_ID != 0 { self.v(&mut copy)? } else { code.stream };
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
        // Long frames have no common start.
        let header = if size.is_some_and(|n| n > 4096) { 0 } else { header };
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
        // Grown as it comes: a length that is a lie costs nothing.
        let read = self.input.by_ref().take(rest as u64).read_to_end(data).map_err(pipe)?;
        if read < rest {
            return Err(pipe(ErrorKind::UnexpectedEof.into()));
        }
        self.last = pts;
        self.is_key = flags & flag::KEY != 0;
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
fn rescale(pts: i64, from: TimeBase, to: TimeBase) -> i64 {
    let n = i128::from(pts).saturating_mul(i128::from(from.num)).saturating_mul(i128::from(to.den));
    let d = i128::from(from.den).saturating_mul(i128::from(to.num)).max(1);
    n.div_euclid(d).clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
