//! Another film of latents that were kept, in another codec, depth or colour.

use std::path::PathBuf;

use remaster_engine::{Event as EngineEvent, Planner, Recovery};
use remaster_media::Format;
use remaster_model::vae::Direction;
use remaster_plan::{Clip, Plan, Windows, bytes};
use remaster_restore::{
    Cuts, Done, LatentFile, NetworkId, PipelineError, Planned, Recipe, Restored, Sampling, Start,
    in_flight_bytes, redecode as decode,
};
use serde::Serialize;

use super::names::beside;
use crate::destination;
use crate::device::Device;
use crate::error::Error;
use crate::job::{Context, Job, Known, Prepare};
use crate::limits::{Limits, Room};
use crate::machine::host::Machine;
use crate::media::{Goal, Lazy, Source, Target, is_pipe};
use crate::models;
use crate::network::Network;
use crate::numbers::count;
use crate::plan::{self, Search, Total, threads};
use crate::request::{Finishing, check_input};
use crate::site::Site;

/// Another film of latents that were kept.
#[derive(Clone, Debug)]
pub struct RedecodeRequest {
    /// The input of the restoration.
    pub input: PathBuf,
    /// Latents that a restoration kept.
    pub latents: PathBuf,
    /// As in a restoration.
    pub output: Option<PathBuf>,
    /// Replace an output that exists.
    pub overwrite: bool,
    /// How restored frames become those of the output.
    pub finish: Finishing,
    /// VAE file, which must be the one of the restoration; the installed one if `None`.
    pub vae: Option<String>,
    /// Folder that is searched first for models.
    pub folder: Option<PathBuf>,
    /// How the input is read, as for the restoration.
    pub source: Source,
    /// How the film is written.
    pub target: Target,
    /// Memory and disk.
    pub limits: Limits,
    /// What computes.
    pub device: Device,
}

impl RedecodeRequest {
    /// The VAE as a word for the program. A latent file only ever chooses what is inside the program.
    fn vae(&self, made: &NetworkId, machine: &Machine) -> Result<String, Error> {
        if let Some(word) = &self.vae {
            return Ok(word.clone());
        }
        match models::is_built_in(&made.name) {
            true => Ok(made.name.clone()),
            false => Ok(models::installed_vae(self.folder.as_deref(), machine)?.display().to_string()),
        }
    }

