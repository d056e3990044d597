//! A GPU whose kernels compute wrong numbers: it is disabled at once, remembered, refused on every route until `doctor` finds it
//! right, and nothing that it made is used. The kernels are those of software Vulkan, which a layer changes as they are compiled.
#![cfg(all(feature = "gpu", target_os = "linux"))]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use remaster_testkit::{Liar, no_gpu};
use serde_json::Value;

use crate::desk::{Desk, LIMIT, bytes, command, ended, ends, remove, said, signal, until};

/// A network of small kernels, on the first software device.
const HOW: &str = "--model anime --resolution 1x --dtype f32";
const CARD: &str = "--device vulkan:0 --no-tune";

/// 56 frames in three shots, and a layer for the driver.
struct Bench {
    desk: Desk,
    honest: Liar,
    wrong: Liar,
}

impl Bench {
    fn new(test: &str) -> Option<Self> {
        let desk = Desk::of_shots([24, 20, 12], "film.mp4");
        if !desk.json("devices --json")["devices"].to_string().contains("vulkan:0") {
            no_gpu(test);
            return None;
        }
        let [honest, wrong] = [Liar::new(test)?, Liar::new(test)?.lies("wrong-sums@1")];
        Some(Bench { desk, honest, wrong })
    }

    fn command(&self, line: &str, driver: &Liar) -> Command {
        let mut command = command(&self.desk, line);
        // Software devices are not watched, unless a test wants it.
        command.envs(driver.env()).env("REMASTER_TEST_WATCH", "1");
        command
    }

    /// On a driver that is right.
    fn run(&self, line: &str) -> Output {
        self.command(line, &self.honest).output().unwrap()
    }

    #[track_caller]
    fn works(&self, line: &str) -> String {
        let out = self.run(line);
        ends(&out, 0, &[]);
        said(&out)
    }

    /// On a driver that is wrong.
    #[track_caller]
    fn found(&self, line: &str) -> String {
        let out = self.command(line, &self.wrong).output().unwrap();
        ends(&out, 5, &["computes wrong numbers", "is off by"]);
        said(&out)
    }

    /// The card is known to be wrong.
    #[track_caller]
    fn refused(&self, line: &str) {
        let out = self.run(&format!("{line} --json"));
        ends(&out, 5, &["computed wrong numbers in an earlier run", "remaster doctor --device vulkan:0"]);
        let document: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(document["kind"], "device-wrong", "{line}: {document}");
    }

    /// What is known of the card.
    fn verdict(&self) -> Value {
        let kept: Value = serde_json::from_slice(&bytes(&self.desk, "cache/remaster/tune.json")).unwrap();
        kept["devices"].as_object().unwrap().values().next().unwrap().clone()
    }
}

/// Names of work that a store takes back.
fn untrusted(store: PathBuf) -> Vec<String> {
    match std::fs::read_dir(store.join("units/untrusted")) {
        Ok(entries) => entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect(),
        Err(_) => Vec::new(),
    }
}

#[test]
#[ignore = "nightly: software Vulkan restores films for minutes"]
fn a_card_that_computed_wrong_numbers_is_refused_on_every_route_until_doctor_finds_it_right() {
    let test = "a_card_that_computed_wrong_numbers_is_refused_on_every_route_until_doctor_finds_it_right";
    let Some(bench) = Bench::new(test) else { return };
    bench.works(&format!("film.mp4 -o ref.mkv {HOW} {CARD} --no-manifest"));
    bench.works(&format!("plan film.mp4 -o farm.mkv --store store {HOW} {CARD}"));
    let latents = "film.mp4 -o kept.mkv SMALL --resolution 32x32 --dtype f32 --to 0.2 --no-manifest";
    bench.works(&format!("{latents} {CARD} --keep-latents kept.safetensors"));
    // Each of them finds it for itself, before anything is in place.
    let preview = format!("preview film.mp4 -o look.png {HOW} {CARD}");
    bench.found(&preview);
    assert!(!bench.desk.join("look.png").exists());
    assert!(bench.verdict()["wrong"].as_str().unwrap().contains("is off by"), "{}", bench.verdict());
    let routes = [
        format!("film.mp4 -o out.mkv {HOW} {CARD} --no-manifest"),
        format!("film.mp4 -o out.mkv {HOW} --device vulkan:0"),
        format!("film.mp4 -o out.y4m {HOW} {CARD}"),
        format!("film.mp4 -o out.mkv {HOW} --devices vulkan:0,vulkan:0"),
        preview,
        format!("unit run --plan store --input film.mp4 --index 0 {CARD}"),
        format!("redecode film.mp4 kept.safetensors -o out.mkv --vae TESTDATA/nano.safetensors {CARD}"),
        format!("vae roundtrip film.mp4 -o out.mkv --weights TESTDATA/nano.safetensors {CARD}"),
        format!("plan film.mp4 {HOW} {CARD}"),
        "tune --device vulkan:0".into(),
    ];
    for line in &routes {
        bench.refused(line);
    }
    assert!(!bench.desk.join("out.mkv").exists() && !bench.desk.join("out.y4m").exists());
    // A check that is not finished changes nothing.
    let doctor = "doctor --device vulkan:0 --goldens TESTDATA/tiny_mod_conv.safetensors";
    ends(&bench.run(&doctor.replace("tiny_mod_conv", "none")), 3, &[]);
    bench.refused(&routes[0]);
    // One that finds it right does.
    bench.works(doctor);
    assert_eq!(bench.verdict().get("wrong"), None);
    bench.works(&routes[0]);
    assert_eq!(bytes(&bench.desk, "out.mkv"), bytes(&bench.desk, "ref.mkv"));
}

