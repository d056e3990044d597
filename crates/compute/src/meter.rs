//! A backend that computes nothing. It makes the same requests to an arena as the backend it stands for
//! and counts what the ops would cost: the cost model is the network itself.

use crate::arena::{Arena, Buffer};
use crate::error::{Result, ensure};
use crate::loader::Ahead;
use crate::ops::{
    ActivateDesc, AddGatedDesc, AttentionDesc, AttentionWork, CombineDesc, ConvDesc, ConvWork, LinearDesc,
    LinearWork, NormalizeDesc, OpWork, Ops, RowSumsDesc, ShuffleDesc, Sizing, TokenNormDesc, UpsampleDesc,
    UpsampleWork, WindowAttentionDesc, WindowAttentionWork, WindowsDesc, checked_ops, same_shape,
};
use crate::store::{Extent, TensorStore};
use crate::tensor::View;
use crate::weight::{Weight, WeightSpec};

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Multiply-adds in convolutions, shortcuts included.
    pub conv_macs: u64,
    /// Multiply-adds in linear layers.
    pub linear_macs: u64,
    /// Multiply-adds in the two products of attention: the part that grows with the square of the frame.
    pub attention_macs: u64,
    /// Bytes read and written by ops, each operand once.
    pub bytes_moved: u64,
    /// Bytes between the device and anything else.
    pub bytes_transferred: u64,
    /// Ops enqueued.
    pub calls: u64,
}

/// Counts instead of computing.
pub struct Meter {
    sizing: Box<dyn Sizing>,
    arena: Arena,
    counts: Counts,
    /// Room of weights that would be on their way, and of the scratch beside them.
    ahead: Ahead<(Buffer, Option<Buffer>)>,
}

impl Meter {
    /// Stands for the backend `sizing` describes, with an arena of `cap` bytes.
    pub fn new(sizing: Box<dyn Sizing>, cap: u64) -> Self {
        Meter { sizing, arena: Arena::new("meter", cap), counts: Counts::default(), ahead: Ahead::default() }
    }

    /// As `new`, with an arena that never refuses: for finding out how much is needed.
    pub fn endless(sizing: Box<dyn Sizing>) -> Self {
        Self::new(sizing, u64::MAX / 2)
    }

    /// Starts counting anew.
    pub fn reset_counts(&mut self) {
        self.counts = Counts::default();
    }

    /// Counts one op: its operands, and its scratch for as long as it runs.
    fn op(&mut self, operands: &[Option<&View<'_>>], work: Option<OpWork>) -> Result<()> {
        self.counts.calls += 1;
        self.counts.bytes_moved += operands.iter().flatten().map(|v| v.bytes()).sum::<u64>();
        if let Some(work) = work {
            self.scratch(self.sizing.scratch_bytes(&work))?;
        }
        Ok(())
    }

    fn convolution(&mut self, d: &ConvDesc<'_>, macs: u64, work: OpWork) -> Result<()> {
        d.weight.buffer(&self.arena)?;
        self.counts.conv_macs += macs;
        let operands = [
            Some(&d.input),
            d.carried.as_ref(),
            d.carry.as_ref(),
            d.accumulate.then_some(&d.output),
            d.shortcut.as_ref().map(|s| &s.input),
            d.sums.as_ref().map(|s| &s.output),
            Some(&d.output),
        ];
        self.op(&operands, Some(work))
    }

    fn scratch(&self, bytes: u64) -> Result<Option<Buffer>> {
        (bytes > 0).then(|| self.arena.alloc(bytes)).transpose()
    }

    /// Room for a weight, and for the scratch that laying it out takes.
    fn room(&self, spec: &WeightSpec) -> Result<(Buffer, Option<Buffer>)> {
        let buffer = self.arena.alloc(self.weight_bytes(spec))?;
        Ok((buffer, self.scratch(self.sizing.load_scratch_bytes(spec))?))
    }
}

impl Ops for Meter {
    fn name(&self) -> &'static str {
        "meter"
    }

    fn only_counts(&self) -> bool {
        true
    }

    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn weight_bytes(&self, spec: &WeightSpec) -> u64 {
        self.sizing.weight_bytes(spec)
    }

    fn load(&mut self, weight: &Weight) -> Result<()> {
        if !weight.is_resident(&self.arena) {
            let (buffer, _scratch) = match self.ahead.take(weight) {
                Some(room) => room,
                None => self.room(&weight.spec())?,
            };
            weight.keep(buffer, &self.arena);
        }
        Ok(())
    }

    fn prefetch(&mut self, weight: &Weight) -> Result<()> {
        if !weight.is_resident(&self.arena) && !self.ahead.contains(weight) {
            let room = self.room(&weight.spec())?;
            self.ahead.push(weight, room);
        }
        Ok(())
    }

    fn evict(&mut self, weight: &Weight) {
        self.ahead.take(weight);
        weight.forget(&self.arena);
    }

