//! Raw frames come back as they were, and no stream of them can do harm.

use std::io::{BufReader, Cursor, Read};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use remaster_media::{
    Format, FrameSink, FrameSource, MediaError, RawFrames, RawReader, RawWriter, Span, Stop, TimeBase,
};
use remaster_picture::{Coding, Frame, Kind, Matrix, Range, Siting};
use remaster_testkit::Rng;
use remaster_testkit::hostile::{attack, measured};

/// What a frame may take.
const MOST: u64 = 16 << 20;

fn open<R: Read + Send>(kind: RawFrames, bytes: R) -> Result<RawReader<BufReader<R>>, MediaError> {
    RawReader::new(kind, BufReader::new(bytes), "-".into(), MOST, Stop::never())
}

fn read(kind: RawFrames, bytes: &[u8]) -> Result<(Format, Vec<Frame>), MediaError> {
    let mut reader = open(kind, Cursor::new(bytes))?;
    let mut frames = Vec::new();
    loop {
        let mut frame = Frame::default();
        match reader.next(&mut frame)? {
            Some(pts) => assert_eq!(pts, frames.len() as i64),
            None => return Ok((reader.format().clone(), frames)),
        }
        frames.push(frame);
    }
}

/// A stdout that can be looked at.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn write(kind: RawFrames, format: &Format, counted: bool, frames: &[Frame]) -> Vec<u8> {
    let out = Shared::default();
    let stated = Some(frames.len()).filter(|_| counted);
    let mut writer = Box::new(RawWriter::create(kind, out.clone(), format, stated).unwrap());
    for (i, frame) in frames.iter().enumerate() {
        let before = out.0.lock().unwrap().len();
        writer.write(frame, i as i64).unwrap();
        let bytes = kind.layout().bytes(frame.width, frame.height).unwrap();
        assert_eq!(out.0.lock().unwrap().len(), before + bytes, "a frame waits");
    }
    writer.finish().unwrap();
    out.0.lock().unwrap().clone()
}

fn sample(kind: RawFrames, rng: &mut Rng) -> Vec<u8> {
    match kind {
        RawFrames::Rgbf32 => (rng.below(1 << 20) as f32 / (1 << 20) as f32).to_le_bytes().to_vec(),
        _ => (rng.bits() as u16).to_le_bytes().to_vec(),
    }
}

/// A good stream of noise.
fn good(kind: RawFrames, [width, height]: [usize; 2], frames: usize, more: &str) -> Vec<u8> {
    let mut rng = Rng::new(width as u64 * 31 + height as u64);
    let name = kind.name();
    let mut bytes = format!("REMASTER-FRAMES {name} W{width} H{height} F30000:1001{more}\n").into_bytes();
    let channels = if kind == RawFrames::Rgba16 { 4 } else { 3 };
    for _ in 0..width * height * channels * frames {
        bytes.extend(sample(kind, &mut rng));
    }
    bytes
}

fn kinds() -> impl Iterator<Item = RawFrames> {
    RawFrames::NAMES.iter().map(|(name, kind)| {
        assert_eq!(kind.name(), *name);
        assert_eq!(serde_json::to_value(kind).unwrap(), *name);
        *kind
    })
}

#[test]
fn every_kind_and_size_comes_back_to_the_byte() {
    for kind in kinds() {
        for size in [[1, 1], [7, 5], [16, 3], [1, 33], [97, 53]] {
            for counted in [false, true] {
                let stream = good(kind, size, 3, if counted { " A4:3 L3" } else { " A4:3" });
                let (format, frames) = read(kind, &stream).unwrap();
                assert_eq!([format.width, format.height], size);
                assert_eq!(format.rate, Some(TimeBase { num: 30000, den: 1001 }));
                assert_eq!((format.sample_aspect, format.frames), ([4, 3], counted.then_some(3)));
                assert_eq!((format.colour.guesses(), format.layout), (None, kind.layout()));
                assert!(write(kind, &format, counted, &frames) == stream, "{kind:?} {size:?}");
            }
        }
    }
}

