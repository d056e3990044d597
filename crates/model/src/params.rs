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
        WeightSpec::Upsample { cout, .. } => vec![cout, cout, 3, 3, 3],
        WeightSpec::Linear { cin, cout, .. } => vec![cout, cin],
        WeightSpec::Norm { channels } => vec![channels],
    };
    [
        Param { name: format!("{prefix}.weight"), shape: main },
        Param { name: format!("{prefix}.bias"), shape: vec![spec.bias_len()] },
    ]
}

/// How a network is built from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Precision of weights and activations.
    pub dtype: DType,
    /// Fold each upsampler into one convolution per output phase: a fifth less work in the decoder, and
    /// a smaller state. Differs from the spelled-out form by rounding only.
    pub collapse: bool,
}

impl From<DType> for Build {
    fn from(dtype: DType) -> Self {
        Build { dtype, collapse: true }
    }
}

/// Where in the checkpoint a part of the network lives, and how it is built.
pub struct Scope<'a> {
    params: &'a mut dyn Params,
    prefix: String,
    build: Build,
}

impl<'a> Scope<'a> {
    /// The root of a checkpoint.
    pub fn root(params: &'a mut dyn Params, build: impl Into<Build>) -> Self {
        Scope { params, prefix: String::new(), build: build.into() }
    }

    /// The part called `name` inside this one.
    pub fn at(&mut self, name: impl std::fmt::Display) -> Scope<'_> {
        Scope { prefix: self.path(name), params: &mut *self.params, build: self.build }
    }

    /// Full name of `name` inside this part.
    pub fn path(&self, name: impl std::fmt::Display) -> String {
        if self.prefix.is_empty() { name.to_string() } else { format!("{}.{name}", self.prefix) }
    }

    /// How the network is built.
    pub fn build(&self) -> Build {
        self.build
    }

    pub(crate) fn conv(
        &mut self,
        name: &str,
        [cin, cout]: [usize; 2],
        kernel: [usize; 3],
        stride: [usize; 3],
    ) -> Weight {
        self.weight(name, WeightSpec::Conv { cin, cout, kernel, stride, dtype: self.build.dtype })
    }

    pub(crate) fn linear(&mut self, name: &str, cin: usize, cout: usize) -> Weight {
        self.weight(name, WeightSpec::Linear { cin, cout, dtype: self.build.dtype })
    }

    /// An upsampler, folded: `conv` behind `upscale_conv`.
    pub(crate) fn upsample(&mut self, channels: usize, time: bool) -> Weight {
        let dtype = self.build.dtype;
        let phases = if time { 8 } else { 4 };
        let spec = |cout, kernel| WeightSpec::Conv { cin: channels, cout, kernel, stride: [1; 3], dtype };
        let conv = self.params.source(&self.path("conv"), spec(channels, [3; 3]));
        let upscale = self.params.source(&self.path("upscale_conv"), spec(phases * channels, [1; 3]));
        let spec = WeightSpec::Upsample { cin: channels, cout: channels, time, dtype };
        Weight::upsampler(self.prefix.clone(), spec, conv, upscale)
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
