//! How far work is saved, told across threads.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

/// How far the work on a unit is saved. The threads that save it tell; whoever shows it asks.
#[derive(Debug)]
pub struct Progress {
    /// The frame of the film up to which all frames of the unit are saved; the largest number before anything is known.
    end: AtomicUsize,
    /// How often values were saved.
    values: AtomicUsize,
    warnings: Mutex<Vec<String>>,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            end: AtomicUsize::new(usize::MAX),
            values: AtomicUsize::default(),
            warnings: Mutex::default(),
        }
    }
}

impl Progress {
    /// The frame of the film up to which the frames of the unit are saved; `None` before anything is known.
    pub fn end(&self) -> Option<usize> {
        Some(self.end.load(SeqCst)).filter(|end| *end != usize::MAX)
    }

    /// How often values of the networks were saved, with all that they were made of.
    pub fn values(&self) -> usize {
        self.values.load(SeqCst)
    }

    /// Takes what went wrong since the last time.
    pub fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn reach(&self, end: usize) {
        self.end.store(end, SeqCst);
    }

    pub(crate) fn save_values(&self) {
        self.values.fetch_add(1, SeqCst);
    }

    pub(crate) fn warn(&self, text: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}