/// The slow twin: ffmpeg's planes, which are green, blue, red.
#[test]
fn planes_are_those_of_ffmpeg_in_another_order() {
    let coding = Coding { matrix: Matrix::Rgb, range: Range::Full, siting: Siting::Left };
    for kind in kinds() {
        let stream = good(kind, [13, 7], 1, "");
        let (format, frames) = read(kind, &stream).unwrap();
        let start = stream.iter().position(|b| *b == b'\n').unwrap() + 1;
        let mut planes = stream[start..].to_vec();
        let plane = planes.len() / format.channels();
        planes[..3 * plane].rotate_left(plane);
        let layout = kind.layout();
        assert_eq!(layout.kind, Kind::Gbr);
        let mut frame = Frame::new(13, 7, format.channels());
        layout.unpack(&planes, &coding, &mut frame).unwrap();
        assert!(frame == frames[0], "{kind:?}");
        // Beyond what can be written, and in between.
        let count = frame.data.len() as f32;
        frame.data.iter_mut().enumerate().for_each(|(i, v)| *v = i as f32 / count * 1.4 - 0.2);
        let made = write(kind, &format, false, std::slice::from_ref(&frame));
        if kind == RawFrames::Rgbf32 {
            frame.data.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
        }
        let mut packed = Vec::new();
        layout.pack(&frame, &coding, &mut packed).unwrap();
        packed[..3 * plane].rotate_right(plane);
        let start = made.iter().position(|b| *b == b'\n').unwrap() + 1;
        assert!(made[start..] == packed, "{kind:?}");
    }
}

#[test]
fn what_has_no_alpha_is_opaque_and_alpha_is_never_dropped() {
    let (format, frames) = read(RawFrames::Rgb16, &good(RawFrames::Rgb16, [3, 2], 1, "")).unwrap();
    let (clear, made) = read(RawFrames::Rgba16, &write(RawFrames::Rgba16, &format, false, &frames)).unwrap();
    assert!(
        made[0].without_alpha() == frames[0] && made[0].data.iter().skip(3).step_by(4).all(|a| *a == 1.0)
    );
    for kind in [RawFrames::Rgb16, RawFrames::Rgbf32] {
        let error = RawWriter::create(kind, Vec::new(), &clear, None).err().unwrap().to_string();
        assert!(error.contains("alpha") && error.ends_with("use --frames rgba16"), "{error}");
    }
}

/// Headers out of good and bad words, with what should become of them.
#[test]
fn headers_are_what_the_grammar_says() {
    let mut rng = Rng::new(28);
    let good: [&[&str]; 5] = [
        &["W3", "W03"],
        &["H2"],
        &["F25:1", "F30000:1001", "F4294967295:1"],
        &["A1:1", "A64:45", "A4294967295:4294967295"],
        &["L2", "L02"],
    ];
    let bad: [&[&str]; 5] = [
        &["W", "W0", "W-3", "W3.0", "W99999999999999999999", "W32769", "W3 "],
        &["H", "H0", "Hx", "H2\r", "H268435456"],
        &["F", "F25", "F0:1", "F25:0", "F4294967296:1", "F25:1:1", "F:"],
        &["A", "A0:0", "A1", "A1:-1"],
        &["L", "L0", "L-1", "L1", "L3", "L4294967296", "L99999999999999999999999"],
    ];
    let other = ["XCOMMENT=a", "X", "C420", "w3", "\u{e9}", ""];
    // Two frames.
    let body = [7u8; 2 * 3 * 3 * 2 * 2];
    for case in 0..4000 {
        let mut words = Vec::new();
        for (good, bad) in good.iter().zip(&bad) {
            match rng.below(16) {
                0 => {}
                1 => words.push(rng.pick(bad)),
                2 => words.extend([rng.pick(good), rng.pick(good)]),
                _ => words.push(rng.pick(good)),
            }
        }
        if rng.one_in(4) {
            words.push(rng.pick(&other));
        }
        for i in (1..words.len()).rev() {
            words.swap(i, rng.below(i + 1));
        }
        let mut stream = format!("REMASTER-FRAMES rgb16 {}\n", words.join(" ")).into_bytes();
        stream.extend(body);
        let required = ["W", "H", "F"].iter().all(|key| words.iter().any(|word| word.starts_with(key)));
        let doubled = ["W", "H", "F", "A", "L"]
            .iter()
            .any(|key| words.iter().filter(|word| word.starts_with(key)).count() > 1);
        let listed = |word: &&str| word.starts_with('X') || good.iter().any(|good| good.contains(word));
        let expected = required && !doubled && words.iter().all(listed);
        let found = read(RawFrames::Rgb16, &stream);
        let line = String::from_utf8_lossy(&stream[..stream.len() - body.len()]).into_owned();
        assert_eq!(found.is_ok(), expected, "case {case}: {line:?}: {:?}", found.err());
        if let Ok((_, frames)) = found {
            assert_eq!(frames.len(), 2, "{line:?}");
        }
    }
}

