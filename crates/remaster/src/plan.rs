//! What all runs need of a plan: budgets, plans within them, and words for both.

use remaster_compute::Backend;
use remaster_engine::{EngineError, Task};
use remaster_media::ffmpeg_memory;
use remaster_plan::{Budget, Clip, MAX_SLICE, Plan, PlanError, SLICES, Wish, WishedMode, bytes};
use remaster_restore::Geometry;
use remaster_restore::clip::in_flight_bytes;
use serde::Serialize;

use crate::error::Error;
use crate::limits::{Held, Limits, Room};
use crate::machine::devices;
use crate::machine::host::Machine;
use crate::numbers::as_flag;

/// What `--ram` counts.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Total {
    /// Everything.
    ram_bytes: u64,
    /// The network: weights, tensors and slices on their way in and out.
    network_bytes: u64,
    #[serde(flatten)]
    held: Held,
}

impl Total {
    pub(crate) fn of(plans: &[Plan], apart: bool, held: Held) -> Self {
        let of = |p: &Plan| p.peaks.host.saturating_add(if apart { 0 } else { p.peaks.device });
        let network_bytes = plans.iter().map(of).fold(0, u64::saturating_add);
        Total { ram_bytes: held.total().saturating_add(network_bytes), network_bytes, held }
    }

    /// Of networks that take turns: only one of them is there at a time.
    pub(crate) fn in_turns(plans: &[Plan], apart: bool, held: Held) -> Self {
        let each = plans.iter().map(|plan| Self::of(std::slice::from_ref(plan), apart, held));
        each.max_by_key(|total| total.ram_bytes).unwrap_or(Self::of(&[], apart, held))
    }

    /// Bytes of all of it.
    pub fn ram(&self) -> u64 {
        self.ram_bytes
    }

    /// What is reserved for ffmpeg.
    pub(crate) fn children(&self) -> u64 {
        self.held.children
    }

    /// One line that adds up.
    pub fn describe(&self) -> String {
        let Held { process, frames, children } = self.held;
        format!(
            "  {:12} {}: network {}, frames {}, ffmpeg {}, process {}",
            "--ram",
            bytes(self.ram_bytes),
            bytes(self.network_bytes),
            bytes(frames),
            bytes(children),
            bytes(process)
        )
    }
}

/// Threads of ffmpeg in a run with this memory.
pub(crate) fn threads(limits: &Limits, room: &Room<'_>) -> Result<usize, Error> {
    Ok(ffmpeg_memory::threads(room.machine.cores, limits.allowed(room)?))
}

/// Multiply-adds of a plan for each of so many frames.
pub(crate) fn macs_per_frame(plan: &Plan, frames: usize) -> f64 {
    plan.work.macs.saturating_add(plan.work.attention_macs) as f64 / frames.max(1) as f64
}

/// A plan for a task within the limits, beside so many bytes of tensors.
pub fn plan_task(
    task: &Task,
    backend: Backend,
    limits: &Limits,
    held: u64,
    machine: &Machine,
) -> Result<Plan, Error> {
    let search = Search { backend, limits, room: Room::of_run(machine, None), children: 0 };
    Ok(search.once(held, |budget, wish| task.planner().plan(budget, wish))?.0)
}

/// Looks for a plan within the limits.
pub(crate) struct Search<'a> {
    pub(crate) backend: Backend,
    pub(crate) limits: &'a Limits,
    pub(crate) room: Room<'a>,
    /// Bytes of ffmpeg.
    pub(crate) children: u64,
}

