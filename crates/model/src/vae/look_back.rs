//! How far back in time encoder and decoder see.

use super::{Direction, VaeConfig};

/// Frames that a convolution of three taps sees before its own.
const CONV: usize = 2;

impl Direction {
    /// How many inputs before its newest one a result depends on: frames of the encoder, latents of the decoder. A clip
    /// that starts this much earlier gives the same bits as one that starts anywhere before.
    pub fn look_back(self, config: &VaeConfig) -> usize {
        // Two convolutions a resnet; two resnets in the middle.
        let (resnet, mid) = (2 * CONV, 4 * CONV);
        match self {
            // From the head back to the first frame: the second and third stage halve time, with a convolution.
            Direction::Encode => {
                let stage = config.resnets * resnet;
                let quarter = CONV + mid + stage;
                let half = 2 * quarter + CONV + stage;
                2 * half + CONV + stage + stage + CONV
            }
            // The first two stages double time, with a convolution behind; so does the third for space alone.
            Direction::Decode => {
                let stage = (config.resnets + 1) * resnet;
                let whole = CONV + stage + CONV + stage + CONV;
                let half = whole.div_ceil(2) + stage + CONV;
                half.div_ceil(2) + stage + mid + CONV
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_network_sees_112_frames_and_37_latents_back() {
        for config in [VaeConfig::full(), VaeConfig::tiny()] {
            assert_eq!(Direction::Encode.look_back(&config), 112);
            assert_eq!(Direction::Decode.look_back(&config), 37);
        }
    }
}
