//! One network over clip after clip, on one opening of its device.

use remaster_plan::Plan;

use crate::error::EngineError;
use crate::io::{Event, Events, Sink, Source, Summary};
use crate::recovery::{Guarded, NetworkRun};
use crate::run::Road;

/// A network whose weights are loaded once for all clips that go through it: the shots of a film, or the windows of its
/// shots. Each clip begins without anything of the one before. A lost device costs the clip at work.
pub struct ClipRunner<'a> {
    run: Guarded<'a>,
    /// No clip was begun yet.
    fresh: bool,
}

impl<'a> ClipRunner<'a> {
    /// Opens the device and loads the weights.
    pub fn start(network_run: NetworkRun<'a>, events: Events<'_>) -> Result<Self, EngineError> {
        events(Event::Planned(&network_run.plan));
        let run = Guarded::start(vec![network_run], events)?;
        events(Event::Loaded);
        Ok(ClipRunner { run, fresh: true })
    }

    /// Takes the next clip through, as long as the plan of the start says. After an error the sink was told to leave
    /// nothing behind.
    pub fn clip(
        &mut self,
        source: &mut dyn Source,
        sink: &mut dyn Sink,
        events: Events<'_>,
    ) -> Result<Summary, EngineError> {
        let Some(plan) = self.run.plan().cloned() else { return Ok(Summary::default()) };
        self.clip_as(&plan, source, sink, events)
    }

    /// As [`ClipRunner::clip`], for a clip of another length. `plan` is for the way in which the device was opened; one that
    /// takes more opens it again.
    pub fn clip_as(
        &mut self,
        plan: &Plan,
        source: &mut dyn Source,
        sink: &mut dyn Sink,
        events: Events<'_>,
    ) -> Result<Summary, EngineError> {
        let mut road = Road { source, links: Vec::new(), sink };
        self.through(plan, &mut road, events).inspect_err(|_| road.sink.abort())
    }

    fn through(
        &mut self,
        plan: &Plan,
        road: &mut Road<'_>,
        events: Events<'_>,
    ) -> Result<Summary, EngineError> {
        let fresh = std::mem::replace(&mut self.fresh, false);
        self.run.begin(plan, fresh, events)?;
        road.drive(&mut self.run, events)?;
        let summary = self.run.summary(0);
        road.finish(summary.frames)?;
        Ok(summary)
    }
}
