//! Checkpoints, from outside.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod support;

mod changed;
mod dit;
mod embedding;
mod formats;
mod formula;
mod gguf;
mod hostile;
mod hostile_files;
mod hostile_pth;
mod layers;
mod memory;
mod parts;
mod pth;
mod tensorfile;
mod upscaler;
mod vae;

use remaster_testkit::hostile::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
