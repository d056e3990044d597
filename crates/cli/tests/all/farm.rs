//! Plans in a store: done anywhere, joined, and changed by strangers.

use std::path::Path;

use remaster_testkit::says;
use remaster_weights::sha256_of_bytes;
use serde_json::{Value, json};

use crate::desk::{bytes, command, document, ffprobe, quick_ffmpeg, refused, told, works};
use crate::units::film;

#[test]
fn a_plan_is_done_anywhere_and_joined_to_the_same_bytes() {
    let at = &film();
    let how = "--model identity --resolution 96 --unit-frames 45 --piece-frames 20";
    works(at, &format!("film.mp4 -o here.mkv {how} --no-manifest"));
    let planned = works(at, &format!("plan film.mp4 -o there.mkv --store store {how}"));
    assert!(planned.contains("  time ") && planned.contains(" for each unit\n"), "{planned}");
    let join = "assemble --plan store --input film.mp4 -o there.mkv";
    refused(at, join, 3, &["3 of 3 units are not done", "unit 0"]);
    refused(at, "unit run --plan store --input film.mp4 --index 3", 2, &["no unit 3", "the plan has 3"]);
    refused(at, "unit run --plan nowhere --input film.mp4 --index 0", 3, &["nowhere"]);
    let said = told(at, "unit run --plan store --input film.mp4 --index 0,2 --json");
    assert_eq!(said["done"], json!([0, 2]));
    refused(at, join, 3, &["1 of 3 units", "unit 1"]);
    // Another film is refused also where nothing is left to do.
    at.put("other.mp4", [bytes(at, "film.mp4"), b"more".to_vec()].concat());
    refused(at, "unit run --plan store --input other.mp4 --index 0", 3, &["other.mp4", "not the film"]);
    refused(at, "unit run --plan store --input no.mp4 --index 0", 3, &["no.mp4"]);
    let said = told(at, "unit run --plan store --input film.mp4 --index 0-2 --json");
    assert_eq!((&said["done"], &said["elsewhere"]), (&json!([1]), &json!([0, 2])));
    works(at, join);
    assert_eq!(bytes(at, "there.mkv"), bytes(at, "here.mkv"));
    works(at, "assemble --plan store --input film.mp4 -o again.mkv");
    assert_eq!(bytes(at, "again.mkv"), bytes(at, "here.mkv"));
    // What is there already is the film; another file stays.
    works(at, join);
    at.put("foreign.mkv", b"precious");
    refused(at, "assemble --plan store --input film.mp4 -o foreign.mkv", 2, &["foreign.mkv", "exists"]);
    assert_eq!(bytes(at, "foreign.mkv"), b"precious");
    refused(at, "assemble --plan store --input film.mp4 -o other.mp4", 2, &["other.mp4", "container"]);

    // Settings can be stored in the film.
    works(at, "assemble --plan store --input film.mp4 -o told.mkv --embed-manifest");
    let tags = ffprobe("-show_entries format_tags=REMASTER -of default=nk=1:nw=1", at.join("told.mkv"));
    let about: Value = serde_json::from_str(&tags).unwrap();
    assert_eq!((&about["frames"], &about["settings"]["mix"]), (&json!(97), &json!(false)));
    let line = "film.mp4 -o told.mp4 --model identity --resolution 96 --embed-manifest";
    refused(at, line, 2, &["told.mp4", ".mkv"]);

    // The film and its manifest belong together.
    assert!(works(at, "verify there.mkv").contains("as it was written"));
    let mut film = bytes(at, "there.mkv");
    let middle = film.len() / 2;
    film[middle] ^= 1;
    at.put("there.mkv", film);
    refused(at, "verify there.mkv", 6, &["there.mkv", "not what"]);
    refused(at, "verify film.mp4", 3, &["manifest"]);

    // Another film under the same name, and a plan that was changed.
    at.put("film.mp4", bytes(at, "here.mkv"));
    let late = "assemble --plan store --input film.mp4 -o late.mkv";
    refused(at, late, 3, &["film.mp4", "not the film that was planned"]);
    let plan = String::from_utf8(bytes(at, "store/plan.json")).unwrap();
    at.put("store/plan.json", plan.replace("\"short\":96", "\"short\":97"));
    refused(at, late, 3, &["plan.json", "damaged"]);
}

