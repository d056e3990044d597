//! Whole runs in which something goes wrong at a random moment: a child dies or hangs, a disk is full, a folder
//! disappears, a signal comes, ffmpeg misbehaves. Whatever happens, a run ends in time with the right frames or with a
//! documented error, and leaves neither files nor processes behind.
//!
//! 20 faults by default, 200 at night, `REMASTER_FAULTS` as many as it says. `REMASTER_FAULTS_FROM` is the first case: each is a function of
//! its number.
#![cfg(target_os = "linux")]

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use remaster_testkit::{Rng, in_threads, nightly};
use serde_json::Value;

use crate::desk::{Desk, Mounted, ended, ffmpeg};

/// A run takes one or two seconds here; the rest is for a machine that has other work.
const LIMIT: Duration = Duration::from_secs(60);
/// A silent child is ended after this many seconds. With less, a busy machine ends runs before their fault.
const STALL: &str = "5";
/// Processes that were ended may take this long to be gone.
const GRACE: Duration = Duration::from_secs(3);
/// Every process of a run has this variable, with a value of its own.
const MARK: &str = "FAULT_MARK";
/// Exit codes of a failure that is not a bug.
const TYPED: [i32; 3] = [3, 4, 6];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    KillChild,
    StopChild,
    Signal(&'static str),
    OutputFull,
    SpillFull,
    SpillRemoved,
    InputCut,
    OutputRemoved,
    Wrapper(&'static str),
}

const KINDS: [Kind; 20] = [
    Kind::KillChild,
    Kind::StopChild,
    Kind::Signal("INT"),
    Kind::OutputFull,
    Kind::SpillFull,
    Kind::SpillRemoved,
    Kind::InputCut,
    Kind::OutputRemoved,
    Kind::Wrapper("garbage"),
    Kind::Wrapper("leave"),
    Kind::Wrapper("fail"),
    Kind::Wrapper("hang"),
    Kind::Wrapper("close"),
    Kind::Wrapper("half"),
    Kind::Wrapper("flood"),
    Kind::Wrapper("hold"),
    Kind::Signal("TERM"),
    Kind::KillChild,
    Kind::InputCut,
    Kind::Signal("HUP"),
];

/// The wrapper counts its calls. All but one are passed on to the real program.
const WRAPPER: &str = r#"#!/bin/sh
real=$(basename "$0")
mkdir "$COUNT/$$" 2>/dev/null
n=$(ls "$COUNT" | wc -l)
if [ "$n" != "$CALL" ]; then PATH="$REAL_PATH" exec "$real" "$@"; fi
PATH="$REAL_PATH"
case "$HOW" in
  garbage) head -c 100000 /dev/urandom; exit 0 ;;
  leave) exit 0 ;;
  fail) echo "no reason at all" >&2; exit 1 ;;
  hang) exec sleep 600 ;;
  close) exec <&- ; exec >&- ; exec sleep 600 ;;
  half) "$real" "$@" | head -c 30000; exit 0 ;;
  flood) i=0; while [ $i -lt 20000 ]; do echo "complaint $i of a very long list of complaints"; i=$((i+1)); done >&2; exec "$real" "$@" ;;
  hold) sleep 600 & exec "$real" "$@" ;;
esac
"#;

/// What is run, and what it gives undisturbed.
struct Job {
    name: &'static str,
    flags: &'static str,
    input: &'static str,
    output: &'static str,
    took: Duration,
    frames: String,
}

/// Jobs that were run undisturbed once, with the clips that they read.
struct Bench {
    folder: Desk,
    jobs: Vec<Job>,
}

