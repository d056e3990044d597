//! Encoders that give the same bytes for the same frames: each twice, with one thread and with four.

use std::path::Path;

use crate::common::{RATE, tools};
use remaster_media::{
    Colour, Encoder, Film, Format, FrameSink, Said, SegmentKind, Tools, WriteOptions, repeats, trial,
};
use remaster_picture::{Frame, Layout};

const SIZE: [usize; 2] = [256, 192];

fn format(pixels: &str) -> Format {
    let layout = Layout::from_name(pixels).unwrap();
    Format::even(SIZE, layout, Colour::new(Said::default(), &layout, SIZE), RATE)
}

/// Motion and noise.
fn picture(i: usize) -> Frame {
    let mut frame = Frame::new(SIZE[0], SIZE[1], 3);
    for (n, value) in frame.data.iter_mut().enumerate() {
        let (x, y) = (n / 3 % SIZE[0] + 5 * i, n / 3 / SIZE[0] + 2 * i);
        *value = ((x * x + y * y) / 97 % 64 + (n * 7919 + i * 104_729) % 31) as f32 / 95.0;
    }
    frame
}

fn encode(tools: &Tools, video: &str, pixels: &str, threads: usize, path: &Path) -> Vec<u8> {
    let (video, threads) = (Some(video.parse().unwrap()), Some(threads));
    let options = WriteOptions { video, threads, overwrite: true, ..WriteOptions::default() };
    let (film, format) = (Path::new("film.mkv"), format(pixels));
    let film = Film { path: film, format: &format, from: None, options: &options, kind: SegmentKind::Final };
    let mut encoder = Box::new(Encoder::segment(tools, path, &film).unwrap());
    (0..10).for_each(|i| encoder.write(&picture(i), i as i64).unwrap());
    encoder.finish().unwrap();
    std::fs::read(path).unwrap()
}

fn twice(encoders: &[(&str, &str)]) {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let known = tools.encoders().unwrap();
    let path = folder.path().join("a");
    for (video, pixels) in encoders {
        let name = video.split_whitespace().next().unwrap();
        assert!(repeats(name), "{name}");
        // Not every ffmpeg is built with every library.
        for threads in [1, 4].into_iter().filter(|_| known.iter().any(|k| k == name)) {
            let run = || encode(&tools, video, pixels, threads, &path);
            assert!(run() == run(), "{video} with {threads} threads");
        }
    }
}

#[test]
fn h264_repeats_itself() {
    twice(&[("libx264 -preset veryfast", "yuv420p"), ("libx264rgb -preset ultrafast", "rgb24")]);
    twice(&[("libx264 -preset veryfast -maxrate 300k -bufsize 300k", "yuv420p")]);
}

#[test]
fn hevc_repeats_itself() {
    twice(&[("libx265 -preset ultrafast", "yuv420p")]);
    twice(&[("libx265 -preset ultrafast -x265-params vbv-maxrate=300:vbv-bufsize=300", "yuv420p")]);
    twice(&[("libx265 -preset ultrafast -b:v 300k", "yuv420p")]);
}

#[test]
fn vp9_repeats_itself() {
    twice(&[("libvpx-vp9 -crf 18 -b:v 0 -row-mt 1 -cpu-used 5", "yuv420p")]);
}

#[test]
fn av1_repeats_itself() {
    twice(&[("libsvtav1 -preset 10", "yuv420p"), ("libaom-av1 -cpu-used 8 -row-mt 1", "yuv420p")]);
    twice(&[("libsvtav1 -preset 10 -b:v 300k", "yuv420p")]);
}

#[test]
fn codecs_of_editors_repeat_themselves() {
    twice(&[("ffv1", "yuv420p"), ("ffvhuff", "yuv420p"), ("utvideo", "yuv420p")]);
    twice(&[("prores_ks", "yuv422p10le"), ("prores_aw", "yuv422p10le")]);
    twice(&[("dnxhd -profile:v dnxhr_hq", "yuv422p")]);
}

#[test]
fn encoders_of_graphics_cards_and_unknown_ones_are_not_believed() {
    for name in ["h264_nvenc", "hevc_vaapi", "av1_qsv", "h264_videotoolbox", "mpeg4", "", "libx264 -crf 3"] {
        assert!(!repeats(name), "{name}");
    }
}

#[test]
fn what_decides_bytes_has_a_name() {
    let tools = tools();
    let identity = tools.identity();
    assert!(identity.starts_with("ffmpeg "), "{identity}");
    for library in ["libavcodec ", "libavformat ", "libswscale ", "libavutil "] {
        assert!(identity.contains(library), "{identity}");
    }
    assert!(!identity.contains('\n') && !identity.contains("Copyright"), "{identity}");
    let (options, format) = (WriteOptions::default(), format("yuv420p"));
    let film = |path, options| Film { path, format: &format, from: None, options, kind: SegmentKind::Final };
    let first = trial(&tools, &film(Path::new("/nowhere/a.mkv"), &options)).unwrap();
    assert!(!first.is_empty() && first == trial(&tools, &film(Path::new("b.mkv"), &options)).unwrap());
    let other = WriteOptions { video: Some("libx264 -crf 13".parse().unwrap()), ..options.clone() };
    assert!(first != trial(&tools, &film(Path::new("b.mkv"), &other)).unwrap());
}
