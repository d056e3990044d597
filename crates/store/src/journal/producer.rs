//! Whose work is in a record. What a device made before it was found to compute wrong numbers can then be told from the rest.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::{Journal, JournalError, RecordError, layout};
use crate::{Key, random};

/// Producers whose work is in one record at most. A unit that was moved so often is begun again.
pub(super) const MAX_PRODUCERS: usize = 256;

/// Names the work of one device, as long as the device is trusted: 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Producer(String);

impl Producer {
    /// Returns a new one.
    pub fn random() -> Self {
        Producer(random::name())
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Producer {
    type Error = RecordError;

    fn try_from(text: String) -> Result<Self, RecordError> {
        match random::is_name(&text) {
            true => Ok(Producer(text)),
            false => Err(RecordError::Value { what: "the producer" }),
        }
    }
}

/// Producers whose work is in what a handle of a journal writes: its own, and those of what it goes on from. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Producers(Arc<Mutex<BTreeSet<Producer>>>);

impl Producers {
    fn all(&self) -> MutexGuard<'_, BTreeSet<Producer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal {
    /// Returns a handle for one piece of work: whatever it writes is said to be of `producer`, and of the producers of what it
    /// reads to go on from.
    #[must_use]
    pub fn made_by(&self, producer: Option<&Producer>) -> Journal {
        let producers = Producers::default();
        producers.all().extend(producer.cloned());
        Journal { producers, ..self.clone() }
    }

    /// Producers whose work is in what this handle writes from now on.
    pub fn producers(&self) -> Vec<Producer> {
        self.producers.all().iter().cloned().collect()
    }

    /// Takes over the producers of what the work goes on from. False if they are too many: it must not go on from that.
    pub fn inherit(&self, producers: &[Producer]) -> bool {
        let mut all = self.producers.all();
        let new = producers.iter().filter(|producer| !all.contains(producer)).count();
        if all.len() + new > MAX_PRODUCERS {
            return false;
        }
        all.extend(producers.iter().cloned());
        true
    }

    /// Makes everything count as damaged that is of a producer, whoever wrote it and whenever: its device computed wrong numbers.
    pub fn distrust(&self, producer: &Producer) -> Result<(), JournalError> {
        self.store.create(&layout::untrusted(producer)?, layout::UNTRUSTED_TEXT.to_vec())?;
        Ok(())
    }

    /// Producers whose work does not count.
    pub(super) fn untrusted(&self) -> Result<BTreeSet<Producer>, JournalError> {
        self.listing(&layout::untrusted_folder(), |producers: &mut BTreeSet<Producer>, object| {
            if let layout::Object::Untrusted(producer) = object {
                producers.insert(producer);
            }
        })
    }

    /// Refuses a record with work of a producer that does not count. The store is asked only for records that name one.
    pub(super) fn trusted(&self, key: &Key, producers: &[Producer]) -> Result<(), JournalError> {
        if producers.is_empty() {
            return Ok(());
        }
        self.trusted_by(&self.untrusted()?, key, producers)
    }

    pub(super) fn trusted_by(
        &self,
        untrusted: &BTreeSet<Producer>,
        key: &Key,
        producers: &[Producer],
    ) -> Result<(), JournalError> {
        match producers.iter().any(|producer| untrusted.contains(producer)) {
            true => Err(JournalError::Untrusted { place: self.store.place(), key: key.to_string() }),
            false => Ok(()),
        }
    }
}
