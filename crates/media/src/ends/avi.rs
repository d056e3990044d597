//! AVI: the frames that its headers announce, and the chunks that are there. ffprobe guesses the length of a file that was
//! cut from its size, and a decoder has nothing to complain about where a chunk is the last one.

use std::ops::Range;

use super::Fault;
use super::places::{Places, u16_le, u32_le, u64_le};

/// Chunks that are counted, one by one: those of a day of video and sound.
const MAX_CHUNKS: usize = 1 << 24;

/// RIFFs of a file, of which each has a gigabyte, and parts of a header.
const MAX_PARTS: usize = 1 << 10;

/// Frames that a header is believed: four months. A file that is written to a pipe announces 2^30, or none.
const MAX_FRAMES: u32 = 1 << 28;

/// Sizes that were never put in: a writer that cannot go back leaves one of these.
const UNKNOWN_SIZES: [u32; 3] = [0, 0x7FFF_FFFF, u32::MAX];

/// Bytes that a chunk with a picture has at least. MPEG-4 says in up to 12 that a picture is the one before, and decoders
/// give nothing for that; a dropped frame has none at all.
const PICTURE: u32 = 16;

/// Bytes that may be missing at the end of a list: what pads its last chunk.
const PADDING: u64 = 2;

/// Chunks of the video stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunks {
    /// All of them: each is the time of a frame, also where it is empty because the frame was dropped.
    pub(crate) all: usize,
    /// Those that are not empty.
    pub(crate) filled: usize,
    /// Those that are large enough for a picture.
    pub(crate) pictures: usize,
}

impl Chunks {
    fn add(&mut self, size: u32) {
        self.all += 1;
        self.filled += usize::from(size > 0);
        self.pictures += usize::from(size >= PICTURE);
    }
}

/// What is known of an AVI.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Avi {
    /// Chunks of its video, if they were counted.
    pub(crate) chunks: Option<Chunks>,
    /// Seconds that each of them stands for.
    pub(crate) step: Option<f64>,
    /// What it lacks.
    pub(crate) fault: Option<Fault>,
}

/// Looks at the AVI in `file`, whose video is the stream of this number.
pub(crate) fn look(file: &mut Places, stream: usize) -> Option<Avi> {
    let Body { headers, movies, index } = body(file, stream);
    let digits = digits(stream).filter(|_| headers.is_video)?;
    let announced = headers.announced();
    let listed = match headers.indexes {
        Some(indexes) => opendml(file, &indexes),
        None => index.and_then(|index| idx1(file, &index, digits)),
    };
    // An index can be that of the first gigabyte, or of key frames: the chunks themselves say what is there.
    let chunks = match (announced, listed) {
        (Some(stated), Some(found)) if found.all >= stated => listed,
        (Some(_), _) => walk(file, digits),
        (None, _) => listed,
    };
    let cut = movies.last().copied().filter(|end| *end > file.length() + PADDING);
    let short = announced.zip(chunks).filter(|(stated, found)| {
        // A header can be wrong by some where the file itself is whole.
        let allowed = if cut.is_some() { 0 } else { 2 + stated / 100 };
        found.all + allowed < *stated
    });
    let fault = match (short, cut) {
        (Some((stated, found)), _) => Some(Fault::Frames { got: found.all, stated }),
        (None, Some(needs)) => Some(Fault::Bytes { has: file.length(), needs }),
        (None, None) => None,
    };
    let [scale, rate] = headers.scale.map(f64::from);
    let step = Some(scale / rate).filter(|step| (1e-5..=3600.0).contains(step));
    Some(Avi { chunks, step, fault })
}

/// Where a chunk is, behind its name and size.
struct Chunk {
    name: [u8; 4],
    size: u32,
    data: u64,
}

impl Chunk {
    fn at(file: &mut Places, at: u64) -> Option<Self> {
        let [a, b, c, d, size @ ..] = file.bytes::<8>(at)?;
        Some(Chunk { name: [a, b, c, d], size: u32::from_le_bytes(size), data: at + 8 })
    }

    fn bytes(&self) -> Range<u64> {
        self.data..self.data + u64::from(self.size)
    }

    /// The place of the next one.
    fn next(&self) -> u64 {
        self.bytes().end + u64::from(self.size % 2)
    }

