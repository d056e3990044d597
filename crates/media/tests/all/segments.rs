//! Films in segments: encoded apart, joined without encoding again, exact and repeatable.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{all, ask, make, media, span, tools};
use remaster_media::{
    Colour, Decoder, Encoder, Film, Format, FrameSink, FrameSource, MediaError, ReadOptions, Said,
    SegmentKind, TimeBase, Tools, WriteOptions, join, probe,
};
use remaster_picture::{Frame, Layout};

const CLOCK: TimeBase = TimeBase { num: 1, den: 24_000 };

fn format(pixels: &str, time_base: TimeBase) -> Format {
    let layout = Layout::from_name(pixels).unwrap();
    let said = Said { matrix: Some("bt709"), range: Some("tv"), ..Said::default() };
    let colour = Colour::new(said, &layout, [96, 64]);
    Format { time_base, ..Format::even([96, 64], layout, colour, TimeBase { num: 24, den: 1 }) }
}

/// Frame `i` of a film with motion and some noise.
fn picture(i: usize, channels: usize) -> Frame {
    let mut frame = Frame::new(96, 64, channels);
    for (n, value) in frame.data.iter_mut().enumerate() {
        let (x, y, c) = (n / channels % 96, n / channels / 96, n % channels);
        let wave = ((x + 3 * i) as f32 / 9.0).sin() * ((y + i) as f32 / 7.0).cos();
        let noise = ((n * 7919 + i * 104_729) % 101) as f32 / 1000.0;
        *value = if c == 3 { 0.5 + wave / 4.0 } else { 0.4 + 0.3 * wave + noise };
    }
    frame
}

fn options(video: &str) -> WriteOptions {
    let video = (!video.is_empty()).then(|| video.parse().unwrap());
    WriteOptions { video, overwrite: true, threads: Some(2), ..WriteOptions::default() }
}

/// A film of its own, in segments that are copied.
fn film<'a>(path: &'a Path, format: &'a Format, options: &'a WriteOptions) -> Film<'a> {
    Film { path, format, from: None, options, kind: SegmentKind::Final }
}

/// Encodes frames from `first` on, at `times`.
fn segment(tools: &Tools, path: &Path, film: &Film<'_>, first: usize, times: &[i64]) {
    let mut sink: Box<dyn FrameSink> = Box::new(Encoder::segment(tools, path, film).unwrap());
    for (i, pts) in times.iter().enumerate() {
        sink.write(&picture(first + i, film.format.channels()), *pts).unwrap();
    }
    sink.finish().unwrap();
}

/// Encodes a film in segments of some lengths.
fn segments(tools: &Tools, folder: &Path, film: &Film<'_>, times: &[i64], lengths: &[usize]) -> Vec<PathBuf> {
    assert_eq!(lengths.iter().sum::<usize>(), times.len());
    let (mut first, mut paths) = (0, Vec::new());
    for (i, n) in lengths.iter().enumerate() {
        let path = folder.join(format!("{i}.segment"));
        segment(tools, &path, film, first, &times[first..first + n]);
        first += n;
        paths.push(path);
    }
    paths
}

fn joined(
    tools: &Tools,
    film: &Film<'_>,
    frames: usize,
    paths: &[PathBuf],
) -> Result<Vec<String>, MediaError> {
    join(tools, film, frames, &mut paths.iter().cloned().map(Ok))
}

/// Times of packets in the order of the file, to be shown and to be decoded, in `clock`; -1 where there is none.
fn packets(file: &Path, clock: TimeBase) -> Vec<[f64; 2]> {
    let base = ask(file, &["-select_streams", "v:0", "-show_entries", "stream=time_base"]);
    let (num, den) = base.lines().next().unwrap().trim_end_matches(',').split_once('/').unwrap();
    let unit =
        num.parse::<f64>().unwrap() / den.parse::<f64>().unwrap() * clock.den as f64 / clock.num as f64;
    let text = ask(file, &["-select_streams", "v:0", "-show_entries", "packet=pts,dts"]);
    let line = |line: &str| -> [f64; 2] {
        let mut numbers = line.split(',').map(|n| n.parse::<f64>().unwrap_or(f64::NAN) * unit);
        [numbers.next().unwrap(), numbers.next().unwrap()]
    };
    text.lines().filter(|l| !l.is_empty()).map(line).collect()
}

