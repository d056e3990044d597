//! A build without buckets.

use std::sync::Arc;

use object_store::ObjectStore;

use crate::place::{Cloud, Place};
use crate::{Settings, StoreError};

pub(crate) fn open(
    place: &Place,
    _: Cloud,
    _: &str,
    _: &Settings,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    Err(StoreError::NoCloud { url: place.to_string() })
}
