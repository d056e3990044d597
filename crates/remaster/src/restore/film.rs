//! A film and everything that is known about its restoration before it starts.

use std::path::{Path, PathBuf};

use remaster_engine::{Event, Planner, Recovery, Task};
use remaster_media::Format;
use remaster_model::vae::Direction;
use remaster_plan::{LookBack, Plan, SLICES, SPACE};
use remaster_restore::{
    Diffusion, Done, Film as Whole, Geometry, Networks as Tasks, Opener, Planned, Pool, Recipe,
    Room as LatentRoom, UnitWork, in_flight_bytes, restore, restore_unit, unit_in_flight_bytes,
    upscaled_in_flight_bytes,
};
use remaster_units::{Restoring, UnitsError, checkpoint};

use super::networks::{Networks, NetworksKind};
use crate::around::Surroundings;
use crate::error::Error;
use crate::event::{About, Reporter};
use crate::limits::Room;
use crate::media::{Opened, Target};
use crate::plan::{Search, Total};
use crate::request::Restoration;
use crate::site::Site;
use crate::transformer;
use crate::vae::video;

/// An output for a plan that has none.
const ANY_FILM: &str = "film.mp4";

/// A film and everything that is known about its restoration before it starts.
pub(crate) struct Film {
    pub(super) how: Restoration,
    pub(crate) format: Format,
    pub(crate) recipe: Recipe,
    pub(crate) notes: Vec<String>,
    /// Units that could not be restored and have frames of the input.
    pub(crate) left: Vec<u32>,
    /// What says how the film was made, beside it.
    pub(crate) manifest: Option<PathBuf>,
    pub(crate) networks: Networks,
    /// Encoder, transformer and decoder, or an upscaler, or none.
    tasks: Vec<Task>,
    pub(crate) plans: Vec<Plan>,
    pub(crate) total: Total,
    pub(crate) apart: bool,
    /// Where latents wait.
    pub(crate) room: LatentRoom,
    pub(crate) site: Site,
    /// Of a decoder.
    pub(super) threads: usize,
    /// Decoders that there is memory for.
    pub(crate) decoders: usize,
    /// The number of frames was computed from duration and rate.
    pub(crate) estimated: bool,
    /// What is around the networks.
    pub(crate) surroundings: Surroundings,
    /// Bytes of a written frame in a checkpoint, for a network that makes frames one by one.
    pub(super) checkpoint_frame: Option<u64>,
}

