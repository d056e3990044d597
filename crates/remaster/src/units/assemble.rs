//! Joins units into the film.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use remaster_media::place::{self, Scratch};
use remaster_media::{Film, Format, MediaError, Probe, WriteOptions, join};
use remaster_plan::Windows;
use remaster_restore::Pool;
use remaster_store::{Journal, Sweep};
use remaster_units::{FilmPlan, First, Input, Manifest, UnitsError, Watch, assemble};
use serde::Serialize;

use super::pinned::{self, Repeated};
use super::{make, store, tidy};
use crate::control::Control;
use crate::destination;
use crate::error::Error;
use crate::event::Reporter;
use crate::job::{Context, Job, Known, Prepare};
use crate::machine::producers;
use crate::media::{Lazy, Programs, Target};
use crate::numbers::count;

/// Bytes that are compared at a time.
const BLOCK: usize = 1 << 18;

/// The phase of joining.
const JOIN: &str = "finish";

/// What is joined into what.
pub(super) struct Goal<'a> {
    /// Looks after the film that was restored: sound and subtitles come from it.
    pub(super) watch: Watch,
    pub(super) path: &'a Path,
    pub(super) overwrite: bool,
    /// Of the film that is written.
    pub(super) format: &'a Format,
    /// Where other streams come from.
    pub(super) from: Option<&'a Probe>,
    pub(super) target: &'a Target,
    /// For copies of pieces.
    pub(super) folder: &'a Path,
    pub(super) windows: Windows,
    pub(super) pool: Pool,
    pub(super) manifest: bool,
    /// Settings go into the film, too.
    pub(super) embed: bool,
}

/// What came out.
pub(super) struct Joined {
    pub(super) notes: Vec<String>,
    pub(super) took: Duration,
    pub(super) manifest: Option<PathBuf>,
    /// Units whose frames are those of the input.
    pub(super) left: Vec<u32>,
}

/// Watches the film at `path` until the run is cancelled.
pub(crate) fn watch(path: &Path, input: &Input, first: First, control: &Control) -> Watch {
    let control = control.clone();
    Watch::new(path, input, first, Arc::new(move || control.is_cancelled()))
}

/// Refuses a film that was replaced, where errors are those of media.
pub(crate) fn unchanged(watch: &Watch) -> Result<(), MediaError> {
    let other = std::io::Error::other::<UnitsError>;
    watch.check().map_err(|error| MediaError::Io { doing: "finish the film".into(), source: other(error) })
}

/// Joins the units of a plan and writes what the film was made of beside it.
pub(super) fn join_units(
    (journal, plan): (&Journal, &FilmPlan),
    tools: &mut Lazy,
    goal: &Goal<'_>,
    report: &Reporter<'_>,
) -> Result<Joined, Error> {
    let began = Instant::now();
    report.phase(JOIN, Some(0));
    report.enter(JOIN);
    let mut notes = Vec::new();
    let kind = plan.settings.segments;
    let threads = plan.settings.numerics.threads;
    let found = tools.get()?.clone();
    let inputs = tools.inputs();
    let watch = &goal.watch;
    watch.check()?;
    let tag = match goal.embed {
        true => Some(Manifest::tag(plan, journal.plan().hash())?),
        false => None,
    };
    // A run that was killed behind its last step has put the film in its place: it is joined again and compared.
    let again = (!goal.overwrite && goal.path.symlink_metadata().is_ok()).then(|| again(goal));
    let path = again.as_deref().unwrap_or(goal.path);
    let commits = assemble(journal, plan, (&goal.windows, goal.pool), goal.folder, &mut |segments| {
        let options = WriteOptions { tag: tag.clone(), ..goal.target.write_options(goal.overwrite, threads) };
        let film = Film { path, format: goal.format, from: goal.from, options: &options, kind };
        // An input that shrank or was replaced meanwhile is said before the film is in its place.
        let checks = std::iter::once_with(|| inputs.check()).chain(std::iter::once_with(|| unchanged(watch)));
        let checked = checks.filter_map(Result::err).map(Err);
        notes = join(&found, &film, plan.frames, &mut segments.chain(checked))?;
        Ok(())
    });
    let commits = match commits {
        Ok(commits) => commits,
        Err(error) => {
            watch.check()?;
            return Err(error.into());
        }
    };
    if let Some(again) = again {
        let same = same_bytes(&again, goal.path);
        let _ = remaster_disk::remove(&again);
        if !same.map_err(Error::reading(goal.path))? {
            return Err(MediaError::Exists { path: goal.path.to_owned() }.into());
        }
    }
    let left: Vec<u32> = commits.iter().filter(|commit| commit.left).map(|commit| commit.unit).collect();
    if !left.is_empty() {
        let list: Vec<String> = left.iter().take(20).map(ToString::to_string).collect();
        let keep = if left.len() == 1 { "keeps" } else { "keep" };
        let units = count(left.len(), "unit");
        let note = format!("{units} {keep} the input frames: {}", list.join(", "));
        report.warn(&note);
        notes.push(note);
    }
    let manifest = match goal.manifest {
        true => {
            let manifest = Manifest::new(goal.path, plan, journal.plan().hash(), &commits)?;
            Some(manifest.write(goal.path)?)
        }
        false => None,
    };
    Ok(Joined { notes, took: began.elapsed(), manifest, left })
}

