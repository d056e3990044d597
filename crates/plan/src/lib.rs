//! Pure arithmetic: sizes in, a plan out. No tensors, files, clock or threads.
//!
//! ```
//! use remaster_plan::{Clip, slices};
//!
//! let clip = Clip::new(17, 480, 864)?;
//! assert_eq!(clip.latent(), (5, 60, 108));
//! assert_eq!(slices::frames(17, 8)?, [9, 8]);
//! # Ok::<(), remaster_plan::PlanError>(())
//! ```

mod geometry;
pub mod slices;

pub use geometry::{Clip, PlanError, SPACE, TIME};
