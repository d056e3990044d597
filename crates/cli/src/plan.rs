//! `remaster plan`: what a run would take, before it is started.

use remaster_engine::{Task, device_sizing};
use remaster_model::vae::VaeConfig;
use remaster_plan::{Clip, Plan, bytes};
use remaster_weights::FormulaParams;

use crate::args::PlanArgs;
use crate::devices;
use crate::error::CliError;
use crate::output::Output;

pub(crate) fn run(args: &PlanArgs, out: &Output) -> Result<(), CliError> {
    let clip =
        Clip::new(args.frames, args.height, args.width).map_err(|source| CliError::Sizes { source })?;
    let (backend, build) = (args.device.backend()?, args.device.build());
    // Sizes follow from the shape of the network alone, so no weights are needed.
    let task = Task::new(&VaeConfig::full(), &mut FormulaParams, args.what.direction(), clip, backend, build);
    let wish = args.memory.wish()?;
    let budget = devices::budget(&backend, &args.memory, args.vram, 0)?;
    // A card that this machine need not have.
    let imagined = args.vram.is_some() && !devices::has_memory(&backend);
    let mut planner = if imagined { task.planner_for(device_sizing) } else { task.planner() };
    let plan = planner.plan(&budget, &wish)?;
    out.result(&plan, || describe(&plan, budget.is_apart()));
    Ok(())
}

/// What a plan takes of the host's memory.
pub(crate) fn host_bytes(plan: &Plan, apart: bool) -> u64 {
    plan.peaks.host + if apart { 0 } else { plan.peaks.device }
}

/// The plan for people.
pub(crate) fn describe(plan: &Plan, apart: bool) -> String {
    let Plan { peaks, work, how, .. } = plan;
    let mut text = format!("{}: {}\n", plan.job, how.describe());
    let mut line = |what: &str, value: String| text += &format!("  {what:12} {value}\n");
    match apart {
        true => {
            line("device", bytes(peaks.device));
            line("host", bytes(peaks.host));
        }
        false => line("memory", bytes(peaks.device + peaks.host)),
    }
    line("spill file", bytes(peaks.disk));
    line("work", format!("{:.2} TFLOP", 2.0 * (work.macs + work.attention_macs) as f64 / 1e12));
    line("transfers", bytes(work.transferred));
    if let Some(better) = plan.better {
        line("not", format!("{}: {}", better.candidate.describe(), better.lack));
    }
    text
}