    fn upload(&mut self, from: &[f32], to: View<'_>) -> Result<()> {
        ensure(from.len() == to.shape().len(), "upload", "values", from.len(), to.shape().len())?;
        self.counts.bytes_transferred += to.bytes();
        Ok(())
    }

    fn download(&mut self, from: View<'_>, to: &mut [f32]) -> Result<()> {
        ensure(to.len() == from.shape().len(), "download", "values", to.len(), from.shape().len())?;
        self.counts.bytes_transferred += from.bytes();
        Ok(())
    }

    fn fetch(&mut self, _from: &mut dyn TensorStore, _at: Extent, to: View<'_>) -> Result<()> {
        self.counts.bytes_transferred += to.bytes();
        Ok(())
    }

    fn stow(&mut self, from: View<'_>, _to: &mut dyn TensorStore, _at: Extent) -> Result<()> {
        self.counts.bytes_transferred += from.bytes();
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    checked_ops!(but copy);

    fn copy(&mut self, from: View<'_>, to: View<'_>) -> Result<()> {
        same_shape("copy", "output", &to, &from)?;
        self.op(&[Some(&from), Some(&to)], Some(OpWork::Copy(from.shape())))
    }
}

impl Meter {
    fn conv_now(&mut self, d: &ConvDesc<'_>, work: &ConvWork) -> Result<()> {
        self.convolution(d, work.macs(), OpWork::Conv(work.clone()))
    }

    fn upsample_now(&mut self, d: &UpsampleDesc<'_>, work: &UpsampleWork) -> Result<()> {
        self.convolution(&d.as_conv(), work.macs(), OpWork::Upsample(work.clone()))
    }

    fn row_sums_now(&mut self, d: &RowSumsDesc<'_>) -> Result<()> {
        self.op(&[Some(&d.input), Some(&d.output)], Some(OpWork::RowSums(d.input.shape())))
    }

    fn combine_now(&mut self, d: &CombineDesc<'_>) -> Result<()> {
        self.op(&[Some(&d.sums), Some(&d.output)], None)
    }

    fn normalize_now(&mut self, d: &NormalizeDesc<'_>) -> Result<()> {
        d.affine.buffer(&self.arena)?;
        self.op(&[Some(&d.input), Some(&d.stats), Some(&d.output)], Some(OpWork::Normalize(d.input.shape())))
    }

    fn linear_now(&mut self, d: &LinearDesc<'_>, work: &LinearWork) -> Result<()> {
        d.weight.buffer(&self.arena)?;
        self.counts.linear_macs += work.macs();
        self.op(
            &[Some(&d.input), d.accumulate.then_some(&d.output), Some(&d.output)],
            Some(OpWork::Linear(work.clone())),
        )
    }

    fn attention_now(&mut self, d: &AttentionDesc<'_>, work: &AttentionWork) -> Result<()> {
        self.counts.attention_macs += work.macs();
        self.op(&[Some(&d.q), Some(&d.k), Some(&d.v), Some(&d.output)], Some(OpWork::Attention(work.clone())))
    }

    fn window_attention_now(
        &mut self,
        d: &WindowAttentionDesc<'_>,
        work: &WindowAttentionWork,
    ) -> Result<()> {
        self.counts.attention_macs += work.macs();
        let common = d.common.as_ref();
        let operands = [
            Some(&d.q),
            Some(&d.k),
            Some(&d.v),
            Some(&d.common_k),
            Some(&d.common_v),
            common.map(|c| &c.q),
            common.map(|c| &c.output),
            Some(&d.output),
        ];
        self.op(&operands, Some(OpWork::WindowAttention(work.clone())))
    }

    fn token_norm_now(&mut self, d: &TokenNormDesc<'_>) -> Result<()> {
        d.affine.map(|w| w.buffer(&self.arena)).transpose()?;
        let places = d.rotation.as_ref().map(|r| &r.places);
        self.op(&[Some(&d.input), places, Some(&d.output)], Some(OpWork::Rows(d.input.shape())))
    }

    fn activate_now(&mut self, d: &ActivateDesc<'_>) -> Result<()> {
        self.op(&[Some(&d.x), d.times.as_ref(), Some(&d.x)], Some(OpWork::Rows(d.x.shape())))
    }

    fn add_gated_now(&mut self, d: &AddGatedDesc<'_>) -> Result<()> {
        d.gate.map(|w| w.buffer(&self.arena)).transpose()?;
        self.op(&[Some(&d.input), Some(&d.residual), Some(&d.residual)], Some(OpWork::Rows(d.input.shape())))
    }

    fn gather_now(&mut self, d: &WindowsDesc<'_>) -> Result<()> {
        self.op(&[Some(&d.tokens), Some(&d.tokens)], None)
    }

    fn scatter_now(&mut self, d: &WindowsDesc<'_>) -> Result<()> {
        self.gather_now(d)
    }

    fn shuffle_now(&mut self, d: &ShuffleDesc<'_>) -> Result<()> {
        self.op(&[Some(&d.input), Some(&d.output)], None)
    }
}
