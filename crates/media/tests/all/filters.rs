//! Filters in front: what they make of frames is what comes, with the right times.

use std::path::{Path, PathBuf};

use crate::common::{clip, distance, filtered, make, media, read, read_part, span, tools};
use remaster_media::{Deinterlace, MediaError, ReadOptions, TimeBase};
use remaster_picture::Frame;

fn lossless(folder: &Path, source: &str, args: &[&str]) -> PathBuf {
    clip(folder, "clip.mkv", source, &[&["-c:v", "ffv1"], args].concat())
}

fn cropped(frame: &Frame, [left, top, width, height]: [usize; 4]) -> Frame {
    let mut out = Frame::new(width, height, frame.channels);
    for y in 0..height {
        let from = ((top + y) * frame.width + left) * frame.channels;
        let row = width * frame.channels;
        out.data[y * row..][..row].copy_from_slice(&frame.data[from..][..row]);
    }
    out
}

#[test]
fn the_size_behind_the_filters_is_the_size_of_the_frames() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let file = lossless(folder.path(), "testsrc2=s=96x64:r=25:d=1", &["-pix_fmt", "yuv444p"]);
    let whole = read(&tools, &file, ReadOptions::default()).unwrap();
    let got = read(&tools, &file, filtered("crop=80:48:8:6")).unwrap();
    assert_eq!((got.format.width, got.format.height, got.frames.len()), (80, 48, 25));
    let expected = (whole.times, whole.format.frames, whole.format.rate);
    assert_eq!((got.times, got.format.frames, got.format.rate), expected);
    for (a, b) in got.frames.iter().zip(&whole.frames) {
        assert_eq!(*a, cropped(b, [8, 6, 80, 48]));
    }
    // Larger than before, with the names of both ends, and in branches.
    let got = read(&tools, &file, filtered("[in]scale=192:128:flags=neighbor[out]")).unwrap();
    assert_eq!((got.format.width, got.format.height), (192, 128));
    let got =
        read(&tools, &file, filtered("split[a][b];[a]crop=iw/2[l];[b]crop=iw/2[r];[l][r]hstack")).unwrap();
    assert_eq!((got.format.width, got.format.height), (96, 64));
}

#[test]
fn another_frame_rate_keeps_times_and_counts_right() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let file = lossless(folder.path(), "testsrc2=s=96x64:r=25:d=4", &["-pix_fmt", "yuv420p"]);
    for (filters, rate, frames) in [("fps=50", 50, 200), ("fps=10", 10, 40), ("framerate=fps=60", 60, 240)] {
        let got = read(&tools, &file, filtered(filters)).unwrap();
        assert_eq!(got.format.rate, Some(TimeBase { num: rate, den: 1 }), "{filters}");
        assert!(got.frames.len().abs_diff(frames) <= 3, "{filters}: {}", got.frames.len());
        assert!(got.format.frames.unwrap().abs_diff(frames) <= 1, "{filters}: {:?}", got.format.frames);
        for (i, t) in got.seconds().iter().enumerate() {
            let should = got.seconds()[0] + i as f64 / rate as f64;
            assert!((t - should).abs() < 1e-3, "{filters}: frame {i} at {t}, not {should}");
        }
        let part = read_part(&tools, &file, filtered(filters), span(1.0, 2.0)).unwrap();
        assert_eq!(part.frames.len(), rate as usize, "{filters}");
        assert_eq!(part.format.frames, Some(rate as usize), "{filters}");
        assert!(part.seconds()[0] < 1.0 / rate as f64);
    }
    // Filters may leave frames out without a word: that is no damage.
    let got = read(&tools, &file, filtered("select='not(mod(n,5))'")).unwrap();
    assert_eq!(got.frames.len(), 20);
    assert!((got.seconds()[1] - got.seconds()[0] - 0.2).abs() < 2e-3);
    let got = read(&tools, &file, filtered("trim=end=1")).unwrap();
    assert_eq!(got.frames.len(), 25);
}

#[test]
fn a_person_s_deinterlacer_doubles_the_rate_like_ours() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let source = "testsrc2=s=96x64:r=50:d=2,interlace=scan=tff";
    let file = lossless(folder.path(), source, &["-pix_fmt", "yuv420p", "-field_order", "tt"]);
    let ours = ReadOptions { deinterlace: Deinterlace::Double, ..ReadOptions::default() };
    let filters = filtered("bwdif=mode=send_field:parity=tff:deint=all");
    let theirs = ReadOptions { deinterlace: Deinterlace::Off, ..filters };
    let (ours, theirs) = (read(&tools, &file, ours).unwrap(), read(&tools, &file, theirs).unwrap());
    assert_eq!(ours.format.rate, theirs.format.rate);
    assert_eq!(ours.frames, theirs.frames);
    assert!(ours.seconds().iter().zip(theirs.seconds()).all(|(a, b)| (a - b).abs() < 1e-3));
    // Behind ours: a filter sees frames without fields.
    let both = ReadOptions { deinterlace: Deinterlace::On, ..filtered("crop=96:32:0:0") };
    let plain = read(&tools, &file, crate::common::deinterlaced(Deinterlace::On)).unwrap();
    let both = read(&tools, &file, both).unwrap();
    assert_eq!(both.frames.len(), plain.frames.len());
    let near =
        distance(&cropped(&both.frames[9], [0, 0, 96, 28]), &cropped(&plain.frames[9], [0, 0, 96, 28]));
    assert!(near < 1e-6, "{near}");
}

