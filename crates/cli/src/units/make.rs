//! A plan for a film: its shots and times, cut into units, in a store.

use std::ops::ControlFlow;
use std::time::Instant;

use remaster_media::TimeBase;
use remaster_restore::Cuts;
use remaster_store::{Journal, Store};
use remaster_units::{FilmPlan, Settings, Survey, UnitsError, survey};

use crate::error::CliError;
use crate::media::has_ending;
use crate::progress::Progress;
use crate::report::warn_late;
use crate::restore::Staged;

/// The phase in which the film is looked through.
const SCAN: &str = "scan";

/// Looks through the film and cuts it.
pub(super) fn plan(
    stage: &mut Staged<'_>,
    settings: Settings,
    progress: &mut Progress,
) -> Result<FilmPlan, CliError> {
    let found = match listed(stage) {
        Some(found) => found,
        None => scanned(stage, progress)?,
    };
    if found.shots.is_empty() {
        return Err(remaster_restore::RestoreError::Empty.into());
    }
    let piece_frames = match stage.args.local.cut.piece_frames {
        Some(frames) => frames as usize,
        None => stage.piece_frames(settings.unit_frames),
    };
    let (windows, pool) = (&stage.film.recipe.sampling.windows, stage.film.recipe.finish.pool);
    Ok(FilmPlan::new(settings, &found, piece_frames, windows, pool, stage.film.look_back())?)
}

/// What is known without a look: raw frames are counted, and a list says where shots are.
fn listed(stage: &Staged<'_>) -> Option<Survey> {
    let Cuts::At(shots) = &stage.film.recipe.cuts else { return None };
    let frames = shots.frames().filter(|_| has_ending(&stage.args.input, "y4m"))?;
    if stage.args.how.source.is_cut() || stage.shown.layout.alpha {
        return None;
    }
    let ends = shots.starts().iter().skip(1).copied().chain([frames]);
    let lengths = shots.starts().iter().zip(ends).map(|(start, end)| end.saturating_sub(*start));
    let shots = lengths.map(|n| (usize::try_from(n).unwrap_or(0), None));
    let time_base: TimeBase = stage.film.format.time_base;
    Some(Survey { time_base, shots: shots.filter(|(frames, _)| *frames > 0).collect(), times: None })
}

/// Says that the film will be looked through, before the other phases.
pub(super) fn declare(stage: &Staged<'_>, progress: &mut Progress) {
    match (listed(stage), stage.film.format.frames) {
        (Some(_), _) => {}
        (None, Some(n)) => progress.phase_about(SCAN, n),
        (None, None) => progress.phase(SCAN, None),
    }
}

fn scanned(stage: &mut Staged<'_>, progress: &mut Progress) -> Result<Survey, CliError> {
    let source = stage.source()?;
    progress.enter(SCAN);
    let mut last = Instant::now();
    let mut each = |_| {
        progress.advance(SCAN, 1, last.elapsed());
        last = Instant::now();
        if stage.cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let found = survey(source, &stage.film.recipe.cuts, &mut each)?;
    warn_late(&stage.late, progress, &mut stage.film.notes);
    Ok(found)
}

/// Puts a plan into a store.
pub(super) fn put(store: Store, plan: &FilmPlan) -> Result<Journal, CliError> {
    let units = u32::try_from(plan.units.len())
        .map_err(|_| UnitsError::Plan { reason: "it has too many units".into() })?;
    let text = plan.to_json()?;
    Ok(Journal::make(store, units, &text)?)
}

/// The plan of a store.
pub(super) fn open(store: Store) -> Result<(Journal, FilmPlan), CliError> {
    let journal = Journal::open(store)?;
    let plan = FilmPlan::from_json(journal.plan().text())?;
    match plan.units.len() as u64 == u64::from(journal.plan().units()) {
        true => Ok((journal, plan)),
        false => Err(UnitsError::Plan { reason: "its number of units is wrong".into() }.into()),
    }
}
