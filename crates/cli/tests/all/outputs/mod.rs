//! Outputs: whole or not at all, never in the way of anything else, and refused before the work if they cannot be.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

#[cfg(unix)]
use crate::desk::signal;
use crate::desk::{Desk, Mounted, Run, bytes, ffmpeg, ffprobe, names, testdata, until};

fn at_home(command: &mut Command, _: &Path) {
    command.env("XDG_CONFIG_HOME", "/nowhere").env("HOME", "/nowhere");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
}

fn desk() -> Desk {
    Desk::with(at_home)
}

/// The same in a shell, for redirections.
#[cfg(unix)]
fn shell(desk: &Desk, line: &str) -> Run {
    let mut command = Command::new("sh");
    command.args(["-c", &line.replace("remaster", env!("CARGO_BIN_EXE_remaster"))]);
    command.current_dir(&**desk).stdin(Stdio::null());
    at_home(&mut command, desk);
    Run::of(&mut command)
}

/// `frames` frames of a test picture, with sound of the codec that is named.
fn video(desk: &Desk, name: &str, size: &str, frames: usize, sound: Option<&str>) {
    let sound = sound.map_or(String::new(), |codec| format!("-f lavfi -i sine=d=2 -c:a {codec} -strict -2"));
    let seconds = frames as f64 / 25.0;
    let coder = "-c:v libx264 -preset ultrafast";
    ffmpeg(desk, &format!("-f lavfi -i testsrc2=s={size}:r=25:d={seconds} {sound} {coder} {name}"));
}

/// A folder with `in.mkv`, without sound.
fn filmed(size: &str, frames: usize) -> Desk {
    let desk = desk();
    video(&desk, "in.mkv", size, frames, None);
    desk
}

/// A clip in y4m, which does not say how many frames it has.
fn y4m(desk: &Desk, name: &str, size: &str, frames: usize) {
    let seconds = frames as f64 / 25.0;
    ffmpeg(desk, &format!("-f lavfi -i testsrc2=s={size}:r=25:d={seconds} -pix_fmt yuv420p {name}"));
}

/// The folder in which an output is made.
#[cfg(unix)]
fn part(folder: &Path, output: &str) -> Option<PathBuf> {
    let start = format!(".{output}.");
    let found = names(folder).into_iter().find(|n| {
        n.strip_prefix(&start).and_then(|n| n.strip_suffix(".part")).is_some_and(|random| random.len() == 8)
    });
    found.map(|name| folder.join(name))
}

/// Starts a run of some seconds and waits until its output is under way.
#[cfg(unix)]
fn under_way(desk: &Desk, input: &str, output: &str) -> Child {
    let line = format!("vae roundtrip {input} -o {output} --weights identity --progress none --slice 4");
    let mut child = desk.command(&line).spawn().unwrap();
    // The first line is shown when the rehearsal is over and the output has its part.
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|l| l.starts_with("encoding")));
    assert!(part(desk, output.trim_end_matches('/')).is_some(), "{:?}", desk.names());
    child
}

const IDENTITY: &str = "--weights identity --progress none";

mod injection;

#[cfg(unix)]
mod parts;

mod kinds;

mod places;

mod rehearsal;

/// A small disk of its own. `None`, with a message, where tests may not mount.
#[cfg(unix)]
fn mount(at: &Path, options: &str) -> Option<Mounted> {
    let disk = Mounted::new(at, options);
    if disk.is_none() {
        remaster_testkit::no_disk("a_full_disk_is_called_one_and_nothing_is_left_on_it");
    }
    disk
}

#[cfg(unix)]
mod full;

#[test]
fn json_and_frames_do_not_share_stdout() {
    let desk = desk();
    y4m(&desk, "in.y4m", "64x48", 5);
    let run = desk.run(&format!("vae roundtrip in.y4m -o - --json {IDENTITY}"));
    assert_eq!(run.ends(2, &["--json", "--progress json"]).json()["exit_code"], 2);
    let mut command = desk.command("vae roundtrip in.y4m -o - --weights identity --progress json");
    let out = command.output().unwrap();
    assert!(out.status.success() && out.stdout.starts_with(b"YUV4MPEG2"));
    let last = String::from_utf8(out.stderr).unwrap().lines().last().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&last).unwrap()["event"], "summary");
}

#[test]
fn pictures_of_a_comparison_have_their_ending_and_replace_nothing_unasked() {
    let desk = desk();
    y4m(&desk, "a.y4m", "64x48", 3);
    for (flags, words) in [
        ("--plot p.png", ["p.png", ".svg"]),
        ("--sheet s.svg", ["s.svg", ".png"]),
        ("--drift d.jpg", ["d.jpg", ".png"]),
        ("--sheet s.png --drift s.png", ["s.png", "named twice"]),
    ] {
        desk.run(&format!("compare a.y4m a.y4m --quick {flags}")).ends(2, &words);
    }
    assert_eq!(desk.names(), ["a.y4m"]);
    desk.put("p.svg", "mine");
    desk.run("compare a.y4m a.y4m --quick --plot p.svg").ends(2, &["p.svg exists; use -y"]);
    assert_eq!(fs::read_to_string(desk.join("p.svg")).unwrap(), "mine");
    desk.works("compare a.y4m a.y4m --quick --plot p.svg --sheet s.png --drift d.png -y");
    assert!(fs::read_to_string(desk.join("p.svg")).unwrap().starts_with("<svg"));
    assert_eq!(desk.names(), ["a.y4m", "d.png", "p.svg", "s.png"]);
    let line = "bench scaling --sides 64 --repeat 1 --svg p.svg";
    desk.run(line).ends(2, &["p.svg exists; use -y"]);
}
