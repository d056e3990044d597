//! A film as units of work, which any machine can do, any number of times.
//!
//! * [`FilmPlan`]: what all work on a film follows, to the last setting. It never changes;
//! * [`Request`]: what was asked for, as checked values: a plan may come from a stranger;
//! * [`ResultClass`]: which kernels and programs decide the bytes; a machine with others refuses the plan;
//! * [`Input`]: the film that is meant, by its content;
//! * [`survey`]: one pass over a film that finds its shots and times;
//! * [`work`]: does one unit, from where an earlier attempt was stopped;
//! * [`assemble`]: joins what is done into the film;
//! * [`Manifest`]: what a finished film was made of, to check it later.
//!
//! Planner, worker and assembler share the store and nothing else. What the networks compute is the caller's business.

mod assemble;
pub mod checkpoint;
pub mod emit;
mod error;
mod input;
mod kept;
mod leave;
mod manifest;
mod pieces;
mod plan;
mod request;
mod result_class;
mod survey;
mod work;

pub use assemble::{Segments, assemble};
pub use checkpoint::{Checkpoints, Progress};
pub use error::UnitsError;
pub use input::{First, Input, Reading, Watch, read_all};
pub use kept::Kept;
pub use leave::pass_through;
pub use manifest::{Manifest, UnitDone};
pub use pieces::NewPiece;
pub use plan::{FilmPlan, Model, Settings, UnitPlan};
pub use request::{Asked, AskedSource, AskedTarget, ENCODER_THREADS, Request, Resolution, Share, Tiles};
pub use result_class::ResultClass;
pub use survey::{Survey, survey};
pub use work::{Outcome, Restoring, Work, work};
