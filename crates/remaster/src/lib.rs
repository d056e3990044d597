//! Restores and upscales video with the SeedVR2 networks.

mod batch;
mod compare;
mod control;
mod destination;
mod device;
mod error;
mod estimate;
mod event;
mod health;
mod limits;
pub mod machine;
mod media;
pub mod models;
mod network;
mod network_plan;
pub mod numbers;
mod plan;
mod probe;
mod request;
mod restore;
mod scenes;
mod tensors;
pub mod transformer;
pub mod units;
mod vae;
mod worker;

pub use batch::{BatchFilm, BatchOutcome, BatchRequest, batch};
pub use compare::{Clip, CompareRequest, Compared, FILTER, Resized, compare};
pub use control::{Control, Pending};
pub use destination::check_file;
pub use device::Device;
pub use error::{Class, Error};
pub use estimate::{Estimate, words as time_in_words};
pub use event::{About, Event, is_detail};
pub use health::{Check, health};
pub use limits::{Amount, Limits, Mode, ram};
pub use media::{Programs, Size, Source, Target, is_pipe};
pub use network_plan::{
    NetworkKind, NetworkPlan, NetworkPlanRequest, NetworkTime, RoundtripPlan, plan_network, plan_roundtrip,
};
pub use plan::{Total, describe as describe_plan, plan_task};
pub use probe::probe;
pub use request::{Compat, Cut, Finishing, Look, Models, Request, Restoration, Shots, Units};
pub use restore::{
    FilmOutcome, FilmPlan, Outcome, Prepared, PreviewOutcome, PreviewRequest, RedecodeOutcome,
    RedecodeRequest, SUFFIX, SourceInfo, beside, is_done, plan, prepare, preview, redecode,
};
pub use scenes::{ScenesRequest, scenes};
pub use vae::{PhaseTook, VaeOutcome, VaeRequest, VaeWork, vae};
pub use worker::WorkerProgram;
