//! Excerpts of films: the same frames at the same times as in the whole film.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use crate::common::{RATE, Read, all, clip, deinterlaced, dies_of, filtered, greys, media, span, tools};
use remaster_media::{
    Decoder, Deinterlace, Excerpt, Excerpted, FrameSource, MediaError, Pictures, Probe, ReadOptions, Span,
    Stop, TimeBase, Tools, Y4mReader, probe,
};

/// Compares excerpts, given as parts of the film, with the film.
fn compare(whole: &Read, open: &dyn Fn(Excerpt) -> Result<Box<dyn FrameSource>, MediaError>, about: &str) {
    let count = whole.frames.len();
    let places = [
        (0, 1),
        (0, count / 3),
        (1, 3),
        (count / 3, count / 3 + 4),
        (count * 2 / 3, count),
        (count - 1, count),
    ];
    for (first, end) in places {
        let end = end.min(count);
        let excerpt = Excerpt {
            first: Some(whole.times[first]),
            end: whole.times.get(end).copied().filter(|_| end < count),
        };
        let about = format!("{about}, frames {first} to {end} of {count}");
        let got = open(excerpt).and_then(|mut source| all(&mut *source));
        let got = got.unwrap_or_else(|e| panic!("{about}: {e}"));
        assert_eq!(got.times, whole.times[first..end], "{about}");
        assert!(got.frames == whole.frames[first..end], "{about}: other frames");
        assert_eq!(got.format.time_base, whole.format.time_base, "{about}");
    }
    // Between two frames there is none.
    let wrong = Excerpt { first: Some(whole.times[1] - 1), end: None };
    if !whole.times.contains(&(whole.times[1] - 1)) {
        let error = open(wrong).and_then(|mut source| all(&mut *source)).err().unwrap();
        assert!(matches!(error, MediaError::NoFrame { .. }), "{about}: {error}");
    }
}

fn check(tools: &Tools, probe: &Probe, options: &ReadOptions, about: &str) {
    let mut whole = Decoder::open(tools, probe, options.clone()).unwrap();
    let clock = whole.format().time_base;
    let whole = all(&mut whole).unwrap();
    let open = |excerpt| -> Result<Box<dyn FrameSource>, MediaError> {
        Ok(Box::new(Decoder::excerpt(tools, probe, options.clone(), clock, excerpt)?))
    };
    compare(&whole, &open, about);
}

/// 20 s with a counter of frames and key frames every 4 s.
fn film(folder: &Path, name: &str, source: &str, codec: &[&str]) -> PathBuf {
    clip(folder, name, source, &[codec, &["-pix_fmt", "yuv420p", "-g", "40"]].concat())
}

const EVEN: &str = "testsrc2=s=64x48:r=10:d=20";
/// Frames of 20 to 180 ms.
const UNEVEN: &str = "testsrc2=s=64x48:r=10:d=20,setpts='PTS+0.04*sin(N*1.7)/TB'";
const X264: [&str; 6] = ["-c:v", "libx264", "-preset", "veryfast", "-bf", "3"];

#[test]
fn excerpts_of_files_are_those_of_the_whole() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let open: &[&str] = &[&X264[..], &["-x264-params", "open-gop=1"]].concat();
    let uneven: &[&str] = &[&X264[..], &["-fps_mode", "passthrough", "-enc_time_base", "1:1000"]].concat();
    let late: &[&str] = &[&X264[..], &["-output_ts_offset", "37.123"]].concat();
    let films = [
        ("a.mkv", EVEN, open),
        ("b.mkv", UNEVEN, uneven),
        ("c.mp4", UNEVEN, uneven),
        ("d.ts", EVEN, late),
        ("e.mp4", EVEN, late),
        ("f.avi", EVEN, &["-c:v", "mpeg4", "-bf", "2"]),
    ];
    for (name, source, codec) in films {
        let file = film(folder.path(), name, source, codec);
        if name.ends_with("ts") && dies_of(&file) {
            continue;
        }
        check(&tools, &probe(&tools, &file).unwrap(), &ReadOptions::default(), name);
    }
}

#[test]
fn excerpts_of_a_part_count_from_the_start_of_the_part() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    for (name, source) in [("a.mkv", EVEN), ("b.mp4", UNEVEN), ("c.ts", EVEN)] {
        let file = film(folder.path(), name, source, &X264);
        if name.ends_with("ts") && dies_of(&file) {
            continue;
        }
        let probe = probe(&tools, &file).unwrap().within(span(2.05, 18.3)).unwrap();
        check(&tools, &probe, &ReadOptions::default(), name);
    }
}

