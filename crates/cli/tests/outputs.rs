//! Outputs: whole or not at all, never in the way of anything else, and refused before the work if they cannot be.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    took: Duration,
}

impl Run {
    #[track_caller]
    fn ends(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        // Names of parts mean nothing to anybody.
        assert!(!self.stderr.contains(".part"), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in: {}", self.stderr);
        }
        self
    }
}

/// A folder of its own for one test.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Desk(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        names(self.0.path())
    }

    /// Words are split at spaces.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_remaster"));
        command.args(line.split(' ').filter(|w| !w.is_empty()));
        self.at_home(&mut command);
        command
    }

    fn at_home(&self, command: &mut Command) {
        command.current_dir(self.0.path()).stdin(Stdio::null());
        command.env("XDG_CONFIG_HOME", "/nowhere").env("HOME", "/nowhere");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }

    fn run(&self, line: &str) -> Run {
        finish(self.command(line))
    }

    /// The same in a shell, for redirections.
    fn shell(&self, line: &str) -> Run {
        let mut command = Command::new("sh");
        command.args(["-c", &line.replace("remaster", env!("CARGO_BIN_EXE_remaster"))]);
        self.at_home(&mut command);
        finish(command)
    }

    /// `frames` frames of a test picture, with sound of the codec that is named.
    fn video(&self, name: &str, size: &str, frames: usize, sound: Option<&str>) {
        let source = format!("testsrc2=s={size}:r=25:d={}", frames as f64 / 25.0);
        let mut args = vec!["-f", "lavfi", "-i", &source];
        if let Some(codec) = sound {
            args.extend(["-f", "lavfi", "-i", "sine=d=2", "-c:a", codec, "-strict", "-2"]);
        }
        args.extend(["-c:v", "libx264", "-preset", "ultrafast"]);
        let file = self.path(name);
        args.push(file.to_str().unwrap());
        ffmpeg(&args);
    }

    /// A clip in y4m, which does not say how many frames it has.
    fn y4m(&self, name: &str, size: &str, frames: usize) {
        let source = format!("testsrc2=s={size}:r=25:d={}", frames as f64 / 25.0);
        ffmpeg(&["-f", "lavfi", "-i", &source, "-pix_fmt", "yuv420p", self.path(name).to_str().unwrap()]);
    }
}

fn ffmpeg(args: &[&str]) {
    let out = Command::new("ffmpeg").args(["-v", "error", "-nostdin", "-y"]).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn finish(mut command: Command) -> Run {
    let started = Instant::now();
    let out = command.output().unwrap();
    Run {
        code: out.status.code(),
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
        took: started.elapsed(),
    }
}

/// Waits until `done`, a minute at most: other tests run beside.
#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what} did not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

/// The folder in which an output is made.
fn part(folder: &Path, output: &str) -> Option<PathBuf> {
    let start = format!(".{output}.");
    let found = names(folder).into_iter().find(|n| {
        n.strip_prefix(&start).and_then(|n| n.strip_suffix(".part")).is_some_and(|random| random.len() == 8)
    });
    found.map(|name| folder.join(name))
}

/// Starts a run of some seconds and waits until its output is under way.
fn under_way(desk: &Desk, input: &str, output: &str) -> Child {
    let line = format!("vae roundtrip {input} -o {output} --weights identity --progress none --slice 4");
    let mut child = desk.command(&line).spawn().unwrap();
    // The plan is shown when the rehearsal is over and the output has its part.
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|l| l.starts_with("encode of")));
    assert!(part(desk.0.path(), output.trim_end_matches('/')).is_some(), "{:?}", desk.names());
    child
}

const IDENTITY: &str = "--weights identity --progress none";

mod injection {
    use super::*;