/// Hashes of decoded frames.
fn hashes(file: &Path) -> Vec<String> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-i"]).arg(file);
    command.args(["-map", "0:v:0", "-fps_mode", "passthrough", "-f", "framemd5", "-"]);
    let out = command.output().unwrap();
    assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines.map(|l| l.rsplit(',').next().unwrap().trim().to_owned()).collect()
}

/// Uneven times, two milliseconds apart at least.
fn times(frames: usize, first: i64) -> Vec<i64> {
    let step = |i: usize| [1000, 57, 4001, 999, 49, 2503][i % 6];
    (0..frames).map(|n| first + (0..n).map(step).sum::<i64>()).collect()
}

fn check(file: &Path, times: &[i64], paths: &[PathBuf], tolerance: f64, about: &str) {
    let packets = packets(file, CLOCK);
    let mut shown: Vec<f64> = packets.iter().map(|p| p[0]).collect();
    shown.sort_by(f64::total_cmp);
    assert_eq!(shown.len(), times.len(), "{about}");
    for (got, expected) in shown.iter().zip(times) {
        assert!((got - *expected as f64).abs() <= tolerance, "{about}: {got} instead of {expected}");
    }
    let decoded: Vec<f64> = packets.iter().map(|p| p[1]).filter(|d| !d.is_nan()).collect();
    assert!(decoded.windows(2).all(|d| d[0] < d[1]), "{about}: {decoded:?}");
    assert!(packets.iter().all(|[shown, decoded]| decoded.is_nan() || decoded <= shown), "{about}");
    let parts: Vec<String> = paths.iter().flat_map(|p| hashes(p)).collect();
    assert_eq!(hashes(file), parts, "{about}: other frames");
}

/// Frames and times of films that are joined from segments of one frame, two frames and many.
fn frames_and_times(video: &str) {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let (format, options) = (format("yuv420p", CLOCK), options(video));
    for first in [0, 5_000_007] {
        let times = times(34, first);
        let mut paths = Vec::new();
        for name in ["a.mp4", "a.mkv", "a.mov"] {
            let about = format!("{video} {name} from {first}");
            let path = folder.path().join(name);
            let film = film(&path, &format, &options);
            if paths.is_empty() {
                paths = segments(&tools, folder.path(), &film, &times, &[1, 14, 2, 17]);
            }
            let notes = joined(&tools, &film, times.len(), &paths).unwrap_or_else(|e| panic!("{about}: {e}"));
            assert!(notes.is_empty(), "{about}: {notes:?}");
            // Matroska has milliseconds.
            let tolerance = if name == "a.mkv" { 12.0 } else { 1e-6 };
            check(&path, &times, &paths, tolerance, &about);
        }
    }
}

#[test]
fn frames_and_times_of_a_film_are_those_of_its_segments_in_h264() {
    frames_and_times("libx264 -preset veryfast -bf 3");
}

#[test]
fn frames_and_times_of_a_film_are_those_of_its_segments_in_hevc() {
    frames_and_times("libx265 -preset ultrafast -x265-params bframes=4:b-adapt=0:open-gop=1");
}

/// Joins twice what was encoded twice: the same bytes, and all frames. The containers hold the same stream.
fn repeats_itself(video: &str, pixels: &str, names: &[&str]) {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let (format, options) = (format(pixels, CLOCK), options(video));
    let times = times(7, 0);
    let mut paths: Vec<PathBuf> = Vec::new();
    for name in names {
        let about = format!("{video} {name}");
        let path = folder.path().join(name);
        let film = film(&path, &format, &options);
        let read = |path: &PathBuf| std::fs::read(path).unwrap();
        if paths.is_empty() {
            paths = segments(&tools, folder.path(), &film, &times, &[6, 1]);
            let before: Vec<Vec<u8>> = paths.iter().map(read).collect();
            segments(&tools, folder.path(), &film, &times, &[6, 1]);
            assert!(paths.iter().map(read).collect::<Vec<_>>() == before, "{about}: other segments");
        }
        joined(&tools, &film, times.len(), &paths).unwrap_or_else(|e| panic!("{about}: {e}"));
        let before = read(&path);
        let parts: Vec<String> = paths.iter().flat_map(|p| hashes(p)).collect();
        assert_eq!(hashes(&path), parts, "{about}: other frames");
        joined(&tools, &film, times.len(), &paths).unwrap();
        assert!(before == read(&path), "{about}: other bytes");
    }
}

