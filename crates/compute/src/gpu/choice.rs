//! Chooses the kernel of each layer. A choice depends on the layer and its format, never on the size of a slice or
//! a stripe, which must change no bit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::device::{GpuDevice, MatrixUnits};
use super::kernels::{Blocks, Product, Tile, UNIT, Winograd};
use super::pack::Order;
use crate::dtype::DType;
use crate::error::Result;
use crate::weight::WeightSpec;

/// A kernel for convolutions, upsamplers and linear layers, and where it finds an input that is normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    pub(super) product: Product,
    /// Whether a pass of its own normalises the input. Else the kernel does on the way in, for each tap again.
    pub(super) pass: bool,
}

/// End of the name of a variant whose input is normalised by a pass.
const AFTER_A_PASS: &str = " after a pass";

impl Variant {
    fn new(product: Product) -> Self {
        Variant { product, pass: false }
    }

    /// The same kernel on an input that a pass of its own normalised. It gives the same bits.
    pub fn after_a_pass(self) -> Self {
        Variant { pass: true, ..self }
    }

    /// Pixels and output channels of a workgroup, and input channels of a step.
    pub fn tile(&self) -> [usize; 3] {
        self.product.tile()
    }

    /// Threads of a workgroup.
    pub fn threads(&self) -> usize {
        match self.product {
            Product::Threads(tile) => tile.threads(),
            Product::Matrix(blocks) => blocks.threads(),
            Product::Winograd(_) => Winograd::THREADS,
        }
    }

    /// Workgroup memory in bytes.
    pub fn shared_bytes(&self) -> usize {
        match self.product {
            Product::Threads(tile) => tile.shared_bytes(),
            Product::Matrix(blocks) => blocks.shared_bytes(),
            Product::Winograd(w) => w.shared_bytes(),
        }
    }

    /// Sums held by a thread: the least number of registers it needs.
    pub fn sums(&self) -> usize {
        match self.product {
            Product::Threads(tile) => tile.tm * tile.tn,
            Product::Winograd(_) => Winograd::SUMS,
            Product::Matrix(b) => b.down * b.across * b.units.size.pow(2) / b.units.subgroup.max(1),
        }
    }

    /// Name of the family. Kernels of one family give the same bits.
    pub fn family(&self) -> &'static str {
        match self.product {
            Product::Threads(_) => "direct",
            Product::Matrix(_) => "matrix",
            Product::Winograd(_) => "winograd",
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.tile();
        match self.product {
            Product::Threads(tile) => write!(f, "direct {m}x{n}x{k} by {}x{}", tile.tm, tile.tn)?,
            Product::Matrix(blocks) => {
                write!(f, "matrix {m}x{n}x{k} of {} by {}", blocks.units.size, blocks.rows * blocks.columns)?;
            }
            Product::Winograd(_) => write!(f, "winograd {m}x{n}x{k}")?,
        }
        f.write_str(if self.pass { AFTER_A_PASS } else { "" })
    }
}

/// Every kernel that can run a layer on a device with these matrix units, without a pass before it. The first runs
/// everywhere and is the default.
pub fn variants(spec: &WeightSpec, units: Option<MatrixUnits>) -> Vec<Variant> {
    let Some((cin, cout, dtype)) = spec.product() else { return Vec::new() };
    let tiles: &[Tile] = if cout > 16 { &Tile::WIDE } else { &Tile::NARROW };
    let mut all: Vec<Variant> = tiles.iter().map(|t| Variant::new(Product::Threads(*t))).collect();
    // Single 16-bit values are stored with atomics, which kernels with matrices cannot use: the memory model of
    // those kernels requires a capability for atomics that naga does not declare.
    // They fetch eight input channels at a time.
    let fits = dtype == DType::F16 && cout.is_multiple_of(4) && cin.is_multiple_of(UNIT);
    if let (true, Some(units)) = (fits, units) {
        all.extend(Blocks::variants(units).map(|b| Variant::new(Product::Matrix(b))));
    }
    // In 16 bits, transformed weights would be rounded once more than those of the other kernels.
    if let WeightSpec::Conv { kernel: [_, 3, 3], stride: [_, 1, 1], dtype: DType::F32, .. } = spec {
        all.extend(Winograd::VARIANTS.map(|w| Variant::new(Product::Winograd(w))));
    }
    all
}

/// Every kernel that a device can run for some layer.
pub fn all_variants(device: &GpuDevice) -> Result<Vec<Variant>> {
    let units = device.open()?.units;
    let layer = |(cout, dtype)| WeightSpec::conv([UNIT, cout], [3; 3], dtype);
    let layers = [(64, DType::F32), (4, DType::F32), (64, DType::F16)].map(layer);
    Ok(layers.iter().flat_map(|l| variants(l, units)).fold(Vec::new(), |mut all, v| {
        if !all.contains(&v) {
            all.push(v);
        }
        all
    }))
}

/// Name of a layer in a table of choices, such as `conv 3x3x3 512 to 512 f16`.
pub fn layer_name(spec: &WeightSpec) -> String {
    match spec {
        WeightSpec::Conv { cin, cout, kernel: [t, y, x], stride, dtype, .. } => {
            let step = match stride {
                [1, 1, 1] => String::new(),
                [a, b, c] => format!(" step {a}x{b}x{c}"),
            };
            format!("conv {t}x{y}x{x}{step} {cin} to {cout} {dtype}")
        }
        WeightSpec::Upsample { cin, cout, time, dtype } => {
            format!("upsample {} {cin} to {cout} {dtype}", if *time { "2x2x2" } else { "1x2x2" })
        }
        WeightSpec::Linear { cin, cout, dtype } => format!("linear {cin} to {cout} {dtype}"),
        WeightSpec::Norm { channels } => format!("norm {channels}"),
        WeightSpec::Vector { len } => format!("vector {len}"),
    }
}