impl Search<'_> {
    /// For video: the longest slices that fit without spilling, else short ones, which leave most to the network. Frames
    /// that wait before and behind it count by the length of the slice.
    pub(crate) fn run<T>(
        &self,
        geometry: &Geometry,
        clip: &Clip,
        plan: impl FnMut(&Budget, &Wish) -> Result<T, EngineError>,
    ) -> Result<(T, Budget, Held), Error> {
        self.beside(&|slice| in_flight_bytes(geometry, slice), clip.frames(), plan)
    }

    /// As `run`, where `held` says what frames take beside slices of so many, `longest` at most.
    pub(crate) fn beside<T>(
        &self,
        held: &dyn Fn(usize) -> u64,
        longest: usize,
        mut plan: impl FnMut(&Budget, &Wish) -> Result<T, EngineError>,
    ) -> Result<(T, Budget, Held), Error> {
        let wish = self.limits.wish()?;
        // Longer slices are refused by the plan.
        let whole = longest.min(MAX_SLICE);
        let frames = |slice: Option<usize>| match slice.unwrap_or(SLICES[0]) {
            0 => held(whole),
            n => held(n.min(whole)),
        };
        let tries: Vec<Wish> = match (wish.slice, wish.mode) {
            (Some(_), _) => vec![wish],
            (None, None) => {
                let whole = SLICES.map(|n| Wish { mode: Some(WishedMode::Whole), slice: Some(n) });
                whole.into_iter().chain([Wish { mode: None, slice: Some(SLICES[2]) }]).collect()
            }
            (None, mode) => SLICES.map(|n| Wish { mode, slice: Some(n) }).into(),
        };
        let allowance = self.allowance()?;
        let mut refused = Error::Interrupted;
        for wish in tries {
            let held = devices::held(&self.backend, frames(wish.slice), self.children);
            let budget = allowance.beside(held.total())?;
            match plan(&budget, &wish) {
                Ok(found) => return Ok((found, budget, held)),
                Err(error @ EngineError::Plan(PlanError::Budget { .. })) => {
                    refused = self.refusal(error, &held);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(refused)
    }

    /// For tensors: `frames` bytes of them are held.
    pub(crate) fn once<T>(
        &self,
        frames: u64,
        plan: impl FnOnce(&Budget, &Wish) -> Result<T, EngineError>,
    ) -> Result<(T, Budget, Held), Error> {
        let held = devices::held(&self.backend, frames, self.children);
        let budget = self.allowance()?.beside(held.total())?;
        let found = plan(&budget, &self.limits.wish()?).map_err(|error| self.refusal(error, &held))?;
        Ok((found, budget, held))
    }

    /// Of no network: what frames and children take has to fit.
    pub(crate) fn nothing(&self, frames: u64) -> Result<(Vec<Plan>, Budget, Held), Error> {
        self.limits.wish()?;
        let held = devices::held(&self.backend, frames, self.children);
        let needed = held.total();
        match needed > self.limits.allowed(&self.room)? {
            true => Err(Error::Room { what: "a film of this size", needed }),
            false => Ok((Vec::new(), self.allowance()?.beside(needed)?, held)),
        }
    }

    fn allowance(&self) -> Result<devices::Allowance, Error> {
        devices::allowance(&self.backend, self.limits, &self.room)
    }

    /// A refusal in the units of the flags.
    fn refusal(&self, error: EngineError, held: &Held) -> Error {
        let EngineError::Plan(PlanError::Budget { job, allowed, needs }) = error else { return error.into() };
        let spill = self.limits.spill(&self.room).ok().filter(|s| !s.none);
        let has = Has {
            ram: self.room.machine.memory().total.filter(|_| self.room.real),
            disk: spill.and_then(|s| self.room.machine.free_space(&s.folder)),
        };
        let of = |(Budget::Shared { ram, .. } | Budget::Apart { ram, .. }): &Budget| *ram;
        let ram = needs.first().map_or(0, of).saturating_add(held.total());
        Error::Budget { job, advice: advice(&allowed, &needs, held.total(), &has), ram }
    }
}

/// What this machine has, as far as it is known and matters.
struct Has {
    ram: Option<u64>,
    disk: Option<u64>,
}

/// Flags that would do: those that have to change. What this machine can give comes first.
fn advice(allowed: &Budget, needs: &[Budget], held: u64, has: &Has) -> String {
    let parts = |b: &Budget| match *b {
        Budget::Shared { ram, disk } => (0, ram, disk),
        Budget::Apart { vram, ram, disk } => (vram, ram, disk),
    };
    let (vram, ram, disk) = parts(allowed);
    let flags = |need: &Budget| {
        let (v, r, d) = parts(need);
        let mut flags = Vec::new();
        let mut raise = |name: &str, from: u64, to: u64, held: u64| {
            if to > from {
                flags.push(format!("{name} {}", as_flag(to.saturating_add(held))));
            }
        };
        raise("--vram", vram, v, 0);
        raise("--ram", ram, r, held);
        raise("--disk", disk, d, 0);
        if has.disk.is_some_and(|free| d > disk && d > free) {
            flags.push("--spill in a folder with enough space".into());
        }
        flags.join(" and ")
    };
    let fits = |need: &&Budget| {
        let (_, r, d) = parts(need);
        let ram = has.ram.is_none_or(|total| r.saturating_add(held) <= total);
        ram && has.disk.is_none_or(|free| d <= disk.max(free))
    };
    let (mut list, others): (Vec<&Budget>, Vec<&Budget>) = needs.iter().partition(fits);
    let possible = !list.is_empty();
    list.extend(others);
    let words: Vec<String> = list.iter().map(|need| flags(need)).collect();
    match (words.is_empty(), possible) {
        (true, _) => "use smaller frames".into(),
        (_, true) => format!("it needs at least {}", words.join(", or ")),
        (_, false) => format!(
            "it needs at least {}, more than this machine has; use smaller frames",
            words.join(", or ")
        ),
    }
}

/// The plan in words.
pub fn describe(plan: &Plan, apart: bool) -> String {
    let Plan { peaks, work, how, .. } = plan;
    let mut text = format!("{}: {}\n", plan.job, how.describe());
    let mut line = |what: &str, value: String| text += &format!("  {what:12} {value}\n");
    match apart {
        true => {
            line("device", bytes(peaks.device));
            line("host", bytes(peaks.host));
        }
        false => line("network", bytes(peaks.device.saturating_add(peaks.host))),
    }
    line("disk", bytes(peaks.disk));
    line("work", format!("{:.2} TFLOP", 2.0 * work.macs.saturating_add(work.attention_macs) as f64 / 1e12));
    line("transfers", bytes(work.transferred));
    if let Some(better) = plan.better {
        line("not chosen", format!("{}: {}", better.candidate.describe(), better.lack));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn advice_is_in_the_units_of_the_flags() {
        let shared = |ram: u64, disk: u64| Budget::Shared { ram: ram * MIB, disk: disk * MIB };
        let needs = [shared(367, 0), shared(236, 2000)];
        let has = Has { ram: Some(8192 * MIB), disk: Some(5000 * MIB) };
        let told = advice(&shared(100, 0), &needs, 64 * MIB, &has);
        assert_eq!(told, "it needs at least --ram 431M, or --ram 300M and --disk 2000M");
        // What the machine can give comes first.
        let told = advice(&shared(100, 0), &needs, 64 * MIB, &Has { ram: Some(350 * MIB), disk: None });
        assert_eq!(told, "it needs at least --ram 300M and --disk 2000M, or --ram 431M");
        let told = advice(&shared(100, 0), &needs[1..], 0, &Has { ram: None, disk: Some(MIB) });
        assert!(
            told.contains("--spill in a folder with enough space") && told.contains("smaller frames"),
            "{told}"
        );
        let apart = Budget::Apart { vram: MIB, ram: 0, disk: 0 };
        let need = Budget::Apart { vram: 9 * MIB, ram: 0, disk: 0 };
        assert_eq!(advice(&apart, &[need], 7, &has), "it needs at least --vram 9M");
    }
}