#[test]
fn a_unit_that_is_left_has_the_frames_of_the_input() {
    let at = &film();
    works(at, "plan film.mp4 -o out.mkv --store store SMALL --resolution 96 --unit-frames 45");
    works(at, "unit run --plan store --input film.mp4 --index 1,2 --model-dir TESTDATA");
    works(at, "unit run --plan store --input film.mp4 --index 0 --leave --model-dir TESTDATA");
    let said = told(at, "assemble --plan store --input film.mp4 -o out.mkv --json -q");
    assert_eq!((&said["left"], &said["frames"]), (&json!([0]), &json!(97)));
    assert!(works(at, "verify out.mkv").contains("not restored"));
}

#[test]
fn a_plan_says_what_is_missing_and_a_worker_does_that() {
    let at = &film();
    works(at, "plan film.mp4 -o out.mkv --store store --model identity --resolution 96 --unit-frames 20");
    let status = || told(at, "unit status --plan store --json");
    let all = status()["units"].as_u64().unwrap();
    assert_eq!((&status()["frames_done"], &status()["done"]), (&json!(0), &json!([])));
    works(at, "unit run --plan store --input film.mp4 --index 1");
    works(at, "unit run --plan store --input film.mp4 --index 2 --leave");
    let said = works(at, "unit status --plan store");
    says(&said, &[&format!("1 of {all} units done"), "not restored 2", "--index missing"]);
    assert_eq!((&status()["done"], &status()["left"]), (&json!([1]), &json!([2])));
    let did = told(at, "unit run --plan store --input film.mp4 --index missing --json -q");
    assert_eq!(did["done"].as_array().unwrap().len() as u64, all - 2);
    assert_eq!((&status()["missing"], &status()["frames_done"]), (&json!([]), &json!(97)));
    assert!(works(at, "unit status --plan store").contains("remaster assemble"));
    works(at, "unit run --plan store --input film.mp4 --index missing");
    let other = "unit run --plan store --input store/plan.json --index missing";
    refused(at, other, 3, &["plan.json", "not the film"]);
    works(at, "assemble --plan store --input film.mp4 -o out.mkv");
}

#[test]
fn a_hostile_plan_reaches_no_option() {
    let at = &film();
    works(at, "plan film.mp4 -o out.mkv --store store --model identity --resolution 96");
    let sealed = document(at, "store/plan.json");
    at.put("victim", b"precious");
    let victim = at.join("victim").display().to_string();
    let reading = "/plan/settings/request/reading/filters";
    let video = "/plan/settings/request/writing/video";
    let attacks = [
        (reading, format!("metadata=mode=print:file={victim}")),
        (reading, format!("metadata=mode=add:key=x:value=y,metadata=mode=print:file={victim}")),
        (reading, format!("movie={victim}")),
        (video, format!("ffv1 -y {victim} -c:v ffv1")),
        (video, "ffv1 -f matroska tcp://127.0.0.1:9".to_owned()),
        (video, format!("libx264 -x264-params stats={victim}:pass=1")),
        (video, format!("libx264 -passlogfile {victim}")),
        (video, "libx264 -threads 100000".to_owned()),
        (video, "libx265 -x265-params pools=100000".to_owned()),
        (video, "libsvtav1 -svtav1-params lp=100000".to_owned()),
        (reading, "normalize=smoothing=268435455".to_owned()),
    ];
    let forged = |place: &str, value: Value| {
        let mut body = sealed["body"].clone();
        *body.pointer_mut(place).unwrap() = value;
        forge(&at.join("store/plan.json"), body);
    };
    let run = "unit run --plan store --input film.mp4 --index 0";
    for (place, text) in attacks {
        for asked in [json!({"listed": text}), json!(text), json!({"typed": text})] {
            forged(place, asked);
            refused(at, run, 3, &["plan cannot be used"]);
            refused(at, "assemble --plan store --input film.mp4 -o a.mkv", 3, &["plan cannot be used"]);
        }
    }
    let mut body = sealed["body"].clone();
    body["plan"]["settings"]["words"] = json!(["--ffmpeg=/bin/false"]);
    forge(&at.join("store/plan.json"), body);
    refused(at, run, 3, &["words"]);
    // Paths of a plan open nothing.
    forged("/plan/settings/models/0/name", json!(victim));
    refused(at, run, 2, &["victim", "--model"]);
    for output in [victim.clone(), "../victim".into(), String::new()] {
        forged("/plan/settings/output", json!(output));
        refused(at, run, 3, &["output"]);
    }
    refused(at, "unit run --plan store --index 0", 2, &["--input"]);
    refused(at, "assemble --plan store --input film.mp4", 2, &["--output"]);
    assert_eq!(bytes(at, "victim"), b"precious");
    for (place, value) in [
        ("/plan/piece_frames", json!(0)),
        ("/plan/time_base/den", json!(0)),
        ("/plan/frames", json!(u64::MAX)),
        ("/plan/version", json!(9)),
        ("/plan/units", json!([])),
    ] {
        forged(place, value);
        refused(at, run, 3, &["plan"]);
    }
}

