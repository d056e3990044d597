//! A film has the same bytes whatever memory, disk, threads and order of work it was made with.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

#[cfg(unix)]
use crate::desk::signal;
use crate::desk::{Desk, bytes, command, document, ended, ends, ffmpeg, files, said};

fn run(folder: &Path, line: &str, video: &str) -> Output {
    let mut command = command(folder, line);
    if !video.is_empty() {
        command.args(["--video", video]);
    }
    command.output().unwrap()
}

fn works(folder: &Path, line: &str, video: &str) -> String {
    let out = run(folder, line, video);
    assert!(out.status.success(), "{line} {video}: {}", said(&out));
    said(&out)
}

/// The memory that a refusal advises, which depends on the encoder.
fn advised(folder: &Path, line: &str, video: &str) -> String {
    let out = run(folder, &format!("{line} --ram 1M"), video);
    assert_eq!(out.status.code(), Some(4));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let behind = said.split("--ram ").nth(1).unwrap_or_else(|| panic!("no advice in {said}"));
    behind.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').next().unwrap().to_owned()
}

/// `film.mkv`: 60 frames without a cut.
fn film() -> Desk {
    let source = "mandelbrot=s=64x48:r=25:start_scale=0.3";
    Desk::filmed(&format!("-f lavfi -i {source} -frames:v 60 -c:v libx264 -crf 8 -pix_fmt yuv420p film.mkv"))
}

/// Starts a run and kills it behind its first piece.
fn killed(folder: &Path, line: &str, video: &str, name: &str) {
    let mut run = command(folder, line).args(["--video", video]).stderr(Stdio::null()).spawn().unwrap();
    let state = folder.join(format!("{name}.remaster/store"));
    while !state.is_dir() || !files(&state).iter().any(|path| path.extension().is_some_and(|e| e == "nut")) {
        assert!(ended(&mut run, Duration::from_millis(2)).is_none(), "it ended too early");
    }
    run.kill().unwrap();
    run.wait().unwrap();
}

