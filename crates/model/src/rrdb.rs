//! RRDB (RRDBNet of ESRGAN and Real-ESRGAN): frames `[t, h, w, 3]`, 0 to 1, to frames `[t, s h, s w, 3]`, each on its own.
//!
//! Residual blocks of dense blocks at the size of the input, then nearest-neighbour doubling with convolutions. Written from the
//! public definition, XPixelGroup/BasicSR at 8d56e3a, `basicsr/archs/rrdbnet_arch.py`.

use std::sync::Arc;

use remaster_compute::{
    AddGatedDesc, ComputeError, ConvDesc, DType, Padding, Shape, ShuffleDesc, SourceError, Tensor, Weight,
    WeightSpec,
};

use crate::network::{Module, Network, Pass};
use crate::params::{Build, Origin, Param, Params, Scope, Values, computed, in_rows, joined, listed};

/// Of the leaky ReLU, and of what a block adds to its input.
const SLOPE: f32 = 0.2;
const SHARE: f32 = 0.2;
/// Taps of a convolution.
const TAPS: usize = 9;

/// Colours of a pixel.
const COLOURS: usize = 3;

/// Sizes of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RrdbConfig {
    /// Channels between blocks.
    pub width: usize,
    /// Channels that each convolution of a dense block adds.
    pub growth: usize,
    /// Residual blocks of three dense blocks each.
    pub blocks: usize,
    /// How many times larger frames get, each way.
    pub scale: usize,
    /// Pixels each way that become channels first.
    pub unshuffle: usize,
}

/// Every tensor that the network needs, in the order of use.
pub fn params(config: &RrdbConfig) -> Vec<Param> {
    listed(|params| drop(Rrdb::new(config, params, DType::F32)))
}

impl RrdbConfig {
    /// Channels of a pixel as it goes in.
    const fn channels(&self) -> usize {
        COLOURS * self.unshuffle * self.unshuffle
    }

    /// How often frames are doubled.
    fn steps(&self) -> u32 {
        (self.scale * self.unshuffle).checked_ilog2().unwrap_or(0)
    }
}

/// The network.
pub struct Rrdb {
    config: RrdbConfig,
    /// Pixels of a cell to its channels.
    unshuffle: Option<Weight>,
    first: Weight,
    blocks: Vec<[Dense; 3]>,
    /// What a block adds, for each channel.
    share: Weight,
    body: Weight,
    /// A pixel four times, and the convolution behind.
    ups: Vec<[Weight; 2]>,
    hr: Weight,
    last: Weight,
}

/// Convolutions over everything made so far. Each is one per tensor, whose results add up: tensors need not lie side by
/// side.
struct Dense {
    convs: Vec<Vec<Weight>>,
}

/// How a convolution of a checkpoint is used.
struct Layer<'a> {
    name: &'a str,
    /// Channels of all inputs, and of the output.
    channels: [usize; 2],
    /// Values are multiplied by this.
    times: f32,
    /// Leaky ReLU behind.
    leaky: bool,
}

impl Layer<'_> {
    fn plain(name: &str, cin: usize, cout: usize) -> Layer<'_> {
        Layer { name, channels: [cin, cout], times: 1.0, leaky: false }
    }

    /// The weight over some of the input channels. The first one has the bias, the last one the ReLU.
    fn part(&self, scope: &mut Scope<'_>, from: usize, cin: usize) -> Weight {
        let (name, [all, cout], times) = (self.name, self.channels, self.times);
        let kernel = scope.values(Origin::Tensor(format!("{name}.weight")), vec![cout, all, 3, 3]);
        let some = in_rows(kernel, cin * TAPS, move |output| (output * all + from) * TAPS);
        let main = Arc::new(Times(some, times));
        let bias = match from {
            0 => scope.values(Origin::Tensor(format!("{name}.bias")), vec![cout]),
            _ => computed(|_| 0.0),
        };
        let bias: Arc<dyn Values> = Arc::new(Times(bias, times));
        let slopes = self.leaky && from + cin == all;
        let bias = if slopes { joined(bias, cout, computed(|_| SLOPE)) } else { bias };
        let dtype = scope.build().dtype;
        let spec = WeightSpec::Conv { cin, cout, kernel: [1, 3, 3], stride: [1; 3], dtype, slopes };
        scope.made_of(name, spec, Origin::Computed(main), Some(Origin::Computed(bias)))
    }

    fn whole(&self, scope: &mut Scope<'_>) -> Weight {
        self.part(scope, 0, self.channels[0])
    }
}