#[test]
fn other_streams_are_named_with_what_helps() {
    let body = "W1 H1 F25:1\n123456";
    for (start, word) in [
        ("YUV4MPEG2", "leave --frames out for y4m"),
        ("REMASTER-FRAMES rgba16", "use --frames rgba16"),
        ("REMASTER-FRAMES rgbf32", "use --frames rgbf32"),
        ("REMASTER-FRAMES rgb8", "rgb16, rgbf32 or rgba16"),
        ("REMASTER-FRAMES  rgb16", "rgb16, rgbf32 or rgba16"),
    ] {
        let error = read(RawFrames::Rgb16, format!("{start} {body}").as_bytes()).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_stream_that_ends_too_soon_or_too_late_is_an_error() {
    for kind in kinds() {
        for more in ["", " L2"] {
            let stream = good(kind, [3, 2], 2, more);
            let header = stream.iter().position(|b| *b == b'\n').unwrap() + 1;
            let frame = (stream.len() - header) / 2;
            for end in 0..stream.len() {
                let whole = end >= header && (end - header).is_multiple_of(frame) && more.is_empty();
                assert_eq!(read(kind, &stream[..end]).is_ok(), whole, "{kind:?}{more}, {end} bytes");
            }
            assert_eq!(read(kind, &stream).unwrap().1.len(), 2);
            let longer = [stream.as_slice(), &[0]].concat();
            let error = read(kind, &longer).unwrap_err().to_string();
            assert!(error.contains(if more.is_empty() { "within frame 2" } else { "goes on" }), "{error}");
        }
    }
    // The last frame that was announced is not given before it is sure that it is the last one.
    let stream = good(RawFrames::Rgb16, [3, 2], 2, " L1");
    let mut reader = open(RawFrames::Rgb16, Cursor::new(stream)).unwrap();
    assert!(reader.next(&mut Frame::default()).is_err());
}

#[test]
fn floats_that_are_no_numbers_are_refused_with_their_place() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut stream = good(RawFrames::Rgbf32, [3, 2], 2, "");
        let at = stream.len() - 4;
        stream[at..].copy_from_slice(&value.to_le_bytes());
        let error = read(RawFrames::Rgbf32, &stream).unwrap_err().to_string();
        assert!(error.contains("blue of frame 1") && error.contains("column 2, row 1"), "{error}");
    }
    let mut stream = good(RawFrames::Rgbf32, [1, 1], 1, "");
    let at = stream.len() - 12;
    for (i, value) in [-0.5f32, 1.5, 1e30].into_iter().enumerate() {
        stream[at + 4 * i..][..4].copy_from_slice(&value.to_le_bytes());
    }
    let (format, mut frames) = read(RawFrames::Rgbf32, &stream).unwrap();
    assert_eq!(frames[0].data, [0.0, 1.0, 1.0]);
    // None is ever written.
    frames[0].data = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let made = write(RawFrames::Rgbf32, &format, false, &frames);
    assert_eq!(read(RawFrames::Rgbf32, &made).unwrap().1[0].data, [0.0, 1.0, 0.0]);
}