    fn media(name: &str) -> String {
        format!("{}/../../testdata/media/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    /// The latent file `from` with other words about its clip.
    fn rewrite(desk: &Desk, from: &str, to: &str, change: impl FnOnce(&mut Value)) {
        let bytes = fs::read(desk.path(from)).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let text = header["__metadata__"]["remaster"].as_str().unwrap();
        let mut about: Value = serde_json::from_str(text).unwrap();
        change(&mut about);
        header["__metadata__"]["remaster"] = about.to_string().into();
        let mut text = serde_json::to_vec(&header).unwrap();
        text.resize(length, b' ');
        let whole = [&(length as u64).to_le_bytes()[..], &text, &bytes[8 + length..]].concat();
        fs::write(desk.path(to), whole).unwrap();
    }

    #[test]
    fn words_of_a_latent_file_do_not_become_options_of_an_encoder() {
        let desk = Desk::new();
        let clip = media("hdr10_hevc10.mp4");
        desk.run(&format!("vae encode {clip} -o z.safetensors --hdr keep {IDENTITY}")).ends(0, &[]);
        fs::write(desk.path("victim"), "precious").unwrap();
        let victim = desk.path("victim").display().to_string();
        let display = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)";
        let attack = format!("{display}:pass=1:stats={victim}");
        let option = format!("bt709 -y {victim}");
        let attacks: [(&str, Value); 8] = [
            ("/hdr/master_display", attack.into()),
            ("/hdr/master_display", format!("{display}\n").into()),
            ("/hdr/light_level", serde_json::json!([70000, 1])),
            ("/colour/transfer/value", option.clone().into()),
            ("/colour/primaries/value", option.into()),
            ("/colour/range/value", "pc:stats=x".into()),
            ("/colour/siting/value", "".into()),
            ("/samples", format!("yuv420p10le:{victim}").into()),
        ];
        for (place, value) in attacks {
            rewrite(&desk, "z.safetensors", "bad.safetensors", |about| {
                *about.pointer_mut(place).unwrap() = value.clone();
            });
            let run = desk.run(&format!("vae decode bad.safetensors -o out.mkv {IDENTITY}"));
            run.ends(3, &["bad.safetensors"]);
            assert_eq!(fs::read_to_string(desk.path("victim")).unwrap(), "precious", "{place}");
            assert_eq!(desk.names(), ["bad.safetensors", "victim", "z.safetensors"], "{place}");
        }
        // Honest numbers arrive.
        rewrite(&desk, "z.safetensors", "good.safetensors", |about| {
            *about.pointer_mut("/hdr/master_display").unwrap() = display.into();
            *about.pointer_mut("/hdr/light_level").unwrap() = serde_json::json!([1000, 400]);
        });
        desk.run(&format!("vae decode good.safetensors -o out.mkv {IDENTITY}")).ends(0, &[]);
        let probe = desk.run("probe out.mkv --json");
        let json: Value = serde_json::from_str(&probe.stdout).unwrap();
        assert_eq!(json["video"]["hdr"]["master_display"], display);
        assert_eq!(json["video"]["hdr"]["light_level"], serde_json::json!([1000, 400]));
    }

    #[test]
    fn transfer_curves_that_ffmpeg_calls_by_two_names_are_kept() {
        let desk = Desk::new();
        let file = desk.path("in.mkv");
        let words = "-f lavfi -i testsrc2=s=64x48:d=0.2 -c:v mpeg2video -color_trc gamma28";
        let mut args: Vec<&str> = words.split(' ').collect();
        args.push(file.to_str().unwrap());
        ffmpeg(&args);
        desk.run(&format!("vae roundtrip in.mkv -o out.mkv {IDENTITY}")).ends(0, &[]);
        let transfer = |name: &str| {
            let probe = desk.run(&format!("probe {name} --json"));
            serde_json::from_str::<Value>(&probe.stdout).unwrap()["video"]["colour"]["transfer"]["value"]
                .clone()
        };
        assert_eq!([transfer("in.mkv"), transfer("out.mkv")], ["bt470bg", "bt470bg"]);
    }
}

mod parts {
    use super::*;

