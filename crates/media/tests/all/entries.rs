//! Where decoding may begin in the middle of a film: only at a frame that the decoder shows to need none before it.

use std::path::{Path, PathBuf};

use remaster_media::{Decoder, Excerpt, FrameSource, MediaError, Probe, ReadOptions, Tools, probe};

use crate::common::{all, clip, dies_of, read, read_part, span, tools};

/// 40 s at 10 frames a second.
const FILM: &str = "testsrc2=s=64x48:r=10:d=40";
/// The same with a flash every 3.7 s, behind which frames refer across the I frame that it gets.
const FLASHES: &str = "testsrc2=s=64x48:r=10:d=40,eq=brightness='if(lt(mod(n,37),1),0.8,0)':eval=frame";

/// MPEG-4 with a key frame at the start and 36 s later.
const LONG: [&str; 8] = ["-c:v", "mpeg4", "-g", "360", "-sc_threshold", "1000000000", "-bf", "2"];
/// H.264 with two references, IDR frames 25 s apart, and I frames between them.
const ACROSS: [&str; 12] = [
    "-c:v",
    "libx264",
    "-refs",
    "2",
    "-bf",
    "0",
    "-g",
    "250",
    "-keyint_min",
    "250",
    "-x264-params",
    "scenecut=60",
];

/// A film whose container says of no frame that it is a key frame, so that players take all for one.
fn without_index(folder: &Path, name: &str, source: &str, coder: &[&str]) -> PathBuf {
    let path = clip(folder, name, source, coder);
    let mut bytes = std::fs::read(&path).unwrap();
    let place = bytes.windows(4).position(|name| name == b"stss").unwrap();
    bytes[place..place + 4].copy_from_slice(b"free");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Films that deceive about where they can be entered.
fn films(folder: &Path) -> Vec<PathBuf> {
    let x265 = "log-level=error:keyint=20:intra-refresh=1:bframes=0";
    let fresh = ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", x265];
    let mut films = vec![
        clip(folder, "long.ts", FILM, &LONG),
        without_index(folder, "long.mp4", FILM, &LONG),
        clip(folder, "across.ts", FLASHES, &ACROSS),
        without_index(folder, "across.mp4", FLASHES, &ACROSS),
        without_index(folder, "fresh.mp4", FILM, &fresh),
    ];
    films.retain(|film| !film.to_string_lossy().ends_with("ts") || !dies_of(film));
    films
}

fn run_up(tools: &Tools, probe: &Probe, at: f64) -> f64 {
    Decoder::run_up(tools, probe, ReadOptions::default(), at).unwrap()
}

#[test]
fn a_part_of_a_film_without_key_frames_is_that_of_the_whole() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    for film in films(folder.path()) {
        let whole = read(&tools, &film, ReadOptions::default()).unwrap();
        for start in [8, 23, 31] {
            let part =
                read_part(&tools, &film, ReadOptions::default(), span(start as f64, start as f64 + 2.0))
                    .unwrap();
            let frames = 10 * start..10 * start + 20;
            assert!(part.frames == whole.frames[frames], "{} from {start} s on", film.display());
        }
    }
}

#[test]
fn an_excerpt_of_a_film_without_key_frames_is_that_of_the_whole() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    for film in films(folder.path()) {
        let probe = probe(&tools, &film).unwrap();
        let whole = read(&tools, &film, ReadOptions::default()).unwrap();
        let clock = whole.format.time_base;
        for first in [70, 185, 260, 333] {
            let excerpt =
                Excerpt { first: Some(whole.times[first]), end: whole.times.get(first + 30).copied() };
            let mut got = Decoder::excerpt(&tools, &probe, ReadOptions::default(), clock, excerpt).unwrap();
            let read = all(&mut got).unwrap();
            assert_eq!(read.times, whole.times[first..first + 30], "{}", film.display());
            assert!(
                read.frames == whole.frames[first..first + 30],
                "{} from frame {first} on",
                film.display()
            );
        }
    }
}

#[test]
fn decoding_begins_close_to_a_part_where_a_frame_is_proven_and_else_at_the_start() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let x264: &[&str] = &["-c:v", "libx264", "-g", "20", "-bf", "3"];
    let fresh: &[&str] = &[x264, &["-x264-params", "intra-refresh=1"]].concat();
    let open: &[&str] = &[x264, &["-x264-params", "open-gop=1"]].concat();
    let close: [(&str, &[&str]); 6] = [
        ("a.mkv", x264),
        ("b.mp4", open),
        ("c.mkv", fresh),
        ("d.mov", &["-c:v", "prores_ks"]),
        ("e.mkv", &["-c:v", "libvpx", "-g", "20", "-b:v", "200k"]),
        ("f.nut", &["-c:v", "mpeg4", "-g", "20"]),
    ];
    for (name, coder) in close {
        let film = clip(folder.path(), name, FILM, coder);
        let found = run_up(&tools, &probe(&tools, &film).unwrap(), 30.0);
        assert!((1.0..=8.0).contains(&found), "{name}: {found} s");
    }
    for film in films(folder.path()) {
        let found = run_up(&tools, &probe(&tools, &film).unwrap(), 15.0);
        assert!((found - 15.0).abs() < 1e-6, "{}: {found} s", film.display());
    }
    let film = clip(folder.path(), "g.avi", FILM, &["-c:v", "mpeg4", "-g", "20"]);
    assert!(run_up(&tools, &probe(&tools, &film).unwrap(), 30.0) > 29.0);
    // Damage that is used and filters that count frames depend on all that was decoded before.
    let film = clip(folder.path(), "h.mkv", FILM, x264);
    let keep = ReadOptions { keep_damaged: true, ..ReadOptions::default() };
    assert!(Decoder::run_up(&tools, &probe(&tools, &film).unwrap(), keep, 30.0).unwrap() > 29.0);
}

#[test]
fn a_source_knows_how_far_before_its_first_frame_it_read() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let lead = |film: &Path, at: usize| -> Result<usize, MediaError> {
        let probe = probe(&tools, film)?;
        let whole = read(&tools, film, ReadOptions::default())?;
        let excerpt = Excerpt { first: Some(whole.times[at]), end: None };
        let options = ReadOptions::default();
        let mut source = Decoder::excerpt(&tools, &probe, options, whole.format.time_base, excerpt)?;
        source.next(&mut remaster_picture::Frame::new(0, 0, 3))?;
        Ok(source.lead())
    };
    let near = clip(folder.path(), "a.mkv", FILM, &["-c:v", "libx264", "-g", "20"]);
    assert!((10..=60).contains(&lead(&near, 300).unwrap()));
    let far = without_index(folder.path(), "b.mp4", FILM, &LONG);
    assert!(lead(&far, 300).unwrap() >= 300);
}
