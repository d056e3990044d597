//! Plans as they run, from outside.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;

mod bands;
mod bounds;
mod dit;
mod exact;
mod faults;
#[cfg(target_os = "linux")]
mod flat;
mod hostile_state;
mod not_finite;
mod null;
mod open_ended;
mod recover;
mod tokens;
mod weights;

use remaster_testkit::hostile::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