    #[test]
    fn an_interrupted_run_leaves_the_parts_of_others_alone() {
        let desk = Desk::new();
        desk.video("in.mkv", "640x360", 150, None);
        // By the old rule the name of one part matched the pattern of the other.
        let mut other = under_way(&desk, "in.mkv", "a.b.mp4");
        let mut child = under_way(&desk, "in.mkv", "a.mp4");
        signal(&child, "INT");
        signal(&child, "INT");
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(part(desk.0.path(), "a.mp4").is_none(), "{:?}", desk.names());
        assert!(other.try_wait().unwrap().is_none(), "the other run was over too early to tell");
        assert!(part(desk.0.path(), "a.b.mp4").is_some(), "{:?}", desk.names());
        assert!(other.wait().unwrap().success());
        assert_eq!(desk.names(), ["a.b.mp4", "in.mkv"]);
    }

    #[test]
    fn what_a_killed_run_left_goes_away_with_the_next_and_nothing_else_does() {
        let desk = Desk::new();
        desk.video("in.mkv", "640x360", 150, None);
        let mut killed = under_way(&desk, "in.mkv", "out.mkv");
        signal(&killed, "KILL");
        killed.wait().unwrap();
        let left = part(desk.0.path(), "out.mkv").unwrap();
        // A folder of that form that is not ours, and a run with the same output that lives.
        fs::create_dir(desk.path(".out.mkv.abcdefgh.part")).unwrap();
        fs::write(desk.path(".out.mkv.abcdefgh.part/lock"), "mine").unwrap();
        desk.video("small.mkv", "64x48", 3, None);
        desk.run(&format!("vae roundtrip small.mkv -o b.mkv {IDENTITY}")).ends(0, &[]);
        assert!(left.exists(), "a run with another output has no business there");
        let mut living = under_way(&desk, "in.mkv", "out.mkv");
        until("the dead part to go", || !left.exists());
        let of_living: Vec<String> = desk.names().into_iter().filter(|n| n.ends_with(".part")).collect();
        desk.run(&format!("vae roundtrip small.mkv -o out.mkv {IDENTITY}")).ends(0, &[]);
        assert!(living.try_wait().unwrap().is_none(), "the other run was over too early to tell");
        for name in of_living {
            assert!(desk.path(&name).exists(), "{name}");
        }
        // The first to finish has the name: the other one fails and leaves nothing.
        assert_eq!(living.wait().unwrap().code(), Some(3));
        assert_eq!(desk.names(), [".out.mkv.abcdefgh.part", "b.mkv", "in.mkv", "out.mkv", "small.mkv"]);
    }

    #[test]
    fn a_forced_end_leaves_no_folder_of_pictures() {
        let desk = Desk::new();
        desk.video("in.mkv", "640x360", 150, None);
        for output in ["frames", "frames.v2/"] {
            let mut child = under_way(&desk, "in.mkv", output);
            signal(&child, "TERM");
            signal(&child, "TERM");
            assert_eq!(child.wait().unwrap().code(), Some(130));
            assert_eq!(desk.names(), ["in.mkv"], "{output}");
        }
    }
}

mod kinds {
    use super::*;

    #[test]
    fn endings_that_are_not_known_are_refused_before_the_work() {
        let desk = Desk::new();
        desk.video("in.mkv", "64x48", 5, None);
        fs::write(desk.path("init-stream0.m4s"), "mine").unwrap();
        for output in ["o.mpd", "o.m3u8", "o.bmp", "o.gif", "o.h264", "o.avi", "o.sdp", "o.tee", "o."] {
            let run = desk.run(&format!("vae roundtrip in.mkv -o {output} --weights nowhere.safetensors"));
            run.ends(2, &[output, ".mkv, .mp4", "or name a folder"]);
        }
        assert_eq!(desk.names(), ["in.mkv", "init-stream0.m4s"]);
    }

