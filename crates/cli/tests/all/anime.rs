//! The upscaler inside the program, through the command line.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::desk::{Desk, bytes, command, ended, ffmpeg, files};

/// `film.mkv`: 40 frames of 48 x 32 without a cut.
fn film() -> Desk {
    let source = "mandelbrot=s=48x32:r=25:start_scale=0.3";
    Desk::filmed(&format!("-f lavfi -i {source} -frames:v 40 -c:v libx264 -crf 8 -pix_fmt yuv420p film.mkv"))
}

const HOW: &str =
    "--model anime --device cpu --resolution 2x --unit-frames 20 --piece-frames 10 --no-manifest";

#[test]
fn a_film_has_the_same_bytes_however_it_is_made() {
    let desk = film();
    desk.works(&format!("film.mkv -o first.mkv {HOW}"));
    let first = bytes(&desk, "first.mkv");
    for (n, way) in
        ["--disk 0 --ram 300M", "--threads 1", "--mode exact --stripes 3", "--slice 4"].iter().enumerate()
    {
        desk.works(&format!("film.mkv -o {n}.mkv {HOW} {way}"));
        assert!(bytes(&desk, &format!("{n}.mkv")) == first, "{way}");
    }
    desk.works(&format!("film.mkv -o both.mkv {} --devices cpu,cpu", HOW.replace("--device cpu", "")));
    assert!(bytes(&desk, "both.mkv") == first, "on two devices");

    let line = format!("film.mkv -o killed.mkv {HOW}");
    let mut run = command(&desk, &line).stderr(Stdio::null()).spawn().unwrap();
    let state = desk.join("killed.mkv.remaster/store");
    while !state.is_dir() || !files(&state).iter().any(|path| path.extension().is_some_and(|e| e == "nut")) {
        assert!(ended(&mut run, Duration::from_millis(2)).is_none(), "it ended too early");
    }
    run.kill().unwrap();
    run.wait().unwrap();
    desk.works(&line);
    assert!(bytes(&desk, "killed.mkv") == first, "resumed");

    desk.works(&format!("plan film.mkv -o planned.mkv --store store {}", HOW.replace("--no-manifest", "")));
    desk.works("unit run --plan store --input film.mkv --index missing --device cpu");
    desk.works("assemble --plan store --input film.mkv -o planned.mkv --no-manifest");
    assert!(bytes(&desk, "planned.mkv") == first, "by units");
}

#[test]
fn a_film_that_is_done_is_skipped_and_a_file_of_the_same_network_makes_the_same() {
    let desk = film();
    let how = "--model realesr-animevideov3 --device cpu --resolution 2x --to 0.4";
    desk.works(&format!("film.mkv -o a.mkv {how}"));
    let made = bytes(&desk, "a.mkv");
    let again = desk.works(&format!("film.mkv -o a.mkv {how}"));
    assert!(again.stdout.contains("is done already"), "{}", again.stdout);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../anime/realesr-animevideov3.safetensors");
    let how = format!("--model {} --device cpu --resolution 2x --to 0.4", file.display());
    desk.works(&format!("film.mkv -o b.mkv {how}"));
    assert!(bytes(&desk, "b.mkv") == made);
    let model = desk.json(&format!("models inspect {} --json", file.display()));
    assert_eq!((&model["kind"], &model["usable"]), (&"compact".into(), &true.into()));
}

#[test]
fn what_has_no_effect_ends_with_2_and_one_line() {
    let desk = film();
    for option in [
        "--seed 7",
        "--window 9",
        "--latent-noise 0.1",
        "--keep-latents l.safetensors",
        "--vae v.safetensors",
        "--text t.pt",
        "--edges mirror",
        "--color lab --color-pool window",
        "--color-pool shot",
    ] {
        let run = desk.run(&format!("film.mkv -o out.mkv --model anime --device cpu {option}"));
        run.ends(2, &[option.split(' ').next().unwrap_or_default().trim_end_matches("--color"), "no effect"]);
        assert_eq!(run.stderr.trim().lines().count(), 1, "{}", run.stderr);
    }
    desk.run("film.mkv -o out.mkv --model anime --mode shared-stats").ends(2, &["shared-stats"]);
    assert_eq!(desk.names(), ["film.mkv"]);
}

