//! The binary as people and scripts use it.
#![cfg_attr(windows, allow(unused_imports, dead_code, reason = "for tests that need a Unix"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod anime;
mod bounds;
mod build_name;
mod checkpoints;
mod cli;
mod compare_counts;
mod desk;
mod devices;
mod documents;
mod drivers;
mod emitted;
mod exits;
mod extras;
mod farm;
mod faults;
mod foreign_files;
mod formats;
mod hostile;
mod integrity;
mod json;
mod latents;
mod library;
mod lies;
mod lossless;
mod not_finite;
mod outputs;
#[cfg(unix)]
mod pipes;
mod promise;
mod pull;
mod raw_frames;
mod restore;
mod same_film;
mod scenes;
#[cfg(unix)]
mod scripts;
#[cfg(unix)]
mod secrets;
mod seeks;
#[cfg(feature = "serve")]
mod serve;
mod stdin_close;
mod stills;
mod transformers;
mod tree;
mod units;
mod wrong_devices;
