//! `remaster plan IN --store URL`: a film for other machines to do.

use std::path::{Path, PathBuf};

use clap::Args;
use remaster_media::MediaError;
use remaster_store::Store;
use serde::Serialize;

use super::args::{CutArgs, LocalArgs};
use super::{bucket_settings, make, request};
use crate::args::PlanArgs;
use crate::destination;
use crate::emit::{self, Job, Kind};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::{TargetArgs, is_pipe};
use crate::numbers::count;
use crate::output::Output;
use crate::progress::{Progress, ProgressArgs};
use crate::restore::{RestoreArgs, beside, staged};

/// A plan for other machines.
#[derive(Debug, Args)]
pub(crate) struct FarmArgs {
    /// Put a plan of units for other machines into this folder or bucket
    ///
    /// A path, or s3://bucket/prefix, gs:// or az:// in builds with the feature `cloud`. `remaster unit run` does its units
    /// and `remaster assemble` joins them. docs/scale.md shows how.
    #[arg(long, value_name = "URL", requires = "input", help_heading = "Units")]
    pub(crate) store: Option<String>,
    /// Print a job for a scheduler: openjd, slurm, k8s or shell
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        requires = "store",
        hide_possible_values = true,
        help_heading = "Units"
    )]
    emit: Option<Kind>,
    /// Units in a task of the job
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), requires = "emit", help_heading = "Units", hide_short_help = true)]
    chunk: u32,
    /// Container image of the Kubernetes job
    #[arg(long, value_name = "IMAGE", requires = "emit", help_heading = "Units", hide_short_help = true)]
    image: Option<String>,
    /// Output [default: NAME_upscaled]
    #[arg(short, long, value_name = "FILE", requires = "store", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Kueue queue of the Kubernetes job
    #[arg(long, value_name = "NAME", requires = "emit", help_heading = "Units", hide_short_help = true)]
    queue: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    pub(crate) cut: CutArgs,
    #[command(flatten)]
    progress: ProgressArgs,
}

/// The JSON document.
#[derive(Debug, Serialize)]
struct Report {
    store: String,
    output: String,
    units: usize,
    frames: usize,
    piece_frames: usize,
    plan: String,
}

/// Plans a film into a store.
pub(crate) fn plan(
    args: &PlanArgs,
    input: &Path,
    url: &str,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    if is_pipe(input) {
        return Err(CliError::PlanPipe);
    }
    let cancel = interrupt.watch()?;
    let farm = &args.farm;
    if farm.emit == Some(Kind::K8s) && farm.image.is_none() {
        return Err(CliError::NoImage);
    }
    let output = match &farm.output {
        Some(output) => output.clone(),
        None => beside(input)?,
    };
    destination::check_frames(&output, &[input], true, out)?;
    // Jobs replace what they made themselves, so that they can be started again.
    if output.exists() {
        let reason = "it exists; remove it or choose another output".into();
        return Err(MediaError::Place { path: output, reason }.into());
    }
    let restore = as_restoration(args, input, &output)?;
    if !crate::restore::takes_units(&restore, &output) {
        return Err(CliError::NoUnits { path: output });
    }
    let store = Store::make(url, bucket_settings())?;
    store.probe()?;
    let (report, ram, backend) = staged(&restore, &output, &cancel, out, interrupt, |mut stage| {
        let frames = farm.cut.unit_frames;
        let unit_frames = stage.unit_frames(frames).unwrap_or(frames as usize);
        let settings = stage.settings(&farm.cut, unit_frames)?;
        let mut progress = Progress::new(farm.progress.mode, out);
        make::declare(&stage, &mut progress);
        let plan = make::plan(&mut stage, settings, &mut progress)?;
        let journal = make::put(store, &plan)?;
        // Nobody works on it yet.
        let _ = journal.store().forget_probes();
        let _ = progress.finish();
        let report = Report {
            store: url.to_owned(),
            output: output.display().to_string(),
            units: plan.units.len(),
            frames: plan.frames,
            piece_frames: plan.piece_frames,
            plan: journal.plan().hash().to_string(),
        };
        Ok((report, stage.film.total.ram(), stage.film.place.backend.name().to_owned()))
    })?;
    let Some(kind) = farm.emit else {
        out.result(&report, || {
            let (frames, units) = (count(report.frames, "frame"), count(report.units, "unit"));
            format!("planned {frames} in {units}: {}\n", report.store)
        });
        return Ok(());
    };
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let place =
        if url.contains("://") { url.to_owned() } else { whole(Path::new(url)).display().to_string() };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cores = u32::try_from(cores).unwrap_or(u32::MAX);
    // Workers repeat what a plan cannot hold.
    let vf = args.how.source.filters().map(|filters| format!("--vf={}", filters.text()));
    let video = farm.target.encoding().map(|encoding| format!("--video={}", encoding.text()));
    let typed: Vec<String> = vf.into_iter().chain(video).collect();
    // Which GPU a worker uses is its own affair; a film planned for the CPU is computed there.
    let gpu = backend == "gpu";
    let mut unit_words = typed.clone();
    unit_words.extend((!gpu).then(|| format!("--device={backend}")));
    unit_words.extend(args.how.device.words());
    let job = Job {
        name: output.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        plan: place,
        units: u32::try_from(report.units).unwrap_or(u32::MAX),
        chunk: farm.chunk,
        output: Some(whole(&output).display().to_string()),
        input: Some(whole(input).display().to_string()),
        gpu,
        ram: Some(ram),
        // A GPU needs cores for the encoder only.
        cores: Some(if gpu { farm.target.encoder_threads() } else { cores }),
        image: farm.image.clone(),
        queue: farm.queue.clone(),
        unit_words,
        assemble_words: typed,
        ..Job::default()
    };
    out.raw(emit::job(kind, &job).as_bytes());
    Ok(())
}

/// The restoration that is planned.
fn as_restoration(args: &PlanArgs, input: &Path, output: &Path) -> Result<RestoreArgs, CliError> {
    let planned = request::plain(input, output)?;
    let local = LocalArgs { cut: args.farm.cut.clone(), ..planned.local };
    let (how, target) = (args.how.clone(), args.farm.target.clone());
    Ok(RestoreArgs {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        how,
        target,
        local,
        ..planned
    })
}
