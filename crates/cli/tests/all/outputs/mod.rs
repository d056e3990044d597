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
    // The first line is shown when the rehearsal is over and the output has its part.
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|l| l.starts_with("encoding")));
    assert!(part(desk.0.path(), output.trim_end_matches('/')).is_some(), "{:?}", desk.names());
    child
}

const IDENTITY: &str = "--weights identity --progress none";

mod injection;

mod parts;

mod kinds;

mod places;

mod rehearsal;

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

mod full;

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
        ("--sheet s.png --drift s.png", ["s.png", "named twice"]),
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
