//! A network that computes nothing: pixels of a cell become its channels, and back. It has the geometry of
//! the real one, so everything around a network can be tested without it, to the bit.

use remaster_compute::{ComputeError, Shape, Tensor, Weight};

use crate::dit::DitConfig;
use crate::network::{Module, Network, Pass};
use crate::vae::Direction;

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

impl From<Direction> for NullVae {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Encode => NullVae::Encoder,
            Direction::Decode => NullVae::Decoder,
        }
    }
}

impl NullVae {
    /// Of frames and latents, in the order in which they go through.
    fn of(self, [frames, latents]: [usize; 2]) -> [usize; 2] {
        if self == NullVae::Encoder { [frames, latents] } else { [latents, frames] }
    }
}

impl Network for NullVae {
    fn name(&self) -> &'static str {
        if *self == NullVae::Encoder { Direction::Encode.name() } else { Direction::Decode.name() }
    }

    fn channels(&self) -> [usize; 2] {
        self.of([COLOURS, LATENT])
    }

    fn scale(&self) -> [usize; 2] {
        self.of([SPACE, 1])
    }

    fn step(&self) -> Option<[usize; 2]> {
        Some(self.of([TIME, 1]))
    }

    fn forward(&self, pass: &mut Pass<'_>, x: Tensor) -> Result<Tensor, ComputeError> {
        let continued = pass.state.is_continued();
        pass.state.advance(x.shape().t);
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
            return Ok(y);
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
        Ok(y)
    }
}

impl Module for NullVae {
    fn weights(&self, _: &mut dyn FnMut(&Weight)) {}
}

/// A transformer that restores nothing: its velocity leads from the noise straight to the latents it was shown, which
/// are those of [`NullVae`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullDit;

impl NullDit {
    /// Cells of a token.
    const CELLS: usize = DitConfig::PATCH * DitConfig::PATCH;
}

impl Network for NullDit {
    fn name(&self) -> &'static str {
        "dit"
    }

    fn channels(&self) -> [usize; 2] {
        [Self::CELLS * (2 * LATENT + 1), Self::CELLS * LATENT]
    }

    fn forward(&self, pass: &mut Pass<'_>, x: Tensor) -> Result<Tensor, ComputeError> {
        let Shape { t, h, .. } = x.shape();
        let y = pass.ops.alloc(Shape { c: Self::CELLS * LATENT, ..x.shape() }, x.dtype())?;
        if pass.ops.only_counts() {
            return Ok(y);
        }
        for (frame, row) in (0..t).flat_map(|frame| (0..h).map(move |row| (frame, row))) {
            let (frames, rows) = (frame..frame + 1, row..row + 1);
            let tokens = pass.ops.values(x.view().frames(frames.clone()).rows(rows.clone()))?;
            let cells = tokens.chunks_exact(2 * LATENT + 1);
            let velocity: Vec<f32> =
                cells.flat_map(|cell| (0..LATENT).map(|i| cell[i] - cell[LATENT + i])).collect();
            pass.ops.upload(&velocity, y.view().frames(frames).rows(rows))?;
        }
        Ok(y)
    }
}

impl Module for NullDit {
    fn weights(&self, _: &mut dyn FnMut(&Weight)) {}
}
