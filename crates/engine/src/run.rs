//! The one run loop: a clip through networks that follow one another, or one network.

use crate::error::EngineError;
use crate::io::{Event, Events, Link, Sink, Source, Summary};
use crate::recovery::{Guarded, NetworkRun};

/// What a clip passes: a source, what waits between the networks, and a sink. One link fewer than networks.
pub struct Road<'a> {
    /// Feeds the first network.
    pub source: &'a mut dyn Source,
    /// Between them.
    pub links: Vec<&'a mut dyn Link>,
    /// Takes the results of the last.
    pub sink: &'a mut dyn Sink,
}

impl Road<'_> {
    /// Where network number `i` takes from and gives to.
    fn ends(&mut self, i: usize) -> (&mut dyn Source, &mut dyn Sink) {
        let i = i.min(self.links.len());
        let (before, after) = self.links.split_at_mut(i);
        let source: &mut dyn Source = match before.last_mut() {
            Some(link) => &mut **link,
            None => &mut *self.source,
        };
        let sink: &mut dyn Sink = match after.first_mut() {
            Some(link) => &mut **link,
            None => &mut *self.sink,
        };
        (source, sink)
    }

    /// The network that goes next: the last one whose slice is complete, or whose predecessor is done.
    fn next(&self, run: &Guarded<'_>) -> usize {
        let ready = |i: &usize| {
            !run.is_done(*i) && (run.is_done(i - 1) || self.links[i - 1].waiting() >= run.wants(*i))
        };
        (1..=self.links.len()).rev().find(ready).unwrap_or(0)
    }

    /// Takes the clip through the networks of a run, and on another opening of the device if that fails.
    pub(crate) fn drive(&mut self, run: &mut Guarded<'_>, events: Events<'_>) -> Result<(), EngineError> {
        while !run.is_done(self.links.len()) {
            let i = self.next(run);
            let (source, sink) = self.ends(i);
            let step = run.advance(i, source, sink, events).and_then(|()| {
                // Slices of one network are multiples of those of another, so every few of them nothing waits.
                if self.links.iter().all(|link| link.waiting() == 0) { run.keep(events) } else { Ok(()) }
            });
            if let Err(error) = step {
                self.links.iter_mut().for_each(|link| link.clear());
                run.recover(error, &mut |frame| self.source.back_to(frame), events)?;
            }
        }
        run.finish_checks()
    }

    /// All `frames` results were written.
    pub(crate) fn finish(&mut self, frames: usize) -> Result<(), EngineError> {
        self.sink.finish().map_err(|source| EngineError::Sink { frame: frames, source })
    }
}

/// Takes a clip through the networks, which take turns slice by slice: the first results are written while the last
/// frames are still to be read. After an error the sink was told to leave nothing behind.
pub fn run(
    network_runs: Vec<NetworkRun<'_>>,
    mut road: Road<'_>,
    events: Events<'_>,
) -> Result<Vec<Summary>, EngineError> {
    let result = through(network_runs, &mut road, events);
    match &result {
        Ok(summaries) => summaries.last().into_iter().for_each(|last| events(Event::Done(last))),
        Err(_) => road.sink.abort(),
    }
    result
}

fn through(
    network_runs: Vec<NetworkRun<'_>>,
    road: &mut Road<'_>,
    events: Events<'_>,
) -> Result<Vec<Summary>, EngineError> {
    let count = network_runs.len();
    if count != road.links.len() + 1 {
        let given = format!("{} links between them", road.links.len());
        return Err(EngineError::Mismatch { planned: format!("{count} networks"), given });
    }
    network_runs.iter().for_each(|network_run| events(Event::Planned(&network_run.plan)));
    let mut run = Guarded::start(network_runs, events)?;
    events(Event::Loaded);
    road.drive(&mut run, events)?;
    events(Event::Finishing);
    let summaries: Vec<Summary> = (0..count).map(|i| run.summary(i)).collect();
    road.finish(summaries.last().map_or(0, |last| last.frames))?;
    Ok(summaries)
}
