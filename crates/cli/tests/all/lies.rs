//! Whole runs on a driver that lies at a random moment: it leaves out a dispatch, a copy or a submission, does half of one,
//! becomes slow, loses the device, has no memory, or dies while it lists its devices. Whatever it does, a run ends in time
//! with the film that it makes on an honest driver, or with a documented error and without a film.
//!
//! 20 lies by default, 200 at night, `REMASTER_LIES` as many as it says. `REMASTER_LIES_FROM` is the first case: each is a
//! function of its number and of how much an honest run dispatches, copies, submits and allocates.
#![cfg(all(feature = "gpu", target_os = "linux"))]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use remaster_testkit::{Liar, Noted, Rng, in_threads, nightly, no_gpu};

use crate::desk::{Desk, LIMIT, bytes, ended, files};

const TEST: &str = "a_driver_that_lies_never_makes_another_film";
/// Exit codes of a failure that is not a bug.
const TYPED: [i32; 4] = [3, 4, 5, 6];

/// Twice each in the gate.
const KINDS: [&str; 10] = [
    "drop-dispatch",
    "cut-dispatch",
    "drop-copy",
    "tear-copy",
    "drop-submit",
    "lose",
    "no-memory",
    "slow",
    "die-listing",
    "cut-dispatch",
];

/// What is run, and what it gives on an honest driver.
struct Job {
    name: &'static str,
    line: &'static str,
    /// With what the honest run kept in its cache: a lie does not meet the first run on a card.
    desk: Desk,
    counts: Noted,
}

fn jobs() -> Option<Vec<Job>> {
    let film = |width: usize, height: usize, frames: usize| {
        let mut rng = Rng::new(4);
        let mut file = format!("YUV4MPEG2 W{width} H{height} F25:1 C420jpeg\n").into_bytes();
        for _ in 0..frames {
            file.extend(b"FRAME\n");
            file.extend((0..width * height * 3 / 2).map(|_| rng.between(16, 235) as u8));
        }
        file
    };
    let upscaled = ("upscaler", "--model anime --resolution 2x", film(32, 24, 6));
    let restored = ("SeedVR2", "SMALL --resolution 1x --dtype f32", film(16, 16, 1));
    [upscaled, restored]
        .into_iter()
        .map(|(name, line, film)| {
            let desk = Desk::new();
            desk.put("in.y4m", film);
            let mut job = Job { name, line, desk, counts: Noted::default() };
            let liar = Liar::new(TEST)?;
            let end = run(&job.desk, &job, &liar);
            assert!(end.code == Some(0) && !end.stderr.contains("warning"), "{name}: {}", end.stderr);
            job.counts = liar.busiest();
            println!("{name}: {:?}", job.counts);
            Some(job)
        })
        .collect()
}

struct End {
    code: Option<i32>,
    stderr: String,
    took: Duration,
}

fn run(desk: &Desk, job: &Job, liar: &Liar) -> End {
    let how = "--device vulkan:0 --no-tune --no-manifest --progress none";
    let mut command = desk.command(&format!("in.y4m -o out.y4m {} {how}", job.line));
    command.envs(liar.env()).env("RUST_BACKTRACE", "0");
    // Files, not pipes: a process that is left over must not hold up the test.
    command.stdout(File::create(desk.join("stdout")).unwrap());
    command.stderr(File::create(desk.join("stderr")).unwrap());
    let began = Instant::now();
    let mut child = command.spawn().unwrap();
    let code = ended(&mut child, LIMIT);
    if code.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let stderr = String::from_utf8_lossy(&bytes(desk, "stderr")).into_owned();
    End { code, stderr, took: began.elapsed() }
}

