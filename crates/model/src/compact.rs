//! Compact (SRVGGNetCompact of Real-ESRGAN): frames `[t, h, w, 3]`, 0 to 1, to frames `[t, s h, s w, 3]`, each on its own.
//!
//! Convolutions, each followed by PReLU, a pixel shuffle, and on top of its result the input with every pixel repeated.
//! Written from the public definition, xinntao/Real-ESRGAN at a4abfb2, `realesrgan/archs/srvgg_arch.py`.

use remaster_compute::{
    ComputeError, ConvDesc, DType, Padding, Shape, Shortcut, ShuffleDesc, Tensor, Weight, WeightSpec,
};

use crate::network::{Module, Network, Pass};
use crate::params::{Build, Origin, Param, Params, Scope, computed, in_rows, listed};

/// Colours of a pixel.
const COLOURS: usize = 3;

/// Sizes of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompactConfig {
    /// Channels between convolutions.
    pub width: usize,
    /// Convolutions between the first and the last one.
    pub depth: usize,
    /// How many times larger frames get, each way.
    pub scale: usize,
}

impl CompactConfig {
    /// Those of `realesr-animevideov3`.
    pub const fn anime() -> Self {
        CompactConfig { width: 64, depth: 16, scale: 4 }
    }

    /// Values of a pixel before the shuffle.
    const fn shuffled(&self) -> usize {
        COLOURS * self.scale * self.scale
    }
}

/// Every tensor that the network needs, in the order of use.
pub fn params(config: &CompactConfig) -> Vec<Param> {
    listed(|params| drop(Compact::new(config, params, DType::F32)))
}

/// The network.
pub struct Compact {
    config: CompactConfig,
    /// Each with its PReLU.
    body: Vec<Weight>,
    /// To the values of the pixels that a pixel becomes: row by row of them, the colours of each together.
    last: Weight,
    /// The colours of a pixel to all of these.
    repeat: Weight,
}

impl Compact {
    /// Out of the tensors of a checkpoint.
    pub fn new(config: &CompactConfig, params: &mut dyn Params, build: impl Into<Build>) -> Self {
        let mut scope = Scope::root(params, build);
        let CompactConfig { width, depth, scale } = *config;
        let body = (0..=depth).map(|i| {
            let cin = if i == 0 { COLOURS } else { width };
            scope.conv_prelu(&format!("body.{}", 2 * i), [cin, width], &format!("body.{}.weight", 2 * i + 1))
        });
        let body = body.collect();
        let (made, dtype) = (config.shuffled(), scope.build().dtype);
        let name = format!("body.{}", 2 * depth + 2);
        // `ShuffleDesc` takes the colours of a pixel together, files have the pixels of a colour together.
        let stored = move |row: usize| row % COLOURS * scale * scale + row / COLOURS;
        let values = |scope: &mut Scope<'_>, part: &str, shape: Vec<usize>| {
            let row = shape.iter().skip(1).product();
            let inner = scope.values(Origin::Tensor(format!("{name}.{part}")), shape);
            Origin::Computed(in_rows(inner, row, move |i| stored(i) * row))
        };
        let kernel = values(&mut scope, "weight", vec![made, width, 3, 3]);
        let bias = values(&mut scope, "bias", vec![made]);
        let spec = WeightSpec::conv([width, made], [1, 3, 3], dtype);
        let last = scope.made_of(&name, spec, kernel, Some(bias));
        let same = computed(|i| if i / COLOURS % COLOURS == i % COLOURS { 1.0 } else { 0.0 });
        let spec = WeightSpec::conv([COLOURS, made], [1; 3], dtype);
        let repeat = scope.made_of("repeat", spec, Origin::Computed(same), None);
        Compact { config: *config, body, last, repeat }
    }
}

impl Network for Compact {
    fn name(&self) -> &'static str {
        "upscale"
    }

    fn channels(&self) -> [usize; 2] {
        [COLOURS; 2]
    }

    fn scale(&self) -> [usize; 2] {
        [1, self.config.scale]
    }

    fn step(&self) -> Option<[usize; 2]> {
        Some([1, 1])
    }

    /// A pixel for each convolution.
    fn reach(&self) -> Option<usize> {
        Some(self.body.len() + 1)
    }

    fn forward(&self, pass: &mut Pass<'_>, x: Tensor) -> Result<Tensor, ComputeError> {
        let Shape { t, h, w, .. } = x.shape();
        let mut y = x.clone();
        for weight in &self.body {
            let next = pass.ops.alloc(Shape { c: self.config.width, ..x.shape() }, x.dtype())?;
            pass.ops.conv(&ConvDesc::new(y.view(), weight, Padding::all(1), next.view()))?;
            y = next;
        }
        let many = pass.ops.alloc(Shape { c: self.config.shuffled(), ..x.shape() }, x.dtype())?;
        pass.ops.conv(&ConvDesc {
            shortcut: Some(Shortcut { input: x.view(), weight: &self.repeat }),
            ..ConvDesc::new(y.view(), &self.last, Padding::all(1), many.view())
        })?;
        drop((x, y));
        let scale = self.config.scale;
        let frames = pass.ops.alloc(Shape::new(t, scale * h, scale * w, COLOURS), many.dtype())?;
        let (factors, drop_second) = ([1, scale, scale], false);
        pass.ops.shuffle(&ShuffleDesc { input: many.view(), factors, drop_second, output: frames.view() })?;
        pass.state.advance(t);
        Ok(frames)
    }
}

impl Module for Compact {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.body.iter().for_each(&mut *f);
        f(&self.repeat);
        f(&self.last);
    }
}
