//! Restores and upscales video with the SeedVR2 networks, on one machine or many.
//!
//! Every operation takes the same three steps: a request says what is wanted, [`prepare`] opens the input, finds the models and
//! plans memory, and `run` does the work. A film is a [`Request`], which becomes a [`Prepared`] and ends in an [`Outcome`].
//!
//! ```no_run
//! use remaster::{Control, Event, Machine, Outcome, Request, WorkerProgram, prepare};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let request = Request::restore("film.mkv").output("out.mkv").model("3b");
//! let control = Control::default(); // cancels, pauses and stops the run from another thread
//! let mut show = |event: Event| if let Event::Warning(text) = event { eprintln!("{text}") };
//!
//! let job = prepare(request, &Machine::this(), &control, &mut show)?; // opens the file, finds the models, plans memory; no work yet
//! if let Some(plan) = job.plan(&mut show) {
//!     eprintln!("needs {} bytes of memory", plan.total.ram());
//! }
//! match job.run(&WorkerProgram::this()?, &mut show)? {
//!     Outcome::Restored(film) => eprintln!("{} frames", film.frames),
//!     Outcome::Skipped { output, .. } => eprintln!("{} was there", output.display()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! * A run that is cancelled, killed or stopped leaves its work beside the output. The same request resumes it, and the film has
//!   the bytes of an undisturbed run.
//! * Memory and disk are limits of the request ([`Limits`]) and promises of the run. What does not fit is refused by [`prepare`], with
//!   the limits that would do.
//! * Several devices ([`Units::devices`]) are used by processes of a [`WorkerProgram`]: the command line `remaster`, or a program that
//!   understands the words of `remaster unit run`.
//! * A [`Request`] is plain data that serde reads and writes. What is left out is the default; an unknown field is an error.
//! * An [`Error`] has a [`Class`] to decide by and a stable kind for programs, and ends in a next step.
//!
//! Other requests become a [`Job`] in the same way: [`PreviewRequest`], [`RedecodeRequest`], [`VaeRequest`], [`PlanRequest`],
//! [`CompareRequest`], [`ScenesRequest`], those of [`units`] for many machines, and those of [`models`]. [`Prepare`] lists them all.
//!
//! ```no_run
//! # use remaster::{Control, Event, Machine, prepare};
//! use remaster::{PlanRequest, Restoration};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (machine, control, mut show) = (Machine::this(), Control::default(), |_: Event| ());
//! let request = PlanRequest { input: "film.mkv".into(), how: Restoration::default(), card: None };
//! let job = prepare(request, &machine, &control, &mut show)?;
//! job.known().notes.iter().for_each(|note| eprintln!("{note}"));
//! let plan = job.run(&mut show)?; // measures how fast this machine is
//! eprintln!("needs {} bytes of memory", plan.total.ram());
//! # Ok(())
//! # }
//! ```
//!
//! A few things are one call: [`batch`], which prepares and runs one film after the other; [`units::plan_into`], [`plan_network`] and
//! [`plan_roundtrip`]; and what only looks: [`probe`], [`health`], [`units::status`], [`models::inspect`] and [`machine`].
//!
//! The library prints nothing, parses no arguments and installs no signal handler. What it knows of its machine and environment
//! (memory, disks, devices, folders of models and caches, proxies, buckets) comes in as a [`Machine`]; `-` as a path is stdin or
//! stdout.

mod around;
mod batch;
pub mod card;
mod compare;
mod control;
mod destination;
mod device;
mod error;
mod estimate;
mod event;
mod health;
mod job;
mod limits;
pub mod machine;
mod media;
pub mod models;
mod network;
mod network_plan;
mod notices;
pub mod numbers;
mod options;
mod outcome;
mod plan;
mod probe;
mod request;
mod restore;
mod scenes;
mod seconds;
mod site;
mod task;
mod tensors;
pub mod transformer;
#[cfg(feature = "gpu")]
mod tuning;
pub mod units;
pub mod upscaler;
mod vae;
pub mod words;
mod worker;

pub use batch::{BatchFilm, BatchOutcome, BatchRequest, batch};
pub use compare::{Clip, CompareRequest, Compared, FILTER, Resized};
pub use control::{Control, Pending};
pub use destination::check_file;
pub use device::Device;
pub use error::{Class, Error, with_causes};
pub use event::{About, Event, Saved, is_detail};
pub use health::{Check, health};
pub use job::{Job, Known, Prepare, prepare};
pub use limits::{Amount, Limits, Mode, ram};
pub use machine::Machine;
pub use media::{Programs, Scripts, Size, Source, Target, is_pipe, is_url};
pub use network_plan::{
    NetworkKind, NetworkPlan, NetworkPlanRequest, NetworkTime, RoundtripPlan, plan_network, plan_roundtrip,
};
pub use notices::notices;
pub use options::{OptionType, REQUEST_OPTIONS, RequestOption};
pub use outcome::{Estimate, FilmOutcome, FilmPlan, SourceInfo, words as time_in_words};
pub use plan::{Total, describe as describe_plan, plan_task};
pub use probe::probe;
pub use request::{Compat, Cut, Finishing, Look, Models, Request, Restoration, Shots, Units};
#[cfg(feature = "gpu")]
pub use restore::card_table;
pub use restore::{
    Outcome, PlanRequest, Prepared, PreviewOutcome, PreviewRequest, RedecodeOutcome, RedecodeRequest, SUFFIX,
    StillOutcome, StillRequest, beside, is_done,
};
pub use scenes::ScenesRequest;
pub use task::Task;
#[cfg(feature = "gpu")]
pub use tuning::{KernelCheck, TuneRequest, check_kernels, tune_device, tuned_device};
pub use vae::{PhaseTook, VaeOutcome, VaeRequest, VaeWork};
pub use worker::WorkerProgram;

// Types of the fields of a request.
pub use remaster_colour::Mode as Color;
pub use remaster_compute::{Backend, CpuPath, DType};
pub use remaster_media::{Deinterlace, Encoding, Filters, RawFrames, TimeBase, is_still};
pub use remaster_picture::Edges;
pub use remaster_restore::{Pool, Resize};
