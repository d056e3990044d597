//! The rest of a job, after its device failed.

use remaster_plan::{Budget, Job, Mode, Peaks, Plan, Wish, WishedMode};

use crate::error::EngineError;
use crate::recovery::NetworkRun;

/// What may be used now, where `peaks` were too much. A quarter less is enough for a driver that counted wrong
/// or a program that came in between.
fn smaller(budget: &Budget, peaks: &Peaks) -> Budget {
    let device = peaks.device / 4 * 3;
    match *budget {
        Budget::Apart { vram, ram, disk } => Budget::Apart { vram: vram.min(device), ram, disk },
        Budget::Shared { ram, disk } => {
            Budget::Shared { ram: ram.min(device.saturating_add(peaks.host)), disk }
        }
    }
}

/// A plan for what is left behind `start` input frames: the best one that is smaller and gives the same bits,
/// else the old one again.
pub(crate) fn replan(
    network_run: &NetworkRun<'_>,
    budget: &Budget,
    start: usize,
) -> Result<Plan, EngineError> {
    let old = &network_run.plan;
    let mut planner = network_run.planner(Job { start, ..old.job.clone() });
    // Stripes change no bit. Other tiles or bands would.
    let modes = match old.how.mode {
        Mode::Whole | Mode::Exact { .. } => vec![WishedMode::Whole, WishedMode::Exact { stripes: None }],
        Mode::Blend(tiling) => vec![WishedMode::Blend(tiling)],
        Mode::SharedStats(_) => Vec::new(),
    };
    let budget = smaller(budget, &old.peaks);
    for mode in modes {
        match planner.plan(&budget, &Wish { mode: Some(mode), slice: None }) {
            Ok(plan) if plan.peaks.device < old.peaks.device => return Ok(plan),
            Ok(_) | Err(EngineError::Plan(_)) => {}
            Err(error) => return Err(error),
        }
    }
    planner.exactly(&old.how)
}
