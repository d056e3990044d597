//! The VAE on video: plans encoder and decoder, runs the pipeline, says what it took.

use std::path::Path;

use remaster_compute::{DType, Shape};
use remaster_engine::{Planner, Recovery, Task};
use remaster_media::{Format, FrameSource, Probe, probe};
use remaster_model::vae::Direction;
use remaster_plan::{Cells, Clip, MAX_FRAMES, divide};
use remaster_restore::clip::{Done, LatentTarget, decode, encode, roundtrip};
use remaster_restore::{Footage, Geometry, LatentFile, Lost, Origin, PipelineError, Planned};

use super::report::{self as words, Found, PhaseTook, Start, VaeOutcome};
use super::{VaeRequest, VaeWork};
use crate::destination::{self, Size};
use crate::error::Error;
use crate::event::Reporter;
use crate::job::Job;
use crate::limits::Room;
use crate::media::{Lazy, Opened, has_ending, is_pipe, is_video, refuse};
use crate::network::Network;
use crate::outcome::SourceInfo;
use crate::plan::{Search, Total, threads};
use crate::site::Site;
use crate::tensors;

/// True for video and pictures. Tensors in `.safetensors` files go another way.
pub(super) fn takes(request: &VaeRequest) -> bool {
    let of_tensors = |path: &Path| has_ending(path, "safetensors");
    match request.work {
        VaeWork::Encode => !of_tensors(&request.input),
        VaeWork::Roundtrip => !of_tensors(&request.input) && !of_tensors(&request.output),
        // Tensors without a clip around them become tensors of frames.
        VaeWork::Decode => !of_tensors(&request.output) && !LatentFile::is_plain(&request.input),
    }
}

/// Refuses what cannot be done before anything is opened. Says how many threads each ffmpeg has.
pub(super) fn check(request: &VaeRequest, room: &Room<'_>) -> Result<usize, Error> {
    match request.work {
        VaeWork::Encode => tensors::check_output(&request.output, &request.input, request.overwrite)?,
        _ => destination::check_frames(&request.output, &[&request.input], request.overwrite)?,
    }
    threads(&request.limits, room)
}

pub(super) fn prepare(
    request: VaeRequest,
    network: Network,
    threads: usize,
    report: &Reporter<'_>,
) -> Result<Job<VaeOutcome>, Error> {
    let Site { machine, control, .. } = &network.site;
    let tools = Lazy::new(&request.source, machine, control).with_threads(threads);
    report.started("frames", network.site.about(&request.weights, &request.input.display(), &request.output));
    let (work, run) = (request.work, Run { request, network, tools, threads });
    match work {
        VaeWork::Roundtrip => run.roundtrip(),
        VaeWork::Encode => run.encode(),
        VaeWork::Decode => run.decode(),
    }
}

struct Run {
    request: VaeRequest,
    network: Network,
    tools: Lazy,
    /// Of each child.
    threads: usize,
}

impl Run {
    fn roundtrip(mut self) -> Result<Job<VaeOutcome>, Error> {
        let copies = [("--streams", self.request.target.streams.is_some())];
        refuse(&copies, "a round trip, which copies from its input")?;
        let (opened, source, mut notes) = self.open()?;
        let format = &source.format;
        let geometry = self.request.size.geometry(format).with_alpha(format.layout.alpha);
        let shown = Format { width: geometry.shown[0], height: geometry.shown[1], ..format.clone() };
        let goal = self.request.goal(&shown, opened.counted);
        notes.extend(self.request.target.rehearse(&goal, opened.probe.as_ref(), &mut self.tools)?);
        let (clip, open_ended) = clip(&geometry, format.frames, opened.counted)?;
        let mut tasks = [Direction::Encode, Direction::Decode]
            .map(|direction| self.network.task(direction, clip, open_ended));
        let found = plan(&mut tasks, &self.search(Some(&opened), Some(&shown)), &geometry, &clip)?;
        Ok(Job::new(self.request.known(&notes, found.total), move |report| {
            let goal = self.request.goal(&shown, opened.counted);
            let (probe, originals) = (opened.probe.as_ref(), opened.originals.as_ref());
            let (sink, more) = self.request.target.create(&goal, probe, originals, &mut self.tools)?;
            notes.extend(more);
            self.announce(&found, &source, opened.counted, geometry.shown, &notes, report);
            let networks = [0, 1].map(|i| Planned { task: &tasks[i], plan: &found.plans[i] });
            let clamp = !self.network.is_identity();
            let footage = footage(opened.source, &self.request, &mut self.tools);
            let done =
                roundtrip(footage, sink, geometry, networks, clamp, &mut |event| report.engine(&event))?;
            report.late(&opened.late, &mut notes);
            Ok(self.finish(&done, geometry, Some(source), notes, found, report))
        }))
    }

