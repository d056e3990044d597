//! The ops of one slice, watched: how far they are, and where normalisations take their statistics from.

use std::collections::HashMap;

use remaster_compute::meter::Counts;
use remaster_compute::{
    ActivateDesc, AddGatedDesc, Arena, AttentionDesc, Band, CombineDesc, ComputeError, ConvDesc, DType,
    Extent, LinearDesc, NormalizeDesc, Ops, RowSumsDesc, Shape, ShuffleDesc, Tensor, TensorStore,
    TokenNormDesc, UpsampleDesc, View, Weight, WeightSpec, WindowAttentionDesc, WindowsDesc,
};

/// Statistics of normalisations, by the name of the layer.
pub(crate) type Record = HashMap<String, Vec<f32>>;

/// Where normalisations take their statistics from.
#[derive(Debug, Default)]
pub(crate) enum Statistics<'r> {
    /// From what is normalised.
    #[default]
    Own,
    /// From what is normalised, and a copy is kept.
    Record(&'r mut Record),
    /// From a record.
    Replay(&'r Record),
}

/// A backend that reports the multiply-adds of every op when it was accepted; a GPU may be a few ops
/// behind.
pub(crate) struct Instrumented<'a> {
    ops: &'a mut dyn Ops,
    tell: &'a mut dyn FnMut(u64),
    statistics: Statistics<'a>,
}

impl<'a> Instrumented<'a> {
    pub(crate) fn new(ops: &'a mut dyn Ops, tell: &'a mut dyn FnMut(u64)) -> Self {
        Instrumented { ops, tell, statistics: Statistics::Own }
    }

    /// The same backend with statistics from elsewhere.
    pub(crate) fn with<'b>(&'b mut self, statistics: Statistics<'b>) -> Instrumented<'b> {
        Instrumented { ops: self.ops, tell: self.tell, statistics }
    }
}

/// Hands a call on as it is.
macro_rules! hand_on {
    ($($name:ident(&self $(, $arg:ident: $type:ty)*) -> $result:ty;)*) => {
        $(fn $name(&self $(, $arg: $type)*) -> $result { self.ops.$name($($arg),*) })*
    };
}
macro_rules! hand_on_mut {
    ($($name:ident(&mut self $(, $arg:ident: $type:ty)*) -> $result:ty;)*) => {
        $(fn $name(&mut self $(, $arg: $type)*) -> Result<$result, ComputeError> { self.ops.$name($($arg),*) })*
    };
}
/// Hands an op on and counts it.
macro_rules! count {
    ($($name:ident $desc:ident)*) => {
        $(fn $name(&mut self, desc: &$desc<'_>) -> Result<(), ComputeError> {
            let macs = desc.check()?.macs();
            self.ops.$name(desc)?;
            (self.tell)(macs);
            Ok(())
        })*
    };
}

impl Ops for Instrumented<'_> {
    hand_on! {
        name(&self) -> &'static str;
        only_counts(&self) -> bool;
        arena(&self) -> &Arena;
        counts(&self) -> Counts;
        group(&self) -> usize;
        weight_bytes(&self, spec: &WeightSpec) -> u64;
    }

    hand_on_mut! {
        load(&mut self, weight: &Weight) -> ();
        prefetch(&mut self, weight: &Weight) -> ();
        upload(&mut self, from: &[f32], to: View<'_>) -> ();
        download(&mut self, from: View<'_>, to: &mut [f32]) -> ();
        wait(&mut self) -> ();
        finish_checks(&mut self) -> ();
        first_spoiled(&mut self) -> Option<String>;
        row_sums(&mut self, desc: &RowSumsDesc<'_>) -> ();
        normalize(&mut self, desc: &NormalizeDesc<'_>) -> ();
        shuffle(&mut self, desc: &ShuffleDesc<'_>) -> ();
        token_norm(&mut self, desc: &TokenNormDesc<'_>) -> ();
        activate(&mut self, desc: &ActivateDesc<'_>) -> ();
        add_gated(&mut self, desc: &AddGatedDesc<'_>) -> ();
        gather(&mut self, desc: &WindowsDesc<'_>) -> ();
        scatter(&mut self, desc: &WindowsDesc<'_>) -> ();
        copy(&mut self, from: View<'_>, to: View<'_>) -> ();
        fetch(&mut self, from: &mut dyn TensorStore, at: Extent, to: View<'_>) -> ();
        stow(&mut self, from: View<'_>, to: &mut dyn TensorStore, at: Extent) -> ();
        alloc_kept(&mut self, shape: Shape, dtype: DType) -> Tensor;
        alloc_band(&mut self, shape: Shape, dtype: DType, band: Band) -> Tensor;
    }

    count! {
        conv ConvDesc
        upsample UpsampleDesc
        linear LinearDesc
        attention AttentionDesc
        window_attention WindowAttentionDesc
    }

    fn evict(&mut self, weight: &Weight) {
        self.ops.evict(weight);
    }

    fn combine_sums(&mut self, desc: &CombineDesc<'_>) -> Result<(), ComputeError> {
        match &mut self.statistics {
            Statistics::Own => self.ops.combine_sums(desc),
            Statistics::Record(record) => {
                self.ops.combine_sums(desc)?;
                record.insert(desc.name.to_owned(), self.ops.values(desc.output.clone())?);
                Ok(())
            }
            Statistics::Replay(record) => match record.get(desc.name) {
                Some(values) => self.ops.upload(values, desc.output.clone()),
                None => Err(ComputeError::NoStatistics { name: desc.name.to_owned() }),
            },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use remaster_compute::reference::Reference;

    use super::*;

    fn sums(ops: &mut dyn Ops, values: [f32; 2]) -> (Tensor, Tensor) {
        let sums = ops.alloc(Shape::new(1, 1, 1, 2), DType::F32).unwrap();
        ops.upload(&values, sums.view()).unwrap();
        (sums, ops.alloc(Shape::new(1, 1, 1, 2), DType::F32).unwrap())
    }

    #[test]
    fn statistics_are_found_by_the_name_of_their_layer() {
        let mut ops = Reference::new(1 << 16).unwrap();
        let mut nothing = |_| ();
        let mut watched = Instrumented::new(&mut ops, &mut nothing);
        let mut record = Record::new();
        let layer = |ops: &mut dyn Ops, name: &str, values: [f32; 2]| {
            let (sums, stats) = sums(ops, values);
            let (from, to) = (sums.view(), stats.view());
            ops.combine_sums(&CombineDesc { name, sums: from, count: 4, eps: 1e-6, output: to })?;
            ops.values(stats.view())
        };
        let first = layer(&mut watched.with(Statistics::Record(&mut record)), "a", [4.0, 8.0]).unwrap();
        let second = layer(&mut watched.with(Statistics::Record(&mut record)), "b", [8.0, 40.0]).unwrap();
        assert_ne!(first, second);
        // In another order, from other sums.
        let mut replay = watched.with(Statistics::Replay(&record));
        assert_eq!(layer(&mut replay, "b", [0.0, 0.0]).unwrap(), second);
        assert_eq!(layer(&mut replay, "a", [0.0, 0.0]).unwrap(), first);
        let missing = layer(&mut replay, "c", [0.0, 0.0]);
        assert!(matches!(missing, Err(ComputeError::NoStatistics { name }) if name == "c"));
    }
}
