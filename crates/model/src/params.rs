//! The one list of what a network needs: every layer names its tensors here, under the checkpoint's names.

use std::ops::Range;
use std::sync::Arc;

use remaster_compute::{DType, SourceError, Weight, WeightPart, WeightSource, WeightSpec};

/// The values of one tensor, or of what stands for one.
pub trait Values: Send + Sync {
    /// Fills `out` with the values from flat index `start` on.
    fn read(&self, start: usize, out: &mut [f32]) -> Result<(), SourceError>;
}

/// Gives the values of tensors by their names in the checkpoint. Values of a tensor that does not exist fail when they
/// are read.
pub trait Params: Send {
    /// The values that are wanted.
    fn values(&mut self, wanted: &Wanted) -> Arc<dyn Values>;

    /// The values of the layer `prefix`, as `tensors_of` names them.
    fn source(&mut self, prefix: &str, spec: WeightSpec) -> Arc<dyn WeightSource> {
        let mut parts = tensors_of(prefix, spec).into_iter().map(|param| self.values(&param.into()));
        // Every weight has a main part; one that has none would have no values either.
        let main = parts.next().unwrap_or_else(|| computed(|_| 0.0));
        Arc::new(Layer { main, bias: parts.next() })
    }
}

/// One tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Full name, for example `encoder.conv_in.weight`.
    pub name: String,
    /// Shape in the checkpoint.
    pub shape: Vec<usize>,
}

/// A tensor of a checkpoint, or some of its rows: several weights can share one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The whole tensor.
    pub param: Param,
    /// Rows, along its first axis; all of them if absent.
    pub rows: Option<Range<usize>>,
}

impl From<Param> for Wanted {
    fn from(param: Param) -> Self {
        Wanted { param, rows: None }
    }
}

impl Wanted {
    /// Flat indices of the values, or why there are none.
    pub fn span(&self) -> Result<Range<usize>, SourceError> {
        let Param { name, shape } = &self.param;
        let row = shape.iter().skip(1).product::<usize>();
        let all = shape.first().copied().unwrap_or(1);
        let rows = self.rows.clone().unwrap_or(0..all);
        if rows.start > rows.end || rows.end > all {
            return Err(SourceError(format!("tensor `{name}` has {all} rows; {rows:?} were asked for")));
        }
        Ok(rows.start * row..rows.end * row)
    }

    /// One past the last row.
    fn end(&self) -> usize {
        let all = self.param.shape.first().copied().unwrap_or(1);
        self.rows.as_ref().map_or(all, |rows| rows.end)
    }
}

/// Every tensor that `build` asks for, once, in the order of use: what a checkpoint must hold. Values that are computed
/// ask for nothing.
pub fn listed(build: impl FnOnce(&mut dyn Params)) -> Vec<Param> {
    #[derive(Default)]
    struct List(Vec<Wanted>);
    struct Nothing;

    impl Values for Nothing {
        fn read(&self, _: usize, _: &mut [f32]) -> Result<(), SourceError> {
            Err(SourceError("this network was only built to list its tensors".into()))
        }
    }
    impl Params for List {
        fn values(&mut self, wanted: &Wanted) -> Arc<dyn Values> {
            match self.0.iter_mut().find(|known| known.param == wanted.param) {
                Some(known) => known.rows = Some(0..known.end().max(wanted.end())),
                None => self.0.push(wanted.clone()),
            }
            Arc::new(Nothing)
        }
    }

    let mut list = List::default();
    build(&mut list);
    let whole = |wanted: Wanted| {
        let end = wanted.end();
        let mut param = wanted.param;
        // Rows beyond the end ask for a longer tensor: a checkpoint of the right shape is then of the wrong one.
        param.shape.iter_mut().take(1).for_each(|all| *all = end.max(*all));
        param
    };
    list.0.into_iter().map(whole).collect()
}

/// The tensors of a layer, in checkpoint order: `prefix.weight` and `prefix.bias`. A vector is one tensor, and `prefix`
/// is its whole name.
pub fn tensors_of(prefix: &str, spec: WeightSpec) -> Vec<Param> {
    let main = main_shape(spec);
    if let WeightSpec::Vector { .. } = spec {
        return vec![Param { name: prefix.to_owned(), shape: main }];
    }
    vec![
        Param { name: format!("{prefix}.weight"), shape: main },
        Param { name: format!("{prefix}.bias"), shape: vec![spec.bias_len()] },
    ]
}