#[test]
fn frames_of_any_size_stills_alpha_and_pipes_come_out_as_asked() {
    let desk = film();
    let size = |name: &str| {
        let probe = desk.json(&format!("probe {name} --json"));
        let side = |name: &str| probe["video"][name].as_u64().unwrap_or(0);
        (side("width"), side("height"))
    };
    for (wanted, expected) in
        [("1x", (48, 32)), ("3x", (144, 96)), ("500x300", (500, 300)), ("96", (144, 96))]
    {
        desk.works(&format!(
            "film.mkv -o out.mkv -y --model anime --device cpu --to 0.2 --resolution {wanted}"
        ));
        assert_eq!(size("out.mkv"), expected, "{wanted}");
    }
    ffmpeg(&desk, "-i film.mkv -frames:v 1 still.png");
    desk.works("still.png -o large.png --model anime --device cpu --resolution 4x");
    ffmpeg(&desk, "-f lavfi -i testsrc2=s=64x48:r=25:d=0.2,format=yuva444p10 -c:v prores_ks alpha.mov");
    desk.works("alpha.mov -o kept.mov --model anime --device cpu --resolution 2x --strength 0.5 --color lab");
    let shots = "--color lab --color-pool shot --input-noise 0.3 --softness 0.2 --dither";
    desk.works(&format!("film.mkv -o pool.mkv --model anime --device cpu --resolution 2x {shots}"));
    desk.works("preview film.mkv -o sheet.png --model anime --device cpu --resolution 2x");
    let plan = desk.json("plan film.mkv --model anime --device cpu --json");
    assert_eq!(plan["plans"].as_array().map(Vec::len), Some(1));
    assert!(plan.get("vae").is_none() && plan["model"] == "anime");
}

#[test]
fn a_preview_shows_no_frame_that_is_dark_or_of_one_colour() {
    let desk = Desk::new();
    let shown = |name: &str| {
        let line = format!(
            "preview {name}.mkv -o {name}.png --model anime --device cpu --resolution 1x --scenes none"
        );
        let made = desk.json(&format!("{line} --json"));
        made["frames"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect::<Vec<_>>()
    };
    let film = "-f lavfi -i testsrc2=s=64x48:r=25:d=2";
    ffmpeg(&desk, &format!("{film} -c:v ffv1 plain.mkv"));
    assert_eq!(shown("plain"), [25]);
    // Black behind frame 10, a colour up to frame 40, and both at once.
    ffmpeg(&desk, &format!("{film} -vf fade=t=out:st=0.2:d=0.2 -c:v ffv1 dark.mkv"));
    assert!(shown("dark")[0] < 10, "{:?}", shown("dark"));
    let white = "drawbox=color=white:t=fill:enable='lt(n,40)'";
    ffmpeg(&desk, &format!("{film} -vf {white} -c:v ffv1 flat.mkv"));
    assert!(shown("flat")[0] >= 40, "{:?}", shown("flat"));
    // Where all is black that is what there is.
    ffmpeg(&desk, "-f lavfi -i color=black:s=64x48:r=25:d=2 -c:v ffv1 black.mkv");
    assert_eq!(shown("black"), [25]);
}

#[test]
fn without_a_model_both_ways_are_said_and_none_is_taken_silently() {
    let desk = film();
    let run = desk.run("film.mkv -o out.mkv");
    run.ends(3, &["models pull 3b", "--model anime"]);
    assert_eq!((run.stderr.trim().lines().count(), desk.names()), (1, vec!["film.mkv".to_owned()]));
}

/// The command of the front page, and what its picture shows.
#[test]
fn the_front_page_is_made_by_its_command() {
    let desk = Desk::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let line = readme.lines().find_map(|line| line.strip_prefix("remaster preview ")).unwrap();
    let line = line.replace("testdata/", &format!("{}/", root.join("testdata").display()));
    let made = desk.json(&format!("preview {line} --json"));
    assert_eq!(made["frames"].as_array().map(Vec::len), Some(2), "{made}");
    let size = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        // Columns and rows of a PNG.
        [16, 20].map(|at| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()))
    };
    assert_eq!(size(&desk.join("preview.png")), size(&root.join("docs/preview.png")));
}