#[test]
fn a_film_has_the_same_bytes_every_time_in_every_container() {
    repeats_itself("libx264 -preset veryfast", "yuv420p", &["a.mkv", "a.mp4", "a.mov", "a.nut"]);
    repeats_itself("libx264 -preset veryfast", "yuv420p", &["a.ts"]);
}

#[test]
fn a_film_in_hevc_has_the_same_bytes_every_time() {
    repeats_itself("libx265 -preset ultrafast", "yuv420p10le", &["a.mkv", "a.mp4"]);
    repeats_itself("libx265 -preset ultrafast", "yuv420p10le", &["a.ts"]);
}

#[test]
fn a_film_in_another_codec_has_the_same_bytes_every_time() {
    repeats_itself("", "yuv420p", &["a.webm"]);
    repeats_itself("ffv1", "gbrp", &["a.mkv", "a.nut"]);
    repeats_itself("prores_ks -profile:v 4444", "yuva444p10le", &["a.mov"]);
}

/// A film in one segment whose frames are those of lossless segments that were encoded when they were joined.
fn lossless(video: &str, pixels: &str, name: &str) {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let (format, options) = (format(pixels, CLOCK), options(video));
    let times = times(11, 0);
    let path = folder.path().join(name);
    let film = film(&path, &format, &options);
    let exact = Film { kind: SegmentKind::Lossless, ..film };
    let paths = segments(&tools, folder.path(), &exact, &times, &[8, 3]);
    joined(&tools, &exact, times.len(), &paths).unwrap();
    let (got, shown) = (hashes(&path), packets(&path, CLOCK));
    assert_eq!(shown.len(), times.len(), "{name}");
    if pixels == "yuva420p" {
        // Alpha of VP9 does not go into segments.
        let error = Encoder::segment(&tools, &folder.path().join("s"), &film).err().unwrap();
        assert!(matches!(error, MediaError::Container { .. }), "{error}");
        return;
    }
    let once = segments(&tools, folder.path(), &film, &times, &[11]);
    assert_eq!(got, hashes(&once[0]), "{video} {name}");
}

#[test]
fn lossless_segments_lose_nothing() {
    lossless("libx264 -preset veryfast -crf 20", "yuv420p", "a.mp4");
    lossless("libx264rgb -preset veryfast -crf 20", "rgb24", "a.mkv");
    lossless("", "yuv422p10le", "a.mkv");
    lossless("", "yuva444p12le", "a.mov");
    lossless("", "yuva420p", "a.webm");
}

/// What ffprobe says of a file in words and in seconds, but for what depends on how well it is packed and on the clock of
/// the container.
fn described(file: &Path) -> (Vec<String>, Vec<f64>) {
    let mut command = Command::new("ffprobe");
    let out =
        command.args(["-v", "error", "-show_streams", "-show_format", "-show_chapters"]).arg(file).output();
    let text = String::from_utf8(out.unwrap().stdout).unwrap();
    let times = "start_time= end_time= duration=";
    let differ = "bit_rate= size= filename= TAG:encoder= TAG:ENCODER= TAG:DURATION extradata_size= id= start= end= \
        start_pts= duration_ts= time_base= avg_frame_rate= r_frame_rate=";
    let starts = |line: &str, list: &str| list.split(' ').any(|d| line.starts_with(d));
    let words = text.lines().filter(|l| !starts(l, differ) && !starts(l, times)).map(str::to_owned);
    let seconds = text.lines().filter(|l| starts(l, times));
    (words.collect(), seconds.filter_map(|l| l.split_once('=')?.1.parse().ok()).collect())
}

/// Packets of all streams but the video: which, how long, and when.
fn others(file: &Path) -> (Vec<String>, Vec<f64>) {
    let text = ask(file, &["-show_entries", "packet=stream_index,pts_time,size"]);
    let lines = text.lines().filter(|l| !l.is_empty() && !l.starts_with("0,"));
    let mut lines: Vec<(String, f64)> = lines
        .map(|l| {
            let words: Vec<&str> = l.split(',').collect();
            (format!("{} {}", words[0], words[2]), words[1].parse().unwrap())
        })
        .collect();
    lines.sort_by_key(|(words, _)| words.split(' ').next().map(str::to_owned));
    lines.into_iter().unzip()
}

