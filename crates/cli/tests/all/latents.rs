//! Latent files as people meet them: what comes along, what they refuse, and the edges of what they hold.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn media(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/media").join(name)
}

fn run(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn ffmpeg(args: &[&str]) -> Vec<u8> {
    let out = Command::new("ffmpeg").args(["-v", "error", "-nostdin", "-y"]).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

/// Runs `remaster`: its exit code, stdout and stderr. Words are split at spaces, `@` stands for the folder.
fn remaster(folder: &Path, line: &str) -> (Option<i32>, String, String) {
    let words = line.split_whitespace().map(|w| w.replace('@', folder.to_str().unwrap()));
    let out = Command::new(env!("CARGO_BIN_EXE_remaster")).args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

#[track_caller]
fn ends(folder: &Path, line: &str, code: i32, words: &[&str]) -> String {
    let (got, stdout, stderr) = remaster(folder, line);
    assert_eq!(got, Some(code), "{line}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "no `{word}` after {line}: {stderr}");
    }
    stdout
}

/// Everything about a file but how its video is coded: packets of the other streams, times of frames, chapters, tags.
fn along(file: &Path) -> [String; 3] {
    let file = file.to_str().unwrap();
    let maps = ["-map", "0:a?", "-map", "0:s?", "-map", "0:t?", "-c", "copy"];
    let packets = ffmpeg(&[&["-i", file][..], &maps, &["-f", "streamhash", "-"]].concat());
    let show = |entries: &str| {
        run("ffprobe", &["-v", "error", "-show_chapters", "-show_entries", entries, "-of", "json", file])
    };
    let times = run(
        "ffprobe",
        &["-v", "error", "-select_streams", "v:0", "-show_entries", "frame=pts_time", "-of", "csv=p=0", file],
    );
    let about =
        show("format_tags:stream=index,codec_type,codec_name:stream_tags=language,title:stream_disposition");
    [String::from_utf8_lossy(&packets).into_owned(), times, about]
}

const IDENTITY: &str = "--weights identity --progress none";

#[test]
fn what_comes_along_on_a_round_trip_comes_along_with_latents() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::copy(media("av_subs_chapters.mkv"), here.join("in.mkv")).unwrap();
    ends(here, &format!("vae roundtrip @/in.mkv -o @/whole.mkv {IDENTITY}"), 0, &[]);
    ends(here, &format!("vae encode @/in.mkv -o @/z.safetensors {IDENTITY}"), 0, &[]);
    ends(here, &format!("vae decode @/z.safetensors -o @/out.mkv {IDENTITY}"), 0, &["in.mkv"]);
    let whole = along(&here.join("whole.mkv"));
    assert!(whole[0].lines().count() >= 2, "{}", whole[0]);
    assert_eq!(along(&here.join("out.mkv")), whole);

    // Moved: named by hand, or left out.
    std::fs::create_dir(here.join("away")).unwrap();
    std::fs::rename(here.join("in.mkv"), here.join("away/film.mkv")).unwrap();
    let line = format!("vae decode @/z.safetensors -o @/out.mkv -y {IDENTITY}");
    ends(here, &line, 3, &["z.safetensors", "in.mkv", "is missing", "--streams FILE", "--audio none"]);
    ends(here, &format!("{line} --streams @/away/film.mkv"), 0, &["film.mkv"]);
    assert_eq!(along(&here.join("out.mkv")), whole);
    ends(here, &format!("{line} --audio none"), 0, &["writing video only"]);
    assert_eq!(along(&here.join("out.mkv"))[1], whole[1]);

    // Another file by that name is none; moved together with the latents it is found.
    std::fs::copy(media("vfr.mkv"), here.join("in.mkv")).unwrap();
    ends(here, &line, 3, &["in.mkv", "has changed", "--streams FILE"]);
    ends(here, &format!("{line} --streams @/in.mkv"), 0, &["not the file that was encoded"]);
    std::fs::remove_file(here.join("in.mkv")).unwrap();
    std::fs::rename(here.join("z.safetensors"), here.join("away/z.safetensors")).unwrap();
    std::fs::rename(here.join("away/film.mkv"), here.join("away/in.mkv")).unwrap();
    ends(here, &format!("vae decode @/away/z.safetensors -o @/out.mkv -y {IDENTITY}"), 0, &["away"]);
    assert_eq!(along(&here.join("out.mkv")), whole);

    // Where nothing can come along the source is not missed.
    std::fs::remove_file(here.join("away/in.mkv")).unwrap();
    ends(
        here,
        &format!("vae decode @/away/z.safetensors -o @/frames {IDENTITY}"),
        0,
        &["only video files can store audio"],
    );
    let line = format!("vae decode @/away/z.safetensors -o @/o.y4m {IDENTITY} --streams @/whole.mkv");
    ends(here, &line, 2, &["--streams"]);
    ends(
        here,
        &format!("vae roundtrip @/whole.mkv -o @/o.mkv {IDENTITY} --streams @/whole.mkv"),
        2,
        &["--streams"],
    );
}

#[test]
fn latents_without_a_file_behind_them_need_none() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let picture = media("png16a/f0001.png");
    let line = format!("vae encode {} -o @/z.safetensors {IDENTITY}", picture.display());
    ends(here, &line, 0, &[]);
    ends(here, &format!("vae decode @/z.safetensors -o @/o.mkv {IDENTITY}"), 0, &[]);
}

#[test]
fn latents_of_another_network_and_damaged_ones_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let clip = here.join("in.mkv");
    ffmpeg(&["-f", "lavfi", "-i", "testsrc2=s=32x32:r=10:d=0.3", "-c:v", "ffv1", clip.to_str().unwrap()]);
    let nano = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/nano.safetensors");
    let encode = |weights: &str| {
        ends(
            here,
            &format!("vae encode @/in.mkv -o @/z.safetensors -y --progress none --weights {weights}"),
            0,
            &[],
        );
    };
    let decode = "vae decode @/z.safetensors -o @/out.mkv -y --progress none --weights";
    encode("formula:tiny");
    ends(here, &format!("{decode} formula:tiny"), 0, &[]);
    ends(here, &format!("{decode} formula:full"), 3, &["z.safetensors", "formula:tiny", "formula:full"]);
    ends(here, &format!("{decode} {}", nano.display()), 3, &["formula:tiny", "nano.safetensors (sha256"]);
    // The same weights under another name are the same network.
    encode(nano.to_str().unwrap());
    ends(here, &format!("{decode} nano"), 0, &[]);
    std::fs::copy(&nano, here.join("renamed.safetensors")).unwrap();
    ends(here, &format!("{decode} @/renamed.safetensors"), 0, &[]);

    let good = std::fs::read(here.join("z.safetensors")).unwrap();
    let line = format!("{decode} {}", nano.display());
    for (what, bytes) in [
        ("cut off", good[..good.len() - 9].to_vec()),
        ("a header cut off", good[..50].to_vec()),
        ("empty", Vec::new()),
        ("a wrong byte", [&good[..9], b"~", &good[10..]].concat()),
    ] {
        std::fs::write(here.join("z.safetensors"), bytes).unwrap();
        let (code, _, stderr) = remaster(here, &line);
        assert_eq!(code, Some(3), "{what}: {stderr}");
        assert!(stderr.contains("z.safetensors") && !stderr.contains("out.mkv"), "{what}: {stderr}");
    }
}

