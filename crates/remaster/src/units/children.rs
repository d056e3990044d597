//! Units on several devices at once: a process for each unit, which is watched, told to wait or to stop, and never left
//! behind.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use remaster_media::spawn_tied;
use serde::Deserialize;

use super::members::Member;
use super::scheduler::{Failure, Scheduler, Task};
use super::state::State;
use super::todo::Todo;
use crate::control::lock;
use crate::error::{Class, Error};
use crate::event::{PHASES, Reporter};
use crate::restore::Staged;
use crate::worker::{WorkerProgram, word};

/// Bytes of what a child says in one piece.
const MOST: u64 = 64 << 10;

/// Poll interval for pause, stop and cancellation.
const LOOK: Duration = Duration::from_millis(50);

/// What all children together get to clean up.
const PATIENCE: Duration = Duration::from_secs(1);

/// The signal with which a system ends a process that cannot object.
#[cfg(unix)]
const KILLED: i32 = 9;

/// Children that run, by the number of their device; the interrupt ends them.
type Running = Arc<Mutex<BTreeMap<usize, Child>>>;

/// What a child says.
enum Said {
    /// It works on its unit.
    Began,
    /// So many frames of a phase, by its number, are done.
    Frames(usize, usize),
    /// So many frames of its unit would not be lost.
    Saved(usize),
    Warning(String),
    Ended(Result<(), Failure>),
}

/// What a parent tells its workers through their stdin, a byte each. The end of it means to end at once.
pub mod told {
    /// To wait.
    pub const PAUSE: u8 = b'p';
    /// To go on.
    pub const RESUME: u8 = b'r';
    /// To stop as soon as the work is saved.
    pub const STOP: u8 = b's';
}

/// Does units on all devices; `reached` frames are done.
pub(super) fn run(
    (stage, state): (&Staged, &State),
    (worker, members, scheduler): (&WorkerProgram, &[Member], &mut Scheduler),
    (units, reached): (Vec<Todo>, usize),
    report: &Reporter<'_>,
) -> Result<(), Error> {
    let running = Running::default();
    let on_exit = Arc::clone(&running);
    let _pending = stage.control.on_abort(move || end_all(&on_exit));
    let (tell, heard) = channel();
    scheduler.add(units.iter().map(|todo| todo.unit));
    let dispatcher = Dispatcher {
        stage,
        state,
        worker,
        members,
        scheduler,
        seen: units.iter().map(|todo| (todo.unit, PHASES.map(|_| todo.adopted))).collect(),
        units: units.into_iter().map(|todo| (todo.unit, todo)).collect(),
        reached: PHASES.map(|_| reached),
        before: reached,
        saved: BTreeMap::new(),
        running: Arc::clone(&running),
        tell,
        at: BTreeMap::new(),
        warned: Vec::new(),
    };
    let done = dispatcher.all(&heard, report);
    end_all(&running);
    done
}

/// Ends all children: they are asked together, and have one second together.
fn end_all(running: &Running) {
    let mut children: Vec<Child> = std::mem::take(&mut *lock(running)).into_values().collect();
    // The end of its stdin asks a child to clean up.
    children.iter_mut().for_each(|child| drop(child.stdin.take()));
    let asked = Instant::now();
    while asked.elapsed() < PATIENCE {
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        if children.is_empty() {
            return;
        }
        std::thread::sleep(LOOK / 5);
    }
    for mut child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
}

struct Dispatcher<'a> {
    stage: &'a Staged,
    state: &'a State,
    worker: &'a WorkerProgram,
    members: &'a [Member],
    scheduler: &'a mut Scheduler,
    units: BTreeMap<u32, Todo>,
    /// Frames that are done, by phase: of all units, and of each. What is made twice counts once.
    reached: [usize; PHASES.len()],
    seen: BTreeMap<u32, [usize; PHASES.len()]>,
    /// Frames that were there before, and those that were saved of each unit since.
    before: usize,
    saved: BTreeMap<u32, usize>,
    running: Running,
    tell: Sender<(usize, Said)>,
    /// What each device does, whether it began, and when it was heard last.
    at: BTreeMap<usize, (Task, bool, Duration)>,
    /// What was said already: each child may say the same.
    warned: Vec<String>,
}

