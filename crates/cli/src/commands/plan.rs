//! `remaster plan`.

use std::path::Path;

use remaster::numbers::count;
use remaster::units::plan_into;
use remaster::{
    Error, Machine, NetworkKind, NetworkPlanRequest, NetworkTime, PlanRequest, Request, RoundtripPlan, Units,
    describe_plan, is_detail, plan_network, plan_roundtrip, time_in_words,
};
use remaster_plan::{Plan, bytes};
use remaster_units::emit::{self, Job, Kind};

use super::{check_stdout, film, frames};
use crate::args::PlanArgs;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::show::Show;

pub(crate) fn run(args: &PlanArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    args.how.compat.refuse()?;
    match (&args.input, args.network) {
        (None, Some(network)) => of_network(args, network, out, interrupt),
        (Some(input), _) => match &args.farm.store {
            Some(store) => for_machines(args, input, store, out, interrupt),
            None if args.weights.is_some() => of_roundtrip(args, input, out, interrupt),
            None => of_film(args, input, out, interrupt),
        },
        // The parser asks for one of these.
        (None, None) => Err(Error::Interrupted.into()),
    }
}

fn of_film(args: &PlanArgs, input: &Path, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let (how, card) = (args.how.typed(input), args.card.clone());
    let request = PlanRequest { input: input.to_owned(), how, card };
    let plan = Show::new(args.farm.progress.mode, out, interrupt.watch()?).run(request)?;
    out.result(&plan, || film::describe(&plan, out.is_verbose()));
    Ok(())
}

fn of_one(args: &PlanArgs) -> NetworkPlanRequest {
    NetworkPlanRequest {
        weights: args.weights.clone(),
        limits: args.how.restoration().limits,
        device: args.how.machine.device.or("cpu"),
    }
}

fn of_network(
    args: &PlanArgs,
    kind: NetworkKind,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    let how = args.how.restoration();
    how.size.refuse("a plan for a given size")?;
    how.source.refuse("a plan for a given size")?;
    let (height, width) = args.height.zip(args.width).unwrap_or_default();
    let mut show = Show::new(args.farm.progress.mode, out, interrupt);
    let size = [args.frames, height, width];
    let planned = plan_network(&of_one(args), kind, size, &Machine::this(), &mut |event| show.event(event))?;
    out.result(&planned, || {
        let time = describe_time(planned.time, out.is_verbose());
        format!("{}{}\n{time}", describe_plan(&planned.plan, planned.apart), planned.total.describe())
    });
    Ok(())
}

fn of_roundtrip(args: &PlanArgs, input: &Path, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let control = interrupt.watch()?.control();
    let how = args.how.restoration();
    let mut show = Show::new(args.farm.progress.mode, out, interrupt);
    let file = (input, &how.source, &how.size);
    let planned =
        plan_roundtrip(&of_one(args), file, &Machine::this(), control, &mut |event| show.event(event))?;
    out.result(&planned, || describe_file(&planned, planned.apart, out.is_verbose()));
    Ok(())
}

/// `remaster plan IN --store URL`: a film for other machines to do.
fn for_machines(
    args: &PlanArgs,
    input: &Path,
    url: &str,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    let control = interrupt.watch()?.control();
    let farm = &args.farm;
    if farm.emit == Some(Kind::K8s) && farm.image.is_none() {
        return Err(Error::NoImage.into());
    }
    check_stdout(farm.output.as_deref(), out)?;
    let request = Request {
        output: farm.output.clone(),
        how: args.how.restoration(),
        target: args.how.target(&farm.target),
        units: Units { cut: farm.cut.cut(), ..Units::default() },
        ..Request::restore(input)
    };
    let mut show = Show::new(farm.progress.mode, out, interrupt);
    let planned = plan_into(request, url, &Machine::this(), control, &mut |event| show.event(event))?;
    let _ = show.finish();
    match farm.emit {
        None => out.result(&planned, || {
            let (frames, units) = (count(planned.frames, "frame"), count(planned.units, "unit"));
            let time = planned.time.zip(planned.unit_seconds).map(|(time, unit)| {
                format!("  {:12} {time}, {} for each unit\n", "time", time_in_words(unit))
            });
            format!("planned {frames} in {units}: {}\n{}", planned.store, time.unwrap_or_default())
        }),
        Some(kind) => {
            let job = Job {
                chunk: farm.chunk,
                image: farm.image.clone(),
                queue: farm.queue.clone(),
                ..planned.job
            };
            out.raw(emit::job(kind, &job).as_bytes());
        }
    }
    Ok(())
}

fn describe_time(time: Option<NetworkTime>, verbose: bool) -> String {
    let Some(time) = time else { return String::new() };
    let why = match time.basis {
        "recorded" => "by the speed of the last run",
        _ => "estimated from a short measurement",
    };
    let rate = match verbose {
        true => format!(" ({:.0} GFLOP/s)", 2.0 * time.macs_per_second / 1e9),
        false => String::new(),
    };
    format!("  {:12} about {}, {why}{rate}\n", "time", time_in_words(time.seconds))
}

fn describe_file(planned: &RoundtripPlan, apart: bool, verbose: bool) -> String {
    let RoundtripPlan { geometry, source, plans, total, .. } = planned;
    let ([width, height], [padded_width, padded_height]) = (geometry.shown, geometry.padded);
    let unknown = "unknown number of frames, planned for 1";
    let frames = frames(source.format.frames, source.frames_estimated, unknown);
    let mut text = format!(
        "{}: {frames}, {width} x {height} (padded to {padded_width} x {padded_height} for the network)\n",
        planned.input
    );
    for note in planned.notes.iter().filter(|note| verbose || !is_detail(note)) {
        text += &format!("  {:12} {note}\n", "note");
    }
    if verbose {
        plans.iter().for_each(|p| text += &describe_plan(p, apart));
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
