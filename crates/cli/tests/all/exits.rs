//! Every exit code of docs/cli.md, provoked with real commands, in text and in JSON.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

#[cfg(unix)]
use crate::desk::signal;
use crate::desk::{Desk, Run, bytes, ffmpeg, testdata};

/// A folder with a clip, a file that is none, and a model that is cut off.
fn desk() -> Desk {
    let desk = Desk::with(|command, folder| {
        command.env("XDG_CONFIG_HOME", folder.join("none")).env("RUST_BACKTRACE", "0");
        command.env_remove("REMASTER_FFMPEG").env_remove("REMASTER_MODEL_DIR");
    });
    ffmpeg(&desk, "-f lavfi -i testsrc2=size=64x48:rate=25,trim=end_frame=5 -c:v ffv1 in.mkv");
    let clip = bytes(&desk, "in.mkv");
    desk.put("damaged.mkv", &clip[..clip.len() / 2]);
    desk.put("noise.mp4", [7; 5000]);
    desk.put("there.mkv", "a file");
    let golden = fs::read(testdata("tiny_mod_conv.safetensors")).unwrap();
    desk.put("half.safetensors", &golden[..golden.len() / 2]);
    desk.put("config.toml", "dtype = 3");
    desk
}

const TINY: &str = "-o out.mkv --weights formula:tiny";

/// Commands, what their error says, and how they must end.
const CASES: &[(i32, &str, &[&str])] = &[
    (0, "plan --network decode --height 64 --width 64", &[]),
    (0, "probe in.mkv", &[]),
    (2, "plan --network decode --height 64", &["--width"]),
    (2, "vae roundtrip in.mkv -o out.mkv --weights formula:nonsense", &["formula:nonsense"]),
    (2, "vae roundtrip in.mkv -o there.mkv --weights identity", &["there.mkv", "-y"]),
    (2, "doctor --config config.toml", &["config.toml", "dtype"]),
    (2, "doctor --preset fast", &["--preset fast"]),
    (2, "vae roundtrip in.mkv -o out.mkv --weights identity --video nonsense", &["nonsense"]),
    (3, "probe nowhere.mp4", &["nowhere.mp4"]),
    (3, "vae roundtrip in.mkv -o out.mkv --weights nowhere.safetensors", &["nowhere.safetensors"]),
    (3, "probe noise.mp4", &["noise.mp4"]),
    (3, "probe in.mkv --ffmpeg nowhere/ffmpeg", &["nowhere/ffmpeg", "install ffmpeg"]),
    (3, "vae roundtrip damaged.mkv -o out.mkv --weights identity", &["damaged.mkv"]),
    (3, "vae roundtrip in.mkv -o nowhere/out.mkv --weights identity", &["nowhere"]),
    (3, "vae roundtrip in.mkv {TINY} --mode exact --stripes 2 --slice 4 --spill nowhere", &["nowhere"]),
    (3, "vae decode half.safetensors -o z.safetensors --weights formula:tiny", &["half.safetensors"]),
    (3, "models inspect half.safetensors", &["half.safetensors"]),
    (3, "compare in.mkv nowhere.mkv", &["nowhere.mkv"]),
    (3, "scenes nowhere.mkv", &["nowhere.mkv"]),
    (2, "scenes in.mkv -o shots.mkv", &["shots.mkv", ".json"]),
    (3, "doctor --goldens nowhere", &["nowhere"]),
    (4, "vae roundtrip in.mkv {TINY} --ram 70M --disk 0", &["it needs at least --ram"]),
    (
        4,
        "plan --network decode --height 128 --width 128 --frames 5 --ram 200M --disk 0",
        &["it needs at least --ram"],
    ),
    (6, "models verify half.safetensors", &["1 of 1 files"]),
    (6, "compare in.mkv other.mkv --min-psnr 60", &["dB"]),
];