/// RGB of a file, frame after frame.
fn raw(file: &Path, filter: &str) -> Vec<u8> {
    ffmpeg(&["-i", file.to_str().unwrap(), "-vf", filter, "-pix_fmt", "rgb24", "-f", "rawvideo", "-"])
}

#[test]
fn black_edges_are_those_of_a_padded_input_and_the_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let source = "testsrc2=s=40x27:r=10:d=0.5,format=gbrp";
    ffmpeg(&["-f", "lavfi", "-i", source, "-c:v", "ffv1", here.join("in.mkv").to_str().unwrap()]);
    let pad = format!("{source},pad=48:32:0:0:black");
    ffmpeg(&["-f", "lavfi", "-i", &pad, "-c:v", "ffv1", here.join("padded.mkv").to_str().unwrap()]);
    let line = |from: &str, to: &str, edges: &str| {
        let line = format!(
            "vae roundtrip @/{from} -o @/{to} --weights formula:tiny --lossless --progress none --json --edges {edges}"
        );
        ends(here, &line, 0, &[])
    };
    line("padded.mkv", "expected.mkv", "black");
    let report = line("in.mkv", "black.mkv", "black");
    assert!(report.contains("\"edges\": \"black\"") || report.contains("\"edges\":\"black\""), "{report}");
    line("in.mkv", "mirror.mkv", "mirror");
    line("in.mkv", "both.mkv", "mirror-black");
    let expected = raw(&here.join("expected.mkv"), "crop=40:27:0:0:exact=1");
    assert!(raw(&here.join("black.mkv"), "null") == expected);
    let others = ["mirror.mkv", "both.mkv"].map(|name| raw(&here.join(name), "null"));
    assert!(others[0] != expected && others[1] != expected && others[0] != others[1]);
    assert!(others.iter().all(|o| o.len() == expected.len()));
    ends(here, "vae roundtrip @/in.mkv -o @/o.mkv --weights identity --edges fog", 2, &["mirror-black"]);
    ends(here, "compare @/in.mkv @/in.mkv --edges black", 2, &["--edges"]);
}

#[test]
fn counts_that_are_estimates_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for (name, estimated) in [("in.mp4", false), ("in.mkv", true)] {
        let file = here.join(name);
        ffmpeg(&[
            "-f",
            "lavfi",
            "-i",
            "testsrc2=s=32x32:r=10:d=1",
            "-c:v",
            "libx264",
            file.to_str().unwrap(),
        ]);
        let report: serde_json::Value =
            serde_json::from_str(&ends(here, &format!("probe @/{name} --json"), 0, &[])).unwrap();
        assert_eq!(report["video"]["frames_estimated"], estimated, "{report}");
        let line = format!("vae roundtrip @/{name} -o @/o.mkv -y {IDENTITY} --json");
        let report: serde_json::Value = serde_json::from_str(&ends(here, &line, 0, &[])).unwrap();
        assert_eq!(report["source"]["frames_estimated"], estimated, "{report}");
        assert_eq!(report["frames"], 10);
    }
}
