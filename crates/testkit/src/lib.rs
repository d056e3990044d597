//! What the tests share: numbers from a seed, the op suite that every backend must pass, devices that fail, and
//! files made to do harm.

mod bias_cases;
mod busy;
mod clip;
mod faulty;
mod folder;
pub mod held;
pub mod hostile;
mod largest;
#[cfg(target_os = "linux")]
mod liar;
mod not_run;
pub mod op_cases;
mod rng;
mod says;
pub mod stills;
mod threads;
pub mod token_cases;

pub use bias_cases::{check_unbiased, unbiased};
pub use busy::busy;
pub use clip::{dry_run, run_clip};
pub use faulty::Faults;
#[cfg(unix)]
pub use folder::program;
pub use folder::{Mounted, names, rooted};
pub use largest::largest;
#[cfg(target_os = "linux")]
pub use liar::{Liar, Noted};
pub use not_run::{nightly, no_disk, no_gpu, no_part, no_tiles, no_units, not_run};
pub use rng::{Noise, Rng};
pub use says::says;
pub use threads::in_threads;
