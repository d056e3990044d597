//! A film as units: planned, done here or elsewhere, joined.

mod assemble;
mod children;
mod cursors;
mod disks;
mod done;
mod farm;
#[cfg(debug_assertions)]
mod faults;
mod frame_opener;
mod local;
mod make;
mod members;
pub mod pinned;
mod run;
mod scheduler;
mod state;
mod status;
mod todo;
mod typed;
mod uncut;
mod verify;
mod worker;

pub use assemble::{AssembleRequest, Assembled};
pub(crate) use assemble::{unchanged, watch};
pub use children::told;
pub(crate) use done::{Standing, standing};
pub use farm::{StoredPlan, plan_into};
pub(crate) use local::{LocalFilm, may_be_done};
pub(crate) use members::{check as check_devices, shared as for_devices};
pub use pinned::Repeated;
pub use run::{Indices, OwnModels, UnitsDone, UnitsRequest};
pub use status::{UnitsStatus, ranges, status};
pub(crate) use uncut::run as uncut;
pub use verify::{Verified, VerifyRequest};

use std::ffi::OsStr;
use std::path::Path;

use remaster_media::place::Scratch;
use remaster_store::{Store, StoreSettings};

use crate::error::Error;
use crate::machine::host::Machine;

/// What the environment says about buckets.
fn bucket_settings(machine: &Machine) -> StoreSettings {
    let text = |word: &OsStr| word.to_str().map(str::to_owned);
    let variables = machine.variables.iter();
    StoreSettings::with_variables(variables.filter_map(|(name, value)| Some((text(name)?, text(value)?))))
}

/// Removes temporary folders of killed runs where they can be: a run that finds its work done makes none of its own.
fn tidy<'a>(machine: &Machine, folders: impl IntoIterator<Item = &'a Path>) {
    Scratch::sweep(&machine.temporary);
    folders.into_iter().for_each(Scratch::sweep);
}

/// Opens the place of a plan, with what the environment says about buckets.
fn store(url: &OsStr, machine: &Machine) -> Result<Store, Error> {
    let store = match url.to_str() {
        Some(url) => Store::open(url, bucket_settings(machine))?,
        None => Store::of_folder(Path::new(url), bucket_settings(machine))?,
    };
    store.probe()?;
    Ok(store)
}