    /// Of which kind a list is, and where its parts begin; `None` for a chunk that is no list.
    fn list(&self, file: &mut Places) -> Option<([u8; 4], u64)> {
        let is_list = matches!(&self.name, b"RIFF" | b"LIST");
        Some((file.bytes::<4>(self.data).filter(|_| is_list)?, self.data + 4))
    }

    fn has_size(&self) -> bool {
        !UNKNOWN_SIZES.contains(&self.size)
    }
}

/// The chunks of a range, one behind the other, but not what is in them.
fn parts(file: &mut Places, range: Range<u64>) -> Vec<Chunk> {
    let mut found = Vec::new();
    let mut at = range.start;
    while at < range.end && found.len() < MAX_PARTS {
        let Some(chunk) = Chunk::at(file, at) else { break };
        at = chunk.next();
        found.push(chunk);
    }
    found
}

/// The headers of a file.
#[derive(Debug, Default)]
struct Headers {
    /// Frames of the first RIFF, of the stream, and of all RIFFs.
    frames: [u32; 3],
    /// Units of time that a frame is shown, and those of a second.
    scale: [u32; 2],
    /// The index of indexes of the video stream.
    indexes: Option<Range<u64>>,
    is_video: bool,
}

impl Headers {
    /// Frames that are announced. Only OpenDML's own number is sure to be that of all RIFFs.
    fn announced(&self) -> Option<usize> {
        let [first, stream, all] = self.frames;
        let known = [all, stream, first].into_iter().find(|n| (1..MAX_FRAMES).contains(n));
        known.map(|n| n as usize)
    }

    /// Reads the list `hdrl`.
    fn read(&mut self, file: &mut Places, range: Range<u64>, stream: usize) {
        let mut streams = 0;
        for part in parts(file, range) {
            match (&part.name, part.list(file)) {
                (b"avih", _) => self.frames[0] = number(file, part.data + 16),
                (b"LIST", Some((kind, from))) if &kind == b"odml" => {
                    let dmlh = parts(file, from..part.bytes().end).into_iter().find(|p| &p.name == b"dmlh");
                    self.frames[2] = dmlh.map_or(0, |dmlh| number(file, dmlh.data));
                }
                (b"LIST", Some((kind, from))) if &kind == b"strl" => {
                    if streams == stream {
                        self.read_stream(file, from..part.bytes().end);
                    }
                    streams += 1;
                }
                _ => {}
            }
        }
    }

    fn read_stream(&mut self, file: &mut Places, range: Range<u64>) {
        for part in parts(file, range) {
            match &part.name {
                b"strh" => {
                    let Some(bytes) = file.bytes::<36>(part.data) else { continue };
                    self.is_video = matches!(bytes.get(..4), Some(b"vids" | b"iavs"));
                    self.scale = [u32_le(&bytes, 20), u32_le(&bytes, 24)];
                    self.frames[1] = u32_le(&bytes, 32);
                }
                b"indx" => self.indexes = Some(part.bytes()),
                _ => {}
            }
        }
    }
}

/// A number of four bytes; 0 if it is not there.
fn number(file: &mut Places, at: u64) -> u32 {
    file.bytes::<4>(at).map_or(0, u32::from_le_bytes)
}

/// A file without its chunks of video and sound.
#[derive(Default)]
struct Body {
    headers: Headers,
    /// Where the lists of chunks end by their own words.
    movies: Vec<u64>,
    /// The index of the first RIFF.
    index: Option<Range<u64>>,
}

fn body(file: &mut Places, stream: usize) -> Body {
    let mut body = Body::default();
    let length = file.length();
    for riff in parts(file, 0..length) {
        let Some((_, from)) = riff.list(file).filter(|_| &riff.name == b"RIFF") else { break };
        let end = if riff.has_size() { riff.bytes().end } else { length };
        for part in parts(file, from..end) {
            match (&part.name, part.list(file)) {
                (b"LIST", Some((kind, from))) if &kind == b"hdrl" && body.movies.is_empty() => {
                    body.headers.read(file, from..part.bytes().end, stream);
                }
                (b"LIST", Some((kind, _))) if &kind == b"movi" => {
                    if !part.has_size() {
                        return body;
                    }
                    body.movies.push(part.bytes().end);
                }
                (b"idx1", _) if body.index.is_none() => body.index = Some(part.bytes()),
                _ => {}
            }
        }
        if !riff.has_size() {
            break;
        }
    }
    body
}

