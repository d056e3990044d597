//! `remaster bench`.

use remaster::Error;
#[cfg(feature = "gpu")]
use remaster_bench::CardRequest;
use remaster_bench::{DitRequest, KernelsRequest, ScalingRequest, UpscalerRequest, VaeRequest};
use remaster_media::place;
use serde::Serialize;

#[cfg(feature = "gpu")]
use crate::args::{BenchCardArgs, ProgressMode};
use crate::args::{
    BenchCommand, BenchDitArgs, BenchKernelsArgs, BenchScalingArgs, BenchUpscalerArgs, BenchVaeArgs,
};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
#[cfg(feature = "gpu")]
use crate::show::Show;

#[cfg_attr(not(feature = "gpu"), allow(unused_variables, reason = "only a card is tuned"))]
pub(crate) fn run(command: &BenchCommand, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    match command {
        BenchCommand::Kernels(args) => kernels(args, out),
        #[cfg(feature = "gpu")]
        BenchCommand::Card(args) => card(args, out, interrupt),
        BenchCommand::Vae(args) => vae(args, out),
        BenchCommand::Dit(args) => dit(args, out),
        BenchCommand::Upscaler(args) => upscaler(args, out),
        BenchCommand::Scaling(args) => scaling(args, out),
    }
}

/// Says what was measured.
fn measured(report: &(impl Serialize + ToString), out: &Output) -> Result<(), CliError> {
    out.result(report, || report.to_string());
    Ok(())
}

fn kernels(args: &BenchKernelsArgs, out: &Output) -> Result<(), CliError> {
    let request = KernelsRequest { device: args.device.device(), repeat: args.repeat, warmup: args.warmup };
    let report = remaster_bench::kernels(&request, &|line| out.say(line))?;
    measured(&report, out)?;
    if args.gate { Ok(report.check()?) } else { Ok(()) }
}

#[cfg(feature = "gpu")]
fn card(args: &BenchCardArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let seconds = args.seconds.map_or(60 * u64::from(args.minutes), u64::from);
    let request = CardRequest { device: remaster::Device::named(&args.device), seconds };
    let mut show = Show::new(ProgressMode::None, out, interrupt);
    let report = remaster_bench::card(&request, &|line| out.say(line), &mut |event| show.event(event))?;
    measured(&report, out)
}

fn vae(args: &BenchVaeArgs, out: &Output) -> Result<(), CliError> {
    let request = VaeRequest {
        direction: args.what,
        device: args.device.device(),
        clip: [args.frames, args.height, args.width],
        slice: args.slice,
        repeat: args.repeat,
        warmup: args.warmup,
        stream_weights: args.stream_weights,
        stripes: args.stripes,
        keep: args.keep,
        tile: args.tile,
        step: args.step,
    };
    measured(&remaster_bench::vae(&request, &|line| out.say(line))?, out)
}

fn dit(args: &BenchDitArgs, out: &Output) -> Result<(), CliError> {
    let request = DitRequest {
        weights: args.weights.clone(),
        device: args.device.device(),
        clip: [args.frames, args.height, args.width],
        layers: args.layers,
        repeat: args.repeat,
        warmup: args.warmup,
        group: args.group,
        stream_weights: args.stream_weights,
        limits: args.limits.limits(None),
        step: args.step,
    };
    measured(&remaster_bench::dit(&request, &|line| out.say(line))?, out)
}

fn upscaler(args: &BenchUpscalerArgs, out: &Output) -> Result<(), CliError> {
    let request = UpscalerRequest {
        model: args.model.clone(),
        device: args.device.device(),
        clip: [args.frames, args.height, args.width].map(usize::from),
        repeat: args.repeat,
        warmup: args.warmup,
        step: args.step,
    };
    measured(&remaster_bench::upscaler(&request, &|line| out.say(line))?, out)
}

fn scaling(args: &BenchScalingArgs, out: &Output) -> Result<(), CliError> {
    if let Some(file) = &args.svg {
        remaster::check_file(file, "svg", &[], args.yes)?;
    }
    let request =
        ScalingRequest { device: args.device.device(), sides: args.sides.clone(), repeat: args.repeat };
    let report = remaster_bench::scaling(&request, &|line| out.say(line))?;
    if let Some(file) = &args.svg {
        place::write(file, report.svg().as_bytes(), args.yes).map_err(Error::from)?;
    }
    measured(&report, out)
}
