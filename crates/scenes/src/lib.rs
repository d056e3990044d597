//! Where the shots of a clip begin. No files, no clock, no printing.
//!
//! * [`Detector`]: takes frames in order and says of each, [`LOOKAHEAD`] frames later, whether it starts a shot;
//! * [`Shots`]: the list of a clip's shots, and the same as JSON.
//!
//! Only hard cuts count. A dissolve or a fade has no frame at which one shot ends and the next begins.
//!
//! ```
//! use remaster_picture::Frame;
//! use remaster_scenes::{Detector, Shots};
//!
//! let (mut dark, mut bright) = (Frame::new(64, 36, 3), Frame::new(64, 36, 3));
//! dark.data.iter_mut().enumerate().for_each(|(i, v)| *v = (i % 7) as f32 * 0.05);
//! bright.data.iter_mut().enumerate().for_each(|(i, v)| *v = 1.0 - (i / 900) as f32 * 0.08);
//!
//! let (mut detector, mut shots) = (Detector::new(), Shots::default());
//! for i in 0..20 {
//!     let verdict = detector.push(if i < 12 { &dark } else { &bright });
//!     verdict.into_iter().for_each(|v| shots.record(v));
//! }
//! detector.finish().into_iter().for_each(|v| shots.record(v));
//! assert_eq!(shots.starts(), [0, 12]);
//! assert_eq!(Shots::from_json(shots.to_json().as_bytes())?, shots);
//! # Ok::<(), remaster_scenes::ScenesError>(())
//! ```

mod detector;
mod distance;
mod error;
mod file;
mod shots;
mod thumb;

pub use detector::{Detector, LOOKAHEAD, MIN_SHOT, Verdict};
pub use error::ScenesError;
pub use file::{MAX_BYTES, MAX_FRAMES, MAX_SHOTS};
pub use shots::Shots;
pub use thumb::{HEIGHT, Thumb, WIDTH};
