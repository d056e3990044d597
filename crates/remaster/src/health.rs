//! Whether this machine has what runs need: one line per part, each with a next step if something is missing.

use remaster_compute::Backend;
use remaster_media::{ENCODERS, Tools};
use remaster_plan::bytes;
use serde::Serialize;

use crate::control::Control;
use crate::error::Error;
use crate::machine::host::Machine;
use crate::machine::{devices, spill};
use crate::media::Programs;
use crate::models;

/// One part of the machine.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Check {
    /// Which.
    pub name: &'static str,
    /// It can be used.
    pub ok: bool,
    /// What was found.
    pub text: String,
    /// What to do about a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Check {
    /// A part that can be used.
    pub fn ok(name: &'static str, text: impl Into<String>) -> Self {
        Check { name, ok: true, text: text.into(), next: None }
    }

    /// A part that cannot, and what to do.
    pub fn problem(name: &'static str, text: impl Into<String>, next: impl Into<String>) -> Self {
        Check { name, ok: false, text: text.into(), next: Some(next.into()) }
    }

    /// `ok       ffmpeg    7.0.2 (/usr/bin/ffmpeg)`
    pub fn line(&self) -> String {
        let status = if self.ok { "ok" } else { "PROBLEM" };
        let next = self.next.as_ref().map(|n| format!("; {n}")).unwrap_or_default();
        format!("{status:8} {:9} {}{next}\n", self.name, self.text)
    }
}

/// The weights of the published VAE in f32 take 1 GiB, and its smallest runs a few hundred MiB more.
const LEAST_MEMORY: u64 = 2 << 30;
/// Below this nothing is left for temporary data: `--disk` leaves 1 GiB free by default.
const LEAST_DISK: u64 = 2 << 30;

/// Checks the device, its driver, ffmpeg and its encoders, model files, disk and memory.
pub fn health(backend: &Backend, programs: &Programs, machine: &Machine, control: &Control) -> Vec<Check> {
    let tools = programs.find(control);
    let mut checks = vec![device(backend), driver()];
    checks.extend(ffmpeg(tools));
    checks.extend([models(machine), disk(machine), memory(machine)]);
    checks
}

fn device(backend: &Backend) -> Check {
    let text = match backend {
        Backend::Cpu { threads, path } => format!("cpu: {threads} threads, {path} kernels"),
        Backend::Reference => "reference: naive loops, very slow".into(),
        #[cfg(feature = "gpu")]
        Backend::Gpu(device) => device.to_string(),
    };
    Check::ok("device", text)
}

fn driver() -> Check {
    let (usable, others) = devices::gpu_names();
    match (&usable[..], &others[..]) {
        ([], []) => Check::ok("driver", "no GPU found; runs use the CPU"),
        ([], [first, ..]) => {
            Check::problem("driver", first.clone(), "update the driver, or ignore this and use the CPU")
        }
        (names, _) => Check::ok("driver", names.join(", ")),
    }
}

fn ffmpeg(tools: Result<Tools, Error>) -> [Check; 2] {
    let tools = match tools {
        Ok(tools) => tools,
        Err(error) => {
            let next = "without ffmpeg only images and y4m work";
            let skipped = Check::problem("encoders", "not checked", "install ffmpeg first");
            return [Check::problem("ffmpeg", error.to_string(), next), skipped];
        }
    };
    let [(program, version), _] = tools.versions();
    let text = format!("{version} ({})", program.display());
    let found = match tools.note() {
        Some(note) => Check::ok("ffmpeg", format!("{text}; {note}")),
        None => Check::ok("ffmpeg", text),
    };
    let encoders = match tools.encoders() {
        Err(error) => Check::problem("encoders", error.to_string(), "reinstall ffmpeg"),
        Ok(all) => {
            let missing: Vec<&str> = ENCODERS.into_iter().filter(|e| !all.iter().any(|a| a == e)).collect();
            match missing.is_empty() {
                true => Check::ok("encoders", ENCODERS.join(", ")),
                false => Check::problem(
                    "encoders",
                    format!("missing {}", missing.join(", ")),
                    "install an ffmpeg with them, or choose another encoder with --video",
                ),
            }
        }
    };
    [found, encoders]
}

fn models(machine: &Machine) -> Check {
    match models::ready(machine) {
        Err(error @ Error::NotInstalled { .. }) => {
            let text = error.to_string();
            let (what, next) = text.split_once("; ").unwrap_or((&text, ""));
            Check::problem("models", what, next)
        }
        Err(error) => Check::problem("models", error.to_string(), "correct $REMASTER_MODEL_DIR"),
        Ok(files) => {
            let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            Check::ok("models", names.join(", "))
        }
    }
}

fn disk(machine: &Machine) -> Check {
    let next = "free some space, or use another folder with --spill";
    match spill::choose(None, None, machine) {
        Err(error) => Check::problem("disk", error.to_string(), next),
        Ok(spill) if spill.none => {
            Check::problem("disk", "no folder on a disk for temporary data", "name one with --spill")
        }
        Ok(spill) => match machine.free_space(&spill.folder) {
            None => Check::ok("disk", format!("temporary data goes to {}", spill.folder.display())),
            Some(free) => {
                let text = format!("{} free for temporary data in {}", bytes(free), spill.folder.display());
                if free < LEAST_DISK { Check::problem("disk", text, next) } else { Check::ok("disk", text) }
            }
        },
    }
}

fn memory(machine: &Machine) -> Check {
    let memory = machine.memory();
    match (memory.free, memory.total) {
        (Some(free), Some(total)) => {
            let text = format!("{} of {} free", bytes(free), bytes(total));
            match free < LEAST_MEMORY {
                true => Check::problem("memory", text, "close other programs; small clips may still run"),
                false => Check::ok("memory", text),
            }
        }
        _ => Check::ok("memory", "not reported by this system; set --ram"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_models_are_said_in_the_words_of_a_run() {
        let bare = Machine::this().without_environment();
        let check = models(&bare);
        let error = models::installed("3b", None, &bare).unwrap_err().to_string();
        assert_eq!(Some(error), check.next.map(|next| format!("{}; {next}", check.text)));
    }

    #[test]
    fn a_problem_comes_with_a_next_step() {
        let tools = Tools::find(
            Some("/nowhere/ffmpeg".as_ref()),
            remaster_media::Stop::never(),
            remaster_media::Secrets::default(),
        );
        let checks = ffmpeg(tools.map_err(Into::into));
        assert!(checks.iter().all(|c| !c.ok && c.next.is_some()), "{checks:?}");
        assert!(checks[0].line().starts_with("PROBLEM  ffmpeg    cannot start /nowhere/ffmpeg"));
        assert_eq!(Check::ok("disk", "fine").line(), "ok       disk      fine\n");
    }
}