/// A plan of another program, film or network is refused before ffmpeg runs with the options that it holds.
#[cfg(unix)]
#[test]
fn no_encoder_is_started_for_a_plan_that_is_refused() {
    let at = &film();
    let how = "--model identity --resolution 96";
    let plan = at
        .command(&format!("plan film.mp4 -o out.mkv --store store {how} --video"))
        .arg("libx264 -crf 20 -preset ultrafast")
        .output()
        .unwrap();
    assert!(plan.status.success(), "{}", String::from_utf8_lossy(&plan.stderr));
    let sealed = document(at, "store/plan.json");
    let log = at.join("log");
    let real = quick_ffmpeg().map_or_else(|| "ffmpeg".into(), |path| path.to_string_lossy().into_owned());
    let script = format!("#!/bin/sh\necho \"$*\" >> '{}'\nexec '{real}' \"$@\"\n", log.display());
    at.program("ffmpeg", &script);
    let run =
        format!("unit run --plan store --input film.mp4 --index 0 --ffmpeg {}", at.join("ffmpeg").display());
    let started = || std::fs::read_to_string(&log).unwrap_or_default();
    let encodes = |started: &str| started.lines().any(|line| line.contains("libx264 "));
    for (place, value, starts) in [
        ("/plan/settings/numerics/program", json!("0.0.1 other"), false),
        ("/plan/settings/numerics/dtype", json!("f64"), true),
        ("/plan/settings/numerics/ffmpeg", json!("ffmpeg 4"), true),
        ("/plan/time_base/den", json!(12_345), true),
    ] {
        let mut body = sealed["body"].clone();
        *body.pointer_mut(place).unwrap() = value;
        forge(&at.join("store/plan.json"), body);
        let _ = std::fs::remove_file(&log);
        let out = command(at, &run).output().unwrap();
        assert!(
            matches!(out.status.code(), Some(2..=5)),
            "{place}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        assert!(!encodes(&started()), "{place}: {}", started());
        assert!(starts || started().is_empty(), "{place}: {}", started());
    }
    forge(&at.join("store/plan.json"), sealed["body"].clone());
    works(at, &run);
    assert!(encodes(&started()), "{}", started());
}

#[test]
fn a_worker_repeats_what_a_plan_cannot_hold() {
    let at = &film();
    // `metadata` can open files, so a plan holds its hash alone; `hflip` is listed.
    let how = "--model identity --resolution 96 --video ffv1";
    works(at, &format!("film.mp4 -o here.mkv {how} --vf metadata=mode=delete --no-manifest"));
    works(at, &format!("plan film.mp4 -o there.mkv --store store {how} --vf metadata=mode=delete"));
    let plan = String::from_utf8(bytes(at, "store/plan.json")).unwrap();
    assert!(!plan.contains("mode=delete") && plan.contains("ffv1"), "{plan}");
    let run = "unit run --plan store --input film.mp4 --index 0";
    refused(at, run, 2, &["repeat --vf"]);
    refused(at, &format!("{run} --vf metadata=mode=print"), 2, &["--vf is other"]);
    works(at, &format!("{run} --vf metadata=mode=delete"));
    refused(at, "assemble --plan store --input film.mp4 -o there.mkv", 2, &["repeat --vf"]);
    works(at, "assemble --plan store --input film.mp4 -o there.mkv --vf metadata=mode=delete");
    assert_eq!(bytes(at, "there.mkv"), bytes(at, "here.mkv"));
    let out =
        command(at, "film.mp4 -o a.mkv").args(["--video", "ffv1 -y victim.mkv -c:v ffv1"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("\"-y\""));
}

/// Writes a plan with a valid hash, as an attacker with write access could.
pub(crate) fn forge(path: &Path, body: Value) {
    let body = body.to_string();
    let hash = sha256_of_bytes(format!("remaster plan\n1\n{body}").as_bytes());
    let head = r#"{"format":"remaster plan","version":1,"sha256":"#;
    std::fs::write(path, format!("{head}\"{hash}\",\"body\":{body}}}\n")).unwrap();
}
