//! `remaster plan`: memory, disk and time of a run, before it is started.

use std::path::Path;

use remaster_compute::{Backend, DType};
use remaster_engine::{Planner, Task, device_sizing};
use remaster_media::{Format, Probe, appetite};
use remaster_model::vae::{Direction, VaeConfig};
use remaster_picture::Edges;
use remaster_pipeline::Geometry;
use remaster_plan::{Clip, Plan, bytes};
use remaster_weights::FormulaParams;
use serde::Serialize;

use crate::args::{PlanArgs, PlanNetwork};
use crate::bench;
use crate::devices;
use crate::dit::{Size, Transformer, held_bytes};
use crate::error::CliError;
use crate::estimate::{NETWORK_SHARE, words};
use crate::interrupt::Interrupt;
use crate::media::{Lazy, is_pipe};
use crate::memory::{MemoryArgs, Room};
use crate::network;
use crate::numbers::count;
use crate::output::Output;
use crate::plan::{self, Search, Total, describe};
use crate::rates::{self, Key};
use crate::report::{Source, is_detail};
use crate::restore;
use crate::units;
use crate::video;

/// A plan for one network.
#[derive(Serialize)]
struct Planned<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    total: Total,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Time>,
}

/// A plan for a round trip of a file.
#[derive(Serialize)]
struct PlannedFile<'a> {
    input: String,
    geometry: Geometry,
    source: Source,
    notes: Vec<String>,
    plans: &'a [Plan],
    total: Total,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Time>,
}

/// How long the network takes.
#[derive(Clone, Copy, Serialize)]
struct Time {
    seconds: f64,
    macs_per_second: f64,
    /// `recorded` by the last run like this, or `calibrated` just now.
    basis: &'static str,
}

pub(crate) fn run(args: &PlanArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let direction = match args.network {
        Some(PlanNetwork::Encode) => Some(Direction::Encode),
        Some(PlanNetwork::Decode) => Some(Direction::Decode),
        Some(PlanNetwork::Dit) => return of_transformer(args, out),
        None => None,
    };
    let config = args.weights.as_deref().map_or(Ok(VaeConfig::full()), network::config)?;
    if let (Some(input), Some(store)) = (&args.input, &args.farm.store) {
        return units::plan(args, input, store, out, interrupt);
    }
    match (&args.input, direction, args.height.zip(args.width)) {
        (Some(input), ..) if args.weights.is_none() => restore::plan(&args.how, input, out, interrupt),
        (Some(input), ..) => of_file(args, input, &config, out, interrupt),
        (None, Some(direction), Some(size)) => of_size(args, direction, size, &config, out),
        // The parser asks for one of these.
        _ => Err(CliError::Interrupted),
    }
}

fn of_size(
    args: &PlanArgs,
    direction: Direction,
    (height, width): (usize, usize),
    config: &VaeConfig,
    out: &Output,
) -> Result<(), CliError> {
    args.how.size.refuse("a plan for a given size")?;
    args.how.source.refuse("a plan for a given size")?;
    let clip = Clip::new(args.frames, height, width).map_err(|source| CliError::Sizes { source })?;
    let device = args.how.device.or("cpu");
    let (backend, build) = (device.backend()?, device.build());
    // Sizes follow from the shape of the network alone, so no weights are needed.
    let built = direction.network(config, &mut FormulaParams, build);
    let task = Task::new(built, clip.cells(), backend, build.dtype);
    let mut planner = match is_imagined(args, &backend) {
        true => task.planner_for(device_sizing),
        false => task.planner(),
    };
    let size = [width, height];
    let geometry = Geometry { source: size, shown: size, padded: size, edges: Edges::Black, alpha: false };
    let search = Search {
        backend,
        memory: &args.how.memory,
        vram: args.how.vram,
        room: Room { real: false, output: None },
        children: children(direction, width * height, &args.how.memory)?,
    };
    let (plan, budget, held) = search.run(&geometry, &clip, |budget, wish| planner.plan(budget, wish))?;
    let total = Total::of(std::slice::from_ref(&plan), budget.is_apart(), held);
    let time = time(args, &backend, config, std::slice::from_ref(&plan), out);
    out.result(&Planned { plan: &plan, total, time }, || {
        let time = describe_time(time, out.is_verbose());
        format!("{}{}\n{time}", describe(&plan, budget.is_apart()), total.describe())
    });
    Ok(())
}

