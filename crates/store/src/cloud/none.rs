//! A build without buckets.

use std::sync::Arc;

use object_store::ObjectStore;

use crate::place::{Cloud, Place};
use crate::{StoreError, StoreSettings};

pub(crate) fn open(
    place: &Place,
    _: Cloud,
    _: &str,
    _: &StoreSettings,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    Err(StoreError::NoCloud { url: place.to_string() })
}
