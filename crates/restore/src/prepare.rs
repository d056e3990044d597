//! What the encoder gets of a frame, and what a restored frame is compared with.

use remaster_colour::alpha::plane;
use remaster_picture::{Frame, resize};

use crate::geometry::Geometry;
use crate::noise::Noise;
use crate::upscale::Upscale;

/// How much input noise of 1 is, in values of [-1, 1].
const INPUT_NOISE: f32 = 0.025;

/// How frames are prepared for the encoder.
#[derive(Clone, Debug)]
pub(crate) struct Prepare {
    pub(crate) geometry: Geometry,
    /// Of an upscaler.
    pub(crate) upscale: Option<Upscale>,
    /// 0 to 1: the frame is first reduced by 1 + 7 times this.
    pub(crate) softness: f32,
    /// 0 to 1.
    pub(crate) input_noise: f32,
    pub(crate) noise: Noise,
}

impl Prepare {
    /// Pixels of a padded frame in [-1, 1]; in [0, 1] for an upscaler.
    pub(crate) fn frame(&self, frame: &Frame) -> Vec<f32> {
        if self.softness <= 0.0 {
            return match &self.upscale {
                Some(upscale) => upscale.input(&frame.without_alpha()),
                None => self.geometry.prepare(frame).0,
            };
        }
        let factor = 1.0 + 7.0 * self.softness;
        let less = |n: usize| ((n as f32 / factor).round() as usize).max(1);
        let colours = frame.without_alpha();
        let small = resize(&colours, less(frame.width), less(frame.height));
        if let Some(upscale) = &self.upscale {
            return upscale.input(&small);
        }
        // From here it is resized to what is shown, as the frame itself would be.
        let geometry = Geometry { source: [small.width, small.height], alpha: false, ..self.geometry };
        geometry.prepare(&small).0
    }

    /// Columns and rows of a frame that was prepared.
    pub(crate) fn taken(&self) -> [usize; 2] {
        self.upscale.as_ref().map_or(self.geometry.padded, Upscale::taken)
    }

    /// Adds input noise to frame `index` of its shot.
    pub(crate) fn noise(&self, index: usize, data: &mut [f32]) {
        if self.input_noise > 0.0 {
            // Half as much where values span 1.
            let ([w, h], much) = (self.taken(), if self.upscale.is_some() { 0.5 } else { 1.0 } * INPUT_NOISE);
            self.noise.add_to_frame(index, [h, w, 3], much * self.input_noise, data);
        }
    }

    /// The alpha of a frame, if that is kept.
    pub(crate) fn alpha(&self, frame: &Frame) -> Option<Frame> {
        if self.geometry.alpha { plane(frame) } else { None }
    }
}

/// The frame as it would be shown if nothing was restored: resized and in the range of pictures.
pub(crate) fn reference(geometry: &Geometry, frame: &Frame) -> Frame {
    let colours = frame.without_alpha();
    let [width, height] = geometry.shown;
    let mut shown = match [colours.width, colours.height] == geometry.shown {
        true => colours,
        false => resize(&colours, width, height),
    };
    shown.data.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
    shown
}