fn bench() -> Bench {
    let folder = Desk::bare();
    folder.put("words.srt", "1\n00:00:00,100 --> 00:00:00,400\nwords\n");
    let clip = |name: &str, size: &str, frames: u32| {
        let seconds = f64::from(frames) / 25.0;
        let source = format!("testsrc2=size={size}:rate=25,trim=end_frame={frames}");
        let inputs = format!("-f lavfi -i {source} -f lavfi -i sine=440:duration={seconds} -i words.srt");
        ffmpeg(&folder, &format!("{inputs} -c:v ffv1 -c:a pcm_s16le -c:s srt {name}"));
    };
    clip("long.mkv", "320x240", 60);
    clip("short.mkv", "64x48", 9);
    let (took, frames) = (Duration::ZERO, String::new());
    let job = |name, flags, input, output| Job { name, flags, input, output, took, frames: frames.clone() };
    let mut bench = Bench {
        jobs: vec![
            job("identity", "roundtrip --weights identity --lossless", "long.mkv", "out.mkv"),
            job("h264", "roundtrip --weights identity --video libx264", "long.mkv", "out.mkv"),
            job(
                "stripes",
                "roundtrip --weights formula:tiny --lossless --mode exact --stripes 2 --slice 4",
                "short.mkv",
                "out.mkv",
            ),
            job("latents", "encode --weights identity", "long.mkv", "out.safetensors"),
        ],
        folder,
    };
    for at in 0..bench.jobs.len() {
        let (took, frames) = undisturbed(&Rig::new(&bench, at, "undisturbed"));
        bench.jobs[at].took = took;
        bench.jobs[at].frames = frames;
    }
    bench
}

fn undisturbed(rig: &Rig) -> (Duration, String) {
    let started = Instant::now();
    // A busy machine may keep a child silent for seconds.
    let end = rig.wait(rig.start(&[("REMASTER_STALL_SECONDS", "60".into())]));
    assert_eq!(end.code, Some(0), "{}: {}", rig.job.name, end.stderr);
    (started.elapsed(), rig.frames())
}

/// The folders of one run.
struct Rig<'a> {
    job: &'a Job,
    folder: Desk,
    mark: String,
    mounts: Vec<Mounted>,
}

