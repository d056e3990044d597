//! A plan for a film: its shots and times, cut into units, in a store.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use remaster_store::{Hash, Journal, Store};
use remaster_units::{FilmPlan, Input, Settings, Survey, UnitPlan, UnitsError, read_all, survey};

use crate::error::Error;
use crate::event::Reporter;
use crate::media::UnitStart;
use crate::restore::Staged;

/// The phase in which the film is looked through.
const SCAN: &str = "scan";

/// Looks through the film and cuts it.
pub(super) fn plan(
    stage: &mut Staged,
    mut settings: Settings,
    report: &Reporter<'_>,
) -> Result<FilmPlan, Error> {
    // Also with a list of shots: what the list says of the film may be wrong.
    let (found, sha256) = read(stage, report)?;
    let input = &stage.request.input;
    if Input::of(input)?.identity != settings.input.identity {
        return Err(UnitsError::Changing { path: input.clone() }.into());
    }
    settings.input.sha256 = Some(sha256);
    if found.shots.is_empty() {
        return Err(remaster_restore::RestoreError::Empty.into());
    }
    let piece_frames = match stage.request.units.cut.piece_frames {
        Some(frames) => frames as usize,
        None => stage.piece_frames(settings.unit_frames),
    };
    let (windows, pool) = (&stage.film.recipe.sampling.windows, stage.film.recipe.finish.pool);
    let plan = FilmPlan::new(settings, &found, piece_frames, windows, pool, stage.film.look_back())?;
    stage.check_list(plan.frames)?;
    Ok(plan)
}

/// Says that the film will be looked through, before the other phases.
pub(super) fn declare(stage: &Staged, report: &Reporter<'_>) {
    report.phase_about(SCAN, stage.film.format.frames, false);
}

/// Looks through the film, and hashes all of it meanwhile: that takes a fraction of the time.
fn read(stage: &mut Staged, report: &Reporter<'_>) -> Result<(Survey, Hash), Error> {
    let (input, control, failed) =
        (stage.request.input.clone(), stage.control.clone(), AtomicBool::new(false));
    let mut go_on = |_| match failed.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => control.flow(),
    };
    std::thread::scope(|scope| {
        let hash = scope.spawn(|| read_all(&input, &mut go_on));
        let found = scanned(stage, report);
        failed.store(found.is_err(), Ordering::Relaxed);
        let hash = hash.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((found?, hash?))
    })
}

fn scanned(stage: &mut Staged, report: &Reporter<'_>) -> Result<Survey, Error> {
    let source = stage.source()?;
    report.enter(SCAN);
    let mut last = Instant::now();
    let mut each = |_| {
        report.advance(SCAN, 1, last.elapsed());
        last = Instant::now();
        stage.control.flow()
    };
    let found = survey(source, &stage.film.recipe.cuts, &mut each)?;
    report.late(&stage.late, &mut stage.film.notes);
    Ok(found)
}

/// Returns what a person should know before units of the film are done apart, each by a process of its own.
pub(super) fn apart_note(stage: &mut Staged, plan: &FilmPlan) -> Result<Option<String>, Error> {
    let (windows, back) = (&stage.film.recipe.sampling.windows, stage.film.look_back());
    let shown = |planned: &UnitPlan| plan.time_base.seconds(planned.anchor.unwrap_or(0));
    let origin = plan.units.first().map_or(0.0, shown);
    let start = |planned: &UnitPlan| UnitStart {
        frame: planned.unit.read(windows, back).start,
        seconds: shown(planned) - origin,
    };
    let units: Vec<UnitStart> = plan.units.iter().map(start).collect();
    let Staged { request, probe, tools, .. } = stage;
    request.how.source.run_up_note(probe.as_ref(), &units, tools)
}

/// Puts a plan into a store.
pub(super) fn put(store: Store, plan: &FilmPlan) -> Result<Journal, Error> {
    let units = u32::try_from(plan.units.len())
        .map_err(|_| UnitsError::Plan { reason: "it has too many units".into() })?;
    let text = plan.to_json()?;
    Ok(Journal::make(store, units, &text)?)
}

/// The plan of a store.
pub(super) fn open(store: Store) -> Result<(Journal, FilmPlan), Error> {
    let journal = Journal::open(store)?;
    let plan = FilmPlan::from_json(journal.plan().text())?;
    match plan.units.len() as u64 == u64::from(journal.plan().units()) {
        true => Ok((journal, plan)),
        false => Err(UnitsError::Plan { reason: "its number of units is wrong".into() }.into()),
    }
}