#[test]
fn samples_and_colours_behind_the_filters_are_what_counts() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let file = lossless(folder.path(), "testsrc2=s=96x64:r=25:d=0.2", &["-pix_fmt", "yuv444p"]);
    let plain = read(&tools, &file, ReadOptions::default()).unwrap();
    for (filters, name, most) in [
        ("format=yuv444p10le", "yuv444p10le", 0.004),
        ("format=gbrp", "rgb24", 0.012),
        ("scale=out_range=pc", "yuv444p", 0.012),
        ("null", "yuv444p", 1e-6),
    ] {
        let got = read(&tools, &file, filtered(filters)).unwrap();
        assert_eq!(got.format.layout.name(), name, "{filters}");
        let off = distance(&got.frames[3], &plain.frames[3]);
        assert!(off < most, "{filters}: {off}, {:?}", got.format.colour);
    }
    // A clip that is not tagged and so large that we guess another matrix than ffmpeg does.
    let large = read(&tools, &media("untagged_1080.mp4"), ReadOptions::default()).unwrap();
    let got = read(&tools, &media("untagged_1080.mp4"), filtered("format=gbrp")).unwrap();
    let off = distance(&got.frames[0], &large.frames[0]);
    assert!(off < 0.012, "{off}");
    // And one that becomes small: the guess was made for the file, not for the part of the picture.
    let small = read(&tools, &media("untagged_1080.mp4"), filtered("crop=320:240:0:0")).unwrap();
    assert_eq!(small.format.colour, large.format.colour);
    assert!(distance(&small.frames[0], &cropped(&large.frames[0], [0, 0, 320, 240])) < 1e-3);
    // HDR that a filter takes away is no HDR.
    assert!(matches!(
        read(&tools, &media("hdr10_hevc10.mp4"), filtered("crop=32:32:0:0")),
        Err(MediaError::Hdr { .. })
    ));
    let sdr = filtered("setparams=color_trc=bt709:color_primaries=bt709:colorspace=bt709,format=yuv420p");
    let got = read(&tools, &media("hdr10_hevc10.mp4"), sdr).unwrap();
    assert!(got.format.hdr.is_none() && !got.format.colour.is_hdr() && got.format.layout.depth == 8);
}

#[test]
fn turned_video_is_upright_before_the_filters() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let coder = ["-c:v", "libx264", "-qp", "10"];
    let flat = clip(folder.path(), "flat.mp4", "testsrc2=s=96x64:r=25:d=0.4", &coder);
    for degrees in ["90", "180", "270"] {
        let file = folder.path().join(format!("{degrees}.mp4"));
        let turned = format!("rotate={degrees}");
        let name = flat.to_str().unwrap();
        make(&["-i", name, "-c", "copy", "-metadata:s:v:0", &turned], &file);
        let plain = read(&tools, &file, ReadOptions::default()).unwrap();
        let got = read(&tools, &file, filtered("null")).unwrap();
        let size = |f: &remaster_media::Format| (f.width, f.height);
        assert_eq!(size(&got.format), size(&plain.format), "{degrees}");
        assert_eq!(got.frames, plain.frames, "{degrees}");
        // The picture of the person, not that of the file.
        let top = read(&tools, &file, filtered("crop=iw:ih/2:0:0")).unwrap();
        let [width, height] = [plain.format.width, plain.format.height / 2];
        assert_eq!((top.format.width, top.format.height), (width, height), "{degrees}");
        let off = distance(&top.frames[0], &cropped(&plain.frames[0], [0, 0, width, height]));
        assert!(off < 0.01, "{degrees}: {off}");
    }
}

#[test]
fn a_filter_that_ffmpeg_refuses_is_an_error_in_its_words() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let file = lossless(folder.path(), "testsrc2=s=96x64:r=25:d=0.4", &["-pix_fmt", "yuv420p"]);
    for (filters, word) in [
        ("nosuchfilter=3", "nosuchfilter"),
        ("crop=9999:9999", "crop"),
        ("hqdn3d=strength=much", "strength"),
        ("", ""),
        ("'", ""),
        ("split", ""),
        ("scale=64:64 -y /tmp/other", ""),
        ("select=0", ""),
        ("scale=60000:60000", ""),
    ] {
        let error = read(&tools, &file, filtered(filters)).err().unwrap_or_else(|| panic!("{filters}"));
        let typed = matches!(error, MediaError::Filters { .. } | MediaError::TooLarge { .. });
        assert!(typed, "{filters}: {error}");
        assert!(error.to_string().contains(word), "{filters}: {error}");
    }
    assert!(!Path::new("/tmp/other").exists());
}