#[test]
fn a_part_is_counted_in_frames() {
    let noise = good(RawFrames::Rgb16, [3, 2], 10, "");
    let start = noise.iter().position(|b| *b == b'\n').unwrap() + 1;
    let stream = [b"REMASTER-FRAMES rgb16 W3 H2 F25:1 L10\n", &noise[start..]].concat();
    let (_, all) = read(RawFrames::Rgb16, &stream).unwrap();
    let second = |n: f64| Some(Duration::from_secs_f64(n));
    let span = Span::new(second(0.08), second(0.2));
    let mut reader = open(RawFrames::Rgb16, Cursor::new(&stream)).unwrap().within(span).unwrap();
    assert_eq!(reader.format().frames, None);
    let mut frame = Frame::default();
    for (i, whole) in all[2..5].iter().enumerate() {
        assert_eq!(reader.next(&mut frame).unwrap(), Some(i as i64));
        assert!(frame == *whole);
    }
    assert_eq!(reader.next(&mut frame).unwrap(), None);
    let late = Span::new(second(1.0), None);
    assert!(open(RawFrames::Rgb16, Cursor::new(&stream)).unwrap().within(late).is_err());
}

#[test]
fn a_stream_is_never_held_as_a_whole() {
    let header = "REMASTER-FRAMES rgb16 W64 H48 F25:1 L2000\n";
    let frame = 64 * 48 * 3 * 2;
    let body = std::io::repeat(9).take(2000 * frame);
    let mut frames = 0;
    let (ended, held) = measured(|| {
        let mut reader = open(RawFrames::Rgb16, Cursor::new(header).chain(body))?;
        let mut frame = Frame::default();
        let mut writer =
            Box::new(RawWriter::create(RawFrames::Rgbf32, std::io::sink(), reader.format(), Some(2000))?);
        while let Some(pts) = reader.next(&mut frame)? {
            writer.write(&frame, pts)?;
            frames += 1;
        }
        writer.finish()
    });
    ended.unwrap();
    // Both buffers of 1 MiB and less, and a few frames.
    assert!(frames == 2000 && held < (2 << 20) + 8 * frame as usize, "{held}");
}

#[test]
fn no_stream_does_harm() {
    for kind in kinds() {
        let files = [good(kind, [5, 3], 3, ""), good(kind, [8, 6], 2, " A1:1 L2 XCOMMENT")];
        attack(kind.name(), &files, MOST as usize + (64 << 20), |bytes| drop(read(kind, bytes)));
    }
    for size in ["W16384 H16384", "W2048 H2048"] {
        let file = format!("REMASTER-FRAMES rgbf32 {size} F25:1\n1234");
        let (ended, held) = measured(|| read(RawFrames::Rgbf32, file.as_bytes()));
        let error = ended.unwrap_err();
        assert!(error.is_over_budget() && error.to_string().contains("--ram"), "{error}");
        assert!(held < 1 << 16, "{held}");
    }
    // A size that fits and frames that never come; a line without an end.
    let file = b"REMASTER-FRAMES rgbf32 W512 H512 F25:1\n1234".to_vec();
    let endless = format!("REMASTER-FRAMES rgbf32 W8 H8 X{}", "x".repeat(1 << 20)).into_bytes();
    for file in [file, endless] {
        let (ended, held) = measured(|| read(RawFrames::Rgbf32, &file));
        assert!(ended.is_err() && held < 1 << 18, "{held}");
    }
}
