//! How closely a device is watched that has not shown yet that it computes right numbers, and who remembers what it showed.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::device::lock;
use crate::dtype::DType;

/// How often results are computed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Watch {
    /// Not at all.
    #[default]
    Never,
    /// Now and then, in at most 1/200 of the time; on a software device not at all.
    Seldom,
    /// Every product, before the next one: for tests.
    Always,
}

/// A network in a number format. A device is trusted with each apart: others have other kernels and other widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NetworkId {
    /// Its short name.
    pub name: &'static str,
    /// Values of its weights, which tell networks of one name apart.
    pub values: u64,
    /// Its format.
    pub dtype: DType,
}

impl fmt::Display for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} values in {}", self.name, self.values, self.dtype)
    }
}

/// Remembers what was found of a device. Called from several threads, and slow at times: it may write a file.
pub trait Monitor: Send + Sync {
    /// Returns how many products of a network were right so far.
    fn verified(&self, network: NetworkId) -> u64;

    /// Counts a product of a network that is right. Returns what another process found wrong meanwhile.
    fn add_verified(&self, network: NetworkId) -> Option<String>;

    /// Takes note of a wrong result. The run hears of it after this returned.
    fn found_wrong(&self, reason: &str);
}

/// A monitor that stays for the rest of the process, as devices are copied freely.
#[derive(Clone, Copy)]
pub struct MonitorRef(pub &'static dyn Monitor);

impl MonitorRef {
    fn address(&self) -> usize {
        std::ptr::from_ref(self.0).cast::<()>() as usize
    }
}

impl fmt::Debug for MonitorRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Monitor")
    }
}

impl PartialEq for MonitorRef {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for MonitorRef {}

impl Hash for MonitorRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

/// Products of a network that must be right before the watch on it ends. At one look in two seconds, as a look of 10 ms allows,
/// these are more than three minutes of its work, which meet every kind of its layers.
pub const ENOUGH: u64 = 100;

/// Of the time, one part in so many.
const SHARE: u32 = 200;

/// When the next look of this process is due; at once if none was made. Sessions come and go, and share the time for looks.
static NEXT: Mutex<Option<Instant>> = Mutex::new(None);

/// Whether a look is due by time.
pub(super) fn is_time() -> bool {
    lock(&NEXT).is_none_or(|next| Instant::now() >= next)
}

/// Spaces looks out, after one that took so long.
pub(super) fn looked(cost: Duration) {
    *lock(&NEXT) = Instant::now().checked_add(cost * SHARE);
}
