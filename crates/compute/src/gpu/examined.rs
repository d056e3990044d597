//! Graphics APIs that are left out, because their drivers do not survive being asked for their devices.

use std::sync::OnceLock;

use super::device::Api;

/// An API that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlisted {
    /// Which.
    pub api: Api,
    /// What its driver did.
    pub reason: String,
}

type Examiner = Box<dyn Fn() -> Vec<Unlisted> + Send + Sync>;

static EXAMINER: OnceLock<Examiner> = OnceLock::new();
static UNLISTED: OnceLock<Vec<Unlisted>> = OnceLock::new();

/// Before this process asks the first driver, `examiner` is called once to say which APIs to leave out. The first examiner
/// of a process counts.
pub fn examine_drivers(examiner: impl Fn() -> Vec<Unlisted> + Send + Sync + 'static) {
    // A second one is dropped: drivers may have been asked by then.
    let _ = EXAMINER.set(Box::new(examiner));
}

/// The APIs that are left out. Without an examiner there are none.
pub fn unlisted() -> &'static [Unlisted] {
    UNLISTED.get_or_init(|| EXAMINER.get().map(|examine| examine()).unwrap_or_default())
}
