//! Parts of clips: the frames in them are those of the whole clip, and sound stays with the picture.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::{
    RATE, Read, all, ask, clip, deinterlaced, dies_of, distance, greys, make, media, read, read_part, span,
    tools,
};
use remaster_media::{
    Decoder, Deinterlace, Encoder, FrameSink, FrameSource, MediaError, Pictures, ReadOptions, Span, Stop,
    Tools, WriteOptions, Y4mReader, probe,
};
use remaster_picture::Frame;
use remaster_testkit::says;

/// 24 s of 25 frames per second with a counter of frames, key frames every 4 s and sound.
fn film(folder: &Path, name: &str, codec: &[&str]) -> PathBuf {
    let sound = ["-f", "lavfi", "-i", "sine=d=24:r=48000"];
    let coder = [&sound, codec, &["-pix_fmt", "yuv420p", "-g", "100"]].concat();
    clip(folder, name, "testsrc2=s=96x64:r=25:d=24", &coder)
}

/// The slow twin: reads all and takes what lies in the part.
fn expected(whole: &Read, [start, end]: [f64; 2]) -> (Vec<f64>, Vec<&Frame>) {
    let times = whole.seconds();
    // Decimal times are not exact in binary; no test asks for less than a microsecond.
    let inside = |t: f64| t - times[0] > start - 1e-7 && t - times[0] < end - 1e-7;
    let kept = times.iter().zip(&whole.frames).filter(|(t, _)| inside(**t));
    kept.map(|(t, frame)| (t - times[0] - start, frame)).unzip()
}

fn compare(part: &Read, whole: &Read, [start, end]: [f64; 2], about: &str) {
    let (times, frames) = expected(whole, [start, end]);
    assert_eq!(part.frames.len(), frames.len(), "{about}");
    assert!(part.frames.iter().zip(&frames).all(|(a, b)| a == *b), "{about}: other frames");
    let tick = part.format.time_base.num as f64 / part.format.time_base.den as f64;
    for (i, (shown, should)) in part.seconds().iter().zip(&times).enumerate() {
        assert!((shown - should).abs() <= tick + 1e-6, "{about}: frame {i} at {shown} instead of {should}");
    }
    // Without a length the part may claim too many.
    let guess = part.format.frames.filter(|_| whole.format.frames.is_some()).unwrap_or(frames.len());
    assert!(guess.abs_diff(frames.len()) <= 1, "{about}: {guess} frames announced of {}", frames.len());
}

#[test]
fn frames_of_a_part_are_those_of_the_whole() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let x264: &[&str] = &["-c:v", "libx264", "-preset", "veryfast", "-x264-params", "open-gop=1"];
    let x265: &[&str] =
        &["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error:keyint=100:open-gop=1"];
    let mpeg2: &[&str] = &["-c:v", "mpeg2video", "-bf", "2", "-q:v", "3"];
    let films = [
        ("film.mkv", x264),
        ("film.mp4", x264),
        ("film.ts", x264),
        ("hevc.ts", x265),
        ("mpeg2.ts", mpeg2),
        ("mpeg4.avi", &["-c:v", "mpeg4", "-bf", "2", "-q:v", "3"]),
        ("film.h264", &["-c:v", "libx264", "-preset", "veryfast", "-an"]),
    ];
    for (name, codec) in films {
        let file = film(folder.path(), name, codec);
        if name.ends_with("ts") && dies_of(&file) {
            continue;
        }
        let whole = read(&tools, &file, ReadOptions::default()).unwrap();
        assert_eq!(whole.frames.len(), 600, "{name}");
        for part in [[0.04, 0.2], [5.017, 6.5], [7.96, 8.04], [23.0, 99.0]] {
            let about = format!("{name} from {} to {}", part[0], part[1]);
            let got = read_part(&tools, &file, ReadOptions::default(), span(part[0], part[1]));
            let got = got.unwrap_or_else(|e| panic!("{about}: {e}"));
            compare(&got, &whole, part, &about);
        }
    }
}

