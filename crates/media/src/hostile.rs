//! Streams and answers made to do harm: none may reach a panic, hold more than the file and 64 MiB, or take long.

use std::path::Path;

use remaster_testkit::hostile::{Counting, attack};

use crate::nut::{Next, NutReader, NutWriter, TimeBase, VideoStream};
use crate::probe::{MAX_FRAMES, MAX_LETTERS, describe, parse};

#[global_allocator]
static COUNTING: Counting = Counting;

const ALLOWED: usize = 64 << 20;

/// As ffmpeg writes it, and as we do.
fn streams() -> Vec<Vec<u8>> {
    let stream = VideoStream::raw([8, 4], *b"I420", TimeBase { num: 1, den: 90_000 });
    let mut writer = NutWriter::new(Vec::new(), &stream).unwrap();
    for i in 0..4u8 {
        writer.packet(u64::from(i) * 3600, i % 2 == 0, &[i; 48]).unwrap();
    }
    let mut all = vec![writer.into_inner()];
    // A segment has headers of its codec, frames in another order, and frames that start alike.
    for codec in ["rawvideo", "libx264", "mpeg4"] {
        let args =
            ["-v", "error", "-f", "lavfi", "-i", "testsrc2=s=16x8:r=10:d=0.4", "-c:v", codec, "-bf", "2"];
        let made = std::process::Command::new("ffmpeg").args(args).args(["-f", "nut", "-"]).output();
        all.extend(made.ok().map(|out| out.stdout).filter(|bytes| !bytes.is_empty()));
    }
    all
}

#[test]
fn nut_streams_made_to_do_harm_end_in_an_answer() {
    attack("nut", &streams(), ALLOWED, |bytes| {
        let Ok(mut reader) = NutReader::new(bytes, 1 << 20) else { return };
        let mut data = Vec::new();
        // Every frame takes at least a byte of the stream.
        for _ in 0..=bytes.len() {
            match reader.frame(&mut data) {
                Ok(Next::Frame(_)) => assert!(data.len() <= 1 << 20),
                _ => return,
            }
        }
        panic!("more frames than bytes");
    });
}

const STREAMS: &[u8] = br#"{
    "streams": [
        {"index": 0, "codec_name": "hevc", "profile": "Main 10", "codec_type": "video", "width": 1920, "height": 1080,
         "sample_aspect_ratio": "1:1", "pix_fmt": "yuv420p10le", "field_order": "tt", "color_range": "tv",
         "color_space": "bt2020nc", "color_transfer": "smpte2084", "color_primaries": "bt2020",
         "chroma_location": "left", "r_frame_rate": "24000/1001", "avg_frame_rate": "24000/1001",
         "time_base": "1/24000", "duration": "5.005000", "nb_frames": "120", "disposition": {"attached_pic": 0},
         "tags": {"language": "eng", "alpha_mode": "1"},
         "side_data_list": [{"side_data_type": "Display Matrix", "rotation": -90}]},
        {"index": 1, "codec_name": "aac", "codec_type": "audio", "time_base": "1/48000", "tags": {"language": "deu"}}
    ],
    "chapters": [{"id": 0, "start": 0, "end": 5, "tags": {"title": "One"}}],
    "format": {"format_name": "mov,mp4", "duration": "5.005000", "tags": {"title": "A film"}}
}"#;

const FRAMES: &[u8] = br#"{"frames": [
    {"media_type": "video", "width": 1920, "height": 1080, "interlaced_frame": 1, "top_field_first": 1,
     "side_data_list": [
        {"side_data_type": "Mastering display metadata", "red_x": "35400/50000", "red_y": "14600/50000",
         "green_x": "8500/50000", "green_y": "39850/50000", "blue_x": "6550/50000", "blue_y": "2300/50000",
         "white_point_x": "15635/50000", "white_point_y": "16450/50000", "min_luminance": "50/10000",
         "max_luminance": "10000000/10000"},
        {"side_data_type": "Content light level metadata", "max_content": 1000, "max_average": 400}]}
]}"#;

fn look(streams: &[u8], frames: &[u8]) -> Result<crate::Probe, crate::MediaError> {
    let path = Path::new("film.mp4");
    describe(path, parse(path, streams)?, &parse(path, frames)?)
}

#[test]
fn answers_of_ffprobe_made_to_do_harm_end_in_an_answer() {
    assert!(look(STREAMS, FRAMES).is_ok());
    let check = |found: Result<crate::Probe, crate::MediaError>| {
        let Ok(probe) = found else { return };
        assert!(probe.video.frames.is_none_or(|n| n <= MAX_FRAMES), "{:?}", probe.video.frames);
        assert!(probe.duration.is_none_or(|d| d.is_finite() && d >= 0.0));
        assert!(probe.video.time_base.num > 0 && probe.video.time_base.den > 0);
        assert!(probe.video.codec.chars().count() <= MAX_LETTERS);
    };
    attack("streams", &[STREAMS.to_vec()], ALLOWED, |bytes| check(look(bytes, FRAMES)));
    attack("frames", &[FRAMES.to_vec()], ALLOWED, |bytes| check(look(STREAMS, bytes)));
}

#[test]
fn numbers_beyond_reason_become_unknown() {
    let with = |from: &str, to: &str| {
        let text = String::from_utf8(STREAMS.to_vec()).unwrap();
        assert!(text.contains(from), "{from}");
        look(text.replace(from, to).as_bytes(), FRAMES)
    };
    let found = with("\"duration\": \"5.005000\"", "\"duration\": \"1e300\"").unwrap();
    assert_eq!((found.duration, found.video.frames), (None, Some(120)));
    for time in ["nan", "-5", "inf", "1e12", "5,0", ""] {
        let found = with("\"duration\": \"5.005000\"", &format!("\"duration\": \"{time}\"")).unwrap();
        assert_eq!(found.duration, None, "{time}");
    }
    for count in ["99999999999999", "18446744073709551616", "-1"] {
        let found = with("\"nb_frames\": \"120\"", &format!("\"nb_frames\": \"{count}\"")).unwrap();
        assert_eq!(found.video.frames, Some(120), "{count}");
    }
    for rate in ["0/0", "99999999999/1", "1/999999999", "-1/1", "1000000/1"] {
        let found = with("24000/1001", rate).unwrap();
        assert_eq!(found.video.rate, None, "{rate}");
    }
    assert!(with("\"1/24000\"", "\"0/1\"").is_err());
    assert!(with("\"1/24000\"", "\"1/99999999999\"").is_err());
    let long = "x".repeat(100_000);
    let found = with("A film", &long).unwrap();
    assert_eq!(found.tags["title"].len(), MAX_LETTERS);
}