/// Makes the film in all ways and compares it with the first.
fn is_the_same(folder: &Path, video: &str, ending: &str, ways: &[&str]) {
    // Two units of two pieces each. Where an encoder starts anew decides its bytes, so that pieces belong to the request.
    let cut = "SMALL --resolution 1x --unit-frames 30 --piece-frames 15";
    let how = format!("{cut} --no-manifest");
    let name = |n: usize| format!("{n}.{ending}");
    let least = advised(folder, &format!("film.mkv -o least.{ending} {how} --disk 0"), video);
    works(folder, &format!("film.mkv -o {} {how}", name(0)), video);
    let first = bytes(folder, &name(0));
    for (n, way) in (1..).zip(ways) {
        let way = way.replace("LEAST", &least);
        let line = format!("film.mkv -o {} {how} {}", name(n), way.replace("KILLED", ""));
        if way.contains("KILLED") {
            killed(folder, &line, video, &name(n));
        }
        works(folder, &line, video);
        assert!(bytes(folder, &name(n)) == first, "{video} {way}");
    }
    let plan = format!("plan film.mkv -o planned.{ending} --store {ending} {cut}");
    works(folder, &plan, video);
    works(
        folder,
        &format!("unit run --plan {ending} --input film.mkv --index missing --model-dir TESTDATA"),
        "",
    );
    let join = format!("assemble --plan {ending} --input film.mkv -o planned.{ending} --no-manifest");
    works(folder, &join, "");
    assert!(bytes(folder, &format!("planned.{ending}")) == first, "{video} by units");
    std::fs::remove_dir_all(folder.join(ending)).unwrap();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_name() != "film.mkv" && entry.path().is_file() {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

#[test]
fn memory_disk_and_threads_change_no_byte_of_a_film() {
    let at = &film();
    let ways = ["--disk 0 --ram LEAST", "--threads 1", "--devices cpu,cpu", "KILLED --checkpoint 0s"];
    is_the_same(at, "libx264 -crf 12 -preset medium", "mp4", &ways);
    // The others differ in their encoders alone; at night they are made in all ways.
    let ways = ["--disk 0 --ram LEAST"];
    is_the_same(at, "libx265 -crf 14 -preset veryfast", "mkv", &ways);
    is_the_same(at, "libvpx-vp9 -crf 18 -b:v 0 -row-mt 1 -cpu-used 8", "webm", &ways);
    is_the_same(at, "ffv1", "mkv", &ways);
    is_the_same(at, "prores_ks", "mov", &ways);
}

#[test]
#[ignore = "nightly: five encoders in ten ways, some minutes"]
fn memory_disk_and_threads_change_no_byte_of_a_film_with_any_encoder() {
    let at = &film();
    let ways = "--disk 0, --disk 100M, --ram LEAST, --disk 0 --ram LEAST, --ram 90%, --threads 1, \
        --threads 2, --slice 4, --devices cpu,cpu, KILLED --checkpoint 0s";
    let ways: Vec<&str> = ways.split(", ").collect();
    for (video, ending) in [
        ("libx264 -crf 12", "mp4"),
        ("libx265 -crf 14 -preset fast", "mkv"),
        ("libvpx-vp9 -crf 18 -b:v 0 -row-mt 1 -cpu-used 4", "webm"),
        ("ffv1", "mkv"),
        ("prores_ks", "mov"),
    ] {
        is_the_same(at, video, ending, &ways);
    }
}

#[test]
fn threads_of_an_encoder_are_those_that_were_asked_for() {
    let at = &film();
    let how = "--model identity --resolution 1x";
    works(at, &format!("film.mkv -o a.mp4 {how}"), "");
    works(at, &format!("film.mkv -o b.mp4 {how} --encoder-threads 1"), "");
    let threads = |name: &str| {
        document(at, &format!("{name}.manifest.json"))["settings"]["numerics"]["threads"].clone()
    };
    assert_eq!((threads("a.mp4"), threads("b.mp4")), (4.into(), 1.into()));
    let out = run(at, &format!("film.mkv -o c.mp4 {how} --encoder-threads 65"), "");
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn the_memory_that_is_advised_is_enough() {
    let at = &film();
    for (n, size) in ["1x", "320x240", "640x368", "1280x720"].into_iter().enumerate() {
        let line = format!("film.mkv -o {n}.mp4 --model identity --to 0.2 --resolution {size} --no-manifest");
        let least = advised(at, &line, "");
        works(at, &format!("{line} --ram {least}"), "");
    }
}

#[test]
fn alpha_is_kept_in_webm() {
    let at = &Desk::new();
    let source = "testsrc2=s=64x48:r=25:d=0.4,format=yuva420p,colorchannelmixer=aa=0.5";
    ffmpeg(at, &format!("-f lavfi -i {source} -c:v ffv1 film.mkv"));
    works(at, "film.mkv -o out.webm --model identity --resolution 1x", "");
    let pixels = ffmpeg(at, "-c:v libvpx-vp9 -i out.webm -f rawvideo -pix_fmt yuva420p -");
    let frame = 64 * 48 * 5 / 2;
    assert_eq!(pixels.len(), 10 * frame);
    let alpha = &pixels[64 * 48 * 3 / 2..frame];
    assert!(alpha.iter().all(|a| a.abs_diff(128) < 8), "{:?}", &alpha[..8]);
}

#[test]
fn what_an_encoder_tells_of_itself_is_no_error() {
    let at = &film();
    let line = "film.mkv -o out.mkv --model identity --resolution 96x64 --to 0.4";
    let mut run = command(at, line);
    // Not every ffmpeg has this encoder.
    run.env_remove("REMASTER_FFMPEG").args(["--video", "libsvtav1 -crf 30 -preset 10"]);
    let out = run.output().unwrap();
    if said(&out).contains("no video encoder `libsvtav1`") {
        return remaster_testkit::not_run(
            "what_an_encoder_tells_of_itself_is_no_error",
            "this ffmpeg has no SVT-AV1",
        );
    }
    assert!(out.status.success() && !said(&out).contains("Svt["), "{}", said(&out));
}

#[test]
fn a_temporary_folder_that_is_missing_is_no_obstacle() {
    let at = &film();
    let line = "film.mkv -o out.mkv --model identity --resolution 1x --to 0.2 --vf hflip";
    let out = command(at, line).env("TMPDIR", at.join("missing")).output().unwrap();
    assert!(out.status.success(), "{}", said(&out));
}

#[test]
#[cfg(unix)]
fn two_runs_do_not_write_one_film() {
    let at = &film();
    let line = "film.mkv -o out.mkv -y SMALL --resolution 320x240 --no-manifest";
    let words = format!("{line} --temp one");
    let mut first = command(at, &words).stderr(Stdio::null()).spawn().unwrap();
    while !at.join("out.mkv.remaster/remaster-state").exists() {
        assert!(first.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::sleep(Duration::from_millis(5));
    }
    // It stands still and is not done.
    signal(&first, "STOP");
    let second = run(at, &format!("{line} --temp two"), "");
    signal(&first, "CONT");
    ends(&second, 3, &["another run"]);
    assert!(first.wait().unwrap().success());
    assert!(at.join("out.mkv").exists() && !at.join("out.mkv.remaster").exists());
}