    #[test]
    fn every_ending_makes_one_file_with_all_frames_and_their_times() {
        let desk = Desk::new();
        desk.video("in.mkv", "64x48", 7, Some("aac"));
        let times = |file: &str| {
            let args =
                "-v error -select_streams v:0 -show_entries frame=best_effort_timestamp_time -of csv=p=0";
            let out = Command::new("ffprobe").args(args.split(' ')).arg(desk.path(file)).output().unwrap();
            let text = String::from_utf8(out.stdout).unwrap();
            let times: Vec<f64> = text.lines().filter_map(|l| l.trim_matches(',').parse().ok()).collect();
            times.iter().map(|t| t - times[0]).collect::<Vec<_>>()
        };
        let expected = times("in.mkv");
        for ending in ["mkv", "mp4", "m4v", "mov", "nut", "ts", "m2ts", "MKV"] {
            let output = format!("o%03d.{ending}");
            desk.run(&format!("vae roundtrip in.mkv -o {output} {IDENTITY}")).ends(0, &[]);
            assert_eq!(desk.names(), ["in.mkv", &output]);
            let found = times(&output);
            let off = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(found.len() == expected.len() && off < 0.0011, "{ending}: {found:?}");
            fs::remove_file(desk.path(&output)).unwrap();
        }
        // WebM has sound of its own; frames as y4m and pictures have none.
        for output in ["o.webm", "o.y4m", "o", "o.d/"] {
            let flags = if output == "o.webm" { "--audio none" } else { "" };
            desk.run(&format!("vae roundtrip in.mkv -o {output} {flags} {IDENTITY}")).ends(0, &[]);
            assert_eq!(desk.names(), ["in.mkv", output.trim_end_matches('/')]);
            if desk.path(output).is_dir() {
                assert_eq!(names(&desk.path(output)).len(), 7);
                fs::remove_dir_all(desk.path(output)).unwrap();
            } else {
                fs::remove_file(desk.path(output)).unwrap();
            }
        }
    }

    #[test]
    fn several_frames_do_not_go_into_one_picture() {
        let desk = Desk::new();
        desk.video("in.mkv", "64x48", 5, None);
        // The container says how many: refused before weights are even looked at.
        let run = desk.run(&format!("vae roundtrip in.mkv -o o.png {IDENTITY}"));
        run.ends(2, &["more than one frame", "write to a folder or a video file"]);
        assert!(!run.stderr.contains("encode of"), "planned: {}", run.stderr);
        // A pipe does not: the second frame tells.
        desk.y4m("in.y4m", "64x48", 5);
        desk.run(&format!("vae roundtrip in.y4m -o o.png {IDENTITY}")).ends(2, &["more than one frame"]);
        assert_eq!(desk.names(), ["in.mkv", "in.y4m"]);
        desk.y4m("one.y4m", "64x48", 1);
        desk.run(&format!("vae roundtrip one.y4m -o o.png {IDENTITY}")).ends(0, &[]);
    }
}

mod places {
    use super::*;

    #[test]
    fn a_place_that_cannot_be_written_is_named_before_the_work() {
        let desk = Desk::new();
        desk.video("in.mkv", "64x48", 5, None);
        fs::create_dir(desk.path("dir.mp4")).unwrap();
        fs::create_dir(desk.path("dir")).unwrap();
        // Weights that do not exist: nothing was opened when the output is refused.
        for (output, code, words) in [
            ("dir.mp4", 3, &["cannot write dir.mp4", "a folder is there"][..]),
            ("dir.mp4 -y", 3, &["a folder is there"]),
            ("dir", 3, &["cannot write dir", "a folder is there"]),
            ("dir/ -y", 3, &["a folder is there"]),
            ("nowhere/at/all.mp4", 3, &["cannot write nowhere/at/all.mp4", "there is no folder nowhere/at"]),
            ("in.mkv/o.mp4", 3, &["there is no folder in.mkv"]),
            ("in.mkv", 2, &["in.mkv is an input"]),
        ] {
            let line = format!("vae roundtrip in.mkv -o {output} --weights nowhere.safetensors");
            desk.run(&line).ends(code, words);
        }
        assert_eq!(desk.names(), ["dir", "dir.mp4", "in.mkv"]);
        fs::write(desk.path("o.mkv"), "old").unwrap();
        let line = "vae roundtrip in.mkv -o o.mkv --weights nowhere.safetensors";
        desk.run(line).ends(2, &["o.mkv exists; use -y to overwrite it"]);
        // Special files are not replaced by ordinary ones.
        assert!(Command::new("mkfifo").arg(desk.path("pipe.y4m")).status().unwrap().success());
        desk.run("vae roundtrip in.mkv -o pipe.y4m -y --weights identity").ends(3, &["not a regular file"]);
    }

