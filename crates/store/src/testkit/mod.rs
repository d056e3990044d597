//! Stores for tests: in memory, shared by any number of [`Store`]s, and failing when told to.
//!
//! Built with the feature `testkit` only.

mod faults;
mod faulty;

use std::io;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::memory::InMemory;

pub use faults::{Fault, Faults};
pub use faulty::Faulty;

use crate::core::Core;
use crate::io::Io;
use crate::place::Place;
use crate::secrets::Secrets;
use crate::{Limits, Store, StoreError, StoreSettings};

/// A store over any objects.
pub fn over(name: &str, objects: Arc<dyn ObjectStore>, limits: Limits) -> Result<Store, StoreError> {
    Store::with(Place::Other(name.to_owned()), objects, &StoreSettings { limits, ..StoreSettings::default() })
}

/// Objects in memory, with one thread for all stores over them.
#[derive(Clone)]
pub struct Memory {
    objects: Arc<InMemory>,
    io: Arc<Io>,
}

impl Memory {
    /// None yet.
    pub fn new() -> io::Result<Self> {
        Ok(Memory { objects: Arc::default(), io: Arc::new(Io::start()?) })
    }

    /// Other objects, none yet, with the same thread.
    pub fn another(&self) -> Self {
        Memory { objects: Arc::default(), io: Arc::clone(&self.io) }
    }

    /// A store over them.
    pub fn store(&self, limits: Limits) -> Store {
        self.over(Arc::clone(&self.objects) as _, limits)
    }

    /// A store over them that fails when `faults` says so.
    pub fn faulty(&self, limits: Limits, faults: &Arc<Faults>) -> Store {
        self.over(Arc::new(Faulty::new(Arc::clone(&self.objects) as _, Arc::clone(faults))), limits)
    }

    fn over(&self, objects: Arc<dyn ObjectStore>, limits: Limits) -> Store {
        let place = Place::Other("memory".into());
        Store::on(Arc::clone(&self.io), Core { place, objects, limits, secrets: Secrets::default() })
    }
}