#[test]
fn frames_of_any_length_are_taken_by_their_times() {
    let tools = tools();
    let whole = read(&tools, &media("vfr.mkv"), ReadOptions::default()).unwrap();
    let length = whole.seconds().last().unwrap() - whole.seconds()[0];
    for (a, b) in [(0.1, 0.5), (0.3, 0.9), (0.5, 2.0)] {
        // To the millisecond, as the file has it.
        let part = [a, b].map(|x| (x * length * 1e3).round() / 1e3);
        let got =
            read_part(&tools, &media("vfr.mkv"), ReadOptions::default(), span(part[0], part[1])).unwrap();
        let (times, frames) = expected(&whole, part);
        assert_eq!(got.frames.len(), frames.len());
        assert!(got.frames.iter().zip(&frames).all(|(a, b)| a == *b));
        assert!(got.seconds().iter().zip(&times).all(|(x, y)| (x - y).abs() < 2e-3));
    }
}

#[test]
fn an_empty_part_is_an_error_with_the_length_of_the_clip() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let file = film(folder.path(), "film.mkv", &["-c:v", "mpeg4"]);
    let refusal = |part| {
        let error = read_part(&tools, &file, ReadOptions::default(), part).err().unwrap();
        assert!(matches!(error, MediaError::EmptySpan { .. }), "{error}");
        error.to_string()
    };
    for part in [span(24.5, 30.0), span(5.0, 4.0), span(5.0, 5.0)] {
        says(&refusal(part), &["24"]);
    }
    // Between two frames, which only shows when they were read; and where the header claims too much.
    [span(5.001, 5.002), span(23.99, 24.0)].into_iter().for_each(|part| drop(refusal(part)));
}

#[test]
fn raw_video_and_folders_are_cut_by_frame_times() {
    let folder = tempfile::tempdir().unwrap();
    let (file, pictures) = greys(folder.path(), 50);
    let y4m = |part| {
        let input = Cursor::new(std::fs::read(&file).unwrap());
        Y4mReader::new(input, file.clone(), MOST, Stop::never())?.within(part).map(boxed)
    };
    let listed = |part| {
        Pictures::open(&pictures, RATE, ReadOptions::default(), MOST, Stop::never())?.within(part).map(boxed)
    };
    let all = |source: Result<Box<dyn FrameSource>, MediaError>| -> Result<Vec<(i64, usize)>, MediaError> {
        let read = all(&mut *source?)?;
        assert!(read.format.frames.is_none_or(|n| n == read.frames.len()));
        let numbers = read.frames.iter().map(|frame| (frame.data[0] * 100.0).round() as usize);
        Ok(read.times.iter().copied().zip(numbers).collect())
    };
    for (part, first, end) in [
        (span(0.0, 1.0), 0, 25),
        (span(0.04, 0.08), 1, 2),
        (span(0.5, 0.9), 13, 23),
        (span(1.0, 9.0), 25, 50),
        (Span::new(Some(Duration::from_millis(1900)), None), 48, 50),
        (Span::default(), 0, 50),
    ] {
        let frames: Vec<usize> = (first..end).collect();
        for got in [all(y4m(part)).unwrap(), all(listed(part)).unwrap()] {
            assert_eq!(got.iter().map(|(_, frame)| *frame).collect::<Vec<_>>(), frames, "{part}");
            // Half a frame after its start the part has its first frame.
            let start = got[0].0;
            assert_eq!(start, i64::from(first == 13 || first == 48), "{part}");
            assert!(got.windows(2).all(|w| w[1].0 == w[0].0 + 1));
        }
    }
    for part in [span(2.0, 3.0), span(1.0, 0.5), span(0.041, 0.079)] {
        for error in [all(y4m(part)).unwrap_err(), all(listed(part)).unwrap_err()] {
            assert!(matches!(error, MediaError::EmptySpan { .. }), "{error}");
        }
    }
}

const MOST: u64 = 1 << 30;

fn boxed<S: FrameSource + 'static>(source: S) -> Box<dyn FrameSource> {
    Box::new(source)
}

/// Black, with a white frame and the start of a tone at the same time.
const FLASH: f64 = 13.32;