fn same(a: (Vec<String>, Vec<f64>), b: (Vec<String>, Vec<f64>), about: &str) {
    let other = a.0.iter().zip(&b.0).find(|(x, y)| x != y);
    assert_eq!(other, None, "{about}");
    assert_eq!([a.0.len(), a.1.len()], [b.0.len(), b.1.len()], "{about}");
    // A millisecond is what MP4 rounds to where nobody says otherwise, and how long the last frame is shown is a guess.
    assert!(a.1.iter().zip(&b.1).all(|(x, y)| (x - y).abs() < 0.1), "{about}: {:?} {:?}", a.1, b.1);
}

/// Sound, texts, chapters and tags of a file, with its video written at once and in segments.
fn goes_along(name: &str, video: &str, part: Option<[f64; 2]>) {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let mut source = media("av_subs_chapters.mkv");
    if !name.ends_with("mkv") {
        // Fonts and FLAC go nowhere else.
        let bare = folder.path().join("bare.mkv");
        let path = source.to_str().unwrap();
        make(&["-i", path, "-map", "0", "-map", "-0:t", "-c", "copy", "-c:a", "aac"], &bare);
        source = bare;
    }
    let mut from = probe(&tools, &source).unwrap();
    if let Some([start, end]) = part {
        from = from.within(span(start, end)).unwrap();
    }
    let mut decoder = Decoder::open(&tools, &from, ReadOptions::default()).unwrap();
    let format = decoder.format().clone();
    let read = all(&mut decoder).unwrap();
    let frames: Vec<(Frame, i64)> = read.frames.into_iter().zip(read.times).collect();
    let (once, path, options) =
        (folder.path().join(format!("once.{name}")), folder.path().join(name), options(video));
    let mut encoder = Box::new(Encoder::create(&tools, &once, &format, Some(&from), &options).unwrap());
    let notes = encoder.notes().to_vec();
    frames.iter().for_each(|(frame, pts)| encoder.write(frame, *pts).unwrap());
    encoder.finish().unwrap();
    let film = Film { from: Some(&from), ..film(&path, &format, &options) };
    let (a, b) = frames.split_at(frames.len() / 3);
    let mut paths = Vec::new();
    for (i, frames) in [a, b].iter().enumerate() {
        paths.push(folder.path().join(format!("{i}")));
        let mut encoder = Box::new(Encoder::segment(&tools, &paths[i], &film).unwrap());
        frames.iter().for_each(|(frame, pts)| encoder.write(frame, *pts).unwrap());
        encoder.finish().unwrap();
    }
    assert_eq!(joined(&tools, &film, frames.len(), &paths).unwrap(), notes);
    let about = format!("{name} {video} {part:?}");
    same(described(&path), described(&once), &about);
    same(others(&path), others(&once), &about);
}

#[test]
fn everything_else_goes_along_as_with_a_film_written_at_once() {
    goes_along("a.mkv", "libx264 -preset veryfast", None);
    goes_along("a.mp4", "libx265 -preset ultrafast -movflags +faststart", None);
    goes_along("a.mkv", "ffv1", Some([0.3, 0.9]));
    goes_along("a.mov", "libx264 -preset veryfast -tag:v avc3", Some([0.3, 0.9]));
}

#[test]
fn the_last_frame_of_an_even_film_is_shown_like_the_others() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let (format, options) = (format("yuv420p", CLOCK), options("libx264 -preset veryfast"));
    let times: Vec<i64> = (0..24).map(|i| i * 1000).collect();
    let mut paths = Vec::new();
    for name in ["a.mp4", "a.mkv"] {
        let path = folder.path().join(name);
        let film = film(&path, &format, &options);
        if paths.is_empty() {
            paths = segments(&tools, folder.path(), &film, &times, &[20, 4]);
        }
        joined(&tools, &film, times.len(), &paths).unwrap();
        let lasts: f64 = ask(&path, &["-show_entries", "format=duration"]).trim().parse().unwrap();
        assert!((lasts - 1.0).abs() < 2e-3, "{name}: {lasts}");
    }
}

