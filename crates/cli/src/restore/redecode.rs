//! `remaster redecode`: another film of latents that were kept, in another codec, depth or colour.

use std::path::PathBuf;

use clap::Args;
use remaster_engine::{Event, Planner, Recovery};
use remaster_media::{Format, FrameSource};
use remaster_model::vae::Direction;
use remaster_pipeline::{LatentFile, NetworkId, PipelineError, Planned, Restored};
use remaster_plan::{Clip, Plan, Windows, bytes};
use remaster_restore::{Cuts, Done, Recipe, Sampling, Start, held_bytes, redecode};
use serde::Serialize;

use super::args::FinishArgs;
use super::film::{children, encoder_bytes};
use super::names::beside;
use super::networks::Place;
use crate::args::BestDevice;
use crate::destination;
use crate::devices;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::{Goal, Lazy, SourceArgs, TargetArgs, is_pipe};
use crate::memory::{Amount, MemoryArgs, Room};
use crate::models::{self, ModelDirArgs};
use crate::network::Network;
use crate::numbers::count;
use crate::output::Output;
use crate::plan::{self, Search, Total, threads};
use crate::progress::{Label, Progress, ProgressArgs, Summary};
use crate::report::{conclude, say_notes, warn_late, warn_of_children};

#[derive(Debug, Args)]
pub(crate) struct RedecodeArgs {
    /// The input of the restoration
    pub(crate) input: PathBuf,
    /// Latents that `--keep-latents` wrote
    latents: PathBuf,
    /// Output, or - for y4m on stdout [default: NAME_upscaled]
    ///
    /// By default it is beside the input. The ending decides the format; a name without one is a folder of images.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Overwrite the output if it exists
    #[arg(short = 'y', long, help_heading = "Output")]
    yes: bool,
    #[command(flatten)]
    finish: FinishArgs,
    /// VAE file; must be the one of the restoration [default: the installed one]
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    vae: Option<String>,
    #[command(flatten)]
    dirs: ModelDirArgs,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    /// GPU memory limit: 8G, 80% or -1G [default: free minus a tenth, at least 512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Memory")]
    vram: Option<Amount>,
    #[command(flatten)]
    device: BestDevice,
    #[command(flatten)]
    progress: ProgressArgs,
}

impl RedecodeArgs {
    /// The VAE as a word for the program. A latent file only ever chooses what is inside the program.
    fn vae(&self, made: &NetworkId) -> Result<String, CliError> {
        if let Some(word) = &self.vae {
            return Ok(word.clone());
        }
        let built_in = |name: &str| matches!(name, "nano" | "identity") || name.starts_with("formula:");
        match made.name.as_str() {
            name if built_in(name) => Ok(name.to_owned()),
            _ => Ok(models::installed_vae(&self.dirs)?.display().to_string()),
        }
    }

    /// Refuses an input that is not the one of the restoration, or is not read like that.
    fn check_input(&self, file: &LatentFile) -> Result<(), CliError> {
        let bad = |reason| PipelineError::Latents { path: self.latents.clone(), reason };
        let input = self.input.display();
        if let Some(origin) = &file.about().origin
            && !is_pipe(&self.input)
        {
            let failed = |source| CliError::Read { path: self.input.clone(), source };
            if !origin.is(&self.input).map_err(failed)? {
                return Err(bad(format!("it is not of {input}; give the input of the restoration")).into());
            }
        }
        let (then, now) = (&file.restored()?.read, self.source.reading());
        if *then != now {
            let words = |text: &str| match text {
                "" => "no options".to_owned(),
                text => text.chars().take(200).flat_map(char::escape_debug).collect(),
            };
            let reason = format!(
                "{input} was read with {}, and now with {}; use the same options",
                words(then),
                words(&now)
            );
            return Err(bad(reason).into());
        }
        Ok(())
    }

    /// How what is decoded becomes a film.
    fn recipe(&self, file: &LatentFile, format: &Format, place: &Place<'_>) -> Result<Recipe, CliError> {
        let Restored { window, shown, seed, .. } = file.restored()?;
        let windows = Windows::new(*window).map_err(|source| CliError::Sizes { source })?;
        Ok(Recipe {
            geometry: file.about().geometry.with_alpha(format.layout.alpha),
            shown: *shown,
            cuts: Cuts::None,
            softness: 0.0,
            input_noise: 0.0,
            sampling: Sampling { start: Start::Seed(*seed), windows, scale: 1.0, latent_noise: 0.0 },
            finish: self.finish.finish(&place.spill),
        })
    }
}

