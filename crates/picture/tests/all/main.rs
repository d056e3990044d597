//! Pictures and their files, from outside.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]

mod files;
mod hostile;
mod layouts;
mod resize;
mod stills;

use remaster_testkit::hostile::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