/// A film of one frame or two has times for its decoder too.
#[test]
fn short_films_are_films() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let (format, options) = (format("yuv420p", CLOCK), options("libx264 -preset veryfast"));
    for lengths in [&[1][..], &[2], &[1, 1, 1]] {
        let times = times(lengths.iter().sum(), 240);
        let path = folder.path().join("a.mp4");
        let film = film(&path, &format, &options);
        let paths = segments(&tools, folder.path(), &film, &times, lengths);
        joined(&tools, &film, times.len(), &paths).unwrap();
        check(&path, &times, &paths, 1e-6, &format!("{lengths:?}"));
    }
}

#[test]
fn segments_that_do_not_fit_are_refused_by_number() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let (format, options) = (format("yuv420p", CLOCK), options("libx264 -preset ultrafast"));
    let (hevc, cabac) =
        (self::options("libx265 -preset ultrafast"), self::options("libx264 -preset ultrafast -coder 1"));
    let path = folder.path().join("film.mkv");
    let film = film(&path, &format, &options);
    let made = |name: &str, film: &Film<'_>, times: &[i64]| {
        let path = folder.path().join(name);
        segment(&tools, &path, film, 0, times);
        path
    };
    let (a, b) = (made("a", &film, &[0, 1000]), made("b", &film, &[2000, 3000]));
    let other_codec = Film { options: &hevc, ..film };
    let other_header = Film { options: &cabac, ..film };
    let slower = Format { time_base: TimeBase { num: 1, den: 1000 }, ..format.clone() };
    let wider = Format { sample_aspect: [4, 3], ..format.clone() };
    let codec = made("codec", &other_codec, &[2000]);
    let header = made("header", &other_header, &[2000]);
    let clock = made("clock", &Film { format: &slower, ..film }, &[2000]);
    let shape = made("shape", &Film { format: &wider, ..film }, &[2000]);
    let lossless = made("lossless", &Film { kind: SegmentKind::Lossless, ..film }, &[2000]);
    let bytes = std::fs::read(&b).unwrap();
    let cut = folder.path().join("cut");
    std::fs::write(&cut, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no video").unwrap();
    let gone = folder.path().join("gone");
    let refusals = [
        (vec![&a, &codec], 1, "codec is HEVC instead of H264"),
        (vec![&a, &header], 1, "codec header"),
        (vec![&a, &clock], 1, "time base"),
        (vec![&a, &shape], 1, "pixel shape"),
        (vec![&a, &lossless], 1, "codec is FFV1"),
        (vec![&a, &cut], 1, "cut off"),
        (vec![&text, &a], 0, "cut off"),
        (vec![&b, &a], 1, "no later than"),
        (vec![&a, &a], 1, "no later than"),
        (vec![&a, &b, &b], 2, "no later than"),
        (vec![&a, &gone], 1, "(os error 2)"),
    ];
    let left = |about: &str| {
        let names = remaster_testkit::names(folder.path());
        assert!(names.iter().all(|name| !name.contains("film")), "{about}: {names:?}");
    };
    for (paths, expected, words) in refusals {
        let paths: Vec<PathBuf> = paths.into_iter().cloned().collect();
        let error = joined(&tools, &film, 4, &paths).unwrap_err();
        assert!(matches!(&error, MediaError::Segment { number, .. } if *number == expected), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        left(words);
    }
    let film_of_ffv1 = Film { kind: SegmentKind::Lossless, ..film };
    let error = joined(&tools, &film_of_ffv1, 2, std::slice::from_ref(&a)).unwrap_err();
    assert!(matches!(&error, MediaError::Segment { number: 0, .. }), "{error}");
    // Too few, too many, none, and one that its maker could not give.
    for (frames, paths) in [(5, vec![a.clone(), b.clone()]), (3, vec![a.clone(), b.clone()]), (1, vec![])] {
        let error = joined(&tools, &film, frames, &paths).unwrap_err();
        let typed = matches!(&error, MediaError::Verify { .. } | MediaError::Segment { number: 1, .. });
        assert!(typed, "{error}");
        left("a wrong number of frames");
    }
    let mut lost = [Ok(a.clone()), Err(MediaError::Cancelled)].into_iter();
    assert!(matches!(join(&tools, &film, 4, &mut lost), Err(MediaError::Cancelled)));
    left("an error between segments");
    joined(&tools, &film, 4, &[a, b]).unwrap();
}