/// Tells one lie. What it was, what came of it in a word, and what should not have.
fn lie(jobs: &[Job], case: usize) -> (String, &'static str, Vec<String>) {
    let mut rng = Rng::new(0x11e + case as u64);
    let job = &jobs[usize::from(rng.one_in(2))];
    let kind = KINDS[case % KINDS.len()];
    let most = match kind {
        "drop-copy" | "tear-copy" => job.counts.copies,
        "drop-submit" | "lose" => job.counts.submits,
        "no-memory" => job.counts.allocations,
        _ => job.counts.dispatches,
    };
    let told = match kind {
        "die-listing" => kind.to_owned(),
        _ => format!("{kind}@{}", rng.between(1, most)),
    };
    let liar = Liar::new(TEST).unwrap().lies(&told).slow(Duration::from_millis(100));
    let desk = Desk::new();
    copy(&job.desk, &desk, &["in.y4m", "cache"]);
    let end = run(&desk, job, &liar);
    let mut wrong = Vec::new();
    let outcome = match check(&desk, job, kind, &end, &mut wrong) {
        _ if !wrong.is_empty() => "WRONG",
        _ if liar.told().is_empty() => "lie not told",
        0 if end.stderr.contains("warning") => "the film, with a warning",
        0 => "the film",
        _ => "an error",
    };
    if !wrong.is_empty() {
        wrong.push(format!("stderr: {}", end.stderr.trim()));
    }
    let took = end.took.as_secs_f32();
    (format!("case {case}: {}, {told}, code {:?} after {took:.1} s", job.name, end.code), outcome, wrong)
}

/// What must hold after any lie. Returns the exit code.
fn check(desk: &Desk, job: &Job, kind: &str, end: &End, wrong: &mut Vec<String>) -> i32 {
    let Some(code) = end.code else {
        wrong.push(format!("still running after {LIMIT:?}"));
        return -1;
    };
    let film = bytes(&job.desk, "out.y4m");
    if code == 0 {
        if !desk.join("out.y4m").is_file() || bytes(desk, "out.y4m") != film {
            wrong.push("exit code 0, but another film".into());
        }
        return code;
    }
    // A device that was asked for and is not listed is wrong usage.
    let usage = kind == "die-listing" && code == 2;
    if !usage && !TYPED.contains(&code) {
        wrong.push(format!("exit code {code}"));
    }
    if !end.stderr.contains("error: ") || end.stderr.contains("internal error") {
        wrong.push("no proper error on stderr".into());
    }
    if desk.join("out.y4m").exists() {
        wrong.push("an error, and a film in place".into());
        return code;
    }
    // What it kept to go on from is right, too.
    let again = run(desk, job, &Liar::new(TEST).unwrap());
    if again.code != Some(0) || bytes(desk, "out.y4m") != film {
        wrong.push(format!("again, on an honest driver: code {:?}, or another film", again.code));
    }
    code
}

/// Files and folders of one desk to another.
fn copy(from: &Path, to: &Path, names: &[&str]) {
    for name in names {
        let all = if from.join(name).is_dir() { files(&from.join(name)) } else { vec![from.join(name)] };
        for path in all.iter().filter(|path| path.is_file()) {
            let target = to.join(path.strip_prefix(from).unwrap());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(path, target).unwrap();
        }
    }
}

#[test]
fn a_driver_that_lies_never_makes_another_film() {
    let desk = Desk::new();
    let listed = desk.json("devices --json");
    if !listed["devices"].as_array().unwrap().iter().any(|device| device["device"] == "vulkan:0") {
        return no_gpu(TEST);
    }
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
    let from = number("REMASTER_LIES_FROM").unwrap_or(0);
    let to = from + number("REMASTER_LIES").unwrap_or(nightly(2 * KINDS.len(), 200));
    let Some(jobs) = jobs() else { return };
    let outcomes = Mutex::new(BTreeMap::new());
    let failures = Mutex::new(Vec::new());
    in_threads(2, from..to, |case| {
        let (name, outcome, wrong) = lie(&jobs, case);
        println!("{name}: {outcome}");
        *outcomes.lock().unwrap().entry(outcome).or_insert(0) += 1;
        if !wrong.is_empty() {
            failures.lock().unwrap().push(format!("{name}\n    {}", wrong.join("\n    ")));
        }
    });
    let (outcomes, failures) = (outcomes.into_inner().unwrap(), failures.into_inner().unwrap());
    println!("{outcomes:?}");
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), to - from, failures.join("\n"));
    // A run may do a little less than the honest one did, and its moment does not come.
    let missed = outcomes.get("lie not told").copied().unwrap_or(0);
    assert!(missed * 10 <= to - from, "{missed} lies of {} were not told", to - from);
}
