//! The three steps of every operation: a request, a job that is ready, an outcome.

use std::path::PathBuf;

use serde::Serialize;

use crate::control::Control;
use crate::error::Error;
use crate::event::{Event, Reporter};
use crate::machine::awake::Awake;
use crate::machine::host::Machine;
use crate::plan::Total;

/// A request: what is wanted, as plain data. [`prepare`] makes a job of it. Only this crate can implement it.
pub trait Prepare {
    /// What is ready to run: a [`Job`], or [`Prepared`](crate::Prepared) for a film, which may need worker processes.
    type Job;

    /// The second step, as [`prepare`] takes it.
    fn prepare(self, context: &Context<'_, '_>) -> Result<Self::Job, Error>;
}

/// What a job is prepared with.
#[derive(Clone, Copy)]
pub struct Context<'a, 'e> {
    pub(crate) machine: &'a Machine,
    pub(crate) control: &'a Control,
    pub(crate) report: &'a Reporter<'e>,
}

/// Gets a request ready to run: opens its files, finds models and device, and plans memory. What can be refused is refused here,
/// before the work begins and before any output is written.
pub fn prepare<R: Prepare>(
    request: R,
    machine: &Machine,
    control: &Control,
    events: &mut dyn FnMut(Event),
) -> Result<R::Job, Error> {
    request.prepare(&Context { machine, control, report: &Reporter::new(events) })
}

type Call<T> = dyn FnOnce(&Reporter<'_>) -> Result<T, Error> + Send;

/// A job that is ready to run, on any thread. It holds what was opened; dropping it closes that.
#[must_use = "a job does nothing until it is run"]
pub struct Job<T> {
    known: Known,
    work: Box<Call<T>>,
}

/// What is known of a job before it runs.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Known {
    /// What will be written.
    pub output: Option<PathBuf>,
    /// What was guessed, or may not be wanted.
    pub notes: Vec<String>,
    /// Memory that is planned, for jobs that run networks.
    pub total: Option<Total>,
}

impl<T> Job<T> {
    pub(crate) fn new(
        known: Known,
        work: impl FnOnce(&Reporter<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Self {
        Job { known, work: Box::new(work) }
    }

    /// What is known of it before it runs.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Does the work. It obeys the [`Control`] that the job was prepared with.
    pub fn run(self, events: &mut dyn FnMut(Event)) -> Result<T, Error> {
        let _awake = Awake::new();
        (self.work)(&Reporter::new(events))
    }
}