fn main_shape(spec: WeightSpec) -> Vec<usize> {
    match spec {
        WeightSpec::Conv { cin, cout, kernel: [kt, kh, kw], .. } => vec![cout, cin, kt, kh, kw],
        WeightSpec::Upsample { cout, .. } => vec![cout, cout, 3, 3, 3],
        WeightSpec::Linear { cin, cout, .. } => vec![cout, cin],
        WeightSpec::Norm { channels } => vec![channels],
        WeightSpec::Vector { len } => vec![len],
    }
}

/// Values that are computed from their flat index.
pub fn computed(value: impl Fn(usize) -> f32 + Send + Sync + 'static) -> Arc<dyn Values> {
    struct Computed<F>(F);

    impl<F: Fn(usize) -> f32 + Send + Sync> Values for Computed<F> {
        fn read(&self, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
            out.iter_mut().enumerate().for_each(|(i, v)| *v = (self.0)(start + i));
            Ok(())
        }
    }
    Arc::new(Computed(value))
}

/// Rows of `row` values, each of which starts at `place` of its number in another list.
pub(crate) fn in_rows(
    inner: Arc<dyn Values>,
    row: usize,
    place: impl Fn(usize) -> usize + Send + Sync + 'static,
) -> Arc<dyn Values> {
    struct Rows<F>(Arc<dyn Values>, usize, F);

    impl<F: Fn(usize) -> usize + Send + Sync> Values for Rows<F> {
        fn read(&self, mut start: usize, mut out: &mut [f32]) -> Result<(), SourceError> {
            let Rows(inner, row, place) = self;
            while !out.is_empty() {
                let inside = start % row;
                let (now, rest) = out.split_at_mut((row - inside).min(out.len()));
                inner.read(place(start / row) + inside, now)?;
                (start, out) = (start + now.len(), rest);
            }
            Ok(())
        }
    }
    Arc::new(Rows(inner, row.max(1), place))
}

/// The first `len` values of one, then those of another.
pub(crate) fn joined(first: Arc<dyn Values>, len: usize, second: Arc<dyn Values>) -> Arc<dyn Values> {
    struct Joined(Arc<dyn Values>, usize, Arc<dyn Values>);

    impl Values for Joined {
        fn read(&self, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
            let before = self.1.saturating_sub(start).min(out.len());
            let (first, second) = out.split_at_mut(before);
            if !first.is_empty() {
                self.0.read(start, first)?;
            }
            if second.is_empty() { Ok(()) } else { self.2.read(start + before - self.1, second) }
        }
    }
    Arc::new(Joined(first, len, second))
}

/// A weight made of one or two tensors.
struct Layer {
    main: Arc<dyn Values>,
    bias: Option<Arc<dyn Values>>,
}

impl WeightSource for Layer {
    fn read(&self, part: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        match (part, &self.bias) {
            (WeightPart::Main, _) => self.main.read(start, out),
            (WeightPart::Bias, Some(bias)) => bias.read(start, out),
            (WeightPart::Bias, None) => Err(SourceError("it has no bias".into())),
        }
    }

    fn has_bias(&self) -> bool {
        self.bias.is_some()
    }
}

/// Where a part of a weight comes from.
pub enum Origin {
    /// The tensor of this name inside a scope, in the shape that the weight asks for.
    Tensor(String),
    /// Some rows of the tensor of this name inside a scope, which has so many rows.
    Rows(String, Range<usize>, usize),
    /// Computed: a checkpoint need not hold it.
    Computed(Arc<dyn Values>),
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
    section: Option<Arc<str>>,
}

impl<'a> Scope<'a> {
    /// The root of a checkpoint.
    pub fn root(params: &'a mut dyn Params, build: impl Into<Build>) -> Self {
        Scope { params, prefix: String::new(), build: build.into(), section: None }
    }

