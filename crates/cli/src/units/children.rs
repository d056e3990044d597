//! Units on several devices at once: one process for each, which takes the next unit when it is done with one.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::state::State;
use crate::args::word;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::restore::{PHASES, Staged};

/// Attempts at a unit. The last one is made with less memory.
const TRIES: u32 = 3;

/// Bytes of what a child says that are kept.
const WORDS: u64 = 64 << 10;

/// How often children are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Children that run, by the number of their device; the interrupt ends them.
type Running = Arc<Mutex<BTreeMap<usize, Child>>>;

/// How a child ended.
struct Ended {
    device: usize,
    unit: u32,
    /// What went wrong; `None` if the unit is done.
    failed: Option<String>,
}

/// Does units on all devices. The first unit that no attempt could do ends it, unless the film goes on without.
pub(super) fn run(
    stage: &Staged<'_>,
    state: &State,
    todo: Vec<u32>,
    stop: &dyn Fn() -> bool,
    progress: &mut Progress,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    let devices = &stage.args.local.devices;
    let running = Running::default();
    let on_exit = Arc::clone(&running);
    let _pending = interrupt.pending(move || end_all(&on_exit));
    let (tell, ended) = channel();
    let mut pool = Pool {
        stage,
        state,
        running: Arc::clone(&running),
        tell,
        left: todo.into_iter().collect(),
        tries: BTreeMap::new(),
        busy: 0,
    };
    PHASES.into_iter().for_each(|phase| progress.phase(phase, Some(0)));
    progress.phase("units", Some(pool.left.len()));
    progress.enter("units");
    let done = pool.work(devices, &ended, stop, progress);
    end_all(&running);
    done
}

