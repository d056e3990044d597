//! A film as units: planned, done here or elsewhere, joined.

mod args;
mod assemble;
mod children;
mod clock;
mod disks;
mod farm;
mod keys;
mod local;
mod make;
mod reel;
mod run;
mod state;
mod verify;
mod words;
mod worker;

pub(crate) use args::{AssembleArgs, CutArgs, LocalArgs, UnitRunArgs};
pub(crate) use assemble::run as assemble;
pub(crate) use farm::{FarmArgs, plan};
pub(crate) use local::run as local;
pub(crate) use run::run;
pub(crate) use verify::{VerifyFilmArgs, run as verify};
pub(crate) use words::remember;

use remaster_store::{Settings, Store};

use crate::error::CliError;

/// What the environment says about buckets.
fn bucket_settings() -> Settings {
    let text = |word: std::ffi::OsString| word.into_string().ok();
    Settings::with_variables(
        std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))),
    )
}

/// Opens the place of a plan, with what the environment says about buckets.
fn store(url: &str) -> Result<Store, CliError> {
    let store = Store::open(url, bucket_settings())?;
    store.probe()?;
    Ok(store)
}
