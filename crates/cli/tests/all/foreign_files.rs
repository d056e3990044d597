//! Files from elsewhere: what they say is shown but not obeyed, what is missing is said, and interlaced ones come out
//! as frames.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn make(args: &[&str], file: &Path) {
    let mut command = Command::new("ffmpeg");
    let out = command.args(["-v", "error", "-nostdin", "-y"]).args(args).arg(file).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn remaster(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_remaster")).args(args).output().unwrap()
}

fn roundtrip(from: &Path, to: &Path, flags: &[&str]) -> Output {
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let args = ["vae", "roundtrip", from, "-o", to, "--weights", "identity", "--progress", "none"];
    remaster(&[&args[..], flags].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Times of the frames, in seconds.
fn times(file: &Path) -> Vec<f64> {
    let args = ["-v", "error", "-select_streams", "v:0", "-show_entries", "frame=pts_time", "-of", "csv=p=0"];
    let out = Command::new("ffprobe").args(args).arg(file).output().unwrap();
    text(&out.stdout).lines().filter_map(|l| l.trim_matches(',').parse().ok()).collect()
}

#[test]
fn escape_sequences_of_a_file_do_not_reach_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a\u{1b}]0;owned\u{7}.mkv");
    let language = "language=\u{1b}[31mred";
    make(
        &[
            "-f",
            "lavfi",
            "-i",
            "testsrc2=s=64x48:r=10:d=0.3",
            "-f",
            "lavfi",
            "-i",
            "sine=d=0.3",
            "-c:v",
            "ffv1",
            "-metadata:s:a",
            language,
            "-metadata",
            "title=\u{1b}[2J",
        ],
        &file,
    );
    let missing = folder.path().join("no\u{1b}[2Jfile.mkv");
    let (file, missing) = (file.to_str().unwrap(), missing.to_str().unwrap());
    // The last one is refused by the parser of arguments, which leaves them out by itself.
    for (args, shown) in
        [(&["probe", file][..], true), (&["probe", missing], true), (&["probe", file, missing], false)]
    {
        let out = remaster(args);
        for bytes in [&out.stdout, &out.stderr] {
            assert!(!bytes.contains(&0x1b) && !bytes.contains(&7), "{args:?}: {:?}", text(bytes));
        }
        assert!(!shown || text(&[out.stdout, out.stderr].concat()).contains('\u{fffd}'), "{args:?}");
    }
}

#[test]
fn a_playlist_is_refused_with_a_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret.ts");
    make(&["-f", "lavfi", "-i", "testsrc2=s=64x48:r=10:d=0.5", "-c:v", "mpeg2video"], &secret);
    let list = folder.path().join("film.mp4");
    std::fs::write(&list, format!("ffconcat version 1.0\nfile '{}'\n", secret.display())).unwrap();
    let to = folder.path().join("out.mkv");
    let out = roundtrip(&list, &to, &[]);
    assert_eq!(out.status.code(), Some(3));
    assert!(text(&out.stderr).contains("-c copy joined.mkv"), "{}", text(&out.stderr));
    assert!(!to.exists());
}

#[test]
fn a_short_result_is_a_warning_and_a_killed_decoder_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.mp4");
    let coder = ["-c:v", "mpeg4", "-q:v", "2", "-movflags", "+faststart"];
    make(&[&["-f", "lavfi", "-i", "testsrc2=s=160x96:r=25:d=2"][..], &coder].concat(), &whole);
    let bytes = std::fs::read(&whole).unwrap();
    let cut = folder.path().join("cut.mp4");
    std::fs::write(&cut, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let to = folder.path().join("out.mkv");
    assert_eq!(roundtrip(&cut, &to, &[]).status.code(), Some(3));
    let out = roundtrip(&cut, &to, &["--damaged", "keep", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let said = format!("{} of about 50 frames", report["frames"]);
    assert!(report["notes"].to_string().contains(&said), "{said}: {}", report["notes"]);
    assert!(text(&out.stderr).contains("warning: "), "{}", text(&out.stderr));

    let program = folder.path().join("ffmpeg");
    let decode = "ffmpeg \"$@\" 2>/dev/null | head -c 60000; kill -9 $$";
    let script = format!("#!/bin/sh\ncase \"$*\" in *rawvideo*) {decode};; esac; exec ffmpeg \"$@\"\n");
    std::fs::write(&program, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let other = folder.path().join("other.mkv");
    let out = roundtrip(&whole, &other, &["--damaged", "keep", "--ffmpeg", program.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("was killed"), "{}", text(&out.stderr));
    assert!(!other.exists());
}

#[test]
fn a_capture_becomes_frames_and_keeps_its_sound() {
    let folder = tempfile::tempdir().unwrap();
    let from: PathBuf = folder.path().join("capture.avi");
    let source =
        "testsrc2=s=64x576:r=50:d=1,scroll=h=0.01,format=yuv422p,tinterlace=interleave_top,setfield=prog";
    let coder = ["-c:v", "huffyuv", "-c:a", "pcm_s16le"];
    make(&[&["-f", "lavfi", "-i", source, "-f", "lavfi", "-i", "sine=d=1"][..], &coder].concat(), &from);
    let to = folder.path().join("out.mkv");
    let out = roundtrip(&from, &to, &[]);
    assert!(text(&out.stderr).contains("looks interlaced"), "{}", text(&out.stderr));
    assert_eq!(times(&to).len(), 25);
    let double = folder.path().join("double.mkv");
    let out = roundtrip(&from, &double, &["--deinterlace", "double"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let found = times(&double);
    assert_eq!(found.len(), 50);
    assert!(found.iter().enumerate().all(|(i, t)| (t - i as f64 * 0.02).abs() < 0.0011), "{found:?}");
    let off = folder.path().join("off.mkv");
    let out = roundtrip(&from, &off, &["--deinterlace", "off"]);
    assert!(out.status.success() && !text(&out.stderr).contains("interlaced"), "{}", text(&out.stderr));
    let mut out = Command::new("ffprobe");
    out.args(["-v", "error", "-show_entries", "stream=codec_name", "-of", "csv=p=0"]);
    let streams = text(&out.arg(&double).output().unwrap().stdout);
    assert!(streams.contains("pcm_s16le"), "{streams}");
}

/// Sound of AAC begins half a frame before the picture: rounded to the frame rate, two frames would get one time.
#[test]
fn sound_that_begins_before_the_picture_passes_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("in.mp4"), folder.path().join("out.mkv"));
    let video = ["-f", "lavfi", "-i", "testsrc2=s=64x48:r=24:d=1", "-f", "lavfi", "-i", "sine=r=48000:d=1"];
    let codecs = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:a", "aac"];
    make(&[&video[..], &codecs].concat(), &from);
    let out = roundtrip(&from, &to, &[]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(times(&to).len(), 24);
}
