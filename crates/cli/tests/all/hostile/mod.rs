//! Plans, stores and state folders of strangers, made of hostile parts: whatever they hold, a run ends soon, in little
//! memory, with an error or with the right film, and touches nothing outside of its own folders.
#![cfg(target_os = "linux")]

mod parts;
mod traced;

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use remaster_testkit::{Rng, in_threads, nightly};
use rustix::fs::inotify;

use crate::desk::{Desk, bytes, command, document, remove, three_shots, works};
use crate::farm::forge;
use parts::Aims;

/// Cases of the gate, and at night.
const CASES: [usize; 2] = [400, 1000];

/// Longest time of a run, and the memory that it may hold above that of `remaster --version`.
const LONGEST: Duration = Duration::from_secs(5);
const MEMORY: u64 = 64 << 20;

const HOW: &str = "--model identity --vae identity --resolution 48 --unit-frames 12 --piece-frames 12 --device cpu --threads 1";

/// What no run may touch.
const CANARY: [&str; 4] = ["canary/file", "canary/other", "canary/folder/plan.json", "canary/folder/lock"];

/// What all cases share: work of an honest run, the film that it makes, and what no run may touch.
struct Ground {
    root: Desk,
    film: Vec<u8>,
    watch: OwnedFd,
    listener: TcpListener,
    least: u64,
}

