//! A half of a network with everything that is needed to plan a clip and run it.

use remaster_compute::{Backend, CancelToken, Shape, Sizing};
use remaster_model::vae::{Decoder, Encoder, Half, VaeConfig};
use remaster_model::{Build, Params, Scope};
use remaster_plan::{Candidate, Clip, Cost, Direction, Job, Plan, VERSION};

use crate::course::Course;
use crate::error::EngineError;
use crate::guard::Lane;
use crate::io::{Event, Sink, Source, Summary};
use crate::measure::{Caps, Planner, measure};
use crate::session::{Open, Session, Settings, run};

/// One clip to take through one half.
pub struct Task {
    /// The network.
    pub half: Box<dyn Half>,
    /// What is to be done.
    pub job: Job,
    /// Where.
    pub settings: Settings,
}

impl Task {
    /// Builds the half out of `params`. The spill file would go to the system's folder for such files.
    pub fn new(
        config: &VaeConfig,
        params: &mut dyn Params,
        direction: Direction,
        clip: Clip,
        backend: Backend,
        build: Build,
    ) -> Self {
        let mut scope = Scope::root(params, build);
        let (half, channels): (Box<dyn Half>, _) = match direction {
            Direction::Encode => (
                Box::new(Encoder::new(config, &mut scope.at("encoder"))),
                [config.colours, 2 * config.latent],
            ),
            Direction::Decode => {
                (Box::new(Decoder::new(config, &mut scope.at("decoder"))), [config.latent, config.colours])
            }
        };
        Self::with(half, channels, direction, clip, backend, build)
    }

    /// Around any half.
    pub fn with(
        half: Box<dyn Half>,
        channels: [usize; 2],
        direction: Direction,
        clip: Clip,
        backend: Backend,
        build: Build,
    ) -> Self {
        let job = Job {
            direction,
            clip,
            start: 0,
            open_ended: false,
            dtype: build.dtype.name().into(),
            collapse: build.collapse,
            numerics: backend.numerics(),
        };
        let settings = Settings {
            backend,
            dtype: build.dtype,
            channels,
            spill: std::env::temp_dir(),
            cancel: CancelToken::default(),
            recovery: None,
            open: Open::default(),
        };
        Task { half, job, settings }
    }

    /// What goes in: frames, or latents for a decoder.
    pub fn input(&self) -> Shape {
        let (clip, c) = (self.job.clip, self.settings.channels[0]);
        let (t, h, w) = clip.latent();
        match self.job.direction {
            Direction::Encode => Shape::new(clip.frames(), clip.height(), clip.width(), c),
            Direction::Decode => Shape::new(t, h, w, c),
        }
    }

    /// Makes plans for the backend of this task.
    pub fn planner(&self) -> Planner<'_> {
        let backend = self.settings.backend;
        self.planner_for(move || backend.sizing())
    }

    /// Makes plans for a device of other sizes.
    pub fn planner_for<'a>(&'a self, sizing: impl Fn() -> Box<dyn Sizing> + 'a) -> Planner<'a> {
        let Settings { channels, dtype, .. } = self.settings;
        Planner::new(self.half.as_ref(), channels, dtype, sizing, self.job.clone())
    }

    /// A plan that does exactly this, whatever it takes.
    pub fn exactly(&self, how: Candidate) -> Result<Plan, EngineError> {
        let Cost { peaks, work, .. } = self.planner().cost(&how)?;
        Ok(Plan { version: VERSION, job: self.job.clone(), how, peaks, work, better: None })
    }

    /// Runs a plan on a meter that refuses to pass the plan's peaks.
    pub fn replay(&self, plan: &Plan, sizing: Box<dyn Sizing>) -> Result<(), EngineError> {
        let Settings { dtype, channels, .. } = self.settings;
        let course = Course::new(&self.job, &plan.how, dtype, channels);
        let caps = Caps::of(&plan.peaks, &course);
        measure(self.half.as_ref(), &course, sizing, &self.job, &plan.how, caps).map(|_| ())
    }

    /// Opens the device.
    pub fn start(&self, plan: &Plan) -> Result<Session<'_>, EngineError> {
        Session::start(plan, self.half.as_ref(), &self.settings)
    }

    /// For a run that goes on when the device fails.
    pub fn lane(&self, plan: &Plan) -> Lane<'_> {
        Lane { half: self.half.as_ref(), settings: &self.settings, plan: plan.clone() }
    }

    /// Runs the whole clip.
    pub fn run(
        &self,
        plan: &Plan,
        source: &mut dyn Source,
        sink: &mut dyn Sink,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<Summary, EngineError> {
        run(plan, self.half.as_ref(), &self.settings, source, sink, events)
    }
}