/// The digits with which the names of a stream's chunks begin.
fn digits(stream: usize) -> Option<[u8; 2]> {
    let digit = |n: usize| b'0' + (n % 10) as u8;
    (stream < 100).then(|| [digit(stream / 10), digit(stream)])
}

/// Whether a chunk of this name holds a frame of the video: palettes do not.
fn is_frame(name: &[u8], digits: [u8; 2]) -> bool {
    name.starts_with(&digits) && name.get(2..4) != Some(b"pc")
}

/// Chunks that the old index lists, which is behind them; `None` if it is not all there.
fn idx1(file: &mut Places, range: &Range<u64>, digits: [u8; 2]) -> Option<Chunks> {
    let entries = (range.end - range.start) / 16;
    if range.end > file.length() || entries > MAX_CHUNKS as u64 {
        return None;
    }
    let mut found = Chunks::default();
    for entry in 0..entries {
        let entry = file.bytes::<16>(range.start + 16 * entry)?;
        if is_frame(&entry, digits) {
            found.add(u32_le(&entry, 12));
        }
    }
    Some(found)
}

/// Chunks that are there of those that OpenDML's indexes list.
fn opendml(file: &mut Places, range: &Range<u64>) -> Option<Chunks> {
    const INDEXES: u8 = 0;
    let (mut found, mut left) = (Chunks::default(), MAX_CHUNKS);
    let head = file.bytes::<24>(range.start)?;
    if head[3] != INDEXES {
        list(file, range.start, &mut found, &mut left)?;
        return Some(found);
    }
    let most = range.end.saturating_sub(range.start + 24) / 16;
    for entry in 0..u64::from(u32_le(&head, 4)).min(most).min(MAX_PARTS as u64) {
        let entry = file.bytes::<16>(range.start + 24 + 16 * entry)?;
        // One that is behind the end lists nothing that is there.
        let _ = list(file, u64_le(&entry, 0).saturating_add(8), &mut found, &mut left);
    }
    Some(found).filter(|_| left > 0)
}

/// Counts the chunks of one index, of which `left` may still be looked at. `None` if not all of it is there.
fn list(file: &mut Places, at: u64, found: &mut Chunks, left: &mut usize) -> Option<()> {
    const CHUNKS: u8 = 1;
    const SIZE: u32 = 0x7FFF_FFFF;
    let head = file.bytes::<24>(at)?;
    let (step, base) = (4 * u64::from(u16_le(&head, 0)), u64_le(&head, 12));
    if head[3] != CHUNKS || step < 8 {
        return None;
    }
    for entry in 0..u64::from(u32_le(&head, 4)) {
        let entry = file.bytes::<8>((at + 24).checked_add(step * entry)?)?;
        let size = u32_le(&entry, 4) & SIZE;
        let end = base.saturating_add(u64::from(u32_le(&entry, 0))).saturating_add(u64::from(size));
        if end <= file.length() {
            found.add(size);
        }
        *left = left.checked_sub(1)?;
    }
    Some(())
}

/// Goes from chunk to chunk, whatever lists say of their ends. `None` if there are too many.
fn walk(file: &mut Places, digits: [u8; 2]) -> Option<Chunks> {
    let mut found = Chunks::default();
    let mut at = 0;
    for _ in 0..MAX_CHUNKS {
        let Some(chunk) = Chunk::at(file, at) else { return Some(found) };
        at = match chunk.list(file) {
            Some((kind, from)) if matches!(&kind, b"AVI " | b"AVIX" | b"movi" | b"rec ") => from,
            Some(_) => chunk.next(),
            None if is_frame(&chunk.name, digits) => {
                if chunk.bytes().end > file.length() {
                    return Some(found);
                }
                found.add(chunk.size);
                next(file, &chunk)
            }
            None => next(file, &chunk),
        };
    }
    None
}

/// The place of the next chunk. Some writers do not pad those of odd sizes.
fn next(file: &mut Places, chunk: &Chunk) -> u64 {
    let is_name = |name: [u8; 4]| name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'_'));
    let at = chunk.next();
    let is_chunk = |file: &mut Places, at| file.bytes::<4>(at).is_some_and(is_name);
    if chunk.size % 2 == 1 && !is_chunk(file, at) && is_chunk(file, at - 1) { at - 1 } else { at }
}