#[test]
fn excerpts_of_interlaced_films_are_deinterlaced_like_the_whole() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let coder = ["-c:v", "ffv1", "-pix_fmt", "yuv420p", "-field_order", "tt"];
    let file = clip(folder.path(), "fields.mkv", "testsrc2=s=64x48:r=20:d=16,interlace=scan=tff", &coder);
    for how in [Deinterlace::Auto, Deinterlace::Double] {
        check(&tools, &probe(&tools, &file).unwrap(), &deinterlaced(how), &format!("{how:?}"));
    }
    let file = media("interlaced_sar_mpeg2.mpg");
    check(&tools, &probe(&tools, &file).unwrap(), &ReadOptions::default(), "MPEG-2");
}

#[test]
fn filters_that_count_frames_start_with_the_film() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let file = film(folder.path(), "a.mkv", EVEN, &X264);
    let found = probe(&tools, &file).unwrap();
    for filters in ["tmix=frames=3", "select='mod(n,3)'"] {
        check(&tools, &found, &filtered(filters), filters);
    }
    let film = "testsrc2=s=64x480:r=24000/1001:d=12,scroll=h=0.01,telecine=first_field=top:pattern=23";
    let coder = ["-r", "30000/1001", "-c:v", "ffv1", "-pix_fmt", "yuv420p"];
    let file = clip(folder.path(), "film.mkv", film, &coder);
    let found = probe(&tools, &file).unwrap();
    let looked_at = found.clone().looked_at(&tools, Deinterlace::Auto).unwrap();
    check(&tools, &looked_at, &deinterlaced(Deinterlace::Auto), "3:2 pulldown");
    // Whoever looks decides alike.
    let notes = |probe: &Probe| {
        Decoder::open(&tools, probe, deinterlaced(Deinterlace::Auto)).unwrap().notes().to_vec()
    };
    assert_eq!(notes(&found), notes(&looked_at));
    assert!(notes(&found)[0].contains("pulldown"), "{:?}", notes(&found));
}

#[test]
fn excerpts_of_real_clips_are_those_of_the_whole() {
    let tools = tools();
    let keep = ReadOptions { keep_hdr: true, ..ReadOptions::default() };
    for name in
        ["vfr.mkv", "hdr10_hevc10.mp4", "prores422hq.mov", "vp9_alpha.webm", "grandprix1906_160p_theora.ogv"]
    {
        check(&tools, &probe(&tools, &media(name)).unwrap(), &keep, name);
    }
}

#[test]
fn excerpts_of_raw_video_and_pictures_keep_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let (file, pictures) = greys(folder.path(), 30);
    let folder_of = |span: Span| {
        Pictures::open(&pictures, RATE, ReadOptions::default(), 1 << 30, Stop::never())
            .unwrap()
            .within(span)
            .unwrap()
    };
    let bytes = std::fs::read(&file).unwrap();
    let raw = |span: Span| {
        let reader = Y4mReader::new(Cursor::new(bytes.clone()), file.clone(), 1 << 30, Stop::never());
        reader.unwrap().within(span).unwrap()
    };
    for part in [Span::default(), span(0.21, 1.0)] {
        let whole = all(&mut folder_of(part)).unwrap();
        compare(&whole, &|excerpt| Ok(Box::new(folder_of(part).excerpt(excerpt)?)), "pictures");
        let whole = all(&mut raw(part)).unwrap();
        compare(&whole, &|excerpt| Ok(Box::new(Excerpted::new(raw(part), excerpt))), "y4m");
    }
    // All of it, and what is not in it.
    let got = all(&mut Excerpted::new(raw(Span::default()), Excerpt::default())).unwrap();
    assert_eq!(got.frames.len(), 30);
    for first in [30, -1, i64::MAX, i64::MIN] {
        let excerpt = Excerpt { first: Some(first), end: None };
        assert!(matches!(folder_of(Span::default()).excerpt(excerpt), Err(MediaError::NoFrame { .. })));
        let error = all(&mut Excerpted::new(raw(Span::default()), excerpt)).err().unwrap();
        assert!(matches!(error, MediaError::NoFrame { .. }), "{error}");
    }
}

#[test]
fn an_excerpt_on_another_clock_is_refused() {
    let tools = tools();
    let found = probe(&tools, &media("vfr.mkv")).unwrap();
    let clock = TimeBase { num: 1, den: 77 };
    let error =
        Decoder::excerpt(&tools, &found, ReadOptions::default(), clock, Excerpt::default()).err().unwrap();
    assert!(matches!(error, MediaError::NoFrame { .. }), "{error}");
}
