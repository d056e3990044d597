//! `--frames`: RGB through pipes, as other programs send and take it.

use std::io::Write;
use std::process::{Output, Stdio};

use crate::desk::{Desk, bytes, ffmpeg, ffprobe, refused};

/// A stream of noise that no compression likes.
fn stream(header: &str, samples: usize) -> Vec<u8> {
    let mut bytes = format!("REMASTER-FRAMES {header}\n").into_bytes();
    let mut state = 28u32;
    for _ in 0..samples {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes.extend(((state >> 16) as u16).to_le_bytes());
    }
    bytes
}

fn piped(desk: &Desk, line: &str, input: &[u8]) -> Output {
    let mut command = desk.command(line);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    // A run that refuses its input does not read all of it.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap();
    out
}

fn works(desk: &Desk, line: &str, input: &[u8]) -> Vec<u8> {
    let out = piped(desk, line, input);
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

const SAME: &str = "--model identity --resolution 1x -q";

#[test]
fn frames_that_nothing_changes_come_back_to_the_byte() {
    let desk = Desk::new();
    for (kind, channels) in [("rgb16", 3), ("rgba16", 4)] {
        let header = format!("{kind} W33 H19 F24000:1001 A1:1 L7");
        let sent = stream(&header, 33 * 19 * channels * 7);
        let back = works(&desk, &format!("- -o - --frames {kind} {SAME}"), &sent);
        assert!(back == sent, "{kind}: {}", String::from_utf8_lossy(&back[..64]));
    }
    assert_eq!(desk.names(), [""; 0]);
}

/// Floats on both sides are the largest frames that there are. Wine copies programs into memory, and those of tests are large.
#[test]
#[cfg(unix)]
fn memory_is_what_was_planned() {
    let desk = Desk::new();
    let (width, height, frames) = (480, 270, 12);
    let mut sent = format!("REMASTER-FRAMES rgbf32 W{width} H{height} F25:1\n").into_bytes();
    sent.resize(sent.len() + width * height * 12 * frames, 0);
    for how in ["--model identity", "--model anime"] {
        let line = format!("- -o - --frames rgbf32 --resolution 1x --progress json {how}");
        let out = piped(&desk, &line, &sent);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && out.stdout.len() > sent.len() - 100, "{said}");
        let summary: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        let of = |name: &str| summary[name].as_u64().unwrap();
        assert!(of("peak_bytes") <= of("planned_bytes"), "{how}: {summary}");
    }
}

#[test]
fn an_upscaler_writes_larger_frames_with_their_size_in_front() {
    let desk = Desk::new();
    let sent = stream("rgb16 W16 H12 F25:1 A1:1", 16 * 12 * 3 * 3);
    let back = works(&desk, "- -o - --frames rgb16 --model anime --resolution 2x -q", &sent);
    let header = "REMASTER-FRAMES rgb16 W32 H24 F25:1 A1:1\n";
    assert!(back.starts_with(header.as_bytes()), "{}", String::from_utf8_lossy(&back[..64]));
    assert_eq!(back.len() - header.len(), 32 * 24 * 3 * 2 * 3);
}

#[test]
fn files_go_to_frames_and_frames_to_files() {
    let desk = Desk::filmed("-f lavfi -i testsrc2=s=66x50:r=25:d=0.2,format=gbrp16le -c:v ffv1 in.mkv");
    let frames = desk.command(&format!("in.mkv -o - --frames rgbf32 {SAME}")).output().unwrap();
    assert!(frames.status.success(), "{}", String::from_utf8_lossy(&frames.stderr));
    let header = "REMASTER-FRAMES rgbf32 W66 H50 F25:1 A1:1\n";
    let body = frames.stdout.strip_prefix(header.as_bytes()).unwrap();
    let (floats, rest) = body.as_chunks::<4>();
    assert!(rest.is_empty() && floats.len() == 66 * 50 * 3 * 5);
    // ffmpeg has the same numbers in another order.
    let raw = ffmpeg(&desk, "-i in.mkv -pix_fmt gbrp16le -f rawvideo -");
    let plane = 66 * 50;
    for (i, code) in raw.as_chunks::<2>().0.iter().enumerate() {
        let (frame, channel, at) = (i / (3 * plane), i / plane % 3, i % plane);
        let float = f32::from_le_bytes(floats[frame * 3 * plane + (channel + 1) % 3 * plane + at]);
        assert_eq!((float * 65535.0).round() as u16, u16::from_le_bytes(*code), "sample {i}");
    }
    // And into a file, which is lossless for RGB in Matroska.
    works(&desk, &format!("- -o out.mkv --frames rgbf32 {SAME}"), &frames.stdout);
    let about =
        ffprobe("-show_entries stream=codec_name,pix_fmt,width,height -of csv=p=0", desk.join("out.mkv"));
    assert_eq!(about.trim().split(',').collect::<Vec<_>>(), ["ffv1", "66", "50", "gbrp16le"]);
    assert!(raw == ffmpeg(&desk, "-i out.mkv -pix_fmt gbrp16le -f rawvideo -"));
    // x265 of some versions crashes at this size.
    works(
        &desk,
        &format!("- -o half.mp4 --frames rgbf32 --pixel-format yuv420p --video libx264 {SAME}"),
        &frames.stdout,
    );
    assert!(!bytes(&desk, "half.mp4").is_empty());
}

#[test]
fn what_cannot_be_is_refused_before_the_work() {
    let desk = Desk::filmed("-f lavfi -i testsrc2=s=32x32:r=25:d=0.2 -c:v ffv1 in.mkv");
    let no_effect = &["--frames has no effect on files", "remove it"];
    refused(&desk, &format!("in.mkv -o out.mkv --frames rgb16 {SAME}"), 2, no_effect);
    refused(&desk, &format!("in.mkv --frames rgb16 {SAME}"), 2, no_effect);
    refused(&desk, "in.mkv -o - --frames rgb8", 2, &["rgb16, rgbf32, rgba16"]);
    refused(&desk, &format!("in.mkv -o - --frames rgb16 --crf 3 {SAME}"), 2, &["--crf", "raw frames"]);
    let refuses = |line: &str, input: &[u8], code: i32, words: &[&str]| {
        let out = piped(&desk, &format!("{line} {SAME}"), input);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{said}");
        words.iter().for_each(|word| assert!(said.contains(word), "no `{word}` in {said}"));
        out.stdout
    };
    let alpha = stream("rgba16 W8 H8 F25:1", 8 * 8 * 4);
    assert!(refuses("- -o - --frames rgb16", &alpha, 3, &["use --frames rgba16"]).is_empty());
    assert!(refuses("- -o - --frames rgb16 --vf hflip", &alpha, 2, &["--vf", "raw frames"]).is_empty());
    // A truncated input is an error, and the output ends early, too.
    let sent = stream("rgb16 W8 H8 F25:1 L9", 8 * 8 * 3 * 8 + 5);
    let made = refuses("- -o - --frames rgb16", &sent, 3, &["it ends within frame 8"]);
    assert!(made.len() < sent.len());
    refuses("- -o out.mkv --frames rgb16", &sent, 3, &["it ends within frame 8"]);
    assert_eq!(desk.names(), ["in.mkv"]);
    // Alpha that the output would lose.
    ffmpeg(&desk, "-f lavfi -i testsrc2=s=32x32:r=25:d=0.2,format=rgba -c:v ffv1 -pix_fmt bgra clear.mkv");
    refused(&desk, &format!("clear.mkv -o - --frames rgb16 {SAME}"), 2, &["alpha", "use --frames rgba16"]);
}