    #[test]
    fn a_folder_that_is_read_only_is_named_before_the_work() {
        let desk = Desk::new();
        desk.video("in.mkv", "64x48", 5, None);
        let Some(disk) = Disk::mount(&desk.path("disk"), "ro") else { return };
        let line = "vae roundtrip in.mkv -o disk/o.mp4 --weights nowhere.safetensors";
        desk.run(line).ends(3, &["cannot write disk/o.mp4", "files cannot be made in disk"]);
        drop(disk);
    }

    #[test]
    fn the_input_is_never_the_output() {
        let desk = Desk::new();
        desk.video("same.mkv", "64x48", 5, None);
        let before = fs::read(desk.path("same.mkv")).unwrap();
        fs::hard_link(desk.path("same.mkv"), desk.path("hard.mkv")).unwrap();
        std::os::unix::fs::symlink("same.mkv", desk.path("soft.mkv")).unwrap();
        fs::create_dir(desk.path("sub")).unwrap();
        for output in ["same.mkv", "./same.mkv", "sub/../same.mkv", "hard.mkv", "soft.mkv"] {
            desk.run(&format!("vae roundtrip same.mkv -o {output} -y {IDENTITY}")).ends(2, &["is an input"]);
        }
        desk.run(&format!("vae roundtrip soft.mkv -o same.mkv -y {IDENTITY}")).ends(2, &["is an input"]);
        assert_eq!(fs::read(desk.path("same.mkv")).unwrap(), before);
        // Nor one of the pictures of a folder.
        desk.run(&format!("vae roundtrip same.mkv -o pictures {IDENTITY}")).ends(0, &[]);
        let line = format!("vae roundtrip pictures -o pictures/000001.png -y {IDENTITY}");
        desk.run(&line).ends(2, &["is an input"]);
        // Tensors, and pictures of a comparison.
        desk.run(&format!("vae encode same.mkv -o z.safetensors {IDENTITY}")).ends(0, &[]);
        let line = format!("vae decode z.safetensors -o ./z.safetensors -y {IDENTITY}");
        desk.run(&line).ends(2, &["is an input"]);
        let line = "compare pictures/000000.png pictures/000001.png --sheet pictures/000000.png -y";
        desk.run(line).ends(2, &["is an input"]);
    }

    #[test]
    fn files_have_the_mode_that_is_asked_for_and_keep_it_when_replaced() {
        let desk = Desk::new();
        desk.video("in.mkv", "64x48", 5, None);
        let mode = |name: &str| fs::metadata(desk.path(name)).unwrap().permissions().mode() & 0o777;
        for (umask, expected) in [("022", 0o644), ("077", 0o600), ("002", 0o664)] {
            for output in ["o.mkv", "o.y4m", "z.safetensors"] {
                let what = if output.ends_with("tensors") { "encode" } else { "roundtrip" };
                let line = format!("umask {umask}; remaster vae {what} in.mkv -o {output} {IDENTITY}");
                desk.shell(&line).ends(0, &[]);
                assert_eq!(mode(output), expected, "{output} with umask {umask}");
                fs::remove_file(desk.path(output)).unwrap();
            }
        }
        fs::write(desk.path("o.mkv"), "old").unwrap();
        fs::set_permissions(desk.path("o.mkv"), fs::Permissions::from_mode(0o600)).unwrap();
        desk.run(&format!("vae roundtrip in.mkv -o o.mkv -y {IDENTITY}")).ends(0, &[]);
        assert_eq!(mode("o.mkv"), 0o600);
        // A link is written through.
        std::os::unix::fs::symlink("o.mkv", desk.path("link.mkv")).unwrap();
        let before = fs::read(desk.path("o.mkv")).unwrap();
        fs::write(desk.path("o.mkv"), "old").unwrap();
        desk.run(&format!("vae roundtrip in.mkv -o link.mkv -y {IDENTITY}")).ends(0, &[]);
        assert!(desk.path("link.mkv").is_symlink());
        assert_eq!(fs::read(desk.path("o.mkv")).unwrap().len(), before.len());
    }
}

mod rehearsal {
    use super::*;

