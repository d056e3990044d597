//! Which call fails, and how.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails and nothing was done.
    Refused,
    /// It is done, and the answer is an error.
    AnswerLost,
    /// It is done, and the answer comes too late.
    Late,
    /// Half of it is done, and the answer is an error.
    Cut,
    /// Half of it is done, and the answer is that all is well.
    CutSilently,
    /// It is done twice.
    Twice,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 6] =
        [Fault::Refused, Fault::AnswerLost, Fault::Late, Fault::Cut, Fault::CutSilently, Fault::Twice];
}

#[derive(Debug)]
enum Schedule {
    /// Calls `from..to` fail.
    Span { from: u64, to: u64, fault: Fault },
    /// So many of a thousand fail, each in a way that seed and number decide.
    Random { seed: u64, per_mille: u64 },
}

/// Counts the calls of a store and says which fail.
#[derive(Debug)]
pub struct Faults {
    schedule: Schedule,
    late: Duration,
    calls: AtomicU64,
}

impl Faults {
    /// No call fails.
    pub fn none() -> Self {
        Faults::span(0, 0, Fault::Refused)
    }

    /// Calls `from..to`, counted from 0, fail.
    pub fn span(from: u64, to: u64, fault: Fault) -> Self {
        Faults::new(Schedule::Span { from, to, fault })
    }

    /// So many of a thousand calls fail.
    pub fn random(seed: u64, per_mille: u64) -> Self {
        Faults::new(Schedule::Random { seed, per_mille })
    }

    fn new(schedule: Schedule) -> Self {
        Faults { schedule, late: Duration::from_millis(60), calls: AtomicU64::new(0) }
    }

    /// How late is late. It should be longer than the limit of a call.
    pub fn late(self, late: Duration) -> Self {
        Faults { late, ..self }
    }

    /// Calls until now.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    pub(super) fn lateness(&self) -> Duration {
        self.late
    }

    /// Counts a call and says how it fails.
    pub(super) fn next(&self) -> Option<Fault> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        match self.schedule {
            Schedule::Span { from, to, fault } => (from..to).contains(&call).then_some(fault),
            Schedule::Random { seed, per_mille } => {
                let dice = mixed(seed ^ mixed(call));
                let fault = Fault::ALL[(dice >> 32) as usize % Fault::ALL.len()];
                (dice % 1000 < per_mille).then_some(fault)
            }
        }
    }
}

/// The finaliser of SplitMix64.
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
