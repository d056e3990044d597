//! Buckets: the real ones with the feature `cloud`, an error without it.

#[cfg_attr(feature = "cloud", path = "buckets.rs")]
#[cfg_attr(not(feature = "cloud"), path = "none.rs")]
mod buckets;

pub(crate) use buckets::open;
