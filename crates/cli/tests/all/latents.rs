//! Latent files as people meet them: what comes along, what they refuse, and the edges of what they hold.

use std::path::Path;

use crate::desk::{Desk, bytes, ffmpeg, ffprobe, remove, testdata};

/// Runs `remaster`; `@` stands for the folder. Returns what it prints.
#[track_caller]
fn ends(desk: &Desk, line: &str, code: i32, words: &[&str]) -> String {
    desk.run(&line.replace('@', desk.to_str().unwrap())).ends(code, words).stdout.clone()
}

/// Everything about a file but how its video is coded: packets of the other streams, times of frames, chapters, tags.
fn along(file: &Path) -> [String; 3] {
    let maps = "-map 0:a? -map 0:s? -map 0:t? -c copy";
    let packets = ffmpeg(Path::new("."), &format!("-i {} {maps} -f streamhash -", file.display()));
    let times = ffprobe("-select_streams v:0 -show_entries frame=pts_time -of csv=p=0", file);
    let entries =
        "format_tags:stream=index,codec_type,codec_name:stream_tags=language,title:stream_disposition";
    let about = ffprobe(&format!("-show_chapters -show_entries {entries} -of json"), file);
    [String::from_utf8_lossy(&packets).into_owned(), times, about]
}

const IDENTITY: &str = "--weights identity --progress none";

#[test]
fn what_comes_along_on_a_round_trip_comes_along_with_latents() {
    let here = &Desk::bare();
    std::fs::copy(testdata("media/av_subs_chapters.mkv"), here.join("in.mkv")).unwrap();
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
    std::fs::copy(testdata("media/vfr.mkv"), here.join("in.mkv")).unwrap();
    ends(here, &line, 3, &["in.mkv", "has changed", "--streams FILE"]);
    ends(here, &format!("{line} --streams @/in.mkv"), 0, &["not the file that was encoded"]);
    remove(here, "in.mkv");
    std::fs::rename(here.join("z.safetensors"), here.join("away/z.safetensors")).unwrap();
    std::fs::rename(here.join("away/film.mkv"), here.join("away/in.mkv")).unwrap();
    ends(here, &format!("vae decode @/away/z.safetensors -o @/out.mkv -y {IDENTITY}"), 0, &["away"]);
    assert_eq!(along(&here.join("out.mkv")), whole);

    // Where nothing can come along the source is not missed.
    remove(here, "away/in.mkv");
    let line = format!("vae decode @/away/z.safetensors -o @/frames {IDENTITY}");
    ends(here, &line, 0, &["only video files can store audio"]);
    let line = format!("vae decode @/away/z.safetensors -o @/o.y4m {IDENTITY} --streams @/whole.mkv");
    ends(here, &line, 2, &["--streams"]);
    let line = format!("vae roundtrip @/whole.mkv -o @/o.mkv {IDENTITY} --streams @/whole.mkv");
    ends(here, &line, 2, &["--streams"]);
}

#[test]
fn latents_without_a_file_behind_them_need_none() {
    let here = &Desk::bare();
    let picture = testdata("media/png16a/f0001.png");
    let line = format!("vae encode {} -o @/z.safetensors {IDENTITY}", picture.display());
    ends(here, &line, 0, &[]);
    ends(here, &format!("vae decode @/z.safetensors -o @/o.mkv {IDENTITY}"), 0, &[]);
}

#[test]
fn latents_of_another_network_and_damaged_ones_are_refused_by_name() {
    let here = &Desk::bare();
    ffmpeg(here, "-f lavfi -i testsrc2=s=32x32:r=10:d=0.3 -c:v ffv1 in.mkv");
    let nano = testdata("nano.safetensors");
    let encode = |weights: &str| {
        let line = "vae encode @/in.mkv -o @/z.safetensors -y --progress none --weights";
        ends(here, &format!("{line} {weights}"), 0, &[]);
    };
    let decode = "vae decode @/z.safetensors -o @/out.mkv -y --progress none --weights";
    encode("formula:tiny");
    ends(here, &format!("{decode} formula:tiny"), 0, &[]);
    ends(here, &format!("{decode} formula:full"), 3, &["z.safetensors", "formula:tiny", "formula:full"]);
    ends(here, &format!("{decode} {}", nano.display()), 3, &["formula:tiny", "nano.safetensors (sha256"]);
    // The same weights under another name are the same network.
    encode(nano.to_str().unwrap());
    std::fs::copy(&nano, here.join("renamed.safetensors")).unwrap();
    ends(here, &format!("{decode} @/renamed.safetensors"), 0, &[]);

    let good = bytes(here, "z.safetensors");
    let line = format!("{decode} {}", nano.display());
    for (what, bytes) in [
        ("cut off", good[..good.len() - 9].to_vec()),
        ("a header cut off", good[..50].to_vec()),
        ("empty", Vec::new()),
        ("a wrong byte", [&good[..9], b"~", &good[10..]].concat()),
    ] {
        here.put("z.safetensors", bytes);
        let run = here.run(&line.replace('@', here.to_str().unwrap()));
        assert_eq!(run.code, Some(3), "{what}: {}", run.stderr);
        let named = ["z.safetensors", "out.mkv"].map(|name| run.stderr.contains(name));
        assert_eq!(named, [true, false], "{what}: {}", run.stderr);
    }
}

/// RGB of a file, frame after frame.
fn raw(desk: &Desk, name: &str, filter: &str) -> Vec<u8> {
    ffmpeg(desk, &format!("-i {name} -vf {filter} -pix_fmt rgb24 -f rawvideo -"))
}

#[test]
fn black_edges_are_those_of_a_padded_input_and_the_others_are_not() {
    let here = &Desk::bare();
    let source = "testsrc2=s=40x27:r=10:d=0.5,format=gbrp";
    ffmpeg(here, &format!("-f lavfi -i {source} -c:v ffv1 in.mkv"));
    ffmpeg(here, &format!("-f lavfi -i {source},pad=48:32:0:0:black -c:v ffv1 padded.mkv"));
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
    let expected = raw(here, "expected.mkv", "crop=40:27:0:0:exact=1");
    assert!(raw(here, "black.mkv", "null") == expected);
    let others = ["mirror.mkv", "both.mkv"].map(|name| raw(here, name, "null"));
    assert!(others[0] != expected && others[1] != expected && others[0] != others[1]);
    assert!(others.iter().all(|o| o.len() == expected.len()));
    ends(here, "vae roundtrip @/in.mkv -o @/o.mkv --weights identity --edges fog", 2, &["mirror-black"]);
    ends(here, "compare @/in.mkv @/in.mkv --edges black", 2, &["--edges"]);
}

#[test]
fn counts_that_are_estimates_are_marked() {
    let here = &Desk::bare();
    for (name, estimated) in [("in.mp4", false), ("in.mkv", true)] {
        ffmpeg(here, &format!("-f lavfi -i testsrc2=s=32x32:r=10:d=1 -c:v libx264 {name}"));
        let report = here.json(&format!("probe {name} --json"));
        assert_eq!(report["video"]["frames_estimated"], estimated, "{report}");
        let report = here.json(&format!("vae roundtrip {name} -o o.mkv -y {IDENTITY} --json"));
        assert_eq!(report["source"]["frames_estimated"], estimated, "{report}");
        assert_eq!(report["frames"], 10);
    }
}
