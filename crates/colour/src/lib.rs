//! Colours of restored frames brought back to those of their source: the network invents detail well, but shifts
//! colours. The source, resized, is the reference.
//!
//! * [`correct`]: frames that are in memory together, exactly;
//! * [`ShotStatistics`] and [`ShotMaps`]: a shot of any length in two passes, with a few MB of counts;
//! * [`working_bytes`]: what [`correct`] allocates, for those who plan memory;
//! * [`alpha`]: the alpha channel at the new size, which no network restores.
//!
//! Frames are RGB, 0 to 1 nominal. Restored frames may lie a little outside; results are clamped. References count
//! as clamped, because that is how the network saw them. No value of a frame reaches a panic: NaN counts as 0, and
//! restored values beyond -16 to 16 as the nearest of the two, so that no sum overflows.
//!
//! All sums run in a fixed order and no function of the platform is called, so results have the same bits on every
//! machine.
//!
//! ```
//! use remaster_colour::{Mode, correct};
//! use remaster_picture::Frame;
//!
//! let source = Frame { width: 2, height: 1, channels: 3, data: vec![0.2, 0.3, 0.4, 0.6, 0.5, 0.4] };
//! let mut restored = [source.clone()];
//! restored[0].data.iter_mut().for_each(|v| *v += 0.25);
//! correct("lab".parse::<Mode>()?, &mut restored, std::slice::from_ref(&source))?;
//! assert!(restored[0].data.iter().zip(&source.data).all(|(a, b)| (a - b).abs() < 1e-4));
//! # Ok::<(), remaster_colour::ColourError>(())
//! ```

mod adain;
mod adaptive;
pub mod alpha;
mod batch;
mod error;
mod hsv;
mod lab;
mod memory;
mod mode;
mod power;
mod quantile;
mod rank;
mod shot;
mod wavelet;

pub use error::ColourError;
pub use memory::working_bytes;
pub use mode::Mode;
pub use shot::{ShotMaps, ShotStatistics};

use batch::Batch;
use remaster_picture::Frame;

/// Corrects `frames` in place against `references`, one for each, of the same size. Modes that match histograms
/// take all frames as one pool.
pub fn correct(mode: Mode, frames: &mut [Frame], references: &[Frame]) -> Result<(), ColourError> {
    let Some(batch) = Batch::check(frames, references)? else { return Ok(()) };
    for frame in &mut *frames {
        batch::tame(&mut frame.data);
    }
    let pairs = frames.iter_mut().zip(references);
    match mode {
        Mode::None => {}
        Mode::Wavelet => pairs.for_each(|(frame, reference)| wavelet::correct(frame, reference)),
        Mode::Lab => lab::correct(frames, references, batch),
        Mode::Hsv => hsv::correct(frames, references, batch),
        Mode::WaveletAdaptive => adaptive::correct(frames, references, batch),
        Mode::Adain => pairs.for_each(|(frame, reference)| adain::correct(frame, reference)),
    }
    for frame in frames {
        frame.data.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
    }
    Ok(())
}
