//! Pure arithmetic: sizes in, a plan out. No tensors, files, clock or threads.
//!
//! ```
//! use remaster_plan::{Clip, slices};
//!
//! let clip = Clip::new(17, 480, 864)?;
//! assert_eq!(clip.latent(), (5, 60, 108));
//! assert_eq!(slices::frames(17, 8)?.iter().collect::<Vec<_>>(), [9, 8]);
//! # Ok::<(), remaster_plan::PlanError>(())
//! ```

mod budget;
mod choose;
mod geometry;
mod pair;
mod plan;
pub mod slices;
pub mod tiles;

pub use budget::{Budget, Lack, Memory, Peaks, bytes};
pub use choose::{Measured, SLICES, Wish, WishedMode, chains, choose};
pub use geometry::{
    Clip, MAX_FRAMES, MAX_PIXELS, MAX_SIDE, MAX_SLICE, MAX_SLICE_PIXELS, MAX_STRIPES, MAX_TILES, PlanError,
    SPACE, TIME,
};
pub use pair::{choose_both, divide};
pub use plan::{Bands, Candidate, Cost, Direction, Job, Mode, Plan, Rejected, Rule, VERSION, Work};
pub use tiles::{Grid, Tile, Tiling};
