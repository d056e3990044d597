//! A run that outlives its device.

use remaster_compute::{Backend, ComputeError, HostTensor, Shape};
use remaster_model::Network;
use remaster_plan::{Budget, Job, Mode, Plan, bytes};

use crate::checkpoint::{Checkpoint, Pace};
use crate::error::EngineError;
use crate::io::{Event, Events, Sink, SinkError, Source, SourceError, Summary};
use crate::planner::Planner;
use crate::replan::replan;
use crate::session::{RunSettings, Session};

/// What a run may do when its device fails.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// What the plan was chosen for. A smaller one is looked for within it.
    pub budget: Budget,
    /// How often the state is saved; `None` for never: a lost device then starts the clip anew.
    pub pace: Option<Pace>,
}

impl Recovery {
    /// Within a budget. Only state on a device that can be lost is saved.
    pub fn new(backend: &Backend, budget: Budget) -> Self {
        let stays = matches!(backend, Backend::Cpu { .. } | Backend::Reference);
        Recovery { budget, pace: (!stays).then(Pace::default) }
    }
}

/// One network with the plan for it.
pub struct NetworkRun<'a> {
    /// The network.
    pub network: &'a dyn Network,
    /// Where.
    pub settings: &'a RunSettings,
    /// How.
    pub plan: Plan,
}

impl NetworkRun<'_> {
    /// Makes plans for this network where it runs.
    pub(crate) fn planner(&self, job: Job) -> Planner<'_> {
        let RunSettings { backend, dtype, .. } = self.settings;
        Planner::new(self.network, *dtype, || backend.sizing(), job)
    }
}

/// The sessions of a run: each network makes what the next one takes. When their device is full or
/// lost they are planned anew within less, once, and go on from the state that was saved last. A fault after
/// another state was saved counts as the first again.
pub(crate) struct Guarded<'a> {
    network_runs: Vec<NetworkRun<'a>>,
    /// One per network_run; none after an error.
    sessions: Vec<Session<'a>>,
    checkpoint: Checkpoint,
    /// Result frames of the last network_run that its sink has.
    delivered: usize,
    /// Frames of the picture of each network that were told of.
    told: Vec<usize>,
    /// Planned anew since the state was saved.
    tried: bool,
    /// What sessions of devices that failed had used.
    used: Vec<Summary>,
}

impl<'a> Guarded<'a> {
    /// Opens the device and loads the weights.
    pub(crate) fn start(network_runs: Vec<NetworkRun<'a>>, events: Events<'_>) -> Result<Self, EngineError> {
        let mut told = Vec::new();
        for text in network_runs.iter().filter_map(|network_run| differs(&network_run.plan.how.mode)) {
            if !told.contains(&text) {
                told.push(text);
                events(Event::Warning(text));
            }
        }
        let folder = network_runs.first().and_then(|network_run| network_run.settings.spill.clone());
        // Nothing is saved unless every network can go on from it.
        let paces = network_runs.iter().map(|network_run| network_run.settings.recovery.and_then(|r| r.pace));
        let pace = paces.reduce(|a, b| a.and(b)).flatten().filter(|_| folder.is_some());
        let (used, told) = (vec![Summary::default(); network_runs.len()], vec![0; network_runs.len()]);
        let mut run = Guarded {
            checkpoint: Checkpoint::new(folder.unwrap_or_default(), pace),
            sessions: Vec::new(),
            delivered: 0,
            told,
            tried: false,
            used,
            network_runs,
        };
        run.open().or_else(|error| run.again(error, events))?;
        Ok(run)
    }

    /// How the first network runs now.
    pub(crate) fn plan(&self) -> Option<&Plan> {
        self.network_runs.first().map(|network_run| &network_run.plan)
    }

    /// Begins another clip, of a run of one network. What does not fit as it was opened is opened again.
    pub(crate) fn begin(&mut self, plan: &Plan, fresh: bool, events: Events<'_>) -> Result<(), EngineError> {
        let same = self.plan().is_some_and(|now| now.job == plan.job);
        if fresh && same && !self.sessions.is_empty() {
            return Ok(());
        }
        self.checkpoint.forget();
        (self.delivered, self.tried) = (0, false);
        self.told.iter_mut().for_each(|told| *told = 0);
        for network_run in &mut self.network_runs {
            network_run.plan = whole(network_run, plan)?;
        }
        let plans: Vec<Plan> = self.network_runs.iter().map(|network_run| network_run.plan.clone()).collect();
        if !self.sessions.is_empty() && self.sessions.iter().zip(&plans).all(|(s, plan)| s.takes(plan)) {
            return self.sessions.iter_mut().zip(&plans).try_for_each(|(s, plan)| s.again(plan));
        }
        self.close();
        self.open().or_else(|error| self.again(error, events))
    }

    /// Whether the whole clip went through network number `i`.
    pub(crate) fn is_done(&self, i: usize) -> bool {
        self.sessions.get(i).is_none_or(Session::is_done)
    }

