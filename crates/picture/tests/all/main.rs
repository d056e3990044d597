//! Pictures and their files, from outside.

mod files;
mod hostile;
mod layouts;
mod resize;
mod stills;

use remaster_testkit::hostile::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