    fn encode(mut self) -> Result<Job<VaeOutcome>, Error> {
        self.request.target.refuse("latents")?;
        let (opened, source, mut notes) = self.open()?;
        let format = &source.format;
        if format.layout.alpha {
            notes.push("latent files cannot store alpha: it is dropped".into());
        }
        let geometry = self.request.size.geometry(format);
        let (clip, open_ended) = clip(&geometry, format.frames, opened.counted)?;
        let network = self.network.identity()?;
        let origin = origin(&self.request.input, opened.probe.as_ref())?;
        let Cells { steps, rows, columns } = clip.cells();
        let latents = Shape::new(steps, rows, columns, self.network.latent()).bytes(DType::F32);
        let machine = &self.network.site.machine;
        notes.extend(destination::check_room(&self.request.output, latents, Size::Exact, machine)?);
        let mut tasks = [self.network.task(Direction::Encode, clip, open_ended)];
        let found = plan(&mut tasks, &self.search(Some(&opened), None), &geometry, &clip)?;
        Ok(Job::new(self.request.known(&notes, found.total), move |report| {
            self.announce(&found, &source, opened.counted, geometry.shown, &notes, report);
            let (path, overwrite) = (self.request.output.as_path(), self.request.overwrite);
            let target = LatentTarget { path, overwrite, network, origin };
            let network = Planned { task: &tasks[0], plan: &found.plans[0] };
            let channels = self.network.latent();
            let footage = footage(opened.source, &self.request, &mut self.tools);
            let done =
                encode(footage, target, geometry, network, channels, &mut |event| report.engine(&event))?;
            report.late(&opened.late, &mut notes);
            Ok(self.finish(&done, geometry, Some(source), notes, found, report))
        }))
    }

    fn decode(mut self) -> Result<Job<VaeOutcome>, Error> {
        let request = &self.request;
        request.size.refuse("latents, whose size is fixed")?;
        let file = LatentFile::open(&request.input)?;
        file.one_clip()?;
        file.made_by(&self.network.identity()?)?;
        file.has_channels(self.network.latent())?;
        let shape = file.shape();
        let size = |source| Error::Size { path: request.input.clone(), source };
        let clip = Clip::of_latents(shape.t, shape.h, shape.w).map_err(size)?;
        let frames = file.frames();
        let Some(format) = file.about().format(frames) else {
            let reason = format!("unknown pixel format {}", file.about().samples);
            return Err(PipelineError::Latents { path: request.input.clone(), reason }.into());
        };
        let geometry = file.about().geometry;
        let (probe, mut notes) = self.streams(&file)?;
        let goal = self.request.goal(&format, true);
        notes.extend(self.request.target.rehearse(&goal, probe.as_ref(), &mut self.tools)?);
        let mut tasks = [self.network.task(Direction::Decode, clip, false)];
        let found = plan(&mut tasks, &self.search(None, Some(&format)), &geometry, &clip)?;
        let source = SourceInfo { format: format.clone(), frames_estimated: false };
        Ok(Job::new(self.request.known(&notes, found.total), move |report| {
            let goal = self.request.goal(&format, true);
            let (sink, more) = self.request.target.create(&goal, probe.as_ref(), None, &mut self.tools)?;
            notes.extend(more);
            self.announce(&found, &source, true, geometry.shown, &notes, report);
            let network = Planned { task: &tasks[0], plan: &found.plans[0] };
            let clamp = !self.network.is_identity();
            let done = decode(&file, sink, network, clamp, &mut |event| report.engine(&event))?;
            Ok(self.finish(&done, geometry, None, notes, found, report))
        }))
    }

    /// The input, what it is, and what was guessed about it.
    fn open(&mut self) -> Result<(Opened, SourceInfo, Vec<String>), Error> {
        let allowed = self.request.limits.allowed(&self.room())?;
        let mut opened = self.request.source.open(&self.request.input, allowed, &mut self.tools)?;
        let notes = std::mem::take(&mut opened.notes);
        let format = opened.source.format().clone();
        let source = SourceInfo { format, frames_estimated: opened.is_estimated() };
        Ok((opened, source, notes))
    }