    /// Input frames that the next slice of network number `i` takes; 0 at the end.
    pub(crate) fn wants(&self, i: usize) -> usize {
        self.sessions.get(i).map_or(0, Session::wants)
    }

    /// Waits for checks of the results that are under way, so that no clip counts that a wrong device made.
    pub(crate) fn finish_checks(&mut self) -> Result<(), EngineError> {
        self.sessions.iter_mut().try_for_each(Session::finish_checks).inspect_err(|_| self.sessions.clear())
    }

    /// What network number `i` used so far.
    pub(crate) fn summary(&self, i: usize) -> Summary {
        let before = self.used.get(i).copied().unwrap_or_default();
        self.sessions.get(i).map_or(before, |session| most(before, session.summary()))
    }

    /// Takes the next slice through network number `i`. Of the last network, frames that the sink has already are not
    /// given to it again.
    pub(crate) fn advance(
        &mut self,
        i: usize,
        source: &mut dyn Source,
        sink: &mut dyn Sink,
        events: Events<'_>,
    ) -> Result<(), EngineError> {
        let last = i + 1 == self.network_runs.len();
        let (Some(session), Some(told)) = (self.sessions.get_mut(i), self.told.get_mut(i)) else {
            return Ok(());
        };
        let before = session.pictured();
        let events = &mut |mut event: Event<'_>| {
            if let Event::SliceDone { frames, .. } = &mut event {
                let through = before + *frames;
                *frames = through.saturating_sub(*told);
                *told = through.max(*told);
            }
            events(event);
        };
        if !last {
            return session.advance(source, sink, events);
        }
        session.advance(source, &mut Once { sink, delivered: &mut self.delivered }, events)
    }

    /// Saves the state if it is time. Nothing may be on its way between the networks.
    pub(crate) fn keep(&mut self, events: Events<'_>) -> Result<(), EngineError> {
        let between = self.sessions.iter().all(|s| s.seen() > 0 && !s.is_done());
        if !between || !self.checkpoint.is_due() {
            return Ok(());
        }
        if !self.has_room() {
            self.checkpoint.stop();
            return Ok(());
        }
        match self.checkpoint.save(&mut self.sessions) {
            Ok(()) => {
                self.tried = false;
                Ok(())
            }
            Err(error) if error.fault().is_some() || error.is_cancelled() => Err(error),
            Err(error) => {
                self.checkpoint.stop();
                let from = self.start_in_words();
                events(Event::Warning(&format!(
                    "the state of the run is no longer saved; a lost device would restart {from}: {error}"
                )));
                Ok(())
            }
        }
    }

    /// Whether the budget for disk has room for the state twice: a new one is written beside the old one.
    fn has_room(&self) -> bool {
        self.network_runs.iter().zip(&self.sessions).all(|(network_run, session)| {
            let needed = network_run.plan.peaks.disk.saturating_add(session.state_bytes().saturating_mul(2));
            let Some(recovery) = network_run.settings.recovery else { return false };
            let (Budget::Shared { disk, .. } | Budget::Apart { disk, .. }) = recovery.budget;
            needed <= disk
        })
    }

    /// After `error`: plans anew within less and goes back to the last saved state, or to the start. `back` brings
    /// the source of the first network to an input frame. The error itself if it is not the device's, if this was
    /// tried before, or if the source cannot go back.
    pub(crate) fn recover(
        &mut self,
        error: EngineError,
        back: &mut dyn FnMut(usize) -> Result<(), SourceError>,
        events: Events<'_>,
    ) -> Result<(), EngineError> {
        if !self.may_try(&error) {
            self.close();
            return Err(error);
        }
        self.close();
        if let Err(why) = back(self.checkpoint.seen(0)) {
            self.check_cancel()?;
            events(Event::Warning(&format!("the run cannot go on after its device failed: {why}")));
            return Err(error);
        }
        self.again(error, events)
    }

    fn may_try(&self, error: &EngineError) -> bool {
        error.fault().is_some()
            && !self.tried
            && self.network_runs.iter().all(|l| l.settings.recovery.is_some())
    }

    /// Opens the device with plans that take less.
    fn again(&mut self, error: EngineError, events: Events<'_>) -> Result<(), EngineError> {
        self.close();
        let (Some(fault), true) = (error.fault(), self.may_try(&error)) else { return Err(error) };
        self.tried = true;
        let mut plans = Vec::new();
        for (i, network_run) in self.network_runs.iter().enumerate() {
            self.check_cancel()?;
            let Some(Recovery { mut budget, .. }) = network_run.settings.recovery else { continue };
            let (Budget::Shared { disk, .. } | Budget::Apart { disk, .. }) = &mut budget;
            *disk = disk.saturating_sub(self.checkpoint.bytes(i));
            match replan(network_run, &budget, self.checkpoint.seen(i)) {
                Ok(plan) => plans.push(plan),
                // What went wrong first is what the person has to know.
                Err(_) => return Err(error),
            }
        }
        let changes: Vec<String> =
            self.network_runs.iter().zip(&plans).map(|(l, plan)| change(&l.plan, plan)).collect();
        let from = self.start_in_words();
        events(Event::Warning(&format!(
            "{}; the run goes on {from}: {}",
            in_words(fault),
            changes.join(", ")
        )));
        for (network_run, plan) in self.network_runs.iter_mut().zip(plans) {
            events(Event::Planned(&plan));
            network_run.plan = plan;
        }
        self.open()
    }

    /// Planning takes seconds and reading a clip again may take minutes.
    fn check_cancel(&self) -> Result<(), EngineError> {
        match self.network_runs.iter().any(|network_run| network_run.settings.cancel.is_cancelled()) {
            true => Err(ComputeError::Cancelled.into()),
            false => Ok(()),
        }
    }

    fn open(&mut self) -> Result<(), EngineError> {
        for network_run in &self.network_runs {
            self.sessions.push(Session::start(&network_run.plan, network_run.network, network_run.settings)?);
        }
        self.checkpoint.restore(&mut self.sessions)
    }

    /// Lets go of the device: all sessions share it, and one that is lost must not be found again.
    fn close(&mut self) {
        for (used, session) in self.used.iter_mut().zip(&self.sessions) {
            *used = most(*used, session.summary());
        }
        self.sessions.clear();
    }

    /// Where a run begins that goes back to the last saved state.
    fn start_in_words(&self) -> String {
        match (self.checkpoint.seen(0), self.network_runs.first()) {
            (0, _) | (_, None) => "from the start".into(),
            (n, Some(network_run)) => {
                format!("from frame {}", n.max(network_run.plan.job.network.made(0, n)))
            }
        }
    }
}