    #[test]
    fn mistakes_of_encoder_and_container_cost_a_second_and_not_the_work() {
        let desk = Desk::new();
        desk.video("in.mkv", "64x48", 25, None);
        desk.video("wavpack.mkv", "64x48", 25, Some("wavpack"));
        for (args, words) in [
            (&["in.mkv", "-o", "o.mp4", "--video", "libx264 -crf banana"][..], &["o.mp4", "banana"][..]),
            (&["in.mkv", "-o", "o.mp4", "--video", "libnothing"], &["no video encoder `libnothing`"]),
            (&["in.mkv", "-o", "o.webm", "--video", "libx264"], &["o.webm"]),
            (&["in.mkv", "-o", "o.mp4", "--video", "libx264 -nosuch 1"], &["nosuch"]),
            (
                &["in.mkv", "-o", "o.mp4", "--resolution", "63x47", "--pixel-format", "yuv420p"],
                &["o.mp4", "not divisible by 2"],
            ),
            (&["wavpack.mkv", "-o", "o.mp4"], &["o.mp4", "wavpack"]),
            (&["wavpack.mkv", "-o", "o.ts"], &["o.ts", "wavpack", "write .mkv"]),
            (&["in.mkv", "-o", "o.mp4", "--pixel-format", "yuv999"], &["yuv999", "--pixel-format takes"]),
            (&["in.mkv", "-o", "o.mp4", "--pixel-format", "yuv411p"], &["yuv411p", "libx264 does: yuv420p"]),
        ] {
            let mut command = desk.command("vae roundtrip --weights identity --progress none");
            command.args(args);
            let run = finish(command);
            run.ends(2, words);
            assert!(!run.stderr.contains("encode of"), "planned: {}", run.stderr);
            assert!(!run.stderr.contains("o.mp4 has the pixel format"), "{}", run.stderr);
            // A second on a machine that has nothing else to do.
            assert!(run.took < Duration::from_secs(60), "{args:?} took {:?}", run.took);
            assert_eq!(desk.names(), ["in.mkv", "wavpack.mkv"], "{args:?}");
        }
        // Latents too.
        desk.run(&format!("vae encode in.mkv -o z.safetensors {IDENTITY}")).ends(0, &[]);
        let mut command = desk.command(&format!("vae decode z.safetensors -o o.mp4 {IDENTITY}"));
        command.args(["--video", "libx264 -crf banana"]);
        finish(command).ends(2, &["o.mp4", "banana"]);
    }