/// How a run ended.
struct End {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl<'a> Rig<'a> {
    fn new(bench: &'a Bench, job: usize, mark: &str) -> Self {
        let job = &bench.jobs[job];
        let folder = Desk::bare();
        for name in ["out", "spill", "tmp", "count", "bin"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        fs::copy(bench.folder.join(job.input), folder.join(job.input)).unwrap();
        for name in ["ffmpeg", "ffprobe"] {
            folder.program(&format!("bin/{name}"), WRAPPER);
        }
        let mark = format!("{}-{mark}", std::process::id());
        Rig { job, folder, mark, mounts: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn output(&self) -> PathBuf {
        self.path("out").join(self.job.output)
    }

    fn start(&self, more: &[(&str, String)]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_remaster"));
        command.arg("vae").args(self.job.flags.split_whitespace()).arg(self.path(self.job.input));
        command.arg("-o").arg(self.output()).arg("--spill").arg(self.path("spill"));
        command.args(["--json", "--progress", "none", "-y"]);
        command.env("TMPDIR", self.path("tmp")).env("REMASTER_STALL_SECONDS", STALL);
        // A run of ten seconds keeps its rates in the cache: that is not something left behind.
        command.env("XDG_CONFIG_HOME", self.path("tmp")).env("XDG_CACHE_HOME", self.path("cache"));
        command.env(MARK, &self.mark).env("RUST_BACKTRACE", "0");
        command.env_remove("REMASTER_FFMPEG");
        command.stdin(Stdio::null());
        // Files, not pipes: a process that is left over must not hold up the test.
        command.stdout(fs::File::create(self.path("stdout")).unwrap());
        command.stderr(fs::File::create(self.path("stderr")).unwrap());
        command.envs(more.iter().map(|(name, value)| (name, value))).spawn().unwrap()
    }

    fn wait(&self, mut child: Child) -> End {
        let code = ended(&mut child, LIMIT);
        if code.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let text = |name| String::from_utf8_lossy(&fs::read(self.path(name)).unwrap()).into_owned();
        End { code, stdout: text("stdout"), stderr: text("stderr") }
    }

    /// Checksums of every frame and packet of the output; of a latent file the file's own bytes.
    fn frames(&self) -> String {
        if self.job.output.ends_with("safetensors") {
            // Latents and times; the header names the place of the input, which every run has of its own.
            let file = fs::read(self.output()).unwrap();
            let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
            let mut hash = DefaultHasher::new();
            file[8 + header..].hash(&mut hash);
            return hash.finish().to_string();
        }
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-i"]).arg(self.output());
        command.args(["-map", "0", "-c:s", "copy", "-f", "framehash", "-"]);
        let out = command.output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        text.lines().map(|l| l.split("  ").next().unwrap_or(l)).collect::<Vec<_>>().join("\n")
    }

    /// Processes of this run that live: number and name.
    fn processes(&self) -> Vec<(String, String)> {
        let mark = format!("{MARK}={}", self.mark);
        let of = |entry: fs::DirEntry| {
            let environ = fs::read(entry.path().join("environ")).ok()?;
            let ours = environ.split(|b| *b == 0).any(|v| v == mark.as_bytes());
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            ours.then(|| (entry.file_name().to_string_lossy().into_owned(), name.trim().to_owned()))
        };
        fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
    }

    /// Makes a folder a disk of some KiB. Only root can.
    fn small_disk(&mut self, name: &str, kib: usize) -> bool {
        let disk = Mounted::new(&self.path(name), &format!("size={kib}k"));
        self.mounts.extend(disk);
        !self.mounts.is_empty()
    }

    fn listing(&self, name: &str) -> Vec<String> {
        let list = fs::read_dir(self.path(name)).into_iter().flatten().flatten();
        list.map(|e| format!("{name}/{}", e.file_name().to_string_lossy())).collect()
    }
}

impl Drop for Rig<'_> {
    fn drop(&mut self) {
        for (id, _) in self.processes() {
            send("KILL", &id);
        }
        // Before the folder that they are in.
        self.mounts.clear();
    }
}

fn send(signal: &str, id: &str) {
    let _ = Command::new("kill").args(["-s", signal, id]).stderr(Stdio::null()).status();
}

/// Does one thing at one moment of a run. What it did, and what came of it that should not have.
fn fault(bench: &Bench, case: usize) -> (String, Vec<String>) {
    let mut rng = Rng::new(0x5eed + case as u64);
    let kind = KINDS[case % KINDS.len()];
    let job = match kind {
        // Only this one spills.
        Kind::SpillFull | Kind::SpillRemoved => 2,
        _ => rng.below(bench.jobs.len()),
    };
    let mut rig = Rig::new(bench, job, &case.to_string());
    let job = rig.job;
    let moment = job.took.mul_f32(rng.unit().abs() * 1.05);
    let mut name = format!("case {case}: {}, {kind:?} after {moment:?}", job.name);
    let mut wrong = Vec::new();

    // Half of the time there is a file already, which a failed run must leave as it is.
    let before = rng.one_in(2);
    let (small, call) = (rng.between(4, 400), rng.between(1, 7));
    let mut environment = Vec::new();
    match kind {
        Kind::OutputFull | Kind::SpillFull => {
            let folder = if kind == Kind::OutputFull { "out" } else { "spill" };
            if !rig.small_disk(folder, small) {
                remaster_testkit::no_disk(&name);
                return (name, wrong);
            }
            name += &format!(", {small} KiB");
        }
        Kind::Wrapper(how) => {
            let real = std::env::var("PATH").unwrap();
            name += &format!(", call {call}");
            environment = vec![
                ("PATH", format!("{}:{real}", rig.path("bin").display())),
                ("REAL_PATH", real),
                ("COUNT", rig.path("count").display().to_string()),
                ("CALL", call.to_string()),
                ("HOW", how.to_owned()),
            ];
        }
        _ => {}
    }
    if before {
        fs::write(rig.output(), "what was there before").unwrap();
    }

    let mut child = rig.start(&environment);
    let (id, started) = (child.id().to_string(), Instant::now());
    while started.elapsed() < moment && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    match kind {
        Kind::KillChild | Kind::StopChild => {
            // There may be no child at that moment: the next one is taken.
            while child.try_wait().unwrap().is_none() {
                let children: Vec<_> = rig.processes().into_iter().filter(|(i, _)| *i != id).collect();
                if !children.is_empty() {
                    let (victim, what) = &children[rng.below(children.len())];
                    send(if kind == Kind::KillChild { "KILL" } else { "STOP" }, victim);
                    name += &format!(" ({what})");
                    break;
                }
            }
        }
        Kind::Signal(signal) => send(signal, &id),
        Kind::SpillRemoved => drop(fs::remove_dir_all(rig.path("spill"))),
        Kind::OutputRemoved => drop(fs::remove_dir_all(rig.path("out"))),
        Kind::InputCut => {
            let file = fs::OpenOptions::new().write(true).open(rig.path(job.input)).unwrap();
            let bytes = file.metadata().unwrap().len();
            file.set_len(bytes * rng.below(100) as u64 / 100).unwrap();
        }
        Kind::OutputFull | Kind::SpillFull | Kind::Wrapper(_) => {}
    }
    let end = rig.wait(child);
    name += &format!(", code {:?} after {:.1} s", end.code, started.elapsed().as_secs_f32());
    check(&rig, kind, before, &end, &mut wrong);
    if !wrong.is_empty() {
        wrong.push(format!("stderr: {}", end.stderr.trim()));
    }
    (name, wrong)
}

/// What must hold after any fault.
fn check(rig: &Rig, kind: Kind, before: bool, end: &End, wrong: &mut Vec<String>) {
    let Some(code) = end.code else {
        wrong.push(format!("still running after {LIMIT:?}"));
        return;
    };
    let interrupted = matches!(kind, Kind::Signal(_)) && code == 130;
    // An ffmpeg that knows no encoder is wrong usage, also if it only says so.
    let usage = matches!(kind, Kind::Wrapper(_)) && code == 2;
    // A full disk is not a failed check.
    let misnamed = kind == Kind::OutputFull && code == 6;
    if code != 0 && !interrupted && !usage && (misnamed || !TYPED.contains(&code)) {
        wrong.push(format!("exit code {code}"));
    }
    // With --json stdout is one document, with the same code.
    match serde_json::from_str::<Value>(&end.stdout) {
        Ok(json) if code == 0 && json["error"].is_null() => {}
        Ok(json) if code != 0 && json["exit_code"] == code && json["error"].is_string() => {}
        _ => wrong.push(format!("stdout: {:?}", end.stdout)),
    }
    // An error is one line with words; a bug looks different.
    let said =
        end.stderr.contains("error: ") || interrupted && end.stderr.lines().any(|line| line == "stopped");
    if code != 0 && !said || end.stderr.contains("internal error") {
        wrong.push("no proper error on stderr".into());
    }

    let listed = [rig.listing("out"), rig.listing("spill"), rig.listing("tmp")].concat();
    let there: Vec<String> = [format!("out/{}", rig.job.output)].into();
    let gone = kind == Kind::OutputRemoved && listed.is_empty();
    if code == 0 {
        if listed != there && !gone {
            wrong.push(format!("files: {listed:?}"));
        } else if !gone && rig.frames() != rig.job.frames {
            wrong.push("exit code 0, but other frames than undisturbed".into());
        }
    } else if listed != if before { there } else { Vec::new() } && !gone {
        wrong.push(format!("files: {listed:?}"));
    } else if before && !gone && fs::read(rig.output()).unwrap() != b"what was there before" {
        wrong.push("the file that was there before is another".into());
    }

    let started = Instant::now();
    while !rig.processes().is_empty() && started.elapsed() < GRACE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let left = rig.processes();
    if !left.is_empty() {
        wrong.push(format!("processes: {left:?}"));
    }
}

#[test]
fn after_any_fault_a_run_ends_in_time_and_leaves_nothing_behind() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
    let from = number("REMASTER_FAULTS_FROM").unwrap_or(0);
    let to = from + number("REMASTER_FAULTS").unwrap_or(nightly(KINDS.len(), 200));
    let bench = bench();
    let failures = Mutex::new(Vec::new());
    // Most runs wait for something: three at a time keep two cores busy.
    in_threads(3, from..to, |case| {
        let (name, wrong) = fault(&bench, case);
        println!("{name}");
        if !wrong.is_empty() {
            failures.lock().unwrap().push(format!("{name}\n    {}", wrong.join("\n    ")));
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), to - from, failures.join("\n"));
}
