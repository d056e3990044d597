//! Frames and times through the container, and what is not one.

use super::*;

fn stream() -> VideoStream {
    VideoStream::raw([4, 2], *b"RGB0", TimeBase { num: 1, den: 90_000 })
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
    let frames: Vec<(u64, Vec<u8>)> =
        [0, 3003, 3004, 1 << 40].iter().enumerate().map(|(i, t)| (*t, vec![i as u8; 70_000 * i])).collect();
    for (pts, data) in &frames {
        writer.packet(*pts, true, data).unwrap();
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
        writer.packet(u64::from(i) + 1, true, &[7 + i; DATA]).unwrap();
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
                let all = |list: &[(i64, Vec<u8>)]| list.iter().flat_map(|f| f.1.clone()).collect::<Vec<_>>();
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
        writer.packet(pts, true, &[1; 24]).unwrap();
        let read = read(&writer.into_inner());
        assert_eq!(read.is_ok(), pts <= i64::MAX as u64, "{pts}");
    }
    let reduced = TimeBase { num: 1000, den: 25000 }.times(1, 2);
    assert_eq!(reduced, TimeBase { num: 1, den: 50 });
}

#[test]
fn compressed_frames_come_back_with_their_order_and_headers() {
    let specific = (0..=255).cycle().take(5000).collect();
    let stream = VideoStream { fourcc: *b"H264", delay: 2, specific, ..stream() };
    let mut writer = NutWriter::new(Vec::new(), &stream).unwrap();
    let frames = [(0, true), (9, false), (3, false), (6, false), (12, true)];
    for (pts, is_key) in frames {
        writer.packet(pts, is_key, &[pts as u8; 40]).unwrap();
    }
    let bytes = writer.into_inner();
    let mut reader = NutReader::new(&bytes[..], 100).unwrap();
    assert_eq!(*reader.stream(), stream);
    let mut data = Vec::new();
    for (pts, is_key) in frames {
        assert_eq!(reader.frame(&mut data).unwrap(), Next::Frame(pts as i64));
        assert_eq!((reader.is_key(), &data[..]), (is_key, &[pts as u8; 40][..]));
    }
    assert_eq!(reader.frame(&mut data).unwrap(), Next::End);
}

/// Frames of a file of ffmpeg, as its own tool lists them.
#[test]
fn files_of_ffmpeg_are_read_as_ffmpeg_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nut");
    for codec in ["libx264", "mpeg4", "ffv1", "mpeg2video"] {
        let args = ["-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=s=128x96:r=25:d=2", "-c:v", codec];
        let mut command = std::process::Command::new("ffmpeg");
        command.args(args).args(["-pix_fmt", "yuv420p", "-g", "20", "-bf", "2"]).arg(&path);
        assert!(command.status().unwrap().success(), "{codec}");
        let mut command = std::process::Command::new("ffprobe");
        command.args(["-v", "error", "-show_entries", "packet=pts,size,flags", "-of", "csv=p=0"]);
        let listed = String::from_utf8(command.arg(&path).output().unwrap().stdout).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let mut reader = NutReader::new(&bytes[..], 1 << 20).unwrap();
        let (mut data, mut found) = (Vec::new(), Vec::new());
        while let Next::Frame(pts) = reader.frame(&mut data).unwrap() {
            found.push(format!("{pts},{}{}", data.len(), if reader.is_key() { ",K" } else { "" }));
        }
        // How many other flags there are depends on the version.
        let listed: Vec<&str> =
            listed.lines().map(|l| l.trim_end_matches([',', '_'])).filter(|l| !l.is_empty()).collect();
        assert_eq!(found, listed, "{codec}");
    }
}
