//! `remaster assemble`: joins units into the film.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use remaster_media::{Film, Format, MediaError, Probe, WriteOptions, join};
use remaster_plan::Windows;
use remaster_restore::Pool;
use remaster_store::Journal;
use remaster_units::{FilmPlan, Manifest, UnitsError, Watch, assemble};
use serde::Serialize;

use super::args::AssembleArgs;
use super::{make, store, words};
use crate::destination;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::media::{Lazy, TargetArgs};
use crate::output::Output;
use crate::progress::Progress;
use crate::report::conclude;

/// The phase of joining.
const JOIN: &str = "finish";

/// What is joined into what.
pub(super) struct Goal<'a> {
    /// The film that was restored.
    pub(super) input: &'a Path,
    pub(super) path: &'a Path,
    pub(super) overwrite: bool,
    /// Of the film that is written.
    pub(super) format: &'a Format,
    /// Where other streams come from.
    pub(super) from: Option<&'a Probe>,
    pub(super) target: &'a TargetArgs,
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

/// Joins the units of a plan and writes what the film was made of beside it.
pub(super) fn join_units(
    (journal, plan): (&Journal, &FilmPlan),
    tools: &mut Lazy<'_>,
    goal: &Goal<'_>,
    progress: &mut Progress,
) -> Result<Joined, CliError> {
    let began = Instant::now();
    progress.phase(JOIN, Some(0));
    progress.enter(JOIN);
    let mut notes = Vec::new();
    let kind = plan.settings.segments;
    let threads = plan.settings.numerics.threads;
    let found = tools.get()?.clone();
    let inputs = tools.inputs();
    // Sound and subtitles come from it.
    let watch = Watch::new(goal.input, &plan.settings.input);
    let other = std::io::Error::other::<UnitsError>;
    let tag = match goal.embed {
        true => Some(Manifest::tag(plan, journal.plan().hash())?),
        false => None,
    };
    let commits = assemble(journal, plan, (&goal.windows, goal.pool), goal.folder, &mut |segments| {
        let options = WriteOptions { tag: tag.clone(), ..goal.target.joined(goal.overwrite, threads) };
        let film = Film { path: goal.path, format: goal.format, from: goal.from, options: &options, kind };
        // An input that shrank or was replaced meanwhile is said before the film is in its place.
        let same =
            || watch.check().map_err(|e| MediaError::Io { doing: "join the units".into(), source: other(e) });
        let checks = std::iter::once_with(|| inputs.check()).chain(std::iter::once_with(same));
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
    let left: Vec<u32> = commits.iter().filter(|commit| commit.left).map(|commit| commit.unit).collect();
    if !left.is_empty() {
        let list: Vec<String> = left.iter().take(20).map(ToString::to_string).collect();
        let note = format!("{} units keep their input frames: {}", left.len(), list.join(", "));
        progress.warn(&note);
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

/// The JSON document.
#[derive(Debug, Serialize)]
struct Report {
    output: String,
    frames: usize,
    units: usize,
    /// Units whose frames are those of the input.
    left: Vec<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<String>,
    notes: Vec<String>,
    seconds: f64,
}

pub(crate) fn run(args: &AssembleArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let cancel = interrupt.watch()?;
    let (journal, plan) = make::open(store(&args.plan)?)?;
    let input = args.input.clone().unwrap_or_else(|| plan.settings.input.path.clone().into());
    let output = args.output.clone().unwrap_or_else(|| plan.output().to_owned());
    destination::check_frames(&output, &[&input], args.yes, out)?;
    let same = destination::kind(&output)? == destination::kind(plan.output())?;
    if !same {
        return Err(CliError::OtherContainer { path: output, planned: plan.output().to_owned() });
    }
    plan.settings.input.check(&input)?;
    let words = &plan.settings.words;
    let mut planned = words::parsed(words, &input.display().to_string(), &output.display().to_string())?;
    planned.how.source.programs = args.programs.clone();
    let mut tools = Lazy::new(&planned.how.source, &cancel, interrupt);
    let opened = planned.how.source.open(&input, u64::MAX, &mut tools)?;
    let format = opened.source.format().clone();
    drop(opened.source);
    let shown = planned.how.shown(&format);
    let folder = match &args.temp {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir_in(remaster_media::place::parent(&output)),
    };
    let folder = folder.map_err(|source| CliError::Write { path: output.clone(), source })?;
    let mut progress = Progress::new(args.progress.mode, out);
    let (windows, pool) = planned.how.pools()?;
    let goal = Goal {
        input: &input,
        path: &output,
        overwrite: args.yes,
        format: &shown,
        from: opened.probe.as_ref(),
        target: &planned.target,
        folder: folder.path(),
        windows,
        pool,
        manifest: !args.no_manifest,
        embed: args.embed_manifest,
    };
    let joined = join_units((&journal, &plan), &mut tools, &goal, &mut progress)?;
    let _ = progress.finish();
    let report = Report {
        output: output.display().to_string(),
        frames: plan.frames,
        units: plan.units.len(),
        left: joined.left,
        manifest: joined.manifest.map(|path| path.display().to_string()),
        notes: joined.notes,
        seconds: joined.took.as_secs_f64(),
    };
    let text = || {
        format!(
            "wrote {}: {} frames of {} units, in {:.1} s",
            report.output, report.frames, report.units, report.seconds
        )
    };
    conclude(&report, text, &output, args.progress.mode, out);
    Ok(())
}
