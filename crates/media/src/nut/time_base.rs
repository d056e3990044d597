//! Units of time.

use serde::{Deserialize, Serialize};

/// A fraction of a second, or a number of frames per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fraction")]
pub struct TimeBase {
    /// Numerator.
    pub num: u64,
    /// Denominator.
    pub den: u64,
}

impl TimeBase {
    /// This fraction times `num / den`, in lowest terms.
    pub(crate) fn times(self, num: u64, den: u64) -> TimeBase {
        TimeBase::new(self.num.saturating_mul(num), self.den.saturating_mul(den)).unwrap_or(self)
    }

    /// Seconds of so many ticks.
    pub fn seconds(self, ticks: i64) -> f64 {
        ticks as f64 * self.num as f64 / self.den as f64
    }

    /// The fraction in lowest terms: NUT takes no other. `None` if one side is zero.
    pub fn new(num: u64, den: u64) -> Option<Self> {
        let (mut a, mut b) = (num, den);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (num > 0 && den > 0).then(|| TimeBase { num: num / a, den: den / a })
    }
}

/// A fraction as files have it.
#[derive(Deserialize)]
struct Fraction {
    num: u64,
    den: u64,
}

impl TryFrom<Fraction> for TimeBase {
    type Error = String;

    fn try_from(Fraction { num, den }: Fraction) -> Result<Self, String> {
        TimeBase::new(num, den).ok_or_else(|| format!("{num}/{den} is not a time base; both must be above 0"))
    }
}
