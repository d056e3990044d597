//! The whole network.

use std::ops::Range;

use remaster_compute::{ComputeError, DType, Ops, Shape, Tensor, Weight};

use super::block::Block;
use super::head::Head;
use super::layout::{Grid, Layouts};
use super::text::Text;
use super::{DitConfig, embedding, project};
use crate::network::{Module, Network, Pass};
use crate::params::Scope;

/// The diffusion transformer on frames of one size.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/dit_v2/nadit.py>
pub struct Dit {
    config: DitConfig,
    text: Text,
    enter: Weight,
    blocks: Vec<Block>,
    head: Head,
    size: [usize; 2],
}

impl Dit {
    /// For frames of `size` tokens, rows and columns, at a `time` of the diffusion: 1000 for the one step.
    pub fn new(config: &DitConfig, scope: &mut Scope<'_>, text: Text, size: [usize; 2], time: f32) -> Self {
        let patch = DitConfig::PATCH * DitConfig::PATCH * config.input();
        let enter = scope.linear("vid_in.proj", patch, config.width);
        let embedding = embedding(config, scope, time);
        let block = |i| Block::new(config, &mut scope.at("blocks").at(i).section(), i, &embedding);
        let blocks = (0..config.layers).map(block).collect();
        let head = Head::new(config, scope, &embedding);
        Dit { config: config.clone(), text, enter, blocks, head, size }
    }

    /// The text.
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// The way out.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The blocks, in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// `[t, h * w, 1, 132]` to `[t, h * w, 1, d]`.
    pub fn enter(&self, ops: &mut dyn Ops, x: Tensor) -> Result<Grid, ComputeError> {
        let tokens = ops.alloc(Shape { c: self.config.width, ..x.shape() }, DType::F32)?;
        for (frame, rows) in pieces(ops, x.shape()) {
            let y = project(ops, x.view().frames(frame..frame + 1).rows(rows.clone()), &self.enter)?;
            ops.copy(y.view(), tokens.view().frames(frame..frame + 1).rows(rows))?;
        }
        Ok(Grid { tokens, width: self.size[1] })
    }

    /// `[t, h * w, 1, d]` to `[t, h * w, 1, 64]`.
    pub fn leave(&self, ops: &mut dyn Ops, grid: Grid) -> Result<Tensor, ComputeError> {
        let shape = grid.tokens.shape();
        let out = ops.alloc(Shape { c: self.channels()[1], ..shape }, self.head.dtype())?;
        for (frame, rows) in pieces(ops, shape) {
            let x = grid.tokens.view().frames(frame..frame + 1).rows(rows.clone());
            let y = self.head.forward(ops, x)?;
            ops.copy(y.view(), out.view().frames(frame..frame + 1).rows(rows))?;
        }
        Ok(out)
    }
}

/// Frame and rows of pieces of up to `ops.group()` tokens.
fn pieces(ops: &dyn Ops, Shape { t, h, .. }: Shape) -> Vec<(usize, Range<usize>)> {
    let step = ops.group().clamp(1, h.max(1));
    let rows = |t| (0..h).step_by(step).map(move |start| (t, start..(start + step).min(h)));
    (0..t).flat_map(rows).collect()
}

impl Module for Dit {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        f(&self.enter);
        self.blocks.iter().for_each(|block| block.weights(f));
        self.head.weights(f);
    }
}

impl Network for Dit {
    fn name(&self) -> &'static str {
        "dit"
    }

    fn channels(&self) -> [usize; 2] {
        [self.config.input(), self.config.latent].map(|c| c * DitConfig::PATCH * DitConfig::PATCH)
    }

    fn groups(&self) -> bool {
        true
    }

    /// Patches `[t, h * w, 1, 132]` to patches of velocity `[t, h * w, 1, 64]`.
    fn forward(&self, pass: &mut Pass<'_>, x: Tensor) -> Result<Tensor, ComputeError> {
        let ops = &mut *pass.ops;
        let [h, w] = self.size;
        let layouts = Layouts::new(ops, &self.config, [x.shape().t, h, w], self.text.tokens())?;
        let text = self.text.upload(ops)?;
        let grid = self.enter(ops, x)?;
        for block in &self.blocks {
            block.forward(ops, &grid, &text, &layouts)?;
        }
        drop((text, layouts));
        self.leave(ops, grid)
    }
}