#[test]
#[ignore = "nightly: software Vulkan restores films for minutes"]
fn what_a_card_made_of_a_film_before_it_was_caught_is_made_again() {
    let test = "what_a_card_made_of_a_film_before_it_was_caught_is_made_again";
    let Some(bench) = Bench::new(test) else { return };
    let at: &Path = &bench.desk;
    let how = format!("{HOW} --unit-frames 20 --piece-frames 10 --device vulkan:0 --no-tune");
    bench.works(&format!("film.mp4 -o ref.mkv {how} --no-manifest"));
    bench.works(&format!("plan film.mp4 -o farm.mkv --store store {how}"));
    let unit = |index: &str| format!("unit run --plan store --input film.mp4 --index {index} {CARD}");
    bench.works(&unit("0"));
    let done = std::fs::read_to_string(at.join("store/units/000000/done.json")).unwrap();
    let producer = bench.verdict()["producer"].as_str().unwrap().to_owned();
    assert!(done.contains(&producer), "{done}");
    // It is caught at another unit, in another process.
    let said = bench.found(&unit("1"));
    assert!(said.contains("what this device made of the film is not used"), "{said}");
    assert_eq!(untrusted(at.join("store")), std::slice::from_ref(&producer));
    bench.refused(&unit("1"));
    let status = |at: &Path| -> Value {
        serde_json::from_slice(&command(at, "unit status --plan store --json").output().unwrap().stdout)
            .unwrap()
    };
    assert_eq!(status(at)["done"], serde_json::json!([]));
    let assemble = "assemble --plan store --input film.mp4 -o farm.mkv";
    ends(&bench.run(assemble), 3, &["units"]);
    // Killed before it could take its work back in the store, the next command on this machine does.
    std::fs::remove_dir_all(at.join("store/units/untrusted")).unwrap();
    bench.refused(&unit("1"));
    assert_eq!(untrusted(at.join("store")), std::slice::from_ref(&producer));
    // Another machine does it all, also what seemed to be done.
    let mut elsewhere = bench.command(&unit("missing"), &bench.honest);
    elsewhere.env("XDG_CACHE_HOME", at.join("elsewhere"));
    let out = elsewhere.output().unwrap();
    ends(&out, 0, &[]);
    let done = std::fs::read_to_string(at.join("store/units/000000/done.json")).unwrap();
    assert!(!done.contains(&producer), "{done}");
    bench.works(assemble);
    assert_eq!(bytes(at, "farm.mkv"), bytes(at, "ref.mkv"));
}

#[test]
#[ignore = "nightly: software Vulkan restores films for minutes"]
fn a_film_that_goes_on_after_doctor_found_the_card_right_uses_nothing_of_before() {
    let test = "a_film_that_goes_on_after_doctor_found_the_card_right_uses_nothing_of_before";
    let Some(bench) = Bench::new(test) else { return };
    let at: &Path = &bench.desk;
    let how = format!("{HOW} --unit-frames 20 --piece-frames 10 --device vulkan:0 --no-tune");
    bench.works(&format!("film.mp4 -o ref.mkv {how} --no-manifest"));
    let line = format!("film.mp4 -o out.mkv {how} --no-manifest");
    // Stopped behind the first piece.
    let mut run = bench.command(&line, &bench.honest).stderr(Stdio::null()).spawn().unwrap();
    let first = at.join("out.mkv.remaster/store/units/000000/kept/piece-000000");
    until("no piece is kept", || first.exists());
    signal(&run, "INT");
    assert_eq!(ended(&mut run, LIMIT), Some(130));
    bench.found(&line);
    assert!(!at.join("out.mkv").exists());
    bench.works("doctor --device vulkan:0 --goldens TESTDATA/tiny_mod_conv.safetensors");
    let said = bench.works(&line);
    assert!(said.contains("resuming at frame 0 of 56"), "{said}");
    assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"));
}

#[test]
#[ignore = "nightly: software Vulkan restores films for minutes"]
fn of_several_devices_the_wrong_one_is_disabled_at_once_and_the_others_make_the_film() {
    let test = "of_several_devices_the_wrong_one_is_disabled_at_once_and_the_others_make_the_film";
    let Some(bench) = Bench::new(test) else { return };
    let at: &Path = &bench.desk;
    let how = format!("{HOW} --unit-frames 20 --piece-frames 10 --no-tune --no-manifest");
    bench.works(&format!("film.mp4 -o ref.mkv {} --device cpu", how.replace("--no-tune", "")));
    let line =
        format!("film.mp4 -o out.mkv {how} --devices vulkan:0,vulkan:0,cpu --mix-devices --keep-going");
    let out = bench.command(&line, &bench.wrong).output().unwrap();
    ends(&out, 0, &["vulkan:0 is not used any more and what it made is made again"]);
    let text = said(&out);
    assert_eq!(text.matches("is not used any more").count(), 1, "{text}");
    assert!(!text.contains("trying") && !text.contains("keeps its input"), "{text}");
    assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"));
    assert!(bench.verdict()["wrong"].is_string());
    // The next film of the night does without it from its start.
    remove(at, "out.mkv");
    let text = bench.works(&line);
    assert!(text.contains("computed wrong numbers in an earlier run"), "{text}");
    assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"));
    // With nothing else it ends.
    remove(at, "out.mkv");
    bench.refused(&line.replace(",cpu", ""));
}