fn end_all(running: &Running) {
    let children = std::mem::take(&mut *running.lock().unwrap_or_else(PoisonError::into_inner));
    for mut child in children.into_values() {
        // Closing its stdin asks it to clean up; it has a second.
        drop(child.stdin.take());
        for _ in 0..20 {
            if !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

struct Pool<'a> {
    stage: &'a Staged<'a>,
    state: &'a State,
    running: Running,
    tell: Sender<Ended>,
    left: VecDeque<u32>,
    tries: BTreeMap<u32, u32>,
    busy: usize,
}

impl Pool<'_> {
    fn work(
        &mut self,
        devices: &[String],
        ended: &Receiver<Ended>,
        stop: &dyn Fn() -> bool,
        progress: &mut Progress,
    ) -> Result<(), CliError> {
        for device in 0..devices.len() {
            self.start(device, false)?;
        }
        while self.busy > 0 {
            if self.stage.cancel.is_cancelled() {
                return Err(CliError::Interrupted);
            }
            let Ok(Ended { device, unit, failed }) = ended.recv_timeout(LOOK) else { continue };
            self.busy -= 1;
            let mut leave = None;
            match failed {
                None => progress.advance("units", 1, Duration::ZERO),
                Some(reason) => {
                    let tries = self.tries.entry(unit).or_default();
                    *tries += 1;
                    let name = devices.get(device).map_or("", String::as_str);
                    if *tries < TRIES {
                        progress.warn(format!("unit {unit} failed on {name}, trying again: {reason}"));
                        self.left.push_front(unit);
                    } else if self.stage.args.local.keep_going && *tries == TRIES {
                        progress.warn(format!("unit {unit} keeps its input frames: {reason}"));
                        leave = Some(unit);
                    } else {
                        return Err(CliError::UnitFailed { unit, tries: *tries, reason });
                    }
                }
            }
            if let Some(unit) = leave {
                self.left.push_front(unit);
                self.start(device, true)?;
            } else if !stop() {
                self.start(device, false)?;
            }
        }
        match self.left.is_empty() {
            true => Ok(()),
            false => Err(CliError::Until),
        }
    }

    /// Gives the next unit to a device.
    fn start(&mut self, device: usize, leave: bool) -> Result<(), CliError> {
        let Some(unit) = self.left.pop_front() else { return Ok(()) };
        let tries = self.tries.get(&unit).copied().unwrap_or(0);
        let program = std::env::current_exe()
            .map_err(|source| CliError::Read { path: "the program itself".into(), source })?;
        let mut child = Command::new(&program)
            .args(self.words(device, unit, tries, leave)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| CliError::Read { path: program, source })?;
        let mut stderr = child.stderr.take();
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(device, child);
        self.busy += 1;
        let (tell, running) = (self.tell.clone(), Arc::clone(&self.running));
        std::thread::spawn(move || {
            let mut said = Vec::new();
            if let Some(stderr) = &mut stderr {
                let _ = stderr.by_ref().take(WORDS).read_to_end(&mut said);
                // What is beyond is of no use, but a full pipe would stop the child.
                let _ = std::io::copy(stderr, &mut std::io::sink());
            }
            let failed = loop {
                let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
                // Gone: somebody ends all children.
                let Some(child) = running.get_mut(&device) else { return };
                match child.try_wait() {
                    Ok(Some(status)) => {
                        running.remove(&device);
                        break (!status.success()).then(|| reason(&said, &status.to_string()));
                    }
                    Ok(None) => {}
                    Err(error) => break Some(error.to_string()),
                }
                drop(running);
                std::thread::sleep(LOOK);
            };
            let _ = tell.send(Ended { device, unit, failed });
        });
        Ok(())
    }

    /// What a child is started with.
    fn words(&self, device: usize, unit: u32, tries: u32, leave: bool) -> Result<Vec<OsString>, CliError> {
        let args = self.stage.args;
        let devices = &args.local.devices;
        let share = devices.len().max(1);
        let mut words: Vec<OsString> =
            ["unit", "run", "-q", "--cancel-on-stdin-close"].map(Into::into).into();
        let mut pair = |name: &str, value: OsString| words.extend([name.into(), value]);
        pair("--plan", self.state.place_of_store().into());
        pair("--index", unit.to_string().into());
        pair("--device", devices.get(device).cloned().unwrap_or_default().into());
        pair("--checkpoint", format!("{}s", args.local.checkpoint.as_secs()).into());
        pair("--wait-disk", format!("{}s", args.local.wait_disk.as_secs()).into());
        pair("--input", args.input.clone().into());
        pair("--temp", self.state.scratch().into());
        // All children together stay within what one run may use; a unit that failed twice gets half.
        let share = if tries + 1 >= TRIES { 2 * share } else { share };
        words.extend(machine_words(self.stage, share as u64)?);
        words.extend(leave.then(|| "--leave".into()));
        Ok(words)
    }
}

/// Options that differ from machine to machine, for a process that gets a share of the memory and the disk.
fn machine_words(stage: &Staged<'_>, share: u64) -> Result<Vec<OsString>, CliError> {
    let (how, film) = (&stage.args.how, &stage.film);
    let [model, vae] = &film.networks.names;
    let (ram, disk) = (how.memory.allowed(true)? / share, film.room.bytes / share);
    let mut words = vec![
        word("--model", model),
        word("--vae", vae),
        word("--ram", format!("{}M", ram >> 20)),
        word("--disk", format!("{}M", disk >> 20)),
    ];
    words.extend(film.networks.text.as_deref().map(|text| word("--text", text)));
    words.extend(how.models.dirs.model_dir.as_deref().map(|dir| word("--model-dir", dir)));
    words.extend(how.memory.spill_folder().map(|folder| word("--spill", folder)));
    words.extend(how.device.words().into_iter().map(Into::into));
    words.extend(how.source.programs.words());
    Ok(words)
}

/// The last line that a child said, or how it ended.
fn reason(said: &[u8], status: &str) -> String {
    let text = String::from_utf8_lossy(said);
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.map_or_else(
        || format!("it ended with {status}"),
        |line| line.strip_prefix("error: ").unwrap_or(line).chars().take(500).collect(),
    )
}