/// `plan` from its start, in the way in which the network_run runs now: that is another one after its device failed.
fn whole(network_run: &NetworkRun<'_>, plan: &Plan) -> Result<Plan, EngineError> {
    if plan.job.start == 0 && plan.how == network_run.plan.how {
        return Ok(plan.clone());
    }
    network_run.planner(Job { start: 0, ..plan.job.clone() }).exactly(&network_run.plan.how)
}

fn most(a: Summary, b: Summary) -> Summary {
    Summary {
        frames: a.frames.max(b.frames),
        device_peak: a.device_peak.max(b.device_peak),
        host_peak: a.host_peak.max(b.host_peak),
        disk_peak: a.disk_peak.max(b.disk_peak),
    }
}

/// What a person should know of a mode that changes the result.
fn differs(mode: &Mode) -> Option<&'static str> {
    match mode {
        Mode::Whole | Mode::Exact { .. } => None,
        Mode::SharedStats(_) => {
            Some("shared-stats mode estimates statistics: the result differs slightly from the uncut one")
        }
        Mode::Blend(_) => Some("blend mode computes tiles separately: seams and colour drift are possible"),
    }
}

/// What happened, without the advice for the person: the run takes it.
fn in_words(fault: &ComputeError) -> String {
    match fault {
        ComputeError::DeviceLost { device, reason } => format!("device {device} was lost ({reason})"),
        ComputeError::DeviceMemory { device, bytes: n } => {
            format!("device {device} has no room for {}", bytes(*n))
        }
        ComputeError::DeviceBindings { device, windows, most, .. } => {
            format!("device {device} would have to bind {windows} buffers at once, {most} at most")
        }
        ComputeError::DeviceSwaps { device, rate, best } => {
            let (now, before) = (rate / 1_000_000, best / 1_000_000);
            format!(
                "device {device} reads its memory at {now} MB/s, {before} MB/s before: its driver moved it to host memory"
            )
        }
        ComputeError::Device { device, reason } => format!("device {device} failed ({reason})"),
        other => other.to_string(),
    }
}

fn change(old: &Plan, new: &Plan) -> String {
    let (name, before) = (&old.job.network.name, bytes(old.peaks.device));
    match new.how == old.how {
        true => format!(
            "{name} with the same plan of {before} on the device, as no smaller one gives the same result"
        ),
        false => format!("{name} with {} on the device instead of {before}", bytes(new.peaks.device)),
    }
}

/// A sink that gets every frame once, also when frames are made again.
struct Once<'a> {
    sink: &'a mut dyn Sink,
    delivered: &'a mut usize,
}

impl Sink for Once<'_> {
    fn write(&mut self, first: usize, mut frames: HostTensor) -> Result<(), SinkError> {
        let t = frames.shape.t;
        let known = self.delivered.saturating_sub(first).min(t);
        if known == t {
            return Ok(());
        }
        if known > 0 {
            let length = frames.data.len() / t;
            frames.data.drain(..known * length);
            frames.shape = Shape { t: t - known, ..frames.shape };
        }
        self.sink.write(first + known, frames)?;
        *self.delivered = first + t;
        Ok(())
    }
}