/// The transformer over a whole clip at once.
fn of_transformer(args: &PlanArgs, out: &Output) -> Result<(), CliError> {
    args.how.size.refuse("a plan for a given size")?;
    args.how.source.refuse("a plan for a given size")?;
    let (height, width) = args.height.zip(args.width).unwrap_or_default();
    let size = Size::new(args.frames, height, width)?;
    let device = args.how.device.or("cpu");
    let (backend, build) = (device.backend()?, device.build());
    let task =
        Transformer::open(args.weights.as_deref().unwrap_or("formula:3b"))?.task(&size, backend, build);
    let mut planner = match is_imagined(args, &backend) {
        true => task.planner_for(device_sizing),
        false => task.planner(),
    };
    let search = Search {
        backend,
        memory: &args.how.memory,
        vram: args.how.vram,
        room: Room { real: false, output: None },
        children: 0,
    };
    let (plan, budget, held) = search.once(held_bytes(&task), |budget, wish| planner.plan(budget, wish))?;
    let total = Total::of(std::slice::from_ref(&plan), budget.is_apart(), held);
    out.result(&Planned { plan: &plan, total, time: None }, || {
        format!("{}{}\n", describe(&plan, budget.is_apart()), total.describe())
    });
    Ok(())
}

fn of_file(
    args: &PlanArgs,
    input: &Path,
    config: &VaeConfig,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    if is_pipe(input) {
        return Err(CliError::PlanPipe);
    }
    let cancel = interrupt.watch()?;
    let threads = plan::threads(&args.how.memory, false)?;
    let mut tools = Lazy::new(&args.how.source, &cancel, interrupt).with_threads(threads);
    let opened = args.how.source.open(input, args.how.memory.allowed(false)?, &mut tools)?;
    let estimated = opened.is_estimated();
    let format = opened.source.format().clone();
    let geometry = args.how.size.geometry(&format).with_alpha(format.layout.alpha);
    let (clip, open_ended) = video::clip(&geometry, format.frames, opened.counted)?;
    drop(opened.source);
    let device = args.how.device.or("cpu");
    let (backend, build) = (device.backend()?, device.build());
    let [encoder, decoder] = [Direction::Encode, Direction::Decode].map(|direction| {
        let network = direction.network(config, &mut FormulaParams, build);
        let mut task = Task::new(network, clip.cells(), backend, build.dtype);
        task.job.open_ended = open_ended;
        task
    });
    let [mut first, mut second] = match is_imagined(args, &backend) {
        true => [encoder.planner_for(device_sizing), decoder.planner_for(device_sizing)],
        false => [encoder.planner(), decoder.planner()],
    };
    let search = Search {
        backend,
        memory: &args.how.memory,
        vram: args.how.vram,
        room: Room { real: false, output: None },
        children: file_children(args, opened.probe.as_ref(), &format, &geometry, threads),
    };
    let (plans, budget, held) = search.run(&geometry, &clip, |budget, wish| {
        Planner::together(&mut [&mut [&mut first, &mut second]], budget, wish)
    })?;
    let total = Total::of(&plans, budget.is_apart(), held);
    let planned = PlannedFile {
        input: input.display().to_string(),
        geometry,
        source: Source { format, frames_estimated: estimated },
        notes: opened.notes,
        plans: &plans,
        total,
        time: time(args, &backend, config, &plans, out),
    };
    out.result(&planned, || describe_file(&planned, budget.is_apart(), out.is_verbose()));
    Ok(())
}

/// Whether the plan is for a card that this machine need not have.
fn is_imagined(args: &PlanArgs, backend: &Backend) -> bool {
    args.how.vram.is_some() && !devices::has_memory(backend)
}