pub(crate) fn run(args: &RedecodeArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let cancel = interrupt.watch()?;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => beside(&args.input)?,
    };
    destination::check_frames(&output, &[&args.input, &args.latents], args.yes, out)?;
    args.finish.refuse()?;
    super::check_input(&args.input)?;
    super::refuse_streams(&args.target)?;
    let device = args.device.settle()?;
    let backend = device.tuned_backend(out)?;
    devices::check_vram(args.vram, &backend)?;
    let spill = args.memory.spill(Some(&output))?;
    let place = Place { backend, build: device.build(), spill, memory: args.memory.clone(), cancel: &cancel };
    let file = LatentFile::open(&args.latents)?;
    let restored = file.restored()?;
    args.check_input(&file)?;
    let vae = args.vae(&file.about().network)?;
    let network = Network::of(&vae, backend, place.build, place.spill.clone(), &cancel)?;
    file.made_by(&network.identity()?)?;
    let bad = |reason| CliError::from(PipelineError::Latents { path: args.latents.clone(), reason });
    let channels = network.latent();
    file.has_channels(channels)?;
    let threads = threads(&args.memory, true)?;
    let mut tools = Lazy::new(&args.source, &cancel, interrupt).with_threads(threads);
    let mut progress = Progress::new(args.progress.mode, out);
    progress.about(Label {
        device: format!("{}, {}", backend.numerics(), device.dtype.name()),
        model: vae.clone(),
        input: args.input.display().to_string(),
        output: output.display().to_string(),
    });
    let opened = args.source.open(&args.input, args.memory.allowed(true)?, &mut tools)?;
    let mut notes = opened.notes.clone();
    let format = opened.source.format().clone();
    let [width, height] = file.about().geometry.source;
    if [format.width, format.height] != [width, height] {
        let [w, h] = [format.width, format.height];
        return Err(bad(format!(
            "it is of frames of {width} x {height}, but those of the input are {w} x {h}"
        )));
    }
    let mut recipe = args.recipe(&file, &format, &place)?;
    let frames = file.frames();
    let [width, height] = recipe.shown;
    let sample_aspect = file.about().sample_aspect;
    let shown = Format { width, height, sample_aspect, frames: Some(frames), ..format.clone() };
    if args.finish.dither {
        recipe.finish.dither = Some(args.target.layout(&shown).depth);
    }
    let goal = Goal { path: &output, format: &shown, counted: true, overwrite: args.yes };
    notes.extend(args.target.rehearse(&goal, opened.probe.as_ref(), &mut tools)?);
    // The longest shot: others take no more.
    let mut longest = 1;
    for shot in file.shots()? {
        longest = longest.max(shot?.latents.len());
    }
    let [columns, rows] = recipe.geometry.padded;
    let sizes = |source| CliError::Sizes { source };
    let clip = Clip::new(4 * (longest - 1) + 1, rows, columns).map_err(sizes)?;
    let mut task = network.task(Direction::Decode, clip, frames > 1);
    let decodes = children(&args.source, &opened, &format, threads);
    let search = Search {
        backend,
        memory: &args.memory,
        vram: args.vram,
        room: Room { real: true, output: Some(&output) },
        children: decodes.saturating_add(encoder_bytes(
            &recipe.geometry,
            &format,
            args.target.encoder_threads() as usize,
            Some(&output),
        )),
    };
    let held = |slice: usize| held_bytes(&recipe, channels, slice);
    let mut planner = task.planner();
    let (plans, budget, held) = search
        .beside(&held, &clip, |budget, wish| Planner::together(&mut [&mut [&mut planner]], budget, wish))?;
    drop(planner);
    task.settings.recovery = Some(Recovery::new(&backend, budget));
    let (_, disk) = args.memory.resolve(&search.room)?;
    recipe.finish.room = disk.saturating_sub(plans[0].peaks.disk);
    let total = Total::of(&plans, budget.is_apart(), held);
    let (sink, more) =
        args.target.create(&goal, opened.probe.as_ref(), opened.originals.as_ref(), &mut tools)?;
    notes.extend(more);
    for line in tools.details() {
        out.detail(line);
    }
    say_notes(&notes, out);
    out.say(format_args!(
        "decoding {}: {} at {width} x {height}, on {} in {}, {} of memory",
        args.latents.display(),
        count(frames, "frame"),
        backend.numerics(),
        device.dtype.name(),
        bytes(total.ram()),
    ));
    out.detail(plan::describe(&plans[0], budget.is_apart()).trim_end());
    out.detail(total.describe());
    progress.plan(total.ram(), &[("decode", 1.0)]);
    progress.phase("decode", Some(frames));
    progress.slice("decode", plans[0].how.slice);
    progress.phase("finish", Some(0));
    let late = opened.late.clone();
    let planned = Planned { task: &task, plan: &plans[0] };
    let source: Box<dyn FrameSource> = opened.source;
    let mut events = |event: Event<'_>| progress.event(&event);
    let done = redecode(&file, source, sink, &recipe, planned, &mut events)?;
    warn_late(&late, &mut progress, &mut notes);
    warn_of_children(&mut progress, &tools, &total);
    progress.advance("finish", 0, done.finishing);
    let Done { frames, shots, loading, .. } = done;
    let report = Report {
        input: args.input.display().to_string(),
        latents: args.latents.display().to_string(),
        output: output.display().to_string(),
        model: restored.model.clone(),
        vae,
        seed: restored.seed,
        backend: backend.name(),
        dtype: device.dtype.name(),
        frames,
        height,
        width,
        shots,
        load_seconds: loading.as_secs_f64(),
        notes,
        plans,
        total,
        summary: progress.finish(),
    };
    let text = || match out.is_verbose() {
        true => report.summary.to_string(),
        false => {
            super::report::wrote(&report.output, frames, &report.shots, [width, height], &report.summary)
        }
    };
    conclude(&report, text, &output, args.progress.mode, out);
    Ok(())
}

/// The JSON document.
#[derive(Debug, Serialize)]
struct Report {
    input: String,
    latents: String,
    output: String,
    /// The transformer that restored.
    model: String,
    vae: String,
    seed: u64,
    backend: &'static str,
    dtype: &'static str,
    frames: usize,
    height: usize,
    width: usize,
    /// First frame of every shot.
    shots: Vec<usize>,
    load_seconds: f64,
    notes: Vec<String>,
    plans: Vec<Plan>,
    total: Total,
    summary: Summary,
}