/// Name of attention in a table of choices, such as `window attention 128 f16`.
pub(super) fn attention_name(windowed: bool, width: usize, dtype: DType) -> String {
    format!("{}attention {width} {dtype}", if windowed { "window " } else { "" })
}

/// The chosen kernels: names of variants by [`layer_name`], `*` for all other layers. A handle, because devices are
/// copied freely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Choices(Option<&'static BTreeMap<String, String>>);

impl Choices {
    /// Keeps a table until the process ends, each once. A process has one or two, and one for each card that is planned for.
    pub fn new(table: BTreeMap<String, String>) -> Self {
        static TABLES: Mutex<Vec<&'static BTreeMap<String, String>>> = Mutex::new(Vec::new());
        if table.is_empty() {
            return Choices(None);
        }
        // Nothing panics while it is held.
        let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tables.iter().find(|known| ***known == table).copied();
        Choices(Some(known.unwrap_or_else(|| {
            let kept: &'static BTreeMap<String, String> = Box::leak(Box::new(table));
            tables.push(kept);
            kept
        })))
    }

    /// Names of variants by name of layer.
    pub fn table(&self) -> BTreeMap<String, String> {
        self.0.cloned().unwrap_or_default()
    }

    /// The kernel for a layer: the chosen one if this device has it, else the default.
    pub(super) fn find(&self, spec: &WeightSpec, units: Option<MatrixUnits>) -> Option<Variant> {
        let all = variants(spec, units);
        let name = self.name(spec).map(|n| n.strip_suffix(AFTER_A_PASS).unwrap_or(n));
        let chosen = name.and_then(|n| all.iter().find(|v| v.to_string() == *n));
        chosen.or(all.first()).map(|v| Variant { pass: self.passes(spec), ..*v })
    }

    /// The name that was chosen for a layer.
    fn name(&self, spec: &WeightSpec) -> Option<&'static str> {
        let name = self.0.and_then(|t| t.get(&layer_name(spec)).or_else(|| t.get("*")));
        name.map(String::as_str)
    }

    /// Whether the input of a layer is normalised by a pass of its own, if it is normalised. The name alone says so: plans
    /// are made without the device, and must know the memory of the pass.
    pub(super) fn passes(&self, spec: &WeightSpec) -> bool {
        matches!(spec, WeightSpec::Conv { .. }) && self.name(spec).is_some_and(|n| n.ends_with(AFTER_A_PASS))
    }

    /// Whether attention of this [name](attention_name) is to be on matrix units.
    pub(super) fn attends_on_units(&self, name: &str) -> bool {
        let chosen = self.0.and_then(|t| t.get(name).or_else(|| t.get("*")));
        chosen.is_some_and(|kernel| kernel.starts_with("matrix"))
    }

    /// How a layer's weights are kept on a device with these matrix units.
    pub(super) fn order(&self, spec: &WeightSpec, units: Option<MatrixUnits>) -> Order {
        // The default kernel of a layer takes rows.
        match self.0.and_then(|_| self.find(spec, units)) {
            Some(variant) => variant.product.order(),
            None => Order::Rows,
        }
    }

    /// Part of the class of results: a hash of the layers whose kernels add in another order than the direct
    /// ones, and of their families. Which kernel of a family was fastest changes no bit.
    pub(super) fn class(&self) -> String {
        let apart = self.0.into_iter().flatten().filter(|(_, v)| !v.starts_with("direct"));
        let family = |kernel: &str| kernel.split(' ').next().unwrap_or_default().to_owned();
        let text: String = apart.map(|(l, v)| format!("{l}={};", family(v))).collect();
        if text.is_empty() {
            String::new()
        } else {
            format!(" {:016x}", super::device::hash(text.as_bytes()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_results_follows_from_families_alone() {
        let class = |kernel: &str| {
            let layer = "conv 3x3x3 512 to 512 f16".to_owned();
            Choices::new(BTreeMap::from([(layer, kernel.to_owned())])).class()
        };
        assert_eq!(class("direct 128x64x8 by 8x8"), "");
        assert_eq!(class("matrix 128x128x32 of 16 by 4"), class("matrix 128x128x32 of 16 by 8"));
        assert_ne!(class("matrix 128x128x32 of 16 by 4"), class("winograd 32x32x4"));
        assert_eq!(class("matrix 128x128x32 of 16 by 4"), class("matrix 128x128x32 of 16 by 4 after a pass"));
        assert_eq!(class("direct 128x64x8 by 8x8 after a pass"), "");
    }

    #[test]
    fn a_pass_is_part_of_the_name_and_for_convolutions_alone() {
        let dtype = DType::F32;
        let conv = WeightSpec::conv([128, 128], [3; 3], dtype);
        let linear = WeightSpec::Linear { cin: 128, cout: 128, dtype };
        for variant in variants(&conv, None) {
            let with = |v: Variant| Choices::new(BTreeMap::from([("*".to_owned(), v.to_string())]));
            let (plain, passed) = (with(variant), with(variant.after_a_pass()));
            assert_eq!(plain.find(&conv, None), Some(variant));
            assert_eq!(passed.find(&conv, None), Some(variant.after_a_pass()));
            assert!(passed.passes(&conv) && !plain.passes(&conv) && !passed.passes(&linear));
            assert_eq!(passed.order(&conv, None), plain.order(&conv, None));
        }
    }
}
