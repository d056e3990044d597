//! Colours, by goldens and at their limits.

#[path = "../common/mod.rs"]
mod common;

mod golden;
mod limits;
mod shot;
mod speed;
