//! Stores and the journal, from outside.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod common;

mod buckets;
mod faults;
mod hostile;
mod journal;
mod kill;
mod links;
mod producers;
mod store;