    fn room(&self) -> Room<'_> {
        Room::of_run(&self.network.site.machine, Some(&self.request.output))
    }

    /// Where sound, subtitles, chapters and tags of a decoded clip come from, and notes about it.
    fn streams(&mut self, file: &LatentFile) -> Result<(Option<Probe>, Vec<String>), Error> {
        let request = &self.request;
        let origin = file.about().origin.as_ref();
        if !is_video(&request.output) {
            let streams = origin.map_or(0, |o| o.streams);
            let dropped = format!("only video files can store audio or subtitles: {streams} dropped");
            return Ok((None, if streams > 0 { vec![dropped] } else { Vec::new() }));
        }
        let (path, mut notes) = match (&request.target.streams, origin) {
            (Some(path), origin) => {
                let other = origin.is_some_and(|o| !o.is(path).unwrap_or(false));
                let note = format!("{} is not the file that was encoded", path.display());
                (path.clone(), if other { vec![note] } else { Vec::new() })
            }
            (None, None) => return Ok((None, Vec::new())),
            (None, Some(origin)) => match origin.find(&request.input) {
                Ok(path) => (path, Vec::new()),
                Err(lost) => {
                    let why = match lost {
                        Lost::Missing => "is missing",
                        Lost::Changed => "has changed",
                    };
                    // A stranger's words: no line breaks in a line of ours.
                    let source = origin.path.replace(char::is_control, "\u{fffd}");
                    if request.target.no_audio {
                        return Ok((None, vec![format!("{source} {why}: writing video only")]));
                    }
                    return Err(Error::Lost { path: request.input.clone(), origin: source, why });
                }
            },
        };
        let span = origin.map(|o| o.span).unwrap_or_default();
        let probe = probe(self.tools.get()?, &path)?.within(span)?;
        notes.push(format!("copying audio, subtitles, chapters and tags from {}", path.display()));
        Ok((Some(probe), notes))
    }

    /// Looks for plans beside ffmpeg, which decodes `from` and encodes what is `shown`.
    fn search(&self, from: Option<&Opened>, shown: Option<&Format>) -> Search<'_> {
        let request = &self.request;
        let decodes = from.map_or(0, |opened| request.source.ffmpeg_memory(opened, self.threads));
        let from = from.and_then(|opened| opened.probe.as_ref());
        let encodes = shown.map_or(0, |format| request.target.encoder_bytes(&request.output, format, from));
        Search {
            backend: self.network.site.backend,
            limits: &request.limits,
            room: self.room(),
            children: decodes.saturating_add(encodes),
        }
    }

    /// Says what will be done. The number of frames is sure if they were `counted`.
    fn announce(
        &self,
        found: &Found,
        source: &SourceInfo,
        counted: bool,
        shown: [usize; 2],
        notes: &[String],
        report: &Reporter<'_>,
    ) {
        for line in self.tools.details() {
            report.detail(line);
        }
        let (frames, estimated) = (source.format.frames, source.frames_estimated);
        let start = Start { found, frames, counted, estimated, shown, notes };
        words::announce(&self.request, &self.network, report, &start);
        report.phase("finish", Some(0));
    }

    fn finish(
        self,
        done: &Done,
        geometry: Geometry,
        source: Option<SourceInfo>,
        notes: Vec<String>,
        found: Found,
        report: &Reporter<'_>,
    ) -> VaeOutcome {
        let Run { request, network, tools, .. } = self;
        report.children(tools.children_peak(), &found.total);
        report.advance("finish", 0, done.finishing);
        let networks = found.names.iter().zip(&found.plans);
        let phases = networks.map(|(name, plan)| PhaseTook::new(name, plan, report)).collect();
        let frames = (done.frames, geometry.shown);
        let outcome = words::finish(&request, &network, report, frames, found, phases);
        VaeOutcome { geometry: Some(geometry), source, notes, ..outcome }
    }
}

/// Plans networks that are there at the same time, and says what each may use if its device fails.
fn plan(tasks: &mut [Task], search: &Search<'_>, geometry: &Geometry, clip: &Clip) -> Result<Found, Error> {
    let mut planners: Vec<Planner<'_>> = tasks.iter().map(Task::planner).collect();
    let mut turn: Vec<&mut Planner<'_>> = planners.iter_mut().collect();
    let (plans, budget, held) =
        search.run(geometry, clip, |budget, wish| Planner::joint(&mut [&mut turn], budget, wish))?;
    drop(planners);
    for (task, budget) in tasks.iter_mut().zip(divide(&budget, &plans)) {
        task.settings.recovery = Some(Recovery::new(&search.backend, budget));
    }
    let names = tasks.iter().map(|task| task.network.name()).collect();
    let total = Total::of(&plans, budget.is_apart(), held);
    Ok(Found { names, plans, apart: budget.is_apart(), total })
}

/// The frames of the input, which a file gives again if the device is lost.
fn footage<'a>(source: Box<dyn FrameSource>, request: &'a VaeRequest, tools: &'a mut Lazy) -> Footage<'a> {
    // A named pipe is no file.
    let stays = |path: &Path| path.metadata().is_ok_and(|m| m.is_file() || m.is_dir());
    if is_pipe(&request.input) || !stays(&request.input) {
        return source.into();
    }
    // It fitted when it was opened first; what is free now says nothing.
    let again = move || Ok(request.source.open(&request.input, u64::MAX, tools)?.source);
    Footage { source, again: Some(Box::new(again)) }
}

/// What a latent file keeps of its input.
fn origin(path: &Path, probe: Option<&Probe>) -> Result<Option<Origin>, Error> {
    let Some(probe) = probe else { return Ok(None) };
    let origin = Origin::of(path, probe.others.len(), probe.chapters).map_err(Error::reading(path))?;
    Ok(origin.map(|origin| Origin { span: probe.span(), ..origin }))
}

/// The clip to plan for, and whether only its source knows where it ends.
pub(crate) fn clip(geometry: &Geometry, frames: Option<usize>, counted: bool) -> Result<(Clip, bool), Error> {
    let [width, height] = geometry.padded;
    // Without a count the container's word is a hint, and it may claim any length.
    let frames = frames.unwrap_or(1).clamp(1, MAX_FRAMES - 3);
    let clip = Clip::new((frames - 1).next_multiple_of(4) + 1, height, width);
    Ok((clip.map_err(|source| Error::Sizes { source })?, !counted))
}
