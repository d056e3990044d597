//! `--ram` is a promise: what remaster and its children hold together stays below it, from the least that is admitted
//! upward. Five random runs in CI; `REMASTER_PROMISE_RUNS=30` for more.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::desk::{Desk, ffmpeg, testdata, words};
use crate::tree::peak;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
}

/// Exit code, words, and the most that was held.
fn run(folder: &Path, args: &[String]) -> (i32, String, u64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remaster"));
    let log = std::fs::File::create(folder.join("log")).unwrap();
    command.args(args).current_dir(folder).stdout(Stdio::null()).stderr(log);
    let mut child = command.spawn().unwrap();
    let peak = peak(&mut child);
    let status = child.wait().unwrap();
    let told = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    (status.code().unwrap_or(-1), told, peak)
}

/// Makes an input; returns it and a name for the output.
fn input(folder: &Desk, random: &mut Random) -> (String, String, &'static str) {
    let (width, height) = (32 + 2 * random.below(150), 32 + 2 * random.below(100));
    let frames = 1 + random.below(30);
    let source = format!("-f lavfi -i testsrc2=size={width}x{height}:rate=25 -frames:v {frames}");
    match random.below(5) {
        0 | 1 => {
            ffmpeg(folder, &format!("{source} -pix_fmt yuv420p -c:v libx264 -preset ultrafast in.mp4"));
            ("in.mp4".into(), "out.mp4".into(), "video")
        }
        2 => {
            let alpha = format!("{source} -vf format=yuva420p -c:v ffv1 in.mkv");
            ffmpeg(folder, &alpha);
            ("in.mkv".into(), "out.mkv".into(), "alpha")
        }
        3 => {
            let source = format!("testsrc2=size={width}x{height}");
            ffmpeg(folder, &format!("-f lavfi -i {source} -frames:v 1 -update 1 in.png"));
            ("in.png".into(), "out.png".into(), "still")
        }
        _ => {
            let [t, h, w] = [1 + 4 * random.below(3), 16 * (1 + random.below(8)), 16 * (1 + random.below(8))];
            let data = (0..3 * t * h * w).map(|i| (i % 97) as f32 / 48.0 - 1.0).collect();
            folder.tensor("in.safetensors", "x", &[1, 3, t, h, w], data);
            ("in.safetensors".into(), "out.safetensors".into(), "tensor")
        }
    }
}

/// The flags that a refusal names first.
fn advised(told: &str) -> Option<Vec<String>> {
    let words = told.split("it needs at least ").nth(1)?.split([',', '\n']).next()?;
    Some(words.split(" and ").flat_map(|flag| flag.split_whitespace().map(str::to_owned)).collect())
}

fn larger(flags: &[String], hundredths: u64) -> Vec<String> {
    let mut flags = flags.to_vec();
    if let Some(i) = flags.iter().position(|f| f == "--ram") {
        let mib: u64 = flags[i + 1].trim_end_matches('M').parse().unwrap();
        flags[i + 1] = format!("{}M", mib * hundredths / 100);
    }
    flags
}

/// Runs a command with the least that it says it needs, or more. Returns what was held by what was allowed.
fn kept(folder: &Path, line: &[String], random: &mut Random) -> f64 {
    let (code, told, _) = run(folder, &[line, &["--ram".into(), "8M".into()]].concat());
    assert_eq!(code, 4, "{line:?}: {told}");
    let Some(least) = advised(&told) else { panic!("{told}") };
    let flags = larger(&least, [100, 100, 130, 200][random.below(4)]);
    let (code, told, peak) = run(folder, &[line, &flags[..]].concat());
    assert_eq!(code, 0, "{line:?} {flags:?}: {told}");
    assert!(!told.contains("ffmpeg took"), "{told}");
    let ram = flags.iter().position(|f| f == "--ram").map(|i| &flags[i + 1]).unwrap();
    let allowed = ram.trim_end_matches('M').parse::<u64>().unwrap() << 20;
    let ratio = peak as f64 / allowed as f64;
    println!("{}: {} of {} MiB, {ratio:.2}", line.join(" "), peak >> 20, allowed >> 20);
    assert!(peak <= allowed, "{line:?} {flags:?}: {peak} bytes of {allowed}\n{told}");
    ratio
}

fn runs() -> usize {
    std::env::var("REMASTER_PROMISE_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(5)
}

#[test]
fn what_runs_take_stays_below_what_was_allowed() {
    let nano = testdata("nano.safetensors");
    let mut random = Random(2);
    let mut worst = 0.0f64;
    for _ in 0..runs() {
        let folder = Desk::bare();
        let (from, to, kind) = input(&folder, &mut random);
        let weights = match random.below(3) {
            0 if kind != "tensor" => "identity".to_owned(),
            1 => "formula:tiny".to_owned(),
            _ => nano.display().to_string(),
        };
        let words = ["vae", "roundtrip", &from, "-o", &to, "--weights", &weights, "--progress", "none", "-y"];
        worst = worst.max(kept(&folder, &words.map(str::to_owned), &mut random));
    }
    println!("largest ratio {worst:.2} in {} runs", runs());
}

#[test]
fn what_restorations_take_stays_below_what_was_allowed() {
    let mut random = Random(5);
    let mut worst = 0.0f64;
    for _ in 0..runs() {
        let folder = Desk::bare();
        let (from, to) = loop {
            let (from, to, kind) = input(&folder, &mut random);
            if kind != "tensor" {
                break (from, to);
            }
        };
        let model =
            ["SMALL", "SMALL", "--model identity --vae identity", "--model formula:tiny-7b"][random.below(4)];
        let colour = ["lab", "wavelet", "wavelet_adaptive", "hsv", "adain", "none"][random.below(6)];
        let pool = match colour {
            "lab" | "wavelet_adaptive" | "hsv" => ["frame", "window", "shot"][random.below(3)],
            _ => "frame",
        };
        let window = ["1", "9", "45"][random.below(3)];
        let size = ["1x", "1x", "150x90"][random.below(3)];
        let line = format!(
            "restore {from} -o {to} {model} --color {colour} --color-pool {pool} --window {window} \
             --resolution {size} --keep-latents kept.safetensors --progress none -y"
        );
        worst = worst.max(kept(&folder, &words(&line), &mut random));
    }
    println!("largest ratio {worst:.2} in {} runs", runs());
}
