//! A network that computes nothing: pixels of a cell become its channels, and back. It has the geometry of
//! the real one, so everything around a network can be tested without it, to the bit.

use std::ops::Range;

use super::{Act, Half, Module, Pass};
use remaster_compute::{ComputeError, Shape, Weight};

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

    fn run(&self, pass: &mut Pass<'_>, x: Act, stages: Range<usize>) -> Result<Act, ComputeError> {
        // The one stage does everything; none of them does nothing.
        if !stages.contains(&0) {
            return Ok(x);
        }
        let (x, continued) = (x.x, pass.state.is_continued());
        let Shape { t, h, w, .. } = x.shape();
        let shape = match (self, continued) {
            (NullVae::Encoder, true) => Shape::new(t / TIME, h / SPACE, w / SPACE, LATENT),
            (NullVae::Encoder, false) => Shape::new(t.div_ceil(TIME), h / SPACE, w / SPACE, LATENT),
            (NullVae::Decoder, true) => Shape::new(t * TIME, h * SPACE, w * SPACE, COLOURS),
            (NullVae::Decoder, false) => {
                Shape::new((t * TIME).saturating_sub(TIME - 1), h * SPACE, w * SPACE, COLOURS)
            }
        };
        let y = pass.ops.alloc(shape, x.dtype())?;
        if pass.ops.only_counts() {
            return Ok(Act { x: y, sums: None });
        }
        // Row by row of cells, so that little lies beside the arena.
        let (tall, flat) = if *self == NullVae::Encoder { (x.shape(), shape) } else { (shape, x.shape()) };
        let mut pixels = vec![0.0; Shape { h: SPACE, ..tall }.len()];
        let mut cells = vec![0.0; Shape { h: 1, ..flat }.len()];
        for row in 0..flat.h {
            let (fine, coarse) = (row * SPACE..(row + 1) * SPACE, row..row + 1);
            let places = Shape { h: 1, ..flat };
            match self {
                NullVae::Encoder => {
                    pass.ops.download(x.view().rows(fine), &mut pixels)?;
                    pairs(places, continued, |pixel, place| cells[place] = pixels[pixel]);
                    pass.ops.upload(&cells, y.view().rows(coarse))?;
                }
                NullVae::Decoder => {
                    pass.ops.download(x.view().rows(coarse), &mut cells)?;
                    pairs(places, continued, |pixel, place| pixels[pixel] = cells[place]);
                    pass.ops.upload(&pixels, y.view().rows(fine))?;
                }
            }
        }
        Ok(Act { x: y, sums: None })
    }
}

impl Module for NullVae {
    fn weights(&self, _: &mut dyn FnMut(&Weight)) {}
}