    /// The part called `name` inside this one.
    pub fn at(&mut self, name: impl std::fmt::Display) -> Scope<'_> {
        let section = self.section.clone();
        Scope { prefix: self.path(name), params: &mut *self.params, build: self.build, section }
    }

    /// The same part, whose weights are used together: see `Weight::section`.
    pub fn section(self) -> Self {
        Scope { section: Some(self.prefix.as_str().into()), ..self }
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
        let dtype = self.build.dtype;
        self.weight(name, WeightSpec::Conv { cin, cout, kernel, stride, dtype, slopes: false })
    }

    /// A 3x3 convolution of single frames, and the PReLU behind it, whose slopes are the tensor `slopes`.
    pub(crate) fn conv_prelu(&mut self, name: &str, [cin, cout]: [usize; 2], slopes: &str) -> Weight {
        let (kernel, dtype) = ([1, 3, 3], self.build.dtype);
        let spec = WeightSpec::Conv { cin, cout, kernel, stride: [1; 3], dtype, slopes: true };
        let mut values = |name: String, shape| self.values(Origin::Tensor(name), shape);
        let main = values(format!("{name}.weight"), vec![cout, cin, 3, 3]);
        let bias = values(format!("{name}.bias"), vec![cout]);
        let bias = joined(bias, cout, values(slopes.to_owned(), vec![cout]));
        self.made_of(name, spec, Origin::Computed(main), Some(Origin::Computed(bias)))
    }

    pub(crate) fn linear(&mut self, name: &str, cin: usize, cout: usize) -> Weight {
        self.weight(name, WeightSpec::Linear { cin, cout, dtype: self.build.dtype })
    }

    /// An upsampler, folded: `conv` behind `upscale_conv`.
    pub(crate) fn upsample(&mut self, channels: usize, time: bool) -> Weight {
        let dtype = self.build.dtype;
        let phases = if time { 8 } else { 4 };
        let spec = |cout, kernel| WeightSpec::conv([channels, cout], kernel, dtype);
        let conv = self.params.source(&self.path("conv"), spec(channels, [3; 3]));
        let upscale = self.params.source(&self.path("upscale_conv"), spec(phases * channels, [1; 3]));
        let spec = WeightSpec::Upsample { cin: channels, cout: channels, time, dtype };
        Weight::upsampler(self.prefix.clone(), spec, conv, upscale)
    }

    pub(crate) fn norm(&mut self, name: &str, channels: usize) -> Weight {
        self.weight(name, WeightSpec::Norm { channels })
    }

    /// A weight called `name` whose parts come from anywhere; `None` for a layer without bias or shift.
    pub fn made_of(&mut self, name: &str, spec: WeightSpec, main: Origin, bias: Option<Origin>) -> Weight {
        let main = self.values(main, main_shape(spec));
        let bias = bias.map(|bias| self.values(bias, vec![spec.bias_len()]));
        self.named(self.path(name), spec, Arc::new(Layer { main, bias }))
    }

    /// A vector of `len` numbers, the tensor `name`.
    pub fn vector(&mut self, name: &str, len: usize) -> Weight {
        self.weight(name, WeightSpec::Vector { len })
    }

    fn named(&self, path: String, spec: WeightSpec, source: Arc<dyn WeightSource>) -> Weight {
        let weight = Weight::new(path, spec, source);
        match &self.section {
            Some(section) => weight.in_section(Arc::clone(section)),
            None => weight,
        }
    }

    /// Values that are read on the host.
    pub(crate) fn values(&mut self, origin: Origin, shape: Vec<usize>) -> Arc<dyn Values> {
        let wanted =
            |scope: &Self, name, shape, rows| Wanted { param: Param { name: scope.path(name), shape }, rows };
        let wanted = match origin {
            Origin::Computed(values) => return values,
            Origin::Tensor(name) => wanted(self, name, shape, None),
            Origin::Rows(name, rows, all) => {
                let whole = std::iter::once(all).chain(shape.into_iter().skip(1)).collect();
                wanted(self, name, whole, Some(rows))
            }
        };
        self.params.values(&wanted)
    }

    fn weight(&mut self, name: &str, spec: WeightSpec) -> Weight {
        let path = self.path(name);
        let source = self.params.source(&path, spec);
        self.named(path, spec, source)
    }
}