/// What ffmpeg takes for a clip that is not known yet: H.264 in, or H.264 out.
fn children(direction: Direction, pixels: usize, memory: &MemoryArgs) -> Result<u64, CliError> {
    let (size, threads) = (appetite::Size::plain(pixels), plan::threads(memory, false)?);
    Ok(match direction {
        Direction::Encode => appetite::decoder("h264", size, threads),
        Direction::Decode => appetite::encoder("libx264", size, threads),
    })
}

/// What ffmpeg takes to decode this file and to write H.264.
fn file_children(
    args: &PlanArgs,
    from: Option<&Probe>,
    format: &Format,
    geometry: &Geometry,
    threads: usize,
) -> u64 {
    let Some(probe) = from else { return 0 };
    let [width, height] = geometry.shown;
    let size = appetite::Size::new(&format.layout, width, height);
    args.how
        .source
        .appetite(probe, format, threads)
        .saturating_add(appetite::encoder("libx264", size, threads))
}

fn time(
    args: &PlanArgs,
    backend: &Backend,
    config: &VaeConfig,
    plans: &[Plan],
    out: &Output,
) -> Option<Time> {
    let dtype: DType = args.how.device.or("cpu").dtype;
    // Nobody waits for the naive loops, and a card that is not there cannot be timed.
    if matches!(backend, Backend::Reference) || is_imagined(args, backend) {
        return None;
    }
    let macs: u64 = plans.iter().map(|p| p.work.macs.saturating_add(p.work.attention_macs)).sum();
    let key = Key::of(backend, dtype, config);
    let (rate, basis) = match rates::recorded(&key) {
        Some(rate) => (rate, "recorded"),
        None => match bench::convolutions(*backend, dtype, key.channels()) {
            Ok(rate) => (rate * NETWORK_SHARE, "calibrated"),
            Err(error) => {
                out.detail(format_args!("cannot estimate the time: {error}"));
                return None;
            }
        },
    };
    Some(Time { seconds: macs as f64 / rate, macs_per_second: rate, basis })
}

fn describe_time(time: Option<Time>, verbose: bool) -> String {
    let Some(time) = time else { return String::new() };
    let why = match time.basis {
        "recorded" => "by the speed of the last run",
        _ => "estimated from a short measurement",
    };
    let rate = match verbose {
        true => format!(" ({:.0} GFLOP/s)", 2.0 * time.macs_per_second / 1e9),
        false => String::new(),
    };
    format!("  {:12} about {}, {why}{rate}\n", "time", words(time.seconds))
}

fn describe_file(planned: &PlannedFile<'_>, apart: bool, verbose: bool) -> String {
    let PlannedFile { geometry, source, plans, total, .. } = planned;
    let ([width, height], [padded_width, padded_height]) = (geometry.shown, geometry.padded);
    let about = if source.frames_estimated { "about " } else { "" };
    let frames = match source.format.frames {
        Some(n) => format!("{about}{}", count(n, "frame")),
        None => "unknown number of frames, planned for 1".into(),
    };
    let mut text = format!(
        "{}: {frames}, {width} x {height} (padded to {padded_width} x {padded_height} for the network)\n",
        planned.input
    );
    for note in planned.notes.iter().filter(|note| verbose || !is_detail(note)) {
        text += &format!("  {:12} {note}\n", "note");
    }
    if verbose {
        plans.iter().for_each(|p| text += &describe(p, apart));
    }
    let mut line = |what: &str, value: String| text += &format!("  {what:12} {value}\n");
    let sum = |of: fn(&Plan) -> u64| plans.iter().map(of).fold(0, u64::saturating_add);
    if !verbose {
        plans.iter().for_each(|p| line(&p.job.network.name, p.how.describe()));
        if apart {
            line("GPU memory", bytes(sum(|p| p.peaks.device)));
        }
        line("disk", format!("{} of temporary data", bytes(sum(|p| p.peaks.disk))));
    }
    text + &total.describe() + "\n" + &describe_time(planned.time, verbose)
}
