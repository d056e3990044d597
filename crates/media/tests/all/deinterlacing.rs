//! Interlaced video is found, and frames are made of it.

use std::path::Path;

use crate::common::{Read, clip, deinterlaced, dies_of, distance, make, media, read, tools};
use remaster_media::{Deinterlace, TimeBase};

/// 50 or 59.94 pictures a second of something that moves everywhere.
fn moving(rate: &str, seconds: u32, height: u32) -> String {
    format!("testsrc2=s=64x{height}:r={rate}:d={seconds},scroll=h=0.01,format=yuv422p")
}

fn open(file: &Path, how: Deinterlace) -> Read {
    read(&tools(), file, deinterlaced(how)).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// How far frames are from the pictures they should show, on average. Borders are left out: nothing is known there.
fn error(got: &Read, truth: &Read, pick: impl Fn(usize) -> usize) -> f32 {
    let pairs = got.frames.iter().enumerate().filter_map(|(i, f)| Some((f, truth.frames.get(pick(i))?)));
    let all: Vec<f32> = pairs.map(|(a, b)| distance(a, b)).collect();
    all.iter().sum::<f32>() / all.len() as f32
}

#[test]
fn captures_without_a_mark_are_found_and_their_field_order_too() {
    let folder = tempfile::tempdir().unwrap();
    let truth = clip(folder.path(), "truth.mkv", &moving("50", 2, 576), &["-c:v", "ffv1"]);
    let truth = open(&truth, Deinterlace::Off);
    // The first frame shows picture 0 in the field that comes first, and picture 1 in the other.
    for (order, name) in [("interleave_top", "top"), ("interleave_bottom", "bottom")] {
        for coder in [&["-c:v", "ffv1"][..], &["-c:v", "libx264", "-qp", "4"]] {
            let source = format!("{},tinterlace={order},setfield=prog", moving("50", 2, 576));
            let file = clip(folder.path(), &format!("{name}.mkv"), &source, coder);
            let auto = open(&file, Deinterlace::Auto);
            assert_eq!(auto.notes.len(), 1, "{order} {coder:?}");
            assert!(auto.notes[0].contains("looks interlaced"), "{}", auto.notes[0]);
            assert_eq!((auto.frames.len(), auto.format.rate), (50, Some(TimeBase { num: 25, den: 1 })));
            let off = open(&file, Deinterlace::Off);
            assert!(off.notes.is_empty());
            let (before, after) = (error(&off, &truth, |i| 2 * i), error(&auto, &truth, |i| 2 * i));
            assert!(after < before * 0.6, "{order} {coder:?}: {before} before, {after} after");
            // A frame per field, in the right order: swapped fields would jump back and forth.
            let double = open(&file, Deinterlace::Double);
            assert_eq!((double.frames.len(), double.format.frames), (100, Some(100)));
            assert_eq!(double.format.rate, Some(TimeBase { num: 50, den: 1 }));
            let (right, swapped) = (error(&double, &truth, |i| i), error(&double, &truth, |i| i ^ 1));
            assert!(right < 0.7 * swapped, "{order} {coder:?}: {right} against {swapped}");
        }
    }
}

#[test]
fn frames_per_field_are_half_a_step_apart_in_every_clock() {
    let folder = tempfile::tempdir().unwrap();
    let source = format!("{},tinterlace=interleave_top,setfield=tff", moving("50", 1, 96));
    // AVI counts in frames, MPEG-TS in 1/90000 s, Matroska in ms.
    for (name, coder) in [
        ("a.avi", &["-c:v", "ffv1"][..]),
        ("a.ts", &["-c:v", "mpeg2video", "-flags", "+ilme+ildct", "-q:v", "2"]),
        ("a.mkv", &["-c:v", "ffv1"]),
        ("a.mov", &["-c:v", "prores_ks", "-flags", "+ildct"]),
    ] {
        let file = clip(folder.path(), name, &source, coder);
        if dies_of(&file) {
            continue;
        }
        let double = open(&file, Deinterlace::Double);
        assert_eq!(double.frames.len(), 50, "{name}");
        let times = double.seconds();
        for (i, pair) in times.windows(2).enumerate() {
            assert!((pair[1] - pair[0] - 0.02).abs() < 0.0011, "{name}: frame {i} {:?}", &times[i..i + 2]);
        }
        let on = open(&file, Deinterlace::On);
        assert_eq!(on.frames.len(), 25, "{name}");
        assert!((on.seconds()[24] - on.seconds()[0] - 0.96).abs() < 0.0011, "{name}");
    }
}

#[test]
fn what_is_marked_is_deinterlaced_and_off_leaves_it() {
    let file = media("interlaced_sar_mpeg2.mpg");
    let (auto, on, off) =
        (open(&file, Deinterlace::Auto), open(&file, Deinterlace::On), open(&file, Deinterlace::Off));
    assert!(auto.notes[0].contains("top field first"), "{:?}", auto.notes);
    assert_eq!((auto.frames.len(), &auto.times), (off.frames.len(), &off.times));
    assert!(auto.frames == on.frames && auto.frames != off.frames);
}

#[test]
fn progressive_video_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    for (rate, height, coder) in [
        ("25", 576, &["-c:v", "ffv1"][..]),
        ("30000/1001", 480, &["-c:v", "mpeg2video"]),
        ("25", 1080, &["-c:v", "libx264", "-qp", "20"]),
        ("30000/1001", 486, &["-c:v", "utvideo"]),
    ] {
        let file = clip(folder.path(), "p.mkv", &moving(rate, 2, height), coder);
        let auto = open(&file, Deinterlace::Auto);
        assert!(auto.notes.is_empty(), "{rate} {height} {coder:?}: {:?}", auto.notes);
        assert!(auto.frames == open(&file, Deinterlace::Off).frames);
    }
}

