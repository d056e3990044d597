//! A film for other machines to do: its plan in a store, and jobs for schedulers.

use std::path::Path;
use std::time::Instant;

use remaster_media::MediaError;
use remaster_store::Store;
use serde::Serialize;

use super::{bucket_settings, make};
use crate::control::Control;
use crate::destination;
use crate::error::Error;
use crate::event::{About, Event, Reporter};
use crate::job::Context;
use crate::limits::{Limits, Room};
use crate::machine::host::Machine;
use crate::media::is_pipe;
use crate::outcome::Estimate;
use crate::request::Request;
use crate::restore::{Staged, output_of, takes_units};
use remaster_units::emit::Job;

/// A plan that was put into a store.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StoredPlan {
    /// Where it is.
    pub store: String,
    /// The film that will be made.
    pub output: String,
    /// All of them.
    pub units: usize,
    /// Of the film.
    pub frames: usize,
    /// In a segment, about.
    pub piece_frames: usize,
    /// Hash of the plan.
    pub plan: String,
    /// How long a machine like this one takes for all of it.
    #[serde(flatten)]
    pub time: Option<Estimate>,
    /// How long it takes for a unit, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_seconds: Option<f64>,
    /// A job that does its units, to be completed with what only the scheduler knows.
    #[serde(skip)]
    pub job: Job,
}

/// Plans a film into a folder or bucket.
pub fn plan_into(
    request: Request,
    url: &str,
    machine: &Machine,
    control: &Control,
    events: &mut dyn FnMut(Event),
) -> Result<StoredPlan, Error> {
    let report = &Reporter::new(events);
    if is_pipe(&request.input) {
        return Err(Error::PlanPipe);
    }
    let output = output_of(&request)?;
    destination::check_frames(&output, &[&request.input], true)?;
    // Jobs replace what they made themselves, so that they can be started again.
    if output.exists() {
        let reason = "it exists; remove it or choose another output".into();
        return Err(MediaError::Place { path: output, reason }.into());
    }
    if !takes_units(&request, &output) {
        return Err(Error::NoUnits { path: output });
    }
    let store = Store::make(url, bucket_settings(machine))?;
    store.probe()?;
    let mut stage = Staged::new(request, output, &Context { machine, control, report })?;
    let cut = stage.request.units.cut.clone();
    let unit_frames = stage.unit_frames(cut.unit_frames).unwrap_or(cut.unit_frames as usize);
    let settings = stage.settings(&cut, unit_frames)?;
    report.started("frames", About::default());
    make::declare(&stage, report);
    let plan = make::plan(&mut stage, settings, report)?;
    report.notes(make::apart_note(&mut stage, &plan)?.as_slice());
    let journal = make::put(store, &plan)?;
    // Nobody works on it yet.
    let _ = journal.store().forget_probes();
    stage.film.format.frames = Some(plan.frames);
    stage.film.surroundings.unit_frames = plan.frames.div_ceil(plan.units.len().max(1));
    // A worker gets ready anew; what was looked through here is not looked through again.
    stage.film.surroundings.began = Instant::now();
    let time = Estimate::of(&stage.film, false, report);
    Ok(StoredPlan {
        store: url.to_owned(),
        output: stage.output.display().to_string(),
        units: plan.units.len(),
        frames: plan.frames,
        piece_frames: plan.piece_frames,
        plan: journal.plan().hash().to_string(),
        unit_seconds: time.and_then(|time| time.unit_seconds),
        time,
        job: job(&stage, url, plan.units.len())?,
    })
}

/// A job that does the units of a plan. It gives each the `--ram` that was asked for, or else what the plan takes.
fn job(stage: &Staged, url: &str, units: usize) -> Result<Job, Error> {
    let (request, output) = (&stage.request, &stage.output);
    let limits = &request.how.limits;
    let ram = match limits.ram == Limits::default().ram {
        true => stage.film.total.ram(),
        false => limits.allowed(&Room::of_run(stage.machine(), Some(output.as_path())))?,
    };
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let place =
        if url.contains("://") { url.to_owned() } else { whole(Path::new(url)).display().to_string() };
    // Workers repeat what a plan cannot hold.
    let filters = request.how.source.filters.as_ref().map(|filters| format!("--vf={}", filters.text()));
    let encoder = request.target.encoder.as_ref().map(|encoding| format!("--video={}", encoding.text()));
    let repeated: Vec<String> = filters.into_iter().chain(encoder).collect();
    // Which GPU a worker uses is its own affair; a film planned for the CPU is computed there.
    let backend = stage.film.site.backend.name();
    let gpu = backend == "gpu";
    let mut unit_words = repeated.clone();
    unit_words.extend((!gpu).then(|| format!("--device={backend}")));
    unit_words.extend(request.how.device.words());
    Ok(Job {
        name: output.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        plan: place,
        units: u32::try_from(units).unwrap_or(u32::MAX),
        output: Some(whole(output).display().to_string()),
        input: Some(whole(&request.input).display().to_string()),
        gpu,
        ram: Some(ram),
        // A GPU needs cores for the encoder only.
        cores: Some(if gpu {
            request.target.encoder_threads()
        } else {
            u32::try_from(stage.machine().cores).unwrap_or(u32::MAX)
        }),
        unit_words,
        assemble_words: repeated,
        ..Job::default()
    })
}
