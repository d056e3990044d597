//! Runs a plan.
//!
//! A [`Session`] opens the device with an arena of exactly the planned size and takes a clip through one network,
//! slice by slice: frames from a [`Source`], results to a [`Sink`], what happens as [`Event`]s. [`run()`] takes a clip
//! through several networks in turn and goes on when the device is lost. A [`ClipRunner`] takes clip after clip through one network
//! that stays loaded. A [`Planner`] runs the same loop on a meter;
//! that is how a plan knows what it takes.

mod bands;
mod blend;
mod checkpoint;
mod clip_runner;
mod device_sizing;
mod error;
mod instrumented;
mod io;
mod live;
mod measure;
mod placement;
mod planner;
mod recovery;
mod replan;
mod room;
mod run;
mod session;
mod slice_loop;
mod spill;
mod state_file;
mod task;

pub use checkpoint::Pace;
pub use clip_runner::ClipRunner;
pub use device_sizing::device_sizing;
pub use error::EngineError;
pub use io::{Event, Events, Link, MemoryClip, Sink, SinkError, Source, SourceError, Summary};
pub use planner::Planner;
pub use recovery::{NetworkRun, Recovery};
pub use run::{Road, run};
pub use session::{Open, RunSettings, Session};
pub use spill::SpillFile;
pub use task::Task;