/// Numbers out of their range. None may start the work.
const NUMBERS: &[(&str, &[&str])] = &[
    ("bench card", &["--minutes 0", "--minutes 61"]),
    ("bench kernels", &["--repeat 0", "--repeat 99999999999999999999", "--repeat -1", "--warmup 1001"]),
    ("bench vae encode", &["--repeat 0", "--frames 0", "--frames 2", "--height 0", "--width 7", "--slice 3"]),
    ("bench vae encode", &["--tile 0", "--stripes 0"]),
    ("bench scaling", &["--sides 0", "--sides 12", "--sides 99999", "--repeat 0"]),
    ("plan --network decode", &["--height 0 --width 0"]),
    (SQUARE, &["--frames 0", "--slice 3", "--stripes 0", "--threads 0", "--ram nan", "--ram 101%"]),
    (SQUARE, &["--mode blend --tile 0", "--mode blend --tile 64 --overlap 64"]),
    ("compare in.mkv in.mkv", &["--frames 0", "--tile 0", "--min-psnr nan", "--min-psnr -1"]),
    (TRIP, &["--fps 0", "--resolution 0", "--resolution nanx", "--stall-seconds 0"]),
];

const SQUARE: &str = "plan --network decode --height 64 --width 64";
const TRIP: &str = "vae roundtrip in.mkv -o out.mkv --weights identity";

/// Ends as it must, as text and as JSON. A failure's document is an error; that of a failed check is the result.
fn ends(desk: &Desk, line: &str, words: &[&str], code: i32, environment: Option<&str>) {
    for json in [false, true] {
        let mut command = desk.command(line);
        let run = Run::of(command.args(json.then_some("--json")).envs(environment.map(|name| (name, "1"))));
        assert_eq!(run.code.unwrap_or(-1), code, "{line}: {}", run.stderr);
        assert_eq!(run.stderr.contains("error: "), code != 0, "{line}: {}", run.stderr);
        for word in words {
            assert!(run.stderr.contains(word), "{line}: no `{word}` in {}", run.stderr);
        }
        if json {
            let document = run.json();
            if ![0, 6].contains(&code) {
                assert_eq!(document["exit_code"], code, "{line}");
                assert!(document["error"].is_string() && document["kind"].is_string(), "{line}");
            }
        }
        assert!(!desk.join("out.mkv").exists(), "{line}");
    }
}

#[test]
fn each_failure_has_the_code_that_is_documented() {
    let desk = desk();
    ffmpeg(&desk, "-i in.mkv -vf negate -c:v ffv1 other.mkv");
    for (code, line, words) in CASES {
        ends(&desk, &line.replace("{TINY}", TINY), words, *code, None);
    }
}

#[test]
fn numbers_out_of_range_are_wrong_usage() {
    let desk = desk();
    for (line, flags) in NUMBERS {
        flags.iter().for_each(|flags| ends(&desk, &format!("{line} {flags}"), &[], 2, None));
    }
}

#[test]
#[cfg(debug_assertions)]
fn a_panic_is_an_internal_error_with_a_document() {
    ends(&desk(), "devices", &["internal error", "report"], 101, Some("REMASTER_TEST_PANIC"));
}

#[test]
#[cfg(unix)]
fn an_old_ffmpeg_cannot_be_used_and_a_signal_interrupts() {
    let desk = desk();
    for name in ["old/ffmpeg", "old/ffprobe"] {
        desk.program(name, "#!/bin/sh\necho ffmpeg version 4.4.2 Copyright\n");
    }
    ends(&desk, "probe in.mkv --ffmpeg old/ffmpeg", &["4.4.2", "5.1"], 3, None);

    // Minutes of work.
    let mut command = desk.command("doctor --json --device reference");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    signal(&child, "INT");
    let run = Run::new(&command, child.wait_with_output().unwrap());
    assert_eq!((run.code, &run.json()["exit_code"]), (Some(130), &130.into()));
}

/// `5` needs a device that fails: the unit tests of `error` have it.
#[test]
fn help_and_document_list_the_same_codes_and_each_is_provoked() {
    let help = desk().run("--help").stdout;
    let (_, help) = help.split_once("Exit codes:\n").unwrap();
    let listed: BTreeSet<i32> =
        help.lines().map_while(|l| l.split_whitespace().next()).map_while(|w| w.parse().ok()).collect();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("| Exit code | Meaning |\n|---|---|\n").unwrap();
    let cells = table.lines().map_while(|l| l.strip_prefix("| ")?.split(' ').next());
    let documented: BTreeSet<i32> = cells.map(|word| word.parse().unwrap()).collect();
    assert_eq!(listed, documented);
    let provoked: BTreeSet<i32> = CASES.iter().map(|(code, ..)| *code).chain([5, 101, 130]).collect();
    assert_eq!(provoked, documented);
}
