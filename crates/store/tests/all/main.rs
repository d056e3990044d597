//! Stores and the journal, from outside.

mod common;

mod buckets;
mod faults;
mod hostile;
mod journal;
mod kill;
mod links;
mod store;
