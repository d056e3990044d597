//! What the caller decides about a store.

use std::fmt;
use std::time::Duration;

/// Limits and, for a bucket, the variables with its credentials.
#[derive(Clone, Default)]
pub struct StoreSettings {
    /// How long and how often.
    pub limits: Limits,
    /// Variables of the environment, `AWS_ACCESS_KEY_ID` and the like, under the names that `object_store` knows. The
    /// caller passes them, because only the command line reads the environment. A folder needs none.
    pub variables: Vec<(String, String)>,
}

impl StoreSettings {
    /// The usual limits with these variables; others than those of stores are dropped.
    pub fn with_variables(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = |name: &str| {
            ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|prefix| name.starts_with(prefix))
                || name == "SERVICE_ACCOUNT"
        };
        let variables = variables.into_iter().filter(|(name, _)| ours(name)).collect();
        StoreSettings { limits: Limits::default(), variables }
    }
}

/// Names only: the values are secrets.
impl fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("StoreSettings").field("limits", &self.limits).field("variables", &names).finish()
    }
}

/// How long a call waits, and how often it tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For one answer of the store: a small object, one part of a large one, one page of a listing.
    pub call: Duration,
    /// Tries of a call that fails for a reason that may pass.
    pub tries: u32,
    /// Wait before the second try; it doubles up to [`Limits::longest_wait`].
    pub wait: Duration,
    /// The longest wait between two tries.
    pub longest_wait: Duration,
    /// Bytes of a part of a large object. Five parts are in memory at most. Buckets want 5 MiB or more.
    pub part: usize,
}

impl Default for Limits {
    /// Two minutes for 8 MiB is 70 kB/s, slower than any line that a film is sent over.
    fn default() -> Self {
        Limits {
            call: Duration::from_secs(120),
            tries: 5,
            wait: Duration::from_millis(200),
            longest_wait: Duration::from_secs(10),
            part: 8 << 20,
        }
    }
}

impl Limits {
    /// How long to wait after so many tries.
    pub(crate) fn pause(&self, tries: u32) -> Duration {
        let doubled = self.wait.saturating_mul(1 << tries.saturating_sub(1).min(16));
        doubled.min(self.longest_wait)
    }

    /// Bytes of a part of an object of this size: S3 takes 10,000 parts.
    pub(crate) fn part_of(&self, bytes: u64) -> usize {
        let least = usize::try_from(bytes.div_ceil(9_000)).unwrap_or(usize::MAX);
        self.part.max(1).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_parts_grow_with_the_object() {
        let limits = Limits::default();
        let waits: Vec<u128> = [1, 2, 3, 50].iter().map(|&n| limits.pause(n).as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 10_000]);
        assert_eq!(limits.part_of(1 << 30), 8 << 20);
        assert!((1_u64 << 40).div_ceil(limits.part_of(1 << 40) as u64) <= 9_000);
    }

    #[test]
    fn values_are_not_shown_and_other_variables_are_dropped() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let settings =
            StoreSettings::with_variables([pair("AWS_SECRET_ACCESS_KEY", "hunter2"), pair("HOME", "/root")]);
        let shown = format!("{settings:?}");
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY") && !shown.contains("hunter2"), "{shown}");
        assert_eq!(settings.variables.len(), 1);
    }
}
