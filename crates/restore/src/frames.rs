//! A film through a network that takes frame by frame, or through none: no latents, no windows, and nothing that one frame knows of another.

use remaster_engine::{Event, Events};

use crate::cuts::{Cuts, cuts_at};
use crate::decode_thread::Footage;
use crate::error::RestoreError;
use crate::film::{Done, Film, Recipe, completed};
use crate::finish::{Finisher, ShotShown};
use crate::reader::Reader;
use crate::tee::tee;
use crate::unit::{Unit, UnitWork};
use crate::way::{Frames, Way};

/// Takes all shots that a reader has left through the network.
fn shots(
    way: &mut Way<'_>,
    reader: &mut Reader<'_>,
    finisher: &mut Finisher,
    done: &mut Done,
    events: Events<'_>,
) -> Result<(), RestoreError> {
    while reader.next_shot()? {
        done.shots.push(reader.position());
        finisher.shot(ShotShown::of_frames())?;
        way.clip(reader, finisher, events)?;
        reader.shot()?;
    }
    Ok(())
}

/// Restores a film in one go.
pub(crate) fn film(
    film: Film<'_>,
    recipe: &Recipe,
    through: Frames<'_>,
    events: Events<'_>,
) -> Result<Done, RestoreError> {
    let Film { footage, sink, .. } = film;
    let (footage, input) = tee(footage, recipe.needs_input());
    let mut reader = Reader::start(footage, recipe.prepare(), recipe.cuts.clone(), 0);
    let (mut finisher, _) = Finisher::start(sink, input, recipe.sizes(), &recipe.finish, 0, None);
    let mut done = Done { groups: 1, ..Done::default() };
    let mut way = Way::start(through, &mut done, events)?;
    shots(&mut way, &mut reader, &mut finisher, &mut done, events)?;
    if done.shots.is_empty() {
        return Err(RestoreError::Empty);
    }
    events(Event::Counted(reader.position()));
    drop((way, reader));
    completed(finisher, &mut done, events)?;
    Ok(done)
}

/// Where the frames of a unit from one of the film on are cut, and which of its shot that one is.
fn place(unit: &Unit, from: usize) -> Result<(Cuts, usize), RestoreError> {
    let later = unit.shots.iter().map(|shot| shot.first).filter(|first| *first > from);
    let starts = std::iter::once(0).chain(later.map(|first| (first - from) as u64)).collect();
    let shot = unit.shots.iter().rev().find(|shot| shot.first <= from);
    let index = shot.map_or(0, |shot| from - shot.first + shot.range.made.start);
    Ok((cuts_at(starts)?, index))
}

/// Restores what is left of a unit.
pub(crate) fn unit(
    work: UnitWork<'_>,
    recipe: &Recipe,
    through: Frames<'_>,
    events: Events<'_>,
) -> Result<Done, RestoreError> {
    let UnitWork { unit, from, open, sink, .. } = work;
    let frames = from..unit.frames().end;
    let source = open(frames.clone())?;
    let again = || open(frames.clone()).map_err(Into::into);
    let footage = Footage { source, again: Some(Box::new(again)) };
    let (footage, input) = tee(footage, recipe.needs_input());
    let (mut finisher, _) = Finisher::start(sink, input, recipe.sizes(), &recipe.finish, from, None);
    let mut done = Done { groups: 1, ..Done::default() };
    let mut way = Way::start(through, &mut done, events)?;
    let (cuts, index) = place(unit, from)?;
    let mut reader = Reader::start(footage, recipe.prepare(), cuts, index);
    shots(&mut way, &mut reader, &mut finisher, &mut done, events)?;
    drop((way, reader));
    done.shots.iter_mut().for_each(|shot| *shot += from);
    completed(finisher, &mut done, events)?;
    if done.frames != frames.len() {
        return Err(RestoreError::Changed { frame: from + done.frames });
    }
    Ok(done)
}
