//! Clips through the networks, from outside.

mod latents;
mod recover;

use remaster_testkit::hostile::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
