//! A network that computes nothing: pixels of a cell become its channels, and back. It has the geometry of
//! the real one, so everything around a network can be tested without it, to the bit.

use std::ops::Range;

use super::{Act, Half, Module, Pass};
use remaster_compute::{ComputeError, HostTensor, Shape, Weight};

/// Frames of a latent, and pixels of a cell each way.
const TIME: usize = 4;
const SPACE: usize = 8;

/// Colours of a frame.
const COLOURS: usize = 3;
/// Channels of a latent: every pixel of four frames of a cell.
const LATENT: usize = COLOURS * TIME * SPACE * SPACE;

/// The encoder or the decoder of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullVae {
    /// Frames to latents.
    Encoder,
    /// Latents to frames.
    Decoder,
}

impl NullVae {
    /// Channels in and out.
    pub fn channels(self) -> [usize; 2] {
        match self {
            NullVae::Encoder => [COLOURS, LATENT],
            NullVae::Decoder => [LATENT, COLOURS],
        }
    }
}

/// Calls `f` with the place in the frames and the place in the latents of every value. A clip's first
/// latent holds one frame; the other places of it stay empty.
fn pairs(latents: Shape, continued: bool, mut f: impl FnMut(usize, usize)) {
    let Shape { t, h, w, c } = latents;
    let first = if continued { 0 } else { TIME - 1 };
    for (l, y, x) in (0..t).flat_map(|l| (0..h).flat_map(move |y| (0..w).map(move |x| (l, y, x)))) {
        let cell = ((l * h + y) * w + x) * c;
        for z in 0..TIME {
            let frame = match (l, continued) {
                (0, false) if z > 0 => continue,
                (0, false) => 0,
                _ => l * TIME + z - first,
            };
            for (j, i) in (0..SPACE).flat_map(|j| (0..SPACE).map(move |i| (j, i))) {
                let pixel = ((frame * h * SPACE + y * SPACE + j) * w * SPACE + x * SPACE + i) * COLOURS;
                let place = cell + ((z * SPACE + j) * SPACE + i) * COLOURS;
                (0..COLOURS).for_each(|k| f(pixel + k, place + k));
            }
        }
    }
}

impl Half for NullVae {
    fn stages(&self) -> usize {
        1
    }

    fn scale(&self, stage: usize) -> usize {
        if (stage == 0) == (*self == NullVae::Encoder) { SPACE } else { 1 }
    }

    fn reach(&self, _: Range<usize>) -> usize {
        0
    }

    fn run(&self, pass: &mut Pass<'_>, x: Act, _: Range<usize>) -> Result<Act, ComputeError> {
        let x = x.x;
        let continued = pass.state.is_continued();
        let Shape { t, h, w, .. } = x.shape();
        let mut from = HostTensor::zeros(x.shape());
        pass.ops.download(x.view(), &mut from.data)?;
        let dtype = x.dtype();
        drop(x);
        let to = match self {
            NullVae::Encoder => {
                let frames = if continued { t } else { t + TIME - 1 };
                let mut to = HostTensor::zeros(Shape::new(frames / TIME, h / SPACE, w / SPACE, LATENT));
                pairs(to.shape, continued, |pixel, place| to.data[place] = from.data[pixel]);
                to
            }
            NullVae::Decoder => {
                let frames = if continued { t * TIME } else { t * TIME - (TIME - 1) };
                let mut to = HostTensor::zeros(Shape::new(frames, h * SPACE, w * SPACE, COLOURS));
                pairs(from.shape, continued, |pixel, place| to.data[pixel] = from.data[place]);
                to
            }
        };
        let y = pass.ops.alloc(to.shape, dtype)?;
        pass.ops.upload(&to.data, y.view())?;
        Ok(Act { x: y, sums: None })
    }
}

impl Module for NullVae {
    fn weights(&self, _: &mut dyn FnMut(&Weight)) {}
}
