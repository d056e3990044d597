//! The ways to correct colours, by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::ColourError;

/// How colours are corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Low frequencies of the reference, then the histograms of CIELAB's a and b, and a fifth of that of L.
    Lab,
    /// Low frequencies of the reference, detail of the frame.
    Wavelet,
    /// As wavelet; as hsv where the frame is much more saturated than the reference.
    WaveletAdaptive,
    /// The histogram of saturation, hue by hue.
    Hsv,
    /// Mean and standard deviation of each channel, always frame by frame.
    Adain,
    /// Colours stay as they are; values are clamped.
    None,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 6] =
        [Mode::Lab, Mode::Wavelet, Mode::WaveletAdaptive, Mode::Hsv, Mode::Adain, Mode::None];

    /// The name that people type.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Lab => "lab",
            Mode::Wavelet => "wavelet",
            Mode::WaveletAdaptive => "wavelet_adaptive",
            Mode::Hsv => "hsv",
            Mode::Adain => "adain",
            Mode::None => "none",
        }
    }

    /// Whether a frame's result depends on the other frames of its pool.
    pub fn pools(self) -> bool {
        matches!(self, Mode::Lab | Mode::Hsv | Mode::WaveletAdaptive)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mode {
    type Err = ColourError;

    fn from_str(name: &str) -> Result<Mode, ColourError> {
        let found = Mode::ALL.into_iter().find(|mode| mode.name() == name);
        found.ok_or_else(|| ColourError::Mode { given: name.chars().take(40).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_others_are_refused() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse::<Mode>(), Ok(mode));
        }
        let said = "LAB".parse::<Mode>().unwrap_err().to_string();
        assert_eq!(
            said,
            "unknown colour correction `LAB`; use lab, wavelet, wavelet_adaptive, hsv, adain or none"
        );
    }
}