fn flash(folder: &Path, name: &str, codecs: &[&str]) -> PathBuf {
    let (subtitles, chapters) = (folder.join("s.srt"), folder.join("c.txt"));
    std::fs::write(&subtitles, "1\n00:00:02,000 --> 00:00:03,000\nearly\n\n2\n00:00:13,320 --> 00:00:14,000\nflash\n\n3\n00:00:19,500 --> 00:00:19,900\nlate\n").unwrap();
    let chapter = |a: u32, b: u32| format!("[CHAPTER]\nTIMEBASE=1/1000\nSTART={a}\nEND={b}\ntitle={a}\n");
    let text = [chapter(0, 9000), chapter(9000, 13000), chapter(13000, 20000)].concat();
    std::fs::write(&chapters, format!(";FFMETADATA1\n{text}")).unwrap();
    let file = folder.join(name);
    let number = (FLASH * 25.0).round();
    let video = format!("color=black:s=64x48:r=25:d=20,drawbox=color=white:t=fill:enable='eq(n,{number})'");
    let sound = format!("aevalsrc='if(gte(t,{FLASH}),0.5*sin(2*PI*1000*t),0)':d=20:s=48000");
    let (subtitles, chapters) = (subtitles.to_str().unwrap(), chapters.to_str().unwrap());
    let mut args = vec!["-f", "lavfi", "-i", &video, "-f", "lavfi", "-i", &sound];
    let text = !name.ends_with("ts");
    if text {
        args.extend(["-i", subtitles, "-i", chapters, "-map_chapters", "3"]);
    }
    args.extend(["-map", "0:v", "-map", "1:a"]);
    args.extend(if text { &["-map", "2:s"][..] } else { &[] });
    args.extend(codecs);
    args.extend(["-pix_fmt", "yuv420p", "-g", "100"]);
    make(&args, &file);
    file
}

/// Writes a part of a file, as it is.
fn cut(tools: &Tools, from: &Path, to: &Path, part: Span) -> usize {
    let probe = probe(tools, from).unwrap().within(part).unwrap();
    let mut decoder = Decoder::open(tools, &probe, ReadOptions::default()).unwrap();
    let options = WriteOptions { overwrite: true, ..WriteOptions::default() };
    Encoder::rehearse(tools, to, decoder.format(), Some(&probe), &options).unwrap();
    let mut encoder = Box::new(Encoder::create(tools, to, decoder.format(), Some(&probe), &options).unwrap());
    let (mut frame, mut frames) = (Frame::new(0, 0, 3), 0);
    while let Some(pts) = decoder.next(&mut frame).unwrap() {
        encoder.write(&frame, pts).unwrap();
        frames += 1;
    }
    encoder.finish().unwrap();
    frames
}

/// When the tone starts by the clock of the file, in seconds, and how long the sound is.
fn tone(file: &Path) -> (f64, f64) {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-copyts", "-i"]).arg(file);
    command.args(["-map", "0:a:0", "-af", "aresample=async=1:first_pts=0", "-ac", "1", "-ar", "48000"]);
    let out = command.args(["-f", "f32le", "-"]).output().unwrap();
    let samples: Vec<f32> =
        out.stdout.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let start = samples.iter().position(|s| s.abs() > 0.1).unwrap();
    (start as f64 / 48_000.0, samples.len() as f64 / 48_000.0)
}

