//! A flag that stops long work from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by whoever may cancel and by the backend that polls it.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    own: AtomicBool,
    parent: Option<CancelToken>,
}

impl CancelToken {
    /// Asks the backend to stop. Work in flight ends within 100 ms; `wait` then answers `Cancelled`.
    pub fn cancel(&self) {
        self.0.own.store(true, Ordering::Relaxed);
    }

    /// True once cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        let Flag { own, parent } = &*self.0;
        own.load(Ordering::Relaxed) || parent.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// A token for a part of the work: cancelled with this one, or alone.
    pub(crate) fn child(&self) -> Self {
        CancelToken(Arc::new(Flag { own: AtomicBool::new(false), parent: Some(self.clone()) }))
    }
}