/// A tall grey picture with rows of letters whose pixels are two lines high, as an uncompressed file.
fn letters(path: &Path) {
    // R, L, T and L in seven rows of five pixels.
    const LETTERS: [[u8; 7]; 4] = [
        [0x1E, 0x11, 0x11, 0x1E, 0x14, 0x12, 0x11],
        [0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1F],
        [0x1F, 4, 4, 4, 4, 4, 4],
        [0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1F],
    ];
    let (width, height) = (240, 700);
    let pixel = |x: usize, y: usize| {
        let (row, column) = (y / 2, x / 2);
        let letter = LETTERS[(row / 11 * 3 + column / 6 * 7) % 4];
        let is_ink = row % 11 < 7 && column % 6 < 5 && letter[row % 11] >> (4 - column % 6) & 1 == 1;
        if is_ink { 235 } else { 16 }
    };
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| pixel(x, y)));
    let file = format!("P5 {width} {height} 255\n").into_bytes().into_iter().chain(pixels);
    std::fs::write(path, file.collect::<Vec<u8>>()).unwrap();
}

/// Of all of these `idet` takes most frames for two fields: a chart, one that scrolls by two lines a frame, and text that
/// rolls by four.
#[test]
fn fine_stripes_and_text_of_progressive_clips_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("p.mkv"), folder.path().join("page.pgm"));
    letters(&page);
    let page = page.to_str().unwrap();
    for (name, source) in [
        ("chart", &["-f", "lavfi", "-i", "testsrc2=s=720x576:r=25:d=1"][..]),
        ("scrolled chart", &["-f", "lavfi", "-i", "testsrc2=s=320x576:r=25:d=1,scroll=v=0.0035"]),
        ("text", &["-loop", "1", "-framerate", "25", "-i", page, "-vf", "crop=240:576:0:4*n,format=yuv420p"]),
    ] {
        make(&[source, &["-frames:v", "25", "-c:v", "ffv1"]].concat(), &file);
        assert!(idet(&file) > 12, "{name} shows nothing: {} of 25 frames", idet(&file));
        let auto = open(&file, Deinterlace::Auto);
        assert!(auto.notes.is_empty(), "{name}: {:?}", auto.notes);
        assert!(auto.frames == open(&file, Deinterlace::Off).frames, "{name}");
    }
}

/// Frames that `idet` takes for interlaced ones.
fn idet(file: &Path) -> usize {
    let mut command = std::process::Command::new("ffmpeg");
    command.args(["-v", "quiet", "-nostdin", "-i"]).arg(file);
    let out = command.args(["-vf", "idet,metadata=mode=print:file=-", "-f", "null", "-"]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let fields = ["multiple.current_frame=tff", "multiple.current_frame=bff"];
    text.lines().filter(|line| fields.iter().any(|word| line.trim().ends_with(word))).count()
}

#[test]
fn film_comes_out_of_its_pulldown_as_it_went_in() {
    let folder = tempfile::tempdir().unwrap();
    let film = moving("24000/1001", 4, 480);
    let truth = clip(folder.path(), "film.mkv", &film, &["-c:v", "ffv1"]);
    let truth = open(&truth, Deinterlace::Off);
    for (marked, first) in [("prog", "top"), ("tff", "top"), ("prog", "bottom")] {
        let source = format!("{film},telecine=first_field={first}:pattern=23,setfield={marked}");
        let file = clip(folder.path(), "tele.mkv", &source, &["-r", "30000/1001", "-c:v", "ffv1"]);
        let auto = open(&file, Deinterlace::Auto);
        assert!(auto.notes[0].contains("3:2 pulldown"), "{marked} {first}: {:?}", auto.notes);
        assert_eq!(auto.format.rate, Some(TimeBase { num: 24000, den: 1001 }), "{marked} {first}");
        let (got, stated) = (auto.frames.len(), auto.format.frames.unwrap());
        let near = got.abs_diff(96) <= 2 && stated.abs_diff(96) <= 2;
        assert!(near, "{marked} {first}: {got} frames, {stated} stated");
        let times = auto.seconds();
        for (i, pair) in times.windows(2).enumerate() {
            let step = 1001.0 / 24000.0;
            let off = (pair[1] - pair[0] - step).abs();
            assert!(off < 0.002, "{marked} {first}: frame {i} {:?}", &times[i..i + 2]);
        }
        // The first and last round may lack a partner.
        let same = auto.frames[5..80].iter().filter(|f| truth.frames.contains(f)).count();
        assert!(same >= 73, "{marked} {first}: {same} of 75 frames are the film's");
    }
}

#[test]
fn deep_film_is_deinterlaced_rather_than_cut_to_8_bits() {
    let folder = tempfile::tempdir().unwrap();
    let source =
        format!("{},format=yuv422p10le,telecine=first_field=top:pattern=23", moving("24000/1001", 3, 480));
    let file = clip(folder.path(), "deep.mkv", &source, &["-r", "30000/1001", "-c:v", "ffv1"]);
    for how in [Deinterlace::Auto, Deinterlace::Ivtc] {
        let found = open(&file, how);
        assert_eq!(found.format.rate, Some(TimeBase { num: 30000, den: 1001 }), "{how:?}");
        assert_eq!(found.notes.len(), 1, "{how:?}");
    }
}