#[test]
fn sound_stays_with_the_picture() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let x264: &[&str] = &["-c:v", "libx264", "-preset", "veryfast"];
    let files = [
        flash(folder.path(), "a.mkv", &[x264, &["-c:a", "aac"]].concat()),
        flash(folder.path(), "b.mp4", &[x264, &["-c:a", "aac", "-c:s", "mov_text"]].concat()),
        flash(folder.path(), "c.mkv", &[x264, &["-c:a", "ac3"]].concat()),
        flash(folder.path(), "d.ts", &["-c:v", "mpeg2video", "-bf", "2", "-c:a", "mp2"]),
    ];
    for file in files.iter().filter(|f| f.extension().unwrap() != "ts" || !dies_of(f)) {
        // Where the flash and the tone are in this container: muxers may shift both.
        let whole = read(&tools, file, ReadOptions::default()).unwrap();
        let bright = |f: &Frame| f.data.iter().sum::<f32>() / f.data.len() as f32 > 0.5;
        let flash_of = |read: &Read| read.seconds()[read.frames.iter().position(bright).unwrap()];
        let (origin, before) = (whole.seconds()[0], tone(file).0 - flash_of(&whole));
        assert!((flash_of(&whole) - origin - FLASH).abs() < 0.01, "{}", file.display());
        let cases = [(0.0, 15.0, &["mkv"][..]), (3.217, 17.9, &["mp4"]), (11.983, 14.03, &["mkv", "mp4"])];
        for (start, end, endings) in cases {
            for ending in endings {
                let about = format!("{} to .{ending} from {start} to {end}", file.display());
                let to = folder.path().join(format!("out.{ending}"));
                let frames = cut(&tools, file, &to, span(start, end));
                let read = read(&tools, &to, ReadOptions::default()).unwrap();
                assert_eq!(read.frames.len(), frames, "{about}");
                let (flash, (tone, sound)) = (flash_of(&read), tone(&to));
                assert!((flash - (FLASH - start)).abs() < 0.0405, "{about}: the flash is at {flash}");
                // Nothing was decoded but the picture: the distance may change by rounding only.
                let off = tone - flash - before;
                assert!(off.abs() < 0.003, "{about}: the tone is off by {off} s");
                let lasts = end.min(20.0) - start;
                assert!((sound - lasts).abs() < 0.1, "{about}: {sound} s of sound for {lasts} s");
                if file.extension().unwrap() == "ts" {
                    continue;
                }
                let said = ask(&to, &["-select_streams", "s:0", "-show_entries", "packet=pts_time,size"]);
                let times: Vec<f64> = said
                    .lines()
                    .filter_map(|line| line.split_once(','))
                    // mov_text fills pauses with empty texts.
                    .filter(|(_, size)| size.trim_end_matches(',').parse::<u32>().is_ok_and(|n| n > 2))
                    .filter_map(|(time, _)| time.parse().ok())
                    .collect();
                let should: Vec<f64> = [2.0, FLASH, 19.5]
                    .iter()
                    .filter(|t| (start..end).contains(*t))
                    .map(|t| t - start)
                    .collect();
                assert_eq!(times.len(), should.len(), "{about}: subtitles at {times:?}: {said}");
                assert!(times.iter().zip(&should).all(|(a, b)| (a - b).abs() < 0.03), "{about}: {times:?}");
                let said = ask(&to, &["-show_chapters", "-show_entries", "chapter=start_time,end_time"]);
                let chapters: Vec<(f64, f64)> = said
                    .lines()
                    .map(|line| line.split(','))
                    .filter_map(|mut words| Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?)))
                    .collect();
                let should: Vec<(f64, f64)> = [(0.0, 9.0), (9.0, 13.0), (13.0, 20.0)]
                    .iter()
                    .filter(|(a, b)| *b > start && *a < end)
                    .map(|(a, b)| (f64::max(a - start, 0.0), b.min(end) - start))
                    .collect();
                let near =
                    |(a, b): (&(f64, f64), &(f64, f64))| (a.0 - b.0).abs().max((a.1 - b.1).abs()) < 0.05;
                assert_eq!(chapters.len(), should.len(), "{about}: {said}");
                assert!(chapters.iter().zip(&should).all(near), "{about}: {chapters:?}, not {should:?}");
            }
        }
    }
}

#[test]
fn a_part_is_deinterlaced_and_turned_like_the_whole() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let coder = ["-c:v", "ffv1", "-pix_fmt", "yuv420p", "-field_order", "tt"];
    let file = clip(folder.path(), "fields.mkv", "testsrc2=s=96x64:r=50:d=12,interlace=scan=tff", &coder);
    for how in [Deinterlace::On, Deinterlace::Double] {
        let whole = read(&tools, &file, deinterlaced(how)).unwrap();
        let got = read_part(&tools, &file, deinterlaced(how), span(7.0, 8.0)).unwrap();
        let (_, frames) = expected(&whole, [7.0, 8.0]);
        assert_eq!(got.frames.len(), frames.len(), "{how:?}");
        assert!(got.frames.iter().zip(frames).all(|(a, b)| distance(a, b) == 0.0), "{how:?}");
    }
}
