//! Units, from outside.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod checkpoints;
mod common;

mod input;
mod records;
