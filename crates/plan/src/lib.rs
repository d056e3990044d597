//! Pure arithmetic: sizes in, a plan out. No tensors, files, clock or threads.
//!
//! ```
//! use remaster_plan::{Cells, Clip, slices::Lengths};
//!
//! let clip = Clip::new(17, 480, 864)?;
//! assert_eq!(clip.cells(), Cells { steps: 5, rows: 60, columns: 108 });
//! assert_eq!(Lengths::new(17, 8).iter().collect::<Vec<_>>(), [9, 8]);
//! # Ok::<(), remaster_plan::PlanError>(())
//! ```

mod budget;
mod choose;
mod description;
mod geometry;
mod joint;
mod plan;
mod shot_range;
pub mod slices;
pub mod tiles;
mod windows;

pub use budget::{Budget, Lack, Memory, Peaks, bytes};
pub use choose::{Measured, SLICES, Wish, WishedMode, chains, choose};
pub use description::{Cells, Description, INPUT, OUTPUT};
pub use geometry::{
    Clip, MAX_FRAMES, MAX_PIXELS, MAX_SIDE, MAX_SLICE, MAX_SLICE_PIXELS, MAX_STRIPES, MAX_TILES, PlanError,
    SPACE, TIME,
};
pub use joint::{choose_joint, divide};
pub use plan::{Bands, Candidate, Cost, Job, Mode, Plan, Rejected, Tiers, VERSION, WorkTotal};
pub use shot_range::{LookBack, Needs, ShotRange, first_frame, latent_by, latents_of, part_of};
pub use tiles::{Grid, Tile, Tiling};
pub use windows::{Windows, share_before};
