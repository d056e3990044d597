//! How two clips differ, measured frame by frame, and pictures that show it. No files, no printing, no clock.
//!
//! Frames are pushed in pairs; a few are held, whatever the length of the clips. The pictures are values that
//! the caller writes: RGB8 for PNG, text for SVG.
//!
//! ```
//! use remaster_metrics::{Comparison, Options, Picture, plot, sheet};
//!
//! let (a, b) = (vec![0.5; 32 * 24 * 3], vec![0.51; 32 * 24 * 3]);
//! let mut comparison = Comparison::new(32, 24, Options::default())?;
//! for _ in 0..3 {
//!     let scores = comparison.push(Picture::new(32, 24, &a)?, Picture::new(32, 24, &b)?)?;
//!     assert!(scores.psnr.is_some_and(|psnr| (psnr - 40.0).abs() < 0.1));
//! }
//! let report = comparison.finish();
//! assert!((report.drift.mean[0] - 2.55).abs() < 0.01);
//! let (png, svg) = (sheet(&report, "a.mkv", "b.mkv"), plot(&report, "b against a"));
//! assert_eq!(png.data.len(), png.width * png.height * 3);
//! assert!(svg.starts_with("<svg"));
//! # Ok::<(), remaster_metrics::MetricsError>(())
//! ```

mod ciede2000;
mod comparison;
mod draw;
mod drift;
mod error;
mod flicker;
mod picture;
mod psnr;
mod report;
mod sample;
mod seams;
mod ssim;
mod ssimulacra2;

pub use ciede2000::DeltaE;
pub use comparison::{Comparison, Options};
pub use draw::{BeforeAfter, Image, LETTERS_NOTICE, drift_map, plot, preview, sheet};
pub use drift::{Drift, Largest};
pub use error::{MetricsError, Side};
pub use picture::Picture;
pub use report::{FrameScores, Metric, Pick, Pooled, Report, Stat};
pub use sample::Sample;
pub use seams::{Axis, Borders, Line, Seams};
