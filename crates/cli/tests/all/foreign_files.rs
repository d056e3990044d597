//! Files from elsewhere: what they say is shown but not obeyed, what is missing is said, and interlaced ones come out
//! as frames.

use crate::desk::{Desk, Run, bytes, ffmpeg, ffprobe, times};

fn roundtrip(desk: &Desk, from: &str, to: &str, flags: &str) -> Run {
    desk.run(&format!("vae roundtrip {from} -o {to} --weights identity --progress none {flags}"))
}

#[test]
#[cfg(unix)]
fn escape_sequences_of_a_file_do_not_reach_the_terminal() {
    let desk = Desk::bare();
    let (file, missing) = ("a\u{1b}]0;owned\u{7}.mkv", "no\u{1b}[2Jfile.mkv");
    let sources = "-f lavfi -i testsrc2=s=64x48:r=10:d=0.3 -f lavfi -i sine=d=0.3 -c:v ffv1";
    let tags = "-metadata:s:a language=\u{1b}[31mred -metadata title=\u{1b}[2J";
    ffmpeg(&desk, &format!("{sources} {tags} {file}"));
    // The last one is refused by the parser of arguments, which leaves them out by itself.
    let both = format!("{file} {missing}");
    for (names, shown) in [(file, true), (missing, true), (both.as_str(), false)] {
        let run = desk.run(&format!("probe {names}"));
        let said = run.stdout + &run.stderr;
        assert!(!said.contains(['\u{1b}', '\u{7}']), "{names:?}: {said:?}");
        assert!(!shown || said.contains('\u{fffd}'), "{names:?}");
    }
}

#[test]
fn a_playlist_is_refused_with_a_next_step() {
    let desk = Desk::bare();
    ffmpeg(&desk, "-f lavfi -i testsrc2=s=64x48:r=10:d=0.5 -c:v mpeg2video secret.ts");
    desk.put("film.mp4", format!("ffconcat version 1.0\nfile '{}'\n", desk.join("secret.ts").display()));
    roundtrip(&desk, "film.mp4", "out.mkv", "").ends(3, &["-c copy joined.mkv"]);
    assert!(!desk.join("out.mkv").exists());
}

#[test]
fn a_short_result_is_a_warning_and_a_killed_decoder_an_error() {
    let desk = Desk::bare();
    let coder = "-c:v mpeg4 -q:v 2 -movflags +faststart";
    ffmpeg(&desk, &format!("-f lavfi -i testsrc2=s=160x96:r=25:d=2 {coder} whole.mp4"));
    let whole = bytes(&desk, "whole.mp4");
    desk.put("cut.mp4", &whole[..whole.len() * 2 / 3]);
    assert_eq!(roundtrip(&desk, "cut.mp4", "out.mkv", "").code, Some(3));
    let run = roundtrip(&desk, "cut.mp4", "out.mkv", "--damaged keep --json");
    let report = run.ends(0, &["warning: "]).json();
    let said = format!("{} of about 50 frames", report["frames"]);
    assert!(report["notes"].to_string().contains(&said), "{said}: {}", report["notes"]);

    // An AVI that ends between two chunks, of which no decoder complains.
    ffmpeg(&desk, "-f lavfi -i testsrc2=s=32x32:r=25:d=4 -c:v mpeg4 -q:v 5 whole.avi");
    let whole = bytes(&desk, "whole.avi");
    let chunks: Vec<usize> = (0..whole.len()).filter(|at| whole[*at..].starts_with(b"00dc")).collect();
    // The first one is in the headers, and names those of the video.
    desk.put("half.avi", &whole[..chunks[51]]);
    let said = ["ends after 50 frames, but its header announces 100", "--damaged keep"];
    roundtrip(&desk, "half.avi", "half.mkv", "").ends(3, &said);
    assert!(!desk.join("half.mkv").exists());
    let run = roundtrip(&desk, "half.avi", "half.mkv", "--damaged keep --json");
    let report = run.ends(0, &["warning: "]).json();
    assert_eq!(report["frames"], 50);
    assert!(report["notes"].to_string().contains("the input is cut off: 50 frames decoded"), "{report}");

    // A decoder that is killed in the middle.
    #[cfg(unix)]
    {
        let decode = "ffmpeg \"$@\" 2>/dev/null | head -c 60000; kill -9 $$";
        let script = format!("#!/bin/sh\ncase \"$*\" in *rawvideo*) {decode};; esac; exec ffmpeg \"$@\"\n");
        desk.program("ffmpeg", &script);
        let flags = format!("--damaged keep --ffmpeg {}", desk.join("ffmpeg").display());
        roundtrip(&desk, "whole.mp4", "other.mkv", &flags).ends(3, &["was killed"]);
        assert!(!desk.join("other.mkv").exists());
    }
}

#[test]
fn a_capture_becomes_frames_and_keeps_its_sound() {
    let desk = Desk::bare();
    let source =
        "testsrc2=s=64x576:r=50:d=1,scroll=h=0.01,format=yuv422p,tinterlace=interleave_top,setfield=prog";
    let sound = "-f lavfi -i sine=d=1 -c:a pcm_s16le";
    ffmpeg(&desk, &format!("-f lavfi -i {source} {sound} -c:v huffyuv capture.avi"));
    let run = roundtrip(&desk, "capture.avi", "out.mkv", "");
    assert!(run.stderr.contains("looks interlaced"), "{}", run.stderr);
    assert_eq!(times(desk.join("out.mkv")).len(), 25);
    roundtrip(&desk, "capture.avi", "double.mkv", "--deinterlace double").ends(0, &[]);
    let found = times(desk.join("double.mkv"));
    assert_eq!(found.len(), 50);
    assert!(found.iter().enumerate().all(|(i, t)| (t - i as f64 * 0.02).abs() < 0.0011), "{found:?}");
    let run = roundtrip(&desk, "capture.avi", "off.mkv", "--deinterlace off");
    assert!(!run.ends(0, &[]).stderr.contains("interlaced"), "{}", run.stderr);
    let streams = ffprobe("-show_entries stream=codec_name -of csv=p=0", desk.join("double.mkv"));
    assert!(streams.contains("pcm_s16le"), "{streams}");
}

/// Sound of AAC begins half a frame before the picture: rounded to the frame rate, two frames would get one time.
#[test]
fn sound_that_begins_before_the_picture_passes_the_check() {
    let desk = Desk::bare();
    let sources = "-f lavfi -i testsrc2=s=64x48:r=24:d=1 -f lavfi -i sine=r=48000:d=1";
    ffmpeg(&desk, &format!("{sources} -c:v libx264 -pix_fmt yuv420p -c:a aac in.mp4"));
    roundtrip(&desk, "in.mp4", "out.mkv", "").ends(0, &[]);
    assert_eq!(times(desk.join("out.mkv")).len(), 24);
}
