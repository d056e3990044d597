//! A network with everything that is needed to plan a clip and run it.

use remaster_compute::{Backend, CancelToken, DType, Shape, Sizing};
use remaster_model::Network;
use remaster_plan::{Candidate, Cells, Description, INPUT, Job, Peaks, Plan};

use crate::error::EngineError;
use crate::io::{Events, Sink, Source, Summary};
use crate::measure::measure;
use crate::placement::overhead;
use crate::planner::Planner;
use crate::recovery::NetworkRun;
use crate::run::{Road, run};
use crate::session::{Open, RunSettings, Session};
use crate::slice_loop::SliceLoop;

/// One clip to take through one network.
pub struct Task {
    /// The network.
    pub network: Box<dyn Network>,
    /// What is to be done.
    pub job: Job,
    /// Where.
    pub settings: RunSettings,
}

/// A network in the words of a plan.
fn describe(network: &dyn Network) -> Description {
    Description {
        name: network.name().into(),
        variant: network.variant().into(),
        channels: network.channels(),
        scale: network.scale(),
        step: network.step(),
        levels: network.levels().map_or(0, |levels| levels.count()),
        reach: network.reach(),
        groups: network.groups(),
    }
}

impl Task {
    /// A clip of `cells` through a network whose weights and activations are `dtype`. There is no folder for a spill
    /// file.
    pub fn new(network: Box<dyn Network>, cells: Cells, backend: Backend, dtype: DType) -> Self {
        let job = Job {
            network: describe(network.as_ref()),
            cells,
            start: 0,
            open_ended: false,
            dtype: dtype.name().into(),
            numerics: backend.numerics(),
        };
        let settings = RunSettings {
            backend,
            dtype,
            spill: None,
            cancel: CancelToken::default(),
            recovery: None,
            open: Open::default(),
        };
        Task { network, job, settings }
    }

    /// What goes in.
    pub fn input(&self) -> Shape {
        let [t, h, w, c] = self.job.network.shape(INPUT, self.job.cells);
        Shape::new(t, h, w, c)
    }

    /// Makes plans for the backend of this task.
    pub fn planner(&self) -> Planner<'_> {
        let backend = self.settings.backend;
        self.planner_for(move || backend.sizing())
    }

    /// Makes plans for a device of other sizes.
    pub fn planner_for<'a>(&'a self, sizing: impl Fn() -> Box<dyn Sizing> + 'a) -> Planner<'a> {
        Planner::new(self.network.as_ref(), self.settings.dtype, sizing, self.job.clone())
    }

    /// A plan that does exactly this, whatever it takes.
    pub fn exactly(&self, how: Candidate) -> Result<Plan, EngineError> {
        self.planner().exactly(&how)
    }

    /// Runs a plan on a meter that refuses to pass the plan's peaks.
    pub fn replay(&self, plan: &Plan, sizing: &dyn Fn() -> Box<dyn Sizing>) -> Result<(), EngineError> {
        let slice_loop = SliceLoop::new(&self.job, &plan.how, self.settings.dtype);
        let host = plan.peaks.host.saturating_sub(overhead(&slice_loop, plan.peaks.disk));
        let caps = Peaks { host, ..plan.peaks };
        measure(self.network.as_ref(), &slice_loop, sizing, &self.job, &plan.how, caps).map(|_| ())
    }

    /// Opens the device.
    pub fn start(&self, plan: &Plan) -> Result<Session<'_>, EngineError> {
        Session::start(plan, self.network.as_ref(), &self.settings)
    }

    /// For a run that goes on when the device fails.
    pub fn network_run(&self, plan: &Plan) -> NetworkRun<'_> {
        NetworkRun { network: self.network.as_ref(), settings: &self.settings, plan: plan.clone() }
    }

    /// Runs the whole clip.
    pub fn run(
        &self,
        plan: &Plan,
        source: &mut dyn Source,
        sink: &mut dyn Sink,
        events: Events<'_>,
    ) -> Result<Summary, EngineError> {
        let summaries = run(vec![self.network_run(plan)], Road { source, links: Vec::new(), sink }, events)?;
        Ok(summaries.first().copied().unwrap_or_default())
    }
}