/// Where a film is joined that is compared with the one in its place.
fn again(goal: &Goal<'_>) -> PathBuf {
    let path = goal.folder.join("same");
    match goal.path.extension() {
        Some(ending) => path.with_extension(ending),
        None => path,
    }
}

fn same_bytes(a: &Path, b: &Path) -> io::Result<bool> {
    // A folder or a pipe is no film.
    if !b.metadata()?.is_file() {
        return Ok(false);
    }
    let [mut a, mut b] = [remaster_disk::read_named(a)?, remaster_disk::read_named(b)?];
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; BLOCK], vec![0; BLOCK]);
    loop {
        let n = a.read(&mut left)?;
        if n == 0 {
            return Ok(true);
        }
        b.read_exact(&mut right[..n])?;
        if left[..n] != right[..n] {
            return Ok(false);
        }
    }
}

/// Refuses to replace a file that is no manifest of ours by one, before the work.
pub(super) fn check_manifest(film: &Path, overwrite: bool) -> Result<(), Error> {
    let path = Manifest::beside(film);
    match !overwrite && path.symlink_metadata().is_ok() && Manifest::of(film).is_err() {
        true => Err(MediaError::Exists { path }.into()),
        false => Ok(()),
    }
}

/// Joins the units of a plan.
#[derive(Clone, Debug)]
pub struct AssembleRequest {
    /// Folder or URL of the plan.
    pub plan: OsString,
    /// The film that was planned.
    pub input: PathBuf,
    /// What is written.
    pub output: PathBuf,
    /// Replace an output that exists.
    pub overwrite: bool,
    /// Folder for temporary data; that of the output if `None`.
    pub temp: Option<PathBuf>,
    /// Write `OUTPUT.manifest.json`.
    pub manifest: bool,
    /// Also store the settings in the film itself.
    pub embed_manifest: bool,
    /// Filters and encoder options that the plan cannot hold.
    pub repeated: Repeated,
    /// Where ffmpeg is.
    pub programs: Programs,
}

/// A film that was joined.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Assembled {
    /// What was written.
    pub output: String,
    /// All of it.
    pub frames: usize,
    /// That were joined.
    pub units: usize,
    /// Units whose frames are those of the input.
    pub left: Vec<u32>,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// What may not be wanted.
    pub notes: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// Opens plan and film. The job joins the units: it checks each of them, copies audio, subtitles, chapters and tags from the
/// input, and writes a manifest.
impl Prepare for AssembleRequest {
    type Job = Job<Assembled>;

    fn prepare(self, &Context { machine, control, .. }: &Context<'_, '_>) -> Result<Self::Job, Error> {
        let (journal, plan) = make::open(store(&self.plan, machine)?)?;
        producers::distrust(&journal, machine)?;
        let (input, output) = (&self.input, &self.output);
        // Whoever joined this plan may have been killed when the film was in its place: what is there is compared.
        destination::check_frames(output, &[input], true)?;
        if self.manifest {
            check_manifest(output, self.overwrite)?;
        }
        let same = destination::kind(output)? == destination::kind(plan.output())?;
        if !same {
            return Err(Error::OtherContainer { path: output.clone(), planned: plan.output().to_owned() });
        }
        // All of it is read, unless it was not touched since it was planned here.
        let watch = watch(input, &plan.settings.input, First::Whole, control);
        watch.check()?;
        let mut planned = pinned::planned(plan.settings.asked(), &self.repeated, input, output)?;
        planned.how.source.programs = self.programs.clone();
        let mut tools = Lazy::new(&planned.how.source, machine, control);
        let opened = planned.how.source.open(input, u64::MAX, &mut tools)?;
        let format = opened.source.format().clone();
        drop(opened.source);
        let shown = planned.how.shown(&format);
        tidy(machine, []);
        let (windows, pool) = planned.how.pools()?;
        let known = Known { output: Some(output.clone()), notes: opened.notes, total: None };
        Ok(Job::new(known, move |report| {
            let output = &self.output;
            let near = self.temp.as_deref().unwrap_or(place::parent(output));
            let folder = Scratch::new(Some(near)).map_err(Error::writing(near))?;
            let goal = Goal {
                watch,
                path: output,
                overwrite: self.overwrite,
                format: &shown,
                from: opened.probe.as_ref(),
                target: &planned.target,
                folder: folder.path(),
                windows,
                pool,
                manifest: self.manifest,
                embed: self.embed_manifest,
            };
            let joined = join_units((&journal, &plan), &mut tools, &goal, report)?;
            // Attempts that lost and what killed workers left are of no use any more. A film is not worse for them.
            let _ = journal.clean(Sweep::Losers);
            let _ = journal.store().forget_probes();
            Ok(Assembled {
                output: output.display().to_string(),
                frames: plan.frames,
                units: plan.units.len(),
                left: joined.left,
                manifest: joined.manifest.map(|path| path.display().to_string()),
                notes: joined.notes,
                seconds: joined.took.as_secs_f64(),
            })
        }))
    }
}