impl Dispatcher<'_> {
    fn all(mut self, heard: &Receiver<(usize, Said)>, report: &Reporter<'_>) -> Result<(), Error> {
        let control = &self.stage.control;
        let (mut stopping, mut waiting) = (false, false);
        loop {
            control.check()?;
            if !stopping && control.should_stop() {
                stopping = true;
                self.say(told::STOP);
            }
            if waiting != control.is_paused() && !stopping {
                waiting = control.is_paused();
                self.say(if waiting { told::PAUSE } else { told::RESUME });
            }
            let mut free = !stopping && !waiting;
            while free {
                let next = self.scheduler.next();
                free = next.is_some();
                if let Some((device, task)) = next {
                    self.start(device, task, report)?;
                }
            }
            if !self.scheduler.is_busy() && (stopping || !self.scheduler.has_more()) {
                break;
            }
            match heard.recv_timeout(LOOK) {
                Ok((device, said)) => self.heard(device, said, stopping, report)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
        if self.scheduler.has_more() { Err(Error::Until) } else { Ok(()) }
    }

    /// Tells all children something. Who cannot be told any more is ending.
    fn say(&self, byte: u8) {
        for child in lock(&self.running).values_mut() {
            let _ = child.stdin.as_mut().map(|stdin| stdin.write_all(&[byte]));
        }
    }

    fn heard(
        &mut self,
        device: usize,
        said: Said,
        stopping: bool,
        report: &Reporter<'_>,
    ) -> Result<(), Error> {
        let Some((task, began, last)) = self.at.get_mut(&device) else { return Ok(()) };
        let unit = task.unit();
        match said {
            Said::Began => *began = true,
            Said::Frames(phase, frames) => {
                let now = report.worked(&self.stage.control);
                let busy = now.saturating_sub(std::mem::replace(last, now));
                if let Some(new) = self.count(unit, phase, frames) {
                    report.advance_elsewhere(PHASES[phase], new, busy);
                }
            }
            Said::Saved(frames) => {
                if let Some(todo) = self.units.get(&unit) {
                    self.saved.insert(unit, frames.min(todo.frames).saturating_sub(todo.adopted));
                    self.save(report);
                }
            }
            Said::Warning(text) => {
                if !self.warned.contains(&text) {
                    report.warn(&text);
                    self.warned.push(text);
                }
            }
            Said::Ended(Ok(())) => {
                // Frames that were in the store are not made.
                for (phase, name) in PHASES.into_iter().enumerate() {
                    self.count(unit, phase, usize::MAX);
                    report.reach(name, self.reached[phase]);
                }
                if let Some(todo) = self.units.get(&unit) {
                    self.saved.insert(unit, todo.frames - todo.adopted);
                    self.save(report);
                }
                self.at.remove(&device);
                self.scheduler.done(device);
            }
            Said::Ended(Err(failure)) => {
                let began = *began;
                self.at.remove(&device);
                let stopped = failure.class == Class::Stopped;
                if stopped && !stopping {
                    // Ctrl-C reaches all processes of a terminal, this one maybe a moment later.
                    std::thread::sleep(2 * LOOK);
                }
                if stopped && (stopping || self.stage.control.is_cancelled()) {
                    self.scheduler.stopped(device);
                } else {
                    let reaction = self.scheduler.failed(device, Failure { began, ..failure })?;
                    reaction.warning.iter().for_each(|warning| report.warn(warning));
                    reaction.end.into_iter().for_each(|device| self.end(device));
                }
            }
        }
        Ok(())
    }

    /// Tells what is saved of all units together.
    fn save(&self, report: &Reporter<'_>) {
        let frames = self.before + self.saved.values().sum::<usize>();
        report.phases().iter().for_each(|phase| report.save(phase, frames));
    }

    /// Ends a child whose work is not used. The thread that listens to it hears of that.
    fn end(&self, device: usize) {
        if let Some(child) = lock(&self.running).get_mut(&device) {
            let _ = child.kill();
        }
    }

    /// Counts the frames of a unit's phase that are new.
    fn count(&mut self, unit: u32, phase: usize, frames: usize) -> Option<usize> {
        let all = self.units.get(&unit)?.frames;
        let seen = self.seen.get_mut(&unit)?.get_mut(phase)?;
        let new = frames.min(all).saturating_sub(*seen);
        *seen += new;
        *self.reached.get_mut(phase)? += new;
        (new > 0).then_some(new)
    }

    /// Starts a child and a thread that listens to it.
    fn start(&mut self, device: usize, task: Task, report: &Reporter<'_>) -> Result<(), Error> {
        let mut command = self.worker.command();
        command.args(self.words(device, task));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn_tied(&mut command).map_err(Error::reading(&self.worker.program))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        lock(&self.running).insert(device, child);
        self.at.insert(device, (task, false, report.worked(&self.stage.control)));
        let (tell, running) = (self.tell.clone(), Arc::clone(&self.running));
        // It prints its result at its end, into a pipe that holds more than that.
        let listen = move || {
            if let Some(stderr) = stderr {
                follow(stderr, &|said| drop(tell.send((device, said))));
            }
            let mut result = Vec::new();
            if let Some(stdout) = stdout {
                let _ = stdout.take(MOST).read_to_end(&mut result);
            }
            let _ = tell.send((device, Said::Ended(ended(&running, device, &result))));
        };
        let listening = std::thread::Builder::new().name("child".into()).spawn(listen);
        listening.map(drop).map_err(Error::reading(&self.worker.program))
    }

    /// What a child is started with. Whatever a person chose stands behind `=`, so that it is no option.
    fn words(&self, device: usize, task: Task) -> Vec<OsString> {
        let (request, film) = (&self.stage.request, &self.stage.film);
        let (how, units) = (&request.how, &request.units);
        let [model, vae] = &film.networks.names;
        let mut words: Vec<OsString> =
            ["unit", "run", "--json", "--progress=json", "--cancel-on-stdin-close", "--obey-stdin"]
                .map(Into::into)
                .into();
        let less = matches!(task, Task::Restore { less: true, .. });
        let share = |bytes: u64| if less { bytes / 2 } else { bytes };
        words.extend([
            word("--plan", self.state.place_of_store()),
            word("--index", task.unit().to_string()),
            word("--checkpoint", format!("{}s", units.checkpoint.as_secs())),
            word("--wait-disk", format!("{}s", units.wait_disk.as_secs())),
            word("--input", &request.input),
            word("--temp", self.state.scratch()),
            word("--model", model),
            // All that a config file says is in these words already.
            word("--config", NO_FILE),
        ]);
        if let Some(member) = self.members.get(device) {
            words.extend(member.words(share));
        }
        words.extend(film.networks.diffusion().map(|_| word("--vae", vae)));
        words.extend(film.networks.text.as_deref().map(|text| word("--text", text)));
        words.extend(how.models.folder.as_deref().map(|dir| word("--model-dir", dir)));
        words.extend(how.limits.spill.as_deref().map(|folder| word("--spill", folder)));
        words.extend(how.device.words().into_iter().map(Into::into));
        words.extend(how.source.programs.words());
        // Its workers may run what was typed for this run, and nothing else.
        words.extend(how.source.scripts.allow(&request.input).then(|| "--script".into()));
        words.extend(how.source.filters.as_ref().map(|filters| word("--vf", filters.text())));
        words.extend(request.target.encoder.as_ref().map(|encoding| word("--video", encoding.text())));
        words.extend(matches!(task, Task::PassThrough { .. }).then(|| "--leave".into()));
        words
    }
}

/// A file without a word in it.
const NO_FILE: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

/// A line of a child's progress.
#[derive(Deserialize)]
struct Line {
    event: String,
    #[serde(default)]
    phase: String,
    #[serde(default)]
    done: usize,
    #[serde(default)]
    frames: usize,
    #[serde(default)]
    text: String,
}

/// Reads what a child says until it says no more.
fn follow(stderr: ChildStderr, tell: &dyn Fn(Said)) {
    let mut from = BufReader::new(stderr);
    let mut text = Vec::new();
    loop {
        text.clear();
        match from.by_ref().take(MOST).read_until(b'\n', &mut text) {
            Ok(1..) => {}
            _ => return,
        }
        // What else writes there is a driver, or a system that is out of memory.
        let Ok(line) = serde_json::from_slice::<Line>(&text) else { continue };
        match line.event.as_str() {
            "phase" => tell(Said::Began),
            "progress" => {
                if let Some(phase) = PHASES.iter().position(|phase| *phase == line.phase) {
                    tell(Said::Frames(phase, line.done));
                }
            }
            "saved" => tell(Said::Saved(line.frames)),
            "warning" => tell(Said::Warning(line.text)),
            _ => {}
        }
    }
}

/// The error of a child's JSON document.
#[derive(Default, Deserialize)]
struct Document {
    #[serde(default)]
    error: String,
    #[serde(default)]
    kind: String,
}

/// Waits for a child that says no more. One that is gone was ended elsewhere.
fn ended(running: &Running, device: usize, result: &[u8]) -> Result<(), Failure> {
    let gone = |reason: String| Failure { class: Class::Device, kind: String::new(), reason, began: false };
    let status = loop {
        let mut running = lock(running);
        let child = running.get_mut(&device).ok_or_else(|| gone("it was ended".into()))?;
        match child.try_wait() {
            Ok(Some(status)) => {
                running.remove(&device);
                break status;
            }
            Ok(None) => {}
            Err(error) => return Err(gone(error.to_string())),
        }
        drop(running);
        std::thread::sleep(LOOK / 5);
    };
    if status.success() {
        return Ok(());
    }
    let Document { error, kind } = serde_json::from_slice(result).unwrap_or_default();
    let class = class_of(status);
    let reason = match (error.is_empty(), class) {
        (false, _) => error,
        (true, Class::Memory) => format!(
            "its process was killed ({status}), as systems do that run out of memory; use a smaller --ram or fewer devices"
        ),
        (true, _) => format!("its process ended with {status}"),
    };
    Err(Failure { class, kind, reason, began: false })
}

/// How a process failed. Systems that are out of memory kill processes; what else ends one by a signal is a driver that crashed.
fn class_of(status: ExitStatus) -> Class {
    #[cfg(unix)]
    if std::os::unix::process::ExitStatusExt::signal(&status) == Some(KILLED) {
        return Class::Memory;
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.and_then(Class::of_exit_code).unwrap_or(Class::Device)
}