impl Film {
    /// Plans the restoration of what was opened, in one go or `by_units` if there is room for those. A decoder has so many
    /// threads. Without an output it is a film in a common container.
    pub(super) fn new(
        how: &Restoration,
        opened: &Opened,
        site: Site,
        mut networks: Networks,
        threads: usize,
        (target, output): (&Target, Option<&Path>),
        by_units: bool,
    ) -> Result<Self, Error> {
        let format = opened.source.format().clone();
        let mut notes = opened.notes.clone();
        notes.append(&mut networks.notes);
        let geometry = match networks.by_frame() {
            true => how.geometry(&format).unpadded(),
            false => how.geometry(&format),
        };
        let mut recipe =
            how.recipe(geometry, &networks, &site.spill, format.frames.filter(|_| opened.counted))?;
        let mut limits = site.limits.clone();
        let (mut tasks, longest) = tasks(&mut networks, &recipe, opened, &site)?;
        limits.slice = limits.slice.or(usual_slice(how, &networks));
        let written = how.shown_at(&format, recipe.shown);
        let path = output.unwrap_or(Path::new(ANY_FILM));
        let encodes = target.encoder_bytes(path, &written, opened.probe.as_ref());
        let encoder = target.encoder(path, &written, opened.probe.as_ref());
        // One more for units that begin before the end of the one before, where a new decoder would begin far before them.
        let decoders = if networks.by_frame() { 1 } else { 2 + usize::from(opened.has_long_run_ups) };
        let search_with = |threads: usize| Search {
            backend: site.backend,
            limits: &limits,
            room: Room { machine: &site.machine, real: output.is_some(), output },
            children: how
                .source
                .ffmpeg_memory(opened, threads)
                .saturating_mul(decoders as u64)
                .saturating_add(encodes),
        };
        let (_, disk) = site.limits.resolve(&search_with(1).room)?;
        // Without room on disk latents wait in memory: those of two windows.
        let in_memory = networks.diffusion().map_or(0, |diffusion| {
            let latent = latent_bytes(&geometry, diffusion.vae.latent());
            let least = latent.saturating_mul(2 * recipe.sampling.windows.length() as u64);
            if site.spill.none || disk < least { least } else { 0 }
        });
        // Units save frames on their way.
        let samples = target.layout(&written).bytes(written.width, written.height).unwrap_or(0);
        let is_still = opened.counted && format.frames == Some(1);
        let saves_frames = by_units && networks.upscaler().is_some() && !is_still;
        let checkpoints = if saves_frames && disk > 0 { checkpoint::memory_bytes(samples) } else { 0 };
        let held = |slice: usize| match (networks.diffusion(), &recipe.upscale) {
            (None, Some(upscale)) => upscaled_in_flight_bytes(&recipe, upscale).saturating_add(checkpoints),
            (diffusion, _) => {
                let channels = diffusion.map_or(0, |diffusion| diffusion.vae.latent());
                // Units keep their latents on the way. Without a network there are none.
                match by_units && in_memory == 0 && networks.diffusion().is_some() {
                    true => unit_in_flight_bytes(&recipe, channels, slice),
                    false => in_flight_bytes(&recipe, channels, slice).saturating_add(in_memory),
                }
            }
        };
        let mut planners: Vec<Planner<'_>> = tasks.iter().map(Task::planner).collect();
        let mut planned = |threads: usize| {
            if planners.is_empty() {
                return search_with(threads).nothing(held(1));
            }
            search_with(threads).beside(&held, longest, |budget, wish| {
                let mut turns: Vec<[&mut Planner<'_>; 1]> = planners.iter_mut().map(|p| [p]).collect();
                let mut turns: Vec<&mut [&mut Planner<'_>]> = turns.iter_mut().map(|t| &mut t[..]).collect();
                Planner::joint(&mut turns, budget, wish)
            })
        };
        // Threads of a decoder change no bit, so they are the first to go.
        let (threads, (plans, budget, held)) = match planned(threads) {
            Err(Error::Budget { .. } | Error::Room { .. }) if threads > 1 => (1, planned(1)?),
            found => (threads, found?),
        };
        drop(planners);
        for task in &mut tasks {
            task.settings.recovery = Some(Recovery::new(&site.backend, budget));
        }
        let total = Total::in_turns(&plans, budget.is_apart(), held);
        let spilled = plans.iter().map(|plan| plan.peaks.disk).max().unwrap_or(0);
        let mut left = disk.saturating_sub(spilled);
        if recipe.finish.pool == Pool::Shot {
            recipe.finish.room = left / 2;
            left -= recipe.finish.room;
        }
        let room = match in_memory {
            0 => LatentRoom { folder: Some(site.spill.folder.clone()), bytes: left },
            bytes => LatentRoom { folder: None, bytes },
        };
        Ok(Film {
            how: how.clone(),
            format,
            recipe,
            notes,
            left: Vec::new(),
            manifest: None,
            networks,
            tasks,
            plans,
            total,
            apart: budget.is_apart(),
            room,
            site,
            threads,
            decoders,
            estimated: opened.is_estimated(),
            surroundings: Surroundings::new(opened, encoder, by_units),
            checkpoint_frame: saves_frames.then(|| checkpoint::frame_bytes(samples)),
        })
    }

    fn tasks(&self) -> Tasks<'_> {
        let planned = |i: usize| Planned { task: &self.tasks[i], plan: &self.plans[i] };
        match &self.networks.kind {
            NetworksKind::None => Tasks::None(self.site.control.token()),
            NetworksKind::Upscaler(_) => Tasks::Upscaler(planned(0)),
            NetworksKind::Diffusion(_) => {
                Tasks::Diffusion(Diffusion { encode: planned(0), transform: planned(1), decode: planned(2) })
            }
        }
    }

    /// Restores the film in one go.
    pub(crate) fn restore(&self, film: Whole<'_>, report: &Reporter<'_>) -> Result<Done, Error> {
        let mut events = |event: Event<'_>| report.networks(&event);
        Ok(restore(film, &self.recipe, self.tasks(), &self.room, &mut events)?)
    }

    /// Restores a unit.
    pub(crate) fn restore_unit(
        &self,
        restoring: Restoring<'_>,
        open: &mut Opener<'_>,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<Done, UnitsError> {
        let Restoring { unit, from, sink, kept } = restoring;
        let work = UnitWork { unit, from, open, sink, checkpoint: Some(kept) };
        Ok(restore_unit(work, &self.recipe, self.tasks(), self.look_back(), &self.room, events)?)
    }

    /// How far back the networks see.
    pub(crate) fn look_back(&self) -> LookBack {
        self.networks.diffusion().map_or(LookBack::default(), |diffusion| diffusion.vae.look_back())
    }

    /// Bytes of a latent.
    pub(super) fn latent(&self) -> u64 {
        let channels = self.networks.diffusion().map_or(0, |diffusion| diffusion.vae.latent());
        latent_bytes(&self.recipe.geometry, channels)
    }

    /// The format of the frames that are written.
    pub(crate) fn shown(&self) -> Format {
        self.how.shown_at(&self.format, self.recipe.shown)
    }

    /// What the run is about.
    pub(crate) fn about(&self, input: &Path, output: &Path) -> About {
        self.site.about(&self.networks.names[0], &input.display(), output)
    }
}

/// Frames of a slice where one length is best: long ones make networks faster, and there may be none.
fn usual_slice(how: &Restoration, networks: &Networks) -> Option<usize> {
    match networks.by_frame() {
        true => Some(1),
        false => how.models.is_identity().then_some(SLICES[SLICES.len() - 1]),
    }
}

/// The networks over the clip that was opened, and frames that a slice has at most.
fn tasks(
    networks: &mut Networks,
    recipe: &Recipe,
    opened: &Opened,
    site: &Site,
) -> Result<(Vec<Task>, usize), Error> {
    let (geometry, frames) = (&recipe.geometry, opened.source.format().frames);
    // Only one frame is sure not to be cut.
    let open_ended = !(opened.counted && frames == Some(1));
    let diffusion = match (&mut networks.kind, &recipe.upscale) {
        (NetworksKind::Upscaler(upscaler), Some(upscale)) => {
            let task = upscaler.film_task(upscale, frames.unwrap_or(1), open_ended, site);
            return Ok((vec![task], 1));
        }
        (NetworksKind::Upscaler(_) | NetworksKind::None, _) => return Ok((Vec::new(), 1)),
        (NetworksKind::Diffusion(diffusion), _) => diffusion,
    };
    let (clip, _) = video::clip(geometry, frames, opened.counted)?;
    let [width, height] = geometry.padded;
    // A count that is not sure may be too small.
    let most = recipe.sampling.windows.frames();
    let window = if opened.counted { most.min(clip.frames()) } else { most };
    let size = transformer::Size::new(window, height, width)?;
    let tasks = vec![
        diffusion.vae.task(Direction::Encode, clip, open_ended),
        diffusion.transformer(&size, site),
        diffusion.vae.task(Direction::Decode, clip, open_ended),
    ];
    Ok((tasks, clip.frames()))
}

/// Bytes of a latent for frames of this size.
fn latent_bytes(geometry: &Geometry, channels: usize) -> u64 {
    let cells = |n: usize| (n / SPACE) as u64;
    let [width, height] = geometry.padded;
    4 * channels as u64 * cells(width) * cells(height)
}