    #[test]
    fn flags_that_an_output_has_no_use_for_are_refused_before_the_plan() {
        let desk = Desk::new();
        desk.y4m("in.y4m", "64x48", 5);
        for output in ["o.y4m", "-", "frames"] {
            let run = desk.run(&format!("vae roundtrip in.y4m -o {output} --lossless {IDENTITY}"));
            run.ends(2, &["--lossless has no effect"]);
            assert!(!run.stderr.contains("encode of"), "planned: {}", run.stderr);
        }
        assert_eq!(desk.names(), ["in.y4m"]);
    }
}

/// A small disk of its own.
struct Disk(PathBuf);

impl Disk {
    /// `None`, with a message, where tests may not mount.
    fn mount(at: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let out = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).output();
        match out {
            Ok(out) if out.status.success() => Some(Disk(at.to_owned())),
            _ => {
                remaster_testkit::no_disk("a_full_disk_is_called_one_and_nothing_is_left_on_it");
                None
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

mod full {
    use super::*;

    #[test]
    fn a_full_disk_is_called_one_and_nothing_is_left_on_it() {
        let desk = Desk::new();
        // Noise does not compress. y4m does not say how long it is.
        let source = "color=s=320x240:r=25:d=2,noise=alls=100:allf=t";
        let file = desk.path("in.y4m");
        ffmpeg(&["-f", "lavfi", "-i", source, "-pix_fmt", "yuv420p", file.to_str().unwrap()]);
        let Some(disk) = Disk::mount(&desk.path("disk"), "size=700k") else { return };
        for output in ["o.mp4", "o.mkv", "o.ts", "o.y4m", "frames"] {
            let run = desk.run(&format!("vae roundtrip in.y4m -o disk/{output} {IDENTITY}"));
            run.ends(3, &["no space left on the disk of disk"]);
            assert_eq!(names(&disk.0), [""; 0], "{output}");
        }
        let run = desk.run(&format!("vae encode in.y4m -o disk/z.safetensors {IDENTITY}"));
        run.ends(3, &["cannot write disk/z.safetensors", "it takes"]);
        assert_eq!(names(&disk.0), [""; 0]);
        // Where the length is known, it is refused before the work.
        desk.video("in.mkv", "320x240", 50, None);
        let run = desk.run(&format!("vae roundtrip in.mkv -o disk/o.y4m {IDENTITY}"));
        run.ends(3, &["cannot write disk/o.y4m", "it takes", "KiB left"]);
        assert!(!run.stderr.contains("encode of"), "planned: {}", run.stderr);
        drop(disk);
    }

    #[test]
    fn a_result_that_is_lost_to_a_full_stdout_is_a_failure() {
        let desk = Desk::new();
        desk.video("in.mkv", "64x48", 5, None);
        let lost = &["cannot write the result to stdout", "No space left"];
        desk.shell("remaster probe in.mkv > /dev/full").ends(3, lost);
        desk.shell("remaster probe in.mkv --json > /dev/full").ends(3, lost);
        desk.shell("remaster completions bash > /dev/full").ends(3, lost);
        assert_ne!(desk.shell("remaster --help > /dev/full").code, Some(0));
        let line = format!("remaster vae roundtrip in.mkv -o - {IDENTITY} > /dev/full");
        desk.shell(&line).ends(3, &["write y4m to stdout", "No space left"]);
        // A reader that goes away is none.
        desk.shell("remaster probe in.mkv | true").ends(0, &[]);
    }
}

#[test]
fn json_and_frames_do_not_share_stdout() {
    let desk = Desk::new();
    desk.y4m("in.y4m", "64x48", 5);
    let run = desk.run(&format!("vae roundtrip in.y4m -o - --json {IDENTITY}"));
    run.ends(2, &["--json", "--progress json"]);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json["exit_code"], 2);
    let mut command = desk.command("vae roundtrip in.y4m -o - --weights identity --progress json");
    let out = command.output().unwrap();
    assert!(out.status.success() && out.stdout.starts_with(b"YUV4MPEG2"));
    let last = String::from_utf8(out.stderr).unwrap().lines().last().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&last).unwrap()["event"], "summary");
}

#[test]
fn pictures_of_a_comparison_have_their_ending_and_replace_nothing_unasked() {
    let desk = Desk::new();
    desk.y4m("a.y4m", "64x48", 3);
    for (flags, words) in [
        ("--plot p.png", ["p.png", ".svg"]),
        ("--sheet s.svg", ["s.svg", ".png"]),
        ("--drift d.jpg", ["d.jpg", ".png"]),
        ("--sheet s.png --drift s.png", ["s.png", "two outputs"]),
    ] {
        desk.run(&format!("compare a.y4m a.y4m --quick {flags}")).ends(2, &words);
    }
    assert_eq!(desk.names(), ["a.y4m"]);
    fs::write(desk.path("p.svg"), "mine").unwrap();
    desk.run("compare a.y4m a.y4m --quick --plot p.svg").ends(2, &["p.svg exists; use -y"]);
    assert_eq!(fs::read_to_string(desk.path("p.svg")).unwrap(), "mine");
    desk.run("compare a.y4m a.y4m --quick --plot p.svg --sheet s.png --drift d.png -y").ends(0, &[]);
    assert!(fs::read_to_string(desk.path("p.svg")).unwrap().starts_with("<svg"));
    assert_eq!(desk.names(), ["a.y4m", "d.png", "p.svg", "s.png"]);
    let line = "bench scaling --sides 64 --repeat 1 --svg p.svg";
    desk.run(line).ends(2, &["p.svg exists; use -y"]);
}