/// Values times a factor.
struct Times(Arc<dyn Values>, f32);

impl Values for Times {
    fn read(&self, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        self.0.read(start, out)?;
        out.iter_mut().for_each(|v| *v *= self.1);
        Ok(())
    }
}

impl Dense {
    fn new(config: &RrdbConfig, scope: &mut Scope<'_>, name: &str) -> Self {
        let RrdbConfig { width, growth, .. } = *config;
        let conv = |k: usize| {
            let (name, cin) = (format!("{name}.conv{k}"), width + (k - 1) * growth);
            let (cout, times) = if k == 5 { (width, SHARE) } else { (growth, 1.0) };
            let layer = Layer { name: &name, channels: [cin, cout], times, leaky: k < 5 };
            let mut parts = vec![layer.part(scope, 0, width)];
            parts.extend((1..k).map(|i| layer.part(scope, width + (i - 1) * growth, growth)));
            parts
        };
        Dense { convs: (1..=5).map(conv).collect() }
    }

    /// `x + 0.2 * conv5([x, y1, .., y4])`, where `yk` is the convolution of all before it.
    fn forward(&self, pass: &mut Pass<'_>, config: &RrdbConfig, x: Tensor) -> Result<Tensor, ComputeError> {
        let out = pass.ops.alloc(x.shape(), x.dtype())?;
        pass.ops.copy(x.view(), out.view())?;
        let mut made = vec![x];
        for (k, parts) in self.convs.iter().enumerate() {
            let last = k == 4;
            let y = match last {
                true => out.clone(),
                false => {
                    let shape = Shape { c: config.growth, ..out.shape() };
                    pass.ops.alloc(shape, out.dtype())?
                }
            };
            for (i, (input, weight)) in made.iter().zip(parts).enumerate() {
                let conv = ConvDesc::new(input.view(), weight, Padding::all(1), y.view());
                pass.ops.conv(&ConvDesc { accumulate: last || i > 0, ..conv })?;
            }
            made.push(y);
        }
        Ok(out)
    }
}

impl Rrdb {
    /// Out of the tensors of a checkpoint.
    pub fn new(config: &RrdbConfig, params: &mut dyn Params, build: impl Into<Build>) -> Self {
        let mut scope = Scope::root(params, build);
        let scope = &mut scope;
        let RrdbConfig { width, blocks, unshuffle, .. } = *config;
        let dtype = scope.build().dtype;
        let picked = move |scope: &mut Scope<'_>| {
            // Channel c * u * u + i * u + j is colour c of row i and column j of a cell.
            let kernel = [1, unshuffle, unshuffle];
            let (cin, cout, stride) = (COLOURS, COLOURS * unshuffle * unshuffle, kernel);
            let spec = WeightSpec::Conv { cin, cout, kernel, stride, dtype, slopes: false };
            let cell = unshuffle * unshuffle;
            let same = computed(move |i| {
                let (o, c, tap) = (i / (COLOURS * cell), i / cell % COLOURS, i % cell);
                if o == c * cell + tap { 1.0 } else { 0.0 }
            });
            scope.made_of("unshuffle", spec, Origin::Computed(same), None)
        };
        let unshuffle = (unshuffle > 1).then(|| picked(scope));
        let first = Layer::plain("conv_first", config.channels(), width).whole(scope);
        let mut block = |b: usize| [1, 2, 3].map(|r| Dense::new(config, scope, &format!("body.{b}.rdb{r}")));
        let blocks = (0..blocks).map(&mut block).collect();
        let share = computed(|_| SHARE);
        let share = scope.made_of("share", WeightSpec::Vector { len: width }, Origin::Computed(share), None);
        let body = Layer::plain("conv_body", width, width).whole(scope);
        let leaky = |name: &str, scope: &mut Scope<'_>| {
            Layer { leaky: true, ..Layer::plain(name, width, width) }.whole(scope)
        };
        let mut up = |step: u32| {
            let same = computed(move |i| if i / width % width == i % width { 1.0 } else { 0.0 });
            let spec = WeightSpec::conv([width, 4 * width], [1; 3], dtype);
            let four = scope.made_of("four", spec, Origin::Computed(same), None);
            [four, leaky(&format!("conv_up{step}"), scope)]
        };
        let ups = (1..=config.steps()).map(&mut up).collect();
        let hr = leaky("conv_hr", scope);
        let last = Layer::plain("conv_last", width, COLOURS).whole(scope);
        Rrdb { config: *config, unshuffle, first, blocks, share, body, ups, hr, last }
    }
}

