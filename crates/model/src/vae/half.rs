//! What encoder and decoder have in common.

use std::ops::Range;

use remaster_compute::{ComputeError, Ops, Tensor};

use super::Module;
use super::act::{Act, Pass};

/// What encoder and decoder have in common: a slice in, a slice out, through stages that work at one size
/// each.
pub trait Half: Module {
    /// How many stages there are.
    fn stages(&self) -> usize;

    /// Pixels per latent cell, each way, of what goes into a stage; `stages()` stands for the output.
    fn scale(&self, stage: usize) -> usize;

    /// Rows (and columns) of latent cells beside a pixel, at the input of the stages, that can reach it.
    fn reach(&self, stages: Range<usize>) -> usize;

    /// Runs some stages: what goes into the first to what comes out of the last.
    fn run(&self, pass: &mut Pass<'_>, x: Act, stages: Range<usize>) -> Result<Act, ComputeError>;

    /// Runs all of them. Frames `[t, h, w, 3]` to moments `[t', h/8, w/8, 2 * latent]`: the first slice of
    /// a clip has 4n + 1 frames and n + 1 latents, later ones 4n and n. Or latents to frames, the other way
    /// round; values may leave [-1, 1] a little.
    fn forward(&self, pass: &mut Pass<'_>, x: Tensor) -> Result<Tensor, ComputeError> {
        let frames = x.shape().t;
        let y = self.run(pass, Act { x, sums: None }, 0..self.stages())?;
        pass.state.advance(frames);
        Ok(y.x)
    }
}

/// Loads every weight of a part of the network.
pub fn load(ops: &mut dyn Ops, module: &(impl Module + ?Sized)) -> Result<(), ComputeError> {
    let mut result = Ok(());
    module.weights(&mut |weight| {
        if result.is_ok() {
            result = ops.load(weight);
        }
    });
    result
}

/// Forgets every loaded weight: for a network that ran on a meter and will now run for real.
pub fn unload(module: &(impl Module + ?Sized)) {
    module.weights(&mut |weight| weight.set_buffer(None));
}
