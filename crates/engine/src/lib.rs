//! Runs a plan.
//!
//! A [`Session`] opens the device with an arena of exactly the planned size and takes a clip through one
//! half of the network, slice by slice: frames from a [`Source`], results to a [`Sink`], what happens as
//! [`Event`]s. [`Guarded`] sessions go on when the device is lost. A [`Planner`] runs the same loop on a meter; that is how a plan knows what it takes.

mod bands;
mod blend;
mod checkpoint;
mod course;
mod error;
mod folder;
mod guard;
mod io;
mod measure;
mod replan;
mod session;
mod spill;
mod state_file;
mod task;

pub use checkpoint::Pace;
pub use error::EngineError;
pub use folder::in_memory;
pub use guard::{Guarded, Lane, Recovery};
pub use io::{Event, Memory, Sink, SinkError, Source, SourceError, Summary};
pub use measure::{Planner, device_sizing};
pub use session::{Open, Session, Settings, run};
pub use spill::{SpillFile, free_space};
pub use task::Task;
