//! Files in and out, from outside.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]

mod common;

mod abandon;
mod deinterlacing;
mod doors;
mod ends;
mod entries;
mod excerpts;
mod filters;
mod parts;
mod raw_frames;
mod repeats;
mod segments;
mod stills;
mod swapped;
mod versions;
mod y4m_hostile;

use remaster_testkit::hostile::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