    /// Refuses an input that is not the one of the restoration, or is not read like that.
    fn check_input(&self, file: &LatentFile) -> Result<(), Error> {
        let bad = |reason| PipelineError::Latents { path: self.latents.clone(), reason };
        let input = self.input.display();
        if let Some(origin) = &file.about().origin
            && !is_pipe(&self.input)
            && !origin.is(&self.input).map_err(Error::reading(&self.input))?
        {
            return Err(bad(format!("it is not of {input}; give the input of the restoration")).into());
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

    /// Refuses an input with frames of another size.
    fn check_size(&self, file: &LatentFile, format: &Format) -> Result<(), Error> {
        let [width, height] = file.about().geometry.source;
        let [w, h] = [format.width, format.height];
        if [w, h] == [width, height] {
            return Ok(());
        }
        let reason = format!("it is of frames of {width} x {height}, but those of the input are {w} x {h}");
        Err(PipelineError::Latents { path: self.latents.clone(), reason }.into())
    }

    /// How what is decoded becomes a film.
    fn recipe(&self, file: &LatentFile, format: &Format, site: &Site) -> Result<Recipe, Error> {
        let Restored { window, shown, seed, .. } = file.restored()?;
        let windows = Windows::new(*window).map_err(|source| Error::Sizes { source })?;
        Ok(Recipe {
            geometry: file.about().geometry.with_alpha(format.layout.alpha),
            shown: *shown,
            upscale: None,
            cuts: Cuts::None,
            softness: 0.0,
            input_noise: 0.0,
            sampling: Sampling { start: Start::Seed(*seed), windows, scale: 1.0, latent_noise: 0.0 },
            finish: self.finish.finish(false, &site.spill),
        })
    }
}

/// Opens latents, VAE and input and plans the decoder. The job decodes the film and writes it.
impl Prepare for RedecodeRequest {
    type Job = Job<RedecodeOutcome>;

    fn prepare(self, context: &Context<'_, '_>) -> Result<Self::Job, Error> {
        let Context { machine, control, report } = *context;
        let Ready { output, site, file, vae, network } = Ready::new(&self, context)?;
        let (backend, dtype) = (site.backend, site.build.dtype.name());
        let room = &Room::of_run(machine, Some(&output));
        let threads = threads(&self.limits, room)?;
        let mut tools = Lazy::new(&self.source, machine, control).with_threads(threads);
        report.started("frames", site.about(&vae, &self.input.display(), &output));
        let opened = self.source.open(&self.input, self.limits.allowed(room)?, &mut tools)?;
        let mut notes = opened.notes.clone();
        let format = opened.source.format().clone();
        self.check_size(&file, &format)?;
        let mut recipe = self.recipe(&file, &format, &site)?;
        let frames = file.frames();
        let [width, height] = recipe.shown;
        let sample_aspect = file.about().sample_aspect;
        let shown = Format { width, height, sample_aspect, frames: Some(frames), ..format.clone() };
        if self.finish.dither {
            recipe.finish.dither = Some(self.target.layout(&shown).depth);
        }
        let goal = Goal { path: &output, format: &shown, counted: true, overwrite: self.overwrite };
        notes.extend(self.target.rehearse(&goal, opened.probe.as_ref(), &mut tools)?);
        let clip = longest_shot(&file, &recipe)?;
        let mut task = network.task(Direction::Decode, clip, frames > 1);
        let encodes = self.target.encoder_bytes(&output, &shown, opened.probe.as_ref());
        let search = Search {
            backend,
            limits: &self.limits,
            room: *room,
            children: self.source.ffmpeg_memory(&opened, threads).saturating_add(encodes),
        };
        let held = |slice: usize| in_flight_bytes(&recipe, network.latent(), slice);
        let mut planner = task.planner();
        let (plans, budget, held) = search.beside(&held, clip.frames(), |budget, wish| {
            Planner::joint(&mut [&mut [&mut planner]], budget, wish)
        })?;
        drop(planner);
        task.settings.recovery = Some(Recovery::new(&backend, budget));
        let (_, disk) = self.limits.resolve(room)?;
        recipe.finish.room = disk.saturating_sub(plans[0].peaks.disk);
        let total = Total::of(&plans, budget.is_apart(), held);
        let known = Known { output: Some(output.clone()), notes: notes.clone(), total: Some(total) };
        Ok(Job::new(known, move |report| {
            let goal = Goal { path: &output, format: &shown, counted: true, overwrite: self.overwrite };
            let (sink, more) =
                self.target.create(&goal, opened.probe.as_ref(), opened.originals.as_ref(), &mut tools)?;
            notes.extend(more);
            for line in tools.details() {
                report.detail(line);
            }
            report.notes(&notes);
            report.say(format_args!(
                "decoding {}: {} at {width} x {height}, on {} in {}, {} of memory",
                self.latents.display(),
                count(frames, "frame"),
                backend.numerics(),
                dtype,
                bytes(total.ram()),
            ));
            report.detail(plan::describe(&plans[0], budget.is_apart()).trim_end());
            report.detail(total.describe());
            report.plan(total.ram(), &[("decode", 1.0)]);
            report.phase("decode", Some(frames));
            report.slice("decode", plans[0].how.slice);
            report.phase("finish", Some(0));
            let late = opened.late.clone();
            let planned = Planned { task: &task, plan: &plans[0] };
            let mut events = |event: EngineEvent<'_>| report.engine(&event);
            let done = decode(&file, opened.source, sink, &recipe, planned, &mut events)?;
            report.late(&late, &mut notes);
            report.children(tools.children_peak(), &total);
            report.advance("finish", 0, done.finishing);
            let Done { frames, shots, loading, .. } = done;
            let restored = file.restored()?;
            Ok(RedecodeOutcome {
                input: self.input.display().to_string(),
                latents: self.latents.display().to_string(),
                output: output.display().to_string(),
                model: restored.model.clone(),
                vae,
                seed: restored.seed,
                backend: backend.name(),
                dtype,
                frames,
                height,
                width,
                shots,
                load_seconds: loading.as_secs_f64(),
                notes,
                plans,
                total,
            })
        }))
    }
}

/// What is opened before the input is.
struct Ready {
    output: PathBuf,
    site: Site,
    file: LatentFile,
    /// The VAE by its name.
    vae: String,
    network: Network,
}

impl Ready {
    fn new(request: &RedecodeRequest, context: &Context<'_, '_>) -> Result<Self, Error> {
        let Context { machine, control, report } = *context;
        let output = match &request.output {
            Some(output) => output.clone(),
            None => beside(&request.input)?,
        };
        destination::check_frames(&output, &[&request.input, &request.latents], request.overwrite)?;
        request.finish.refuse(false)?;
        check_input(&request.input)?;
        super::refuse_streams(&request.target)?;
        let room = Room::of_run(machine, Some(&output));
        let site = Site::open(
            &request.device.settle(machine)?,
            &request.limits,
            &room,
            control,
            Some((false, report)),
        )?;
        let file = LatentFile::open(&request.latents)?;
        file.restored()?;
        request.check_input(&file)?;
        let vae = request.vae(&file.about().network, machine)?;
        let network = Network::of(&vae, &site)?;
        file.made_by(&network.identity()?)?;
        file.has_channels(network.latent())?;
        Ok(Ready { output, site, file, vae, network })
    }
}

/// A clip as long as the longest shot: others take no more.
fn longest_shot(file: &LatentFile, recipe: &Recipe) -> Result<Clip, Error> {
    let mut longest = 1;
    for shot in file.shots()? {
        longest = longest.max(shot?.latents.len());
    }
    let [columns, rows] = recipe.geometry.padded;
    Clip::new(4 * (longest - 1) + 1, rows, columns).map_err(|source| Error::Sizes { source })
}

/// A film that was written again.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RedecodeOutcome {
    /// What was read.
    pub input: String,
    /// Where latents came from.
    pub latents: String,
    /// What was written.
    pub output: String,
    /// The transformer that restored.
    pub model: String,
    /// File or name of the VAE.
    pub vae: String,
    /// Of the noise.
    pub seed: u64,
    /// `cpu`, `gpu` or `reference`.
    pub backend: &'static str,
    /// Storage format.
    pub dtype: &'static str,
    /// Frames that were written.
    pub frames: usize,
    /// Of the output.
    pub height: usize,
    /// Of the output.
    pub width: usize,
    /// First frame of every shot.
    pub shots: Vec<usize>,
    /// Time that the network took to load.
    pub load_seconds: f64,
    /// What was guessed, or may not be wanted.
    pub notes: Vec<String>,
    /// Of the decoder.
    pub plans: Vec<Plan>,
    /// Memory of the whole run.
    pub total: Total,
}