impl Ground {
    fn new() -> Self {
        let root = Desk::new();
        let honest = root.join("honest");
        for name in ["honest", "cases"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        for name in CANARY {
            root.put(name, b"precious");
        }
        three_shots(&honest, [7, 6, 3], "film.mkv");
        works(&honest, &format!("plan film.mkv -o out.mkv --store store {HOW}"));
        works(&honest, "unit run --plan store --input film.mkv --index 0 --device cpu");
        works(&honest, &format!("film.mkv -o out.mkv {HOW} --keep --checkpoint 0s"));
        let film = bytes(&honest, "out.mkv");
        for name in ["out.mkv", "out.mkv.manifest.json", "out.mkv.remaster/store/units/000001/done.json"] {
            remove(&honest, name);
        }
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        for name in ["canary", "canary/folder"] {
            // A folder's watch tells of the files in it, too.
            let all = inotify::WatchFlags::OPEN
                | inotify::WatchFlags::ACCESS
                | inotify::WatchFlags::MODIFY
                | inotify::WatchFlags::ATTRIB
                | inotify::WatchFlags::CREATE
                | inotify::WatchFlags::DELETE
                | inotify::WatchFlags::MOVE;
            inotify::add_watch(&watch, root.join(name), all).unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut ground = Ground { film, watch, listener, least: 0, root };
        ground.least = ground.run(&honest, &mut command(&honest, "--version")).memory;
        ground
    }

    /// Runs it, however long it takes; never forever.
    fn run(&self, desk: &Path, command: &mut Command) -> Ran {
        let log = desk.join("said");
        let file = std::fs::File::create(&log).unwrap();
        let began = Instant::now();
        let mut child =
            command.env("HOME", desk).env("TMPDIR", desk).stdout(Stdio::null()).stderr(file).spawn().unwrap();
        let mut memory = 0;
        let code = loop {
            memory = memory.max(highest(child.id()));
            if let Some(status) = child.try_wait().unwrap() {
                break status.code();
            }
            if began.elapsed() > 6 * LONGEST {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let said = String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned();
        Ran { code, took: began.elapsed(), memory, said }
    }

    /// A folder of its own with the film, and one hostile thing in the work that it holds.
    fn case(&self, seed: usize) -> Case {
        let mut rng = Rng::new(seed as u64);
        let (honest, desk) = (self.root.join("honest"), self.root.join(format!("cases/{seed}")));
        std::fs::create_dir(&desk).unwrap();
        std::fs::hard_link(honest.join("film.mkv"), desk.join("film.mkv")).unwrap();
        let address = self.listener.local_addr().unwrap().to_string();
        let aims = Aims { canary: &self.root.join("canary"), address: &address };
        // A run that starts over takes longest.
        let local = rng.one_in(4);
        let work = desk.join(if local { "out.mkv.remaster" } else { "store" });
        let copied =
            Command::new("cp").arg("-a").arg(honest.join(work.file_name().unwrap())).arg(&work).status();
        assert!(copied.unwrap().success());
        let mut about = Vec::new();
        let forged = rng.one_in(2);
        if forged {
            let plan = if local { "store/plan.json" } else { "plan.json" };
            let mut sealed = document(&work, plan);
            for _ in 0..1 + rng.below(3) {
                aims.spoil(&mut rng, &mut sealed["body"]);
            }
            forge(&work.join(plan), sealed["body"].take());
            about.push("forged".to_owned());
        }
        if !forged || rng.one_in(4) {
            about.extend((0..1 + rng.below(3)).map(|_| aims.plant(&mut rng, &work, !local)));
        }
        let lines = [
            "unit run --plan store --input film.mkv --index 1 --device cpu --threads 1",
            "unit run --plan store --input film.mkv --index missing --device cpu --threads 1",
            "unit status --plan store",
            "assemble --plan store --input film.mkv -o out.mkv",
        ];
        let line = match local {
            true => format!("film.mkv -o out.mkv {HOW} --checkpoint 0s"),
            false if rng.one_in(5) => format!("plan film.mkv -o out.mkv --store store {HOW}"),
            false => rng.pick(&lines).to_owned(),
        };
        let about = format!("case {seed}: {line}: {}", about.join(", "));
        Case { desk, about, line, film_is_known: local || !forged }
    }

    /// What is wrong with how a case ended.
    fn judge(&self, case: &Case, ran: &Ran) -> Vec<String> {
        let mut wrong = Vec::new();
        // A code of our own: no signal, no panic.
        if !matches!(ran.code, Some(0 | 2..=6)) {
            wrong.push(format!("ended with {:?}", ran.code));
        }
        if ran.took > LONGEST {
            wrong.push(format!("took {:?}", ran.took));
        }
        if ran.memory > self.least + MEMORY {
            wrong.push(format!("held {} MiB, the program {} MiB", ran.memory >> 20, self.least >> 20));
        }
        let film = case.desk.join("out.mkv");
        if film.exists() && (case.film_is_known && std::fs::read(film).unwrap() != self.film) {
            wrong.push("made another film".to_owned());
        }
        if ran.code == Some(0) && case.line.starts_with("film.mkv") && !case.desk.join("out.mkv").is_file() {
            wrong.push("made no film".to_owned());
        }
        wrong.extend(self.touched().map(|what| format!("the canary was touched: {what}")));
        if self.listener.accept().is_ok() {
            wrong.push("opened a connection".to_owned());
        }
        wrong
    }

    /// What changed in the tree that no run may touch.
    fn touched(&self) -> Option<String> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.watch, &mut buffer);
        let event = events.next().ok()?;
        Some(format!("{:?} {:?}", event.events(), event.file_name()))
    }
}

struct Case {
    desk: PathBuf,
    line: String,
    about: String,
    /// Only a forged plan of a store may ask for another film.
    film_is_known: bool,
}

struct Ran {
    code: Option<i32>,
    took: Duration,
    memory: u64,
    said: String,
}

/// The most that a process held so far; 0 once it has ended.
fn highest(id: u32) -> u64 {
    crate::tree::status(id, "VmHWM:")
}

#[test]
fn hostile_plans_stores_and_state_folders_do_nothing_but_fail() {
    let ground = Ground::new();
    let cases = nightly(CASES[0], CASES[1]);
    let wrong = Mutex::new(Vec::new());
    let codes: Mutex<BTreeMap<Option<i32>, usize>> = Mutex::default();
    let (longest, most) = (Mutex::new(Duration::ZERO), Mutex::new(0));
    let began = Instant::now();
    in_threads(2, 0..cases, |seed| {
        let try_it = || {
            let case = ground.case(seed);
            let ran = ground.run(&case.desk, &mut command(&case.desk, &case.line));
            (case, ran)
        };
        let (mut case, mut ran) = try_it();
        // Tried twice: a busy machine is slow once, a run that blocks is slow again.
        if ran.took > LONGEST {
            std::fs::remove_dir_all(&case.desk).unwrap();
            (case, ran) = try_it();
        }
        *codes.lock().unwrap().entry(ran.code).or_default() += 1;
        let (mut longest, mut most) = (longest.lock().unwrap(), most.lock().unwrap());
        (*longest, *most) = (longest.max(ran.took), ran.memory.max(*most));
        let faults = ground.judge(&case, &ran);
        if !faults.is_empty() {
            let faults = faults.join("; ");
            wrong.lock().unwrap().push(format!("{}: {faults}: {}", case.about, ran.said));
        }
        std::fs::remove_dir_all(&case.desk).unwrap();
    });
    println!(
        "{cases} cases in {:.0} s, ended with {:?}; the longest took {:.2} s, the largest held {} MiB of {}",
        began.elapsed().as_secs_f64(),
        codes.into_inner().unwrap(),
        longest.into_inner().unwrap().as_secs_f64(),
        most.into_inner().unwrap() >> 20,
        (ground.least + MEMORY) >> 20,
    );
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {cases} went wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(ground.root.names(), ["canary", "cases", "honest"]);
    for name in CANARY {
        assert_eq!(bytes(&ground.root, name), b"precious");
    }
}