/// A 3x3 convolution to a tensor of its own.
fn conv(pass: &mut Pass<'_>, x: &Tensor, weight: &Weight, cout: usize) -> Result<Tensor, ComputeError> {
    let y = pass.ops.alloc(Shape { c: cout, ..x.shape() }, x.dtype())?;
    pass.ops.conv(&ConvDesc::new(x.view(), weight, Padding::all(1), y.view()))?;
    Ok(y)
}

impl Network for Rrdb {
    fn name(&self) -> &'static str {
        "upscale"
    }

    fn variant(&self) -> &'static str {
        "rrdb"
    }

    fn channels(&self) -> [usize; 2] {
        [COLOURS; 2]
    }

    fn scale(&self) -> [usize; 2] {
        [self.config.unshuffle, self.config.unshuffle * self.config.scale]
    }

    fn step(&self) -> Option<[usize; 2]> {
        Some([1, 1])
    }

    /// A cell for each convolution at the size of the input; those behind see less than two cells together.
    fn reach(&self) -> Option<usize> {
        Some(15 * self.config.blocks + 4)
    }

    fn forward(&self, pass: &mut Pass<'_>, x: Tensor) -> Result<Tensor, ComputeError> {
        let (Shape { t, h, w, .. }, dtype) = (x.shape(), x.dtype());
        let (width, cell) = (self.config.width, self.config.unshuffle);
        let x = match &self.unshuffle {
            Some(weight) => {
                let y = pass.ops.alloc(Shape::new(t, h / cell, w / cell, self.config.channels()), dtype)?;
                pass.ops.conv(&ConvDesc::new(x.view(), weight, Padding::default(), y.view()))?;
                y
            }
            None => x,
        };
        let features = conv(pass, &x, &self.first, width)?;
        drop(x);
        let y = pass.ops.alloc(features.shape(), dtype)?;
        pass.ops.copy(features.view(), y.view())?;
        for block in &self.blocks {
            let mut b = y.clone();
            for dense in block {
                b = dense.forward(pass, &self.config, b)?;
            }
            let (input, gate, residual) = (b.view(), Some(&self.share), y.view());
            pass.ops.add_gated(&AddGatedDesc { input, gate, residual })?;
        }
        let body = ConvDesc::new(y.view(), &self.body, Padding::all(1), features.view());
        pass.ops.conv(&ConvDesc { accumulate: true, ..body })?;
        drop(y);
        let mut y = features;
        for [four, weight] in &self.ups {
            let Shape { t, h, w, .. } = y.shape();
            let many = pass.ops.alloc(Shape { c: 4 * width, ..y.shape() }, dtype)?;
            pass.ops.conv(&ConvDesc::new(y.view(), four, Padding::default(), many.view()))?;
            y = pass.ops.alloc(Shape::new(t, 2 * h, 2 * w, width), dtype)?;
            let (input, factors, output) = (many.view(), [1, 2, 2], y.view());
            pass.ops.shuffle(&ShuffleDesc { input, factors, drop_second: false, output })?;
            drop(many);
            y = conv(pass, &y, weight, width)?;
        }
        y = conv(pass, &y, &self.hr, width)?;
        let out = conv(pass, &y, &self.last, COLOURS)?;
        pass.state.advance(t);
        Ok(out)
    }
}

impl Module for Rrdb {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.unshuffle.iter().for_each(&mut *f);
        f(&self.first);
        for block in &self.blocks {
            block.iter().flat_map(|dense| dense.convs.iter().flatten()).for_each(&mut *f);
            f(&self.share);
        }
        f(&self.body);
        self.ups.iter().flatten().for_each(&mut *f);
        f(&self.hr);
        f(&self.last);
    }
}
