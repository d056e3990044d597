//! The one list of what a network needs: every layer names its tensors here, under the checkpoint's names.

use std::sync::Arc;

use remaster_compute::{DType, Weight, WeightSource, WeightSpec};

/// Gives the values of a layer's tensors. `prefix` is the name in the checkpoint without `.weight` and
/// `.bias`. A source for a tensor that does not exist fails when it is read.
pub trait Params {
    /// The values of the layer `prefix`.
    fn source(&mut self, prefix: &str, spec: WeightSpec) -> Arc<dyn WeightSource>;
}

/// One tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Full name, for example `encoder.conv_in.weight`.
    pub name: String,
    /// Shape in the checkpoint.
    pub shape: Vec<usize>,
}

/// The two tensors of a layer, in checkpoint order.
pub fn tensors_of(prefix: &str, spec: WeightSpec) -> [Param; 2] {
    let main = match spec {
        WeightSpec::Conv { cin, cout, kernel: [kt, kh, kw], .. } => vec![cout, cin, kt, kh, kw],
        WeightSpec::Linear { cin, cout, .. } => vec![cout, cin],
        WeightSpec::Norm { channels } => vec![channels],
    };
    [
        Param { name: format!("{prefix}.weight"), shape: main },
        Param { name: format!("{prefix}.bias"), shape: vec![spec.bias_len()] },
    ]
}

/// Where in the checkpoint a part of the network lives, and the precision its weights get.
pub struct Scope<'a> {
    params: &'a mut dyn Params,
    prefix: String,
    dtype: DType,
}

impl<'a> Scope<'a> {
    /// The root of a checkpoint.
    pub fn root(params: &'a mut dyn Params, dtype: DType) -> Self {
        Scope { params, prefix: String::new(), dtype }
    }

    /// The part called `name` inside this one.
    pub fn at(&mut self, name: impl std::fmt::Display) -> Scope<'_> {
        Scope { prefix: self.path(name), params: &mut *self.params, dtype: self.dtype }
    }

    /// Full name of `name` inside this part.
    pub fn path(&self, name: impl std::fmt::Display) -> String {
        if self.prefix.is_empty() { name.to_string() } else { format!("{}.{name}", self.prefix) }
    }

    /// Precision of the weights, and so of the activations.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn conv(&mut self, name: &str, cin: usize, cout: usize, kernel: [usize; 3]) -> Weight {
        self.weight(name, WeightSpec::Conv { cin, cout, kernel, dtype: self.dtype })
    }

    pub(crate) fn linear(&mut self, name: &str, cin: usize, cout: usize) -> Weight {
        self.weight(name, WeightSpec::Linear { cin, cout, dtype: self.dtype })
    }

    pub(crate) fn norm(&mut self, name: &str, channels: usize) -> Weight {
        self.weight(name, WeightSpec::Norm { channels })
    }

    fn weight(&mut self, name: &str, spec: WeightSpec) -> Weight {
        let path = self.path(name);
        let source = self.params.source(&path, spec);
        Weight::new(path, spec, source)
    }
}
