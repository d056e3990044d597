//! Writes the WGSL text of kernels from templates and the sizes of a variant, so that a variant is data.

mod attention;
mod matrix;
mod template;
mod threads;
mod tokens;
mod winograd;

pub(super) use attention::{Attend, Heads, attention_values};
pub(super) use matrix::{Blocks, Edges, UNIT};
pub(super) use threads::Tile;
pub(super) use tokens::{norm_team, window_values};
pub(super) use winograd::Winograd;

use template::{choose, constants, each, values};

use super::bindings::{Operand, Reach, declare};
use super::pack::Order;
use super::params::{
    ActivateParams, AddGatedParams, AfterParams, AttentionParams, CombineParams, CopyParams, Fields,
    NormalizeParams, ProductParams, ShuffleParams, TallyParams, TokenNormParams, WindowAttentionParams,
    WindowParams,
};
use crate::dtype::DType;

/// How a convolution multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Product {
    /// Threads with sums of their own.
    Threads(Tile),
    /// Matrix units.
    Matrix(Blocks),
    /// Transformed tiles.
    Winograd(Winograd),
}

impl Product {
    /// Pixels (or transformed tiles) and output channels of a workgroup, and input channels of a step.
    pub(super) fn tile(&self) -> [usize; 3] {
        match self {
            Product::Threads(tile) => [tile.bm, tile.bn, tile.bk],
            Product::Matrix(blocks) => blocks.tile(),
            Product::Winograd(w) => [Winograd::TILES, Winograd::COLUMNS, w.bk],
        }
    }

    /// How it wants weights.
    pub(super) fn order(&self) -> Order {
        match self {
            Product::Threads(_) => Order::Rows,
            Product::Matrix(_) => Order::Columns,
            Product::Winograd(_) => Order::Transformed,
        }
    }

    /// What it has to look out for with so many input channels.
    pub(super) fn edges(&self, cin: usize, padded: bool, narrow: bool) -> Edges {
        match self {
            Product::Matrix(blocks) => {
                let [_, _, bk] = blocks.tile();
                Edges { padded, ragged: !cin.is_multiple_of(bk), narrow }
            }
            Product::Threads(_) | Product::Winograd(_) => Edges::default(),
        }
    }
}

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Conv {
        product: Product,
        prologue: bool,
        shortcut: bool,
        slopes: bool,
        vec_out: bool,
        edges: Edges,
    },
    After {
        prologue: bool,
    },
    Combine,
    Normalize,
    Copy {
        from: DType,
    },
    Shuffle,
    Attention(Attend),
    TokenNorm {
        from: DType,
        team: usize,
    },
    Activate,
    AddGated {
        from: DType,
    },
    Gather,
    Scatter,
    WindowAttention(Attend),
    /// Counts the marks of a batch, or sums words that travelled.
    Tally {
        checksum: bool,
    },
}

/// A kernel: everything its text depends on, but for its bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kernel {
    pub(super) role: Role,
    pub(super) dtype: DType,
    /// Whether it reads four channels at a time.
    pub(super) vec_in: bool,
}

impl Kernel {
    /// Its operands, in the order of their bindings.
    pub(super) fn operands(&self) -> Vec<Operand> {
        use Operand as O;
        let mut operands = match self.role {
            Role::Conv { .. } => vec![O::Input, O::Carried, O::Output, O::Weight],
            Role::After { .. } => vec![O::Input, O::Carried, O::Output, O::Carry, O::Sums],
            Role::Combine => vec![O::Sums, O::Output, O::Note],
            Role::Normalize | Role::Copy { .. } | Role::Shuffle => vec![O::Input, O::Output],
            Role::Activate | Role::Gather | Role::Scatter => vec![O::Input, O::Output],
            Role::AddGated { .. } => vec![O::Input, O::Output, O::Affine],
            Role::TokenNorm { .. } => vec![O::Input, O::Output, O::Affine, O::Table, O::Places],
            Role::Attention(_) => vec![O::Queries, O::Keys, O::Values, O::Output],
            Role::WindowAttention(_) => vec![
                O::Queries,
                O::Keys,
                O::Values,
                O::Output,
                O::CommonQueries,
                O::CommonKeys,
                O::CommonValues,
                O::Sums,
            ],
            Role::Tally { checksum } => [O::Input].into_iter().filter(|_| checksum).collect(),
        };
        if let Role::Conv { shortcut: true, .. } = self.role {
            operands.extend([O::Shortcut, O::ShortcutWeight]);
        }
        if self.prologue() {
            operands.extend([O::Stats, O::Affine]);
        }
        operands.push(O::Marks);
        operands
    }

    /// Whether it writes an operand.
    pub(super) fn writes(&self, operand: Operand) -> bool {
        match operand {
            Operand::Output => !matches!(self.role, Role::After { .. }),
            Operand::Sums => matches!(self.role, Role::After { .. } | Role::WindowAttention(_)),
            operand => operand == Operand::Carry,
        }
    }

    /// Declares its parameters: those of the op, then where each operand starts in its first binding.
    fn parameters(&self) -> String {
        let declare = match self.role {
            Role::Conv { .. } => ProductParams::declare,
            Role::After { .. } => AfterParams::declare,
            Role::Combine => CombineParams::declare,
            Role::Normalize => NormalizeParams::declare,
            Role::Copy { .. } => CopyParams::declare,
            Role::Shuffle => ShuffleParams::declare,
            Role::Attention(_) => AttentionParams::declare,
            Role::TokenNorm { .. } => TokenNormParams::declare,
            Role::Activate => ActivateParams::declare,
            Role::AddGated { .. } => AddGatedParams::declare,
            Role::Gather | Role::Scatter => WindowParams::declare,
            Role::WindowAttention(_) => WindowAttentionParams::declare,
            Role::Tally { .. } => TallyParams::declare,
        };
        let mut members = String::new();
        declare("", &mut members);
        for operand in self.operands() {
            usize::declare(&format!("{}_base", operand.name()), &mut members);
        }
        format!("struct Params {{\n{members}}}\n@group(0) @binding(0) var<uniform> op: Params;\n")
    }

    /// Whether it multiplies on matrix units. Such a kernel stays within its operands by itself, so that no index is
    /// checked.
    pub(super) fn on_matrix_units(&self) -> bool {
        matches!(
            self.role,
            Role::Conv { product: Product::Matrix(_), .. }
                | Role::Attention(Attend::Matrix(_))
                | Role::WindowAttention(Attend::Matrix(_))
        )
    }

    /// Whether it converts to or from f16.
    pub(super) fn converts(&self) -> bool {
        self.dtype == DType::F16 || self.input_dtype() == DType::F16
    }

    /// Format of the input, which may be another than that of all other operands.
    fn input_dtype(&self) -> DType {
        match self.role {
            Role::Copy { from } | Role::TokenNorm { from, .. } | Role::AddGated { from } => from,
            _ => self.dtype,
        }
    }

    fn prologue(&self) -> bool {
        match self.role {
            Role::Conv { prologue, .. } | Role::After { prologue } => prologue,
            role => role == Role::Normalize,
        }
    }

    /// The operand to which it stores single 16-bit values, which share words with others.
    pub(super) fn merged(&self) -> Option<Operand> {
        let (whole, to) = match self.role {
            Role::Conv { vec_out, .. } => (vec_out, Operand::Output),
            Role::After { .. } => (self.vec_in, Operand::Carry),
            Role::Combine | Role::Tally { .. } => (true, Operand::Output),
            _ => (self.vec_in, Operand::Output),
        };
        (self.dtype != DType::F32 && !whole).then_some(to)
    }

    /// Its text. With `native` the device converts to and from f16, as the integer arithmetic of `formats.wgsl` does.
    pub(super) fn source(&self, reach: Reach, native: bool) -> String {
        let operands = self.operands();
        let mut text = format!("{INTERMEDIATE}{}", self.parameters());
        text += &declare(&operands, reach, self.merged());
        constants(&mut text, &[("SLOTS", SLOTS as usize)]);
        text += DONE;
        text += include_str!("../wgsl/formats.wgsl");
        for operand in operands.into_iter().filter(|o| *o != Operand::Marks) {
            let dtype = if operand == Operand::Input { self.input_dtype() } else { self.dtype };
            text += &values(dtype, native, operand);
        }
        let (shortcut, slopes, vec_out, edges) = match self.role {
            Role::Conv { shortcut, slopes, vec_out, edges, .. } => (shortcut, slopes, vec_out, edges),
            _ => (false, false, false, Edges::default()),
        };
        let flags = [
            ("VECIN", self.vec_in),
            ("VECOUT", vec_out),
            ("PROLOGUE", self.prologue()),
            ("SHORTCUT", shortcut),
            ("SLOPES", slopes),
            ("NARROW", edges.narrow),
            ("SCATTER", self.role == Role::Scatter),
            ("CHECKSUM", self.role == Role::Tally { checksum: true }),
        ];
        let body = match self.role {
            Role::Conv { product: Product::Threads(tile), .. } => threads::text(&mut text, tile),
            Role::Conv { product: Product::Matrix(blocks), edges, .. } => {
                matrix::text(&mut text, blocks, edges, self.prologue())
            }
            Role::Conv { product: Product::Winograd(w), .. } => winograd::text(&mut text, w),
            Role::After { .. } => with_source(TOTAL) + include_str!("../wgsl/after.wgsl"),
            Role::Combine => [TOTAL, include_str!("../wgsl/combine.wgsl")].concat(),
            Role::Normalize => [NORMALISED, include_str!("../wgsl/normalize.wgsl")].concat(),
            Role::Copy { .. } => include_str!("../wgsl/copy.wgsl").into(),
            Role::Shuffle => self.by_units(&mut text, include_str!("../wgsl/shuffle.wgsl")),
            Role::Attention(Attend::Threads { values }) => attention::by_threads(&mut text, values),
            Role::Attention(Attend::Matrix(heads)) => {
                attention::by_matrix(&mut text, heads, include_str!("../wgsl/attention_frame.wgsl"))
            }
            Role::TokenNorm { team, .. } => {
                constants(&mut text, &[("TEAM", team)]);
                include_str!("../wgsl/token_norm.wgsl").into()
            }
            Role::Activate => self.by_units(&mut text, include_str!("../wgsl/activate.wgsl")),
            Role::AddGated { .. } => self.by_units(&mut text, include_str!("../wgsl/add_gated.wgsl")),
            Role::Gather | Role::Scatter => self.by_units(&mut text, include_str!("../wgsl/window.wgsl")),
            Role::WindowAttention(Attend::Threads { values }) => tokens::window_attention(&mut text, values),
            Role::WindowAttention(Attend::Matrix(heads)) => {
                attention::by_matrix(&mut text, heads, include_str!("../wgsl/attention_window.wgsl"))
            }
            Role::Tally { .. } => {
                constants(&mut text, &[("SHARE", SHARE as usize)]);
                include_str!("../wgsl/tally.wgsl").into()
            }
        };
        text + &choose(&body, &flags)
    }

    /// A body that works on units of four values, or one.
    fn by_units(&self, text: &mut String, body: &str) -> String {
        constants(text, &[("LANES", if self.vec_in { 4 } else { 1 })]);
        body.into()
    }
}

/// wgpu translates texts with a constant that can be overridden when a pipeline is made, and only then listens to all that
/// it was told about checks: without it every loop counts, and workgroup memory is zeroed.
const INTERMEDIATE: &str = "override intermediate: u32 = 0u;\n";

/// Slots for what is counted of a batch: marks, and what travels: 12 MiB each way at once, and hundreds of small pieces.
pub(super) const SLOTS: u32 = 1024;
/// Workgroups of a batch, each of which leaves a mark: 4 MiB of them. A copy of 1 GiB has as many.
pub(super) const MARKS: u32 = 1 << 20;
/// Marks or words that one workgroup of a tally takes.
pub(super) const SHARE: u32 = 1 << 14;

/// How a workgroup says that it finished.
const DONE: &str = include_str!("../wgsl/done.wgsl");
/// Which part of a product a workgroup makes.
const JOB: &str = include_str!("../wgsl/job.wgsl");
const TOTAL: &str = include_str!("../wgsl/total.wgsl");
const NORMALISED: &str = include_str!("../wgsl/normalised.wgsl");

/// A kernel that reads the frames of a slice and those in front of it.
fn with_source(body: &str) -> String {
    format!("@IF PROLOGUE@\n{NORMALISED}@END@\n{}{body}", include_str!("../wgsl/source.wgsl"))
}

/// The text of a product, with placeholders where it multiplies.
fn product_source(body: &str) -> String {
    with_source(include_str!("../wgsl/product.wgsl")) + body
}

/// The text of a kernel on matrix units without the question whether a subgroup is needed, where every one is.
fn only_if_needed(text: String, every: bool) -> String {
    if every { text.replace("if (works) {", "{") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::device::MatrixUnits;
    use wgpu::naga;

    fn units() -> [MatrixUnits; 3] {
        let units = |(size, subgroup, fixed)| MatrixUnits { size, subgroup, fixed };
        [(8, 8, true), (16, 32, true), (16, 64, false)].map(units)
    }

    /// Every kernel with every option, on devices with matrices of 8 and of 16.
    fn all() -> Vec<(Kernel, Reach)> {
        let direct = Tile::WIDE.iter().chain(&Tile::NARROW).map(|t| Product::Threads(*t));
        let matrix = units().into_iter().flat_map(Blocks::variants);
        let products: Vec<Product> = direct
            .chain(matrix.map(Product::Matrix))
            .chain(Winograd::VARIANTS.map(Product::Winograd))
            .collect();
        let mut kernels = Vec::new();
        for (n, dtype) in [DType::F32, DType::F16, DType::Bf16].into_iter().enumerate() {
            for (vec_in, flag) in [(true, true), (true, false), (false, true), (false, false)] {
                let mut add = |role| kernels.push(Kernel { role, dtype, vec_in });
                for product in &products {
                    let fits = match product {
                        Product::Threads(_) => true,
                        Product::Matrix(_) => dtype == DType::F16 && flag && vec_in,
                        Product::Winograd(_) => dtype == DType::F32,
                    };
                    if fits {
                        let (prologue, shortcut, slopes) = (flag, flag != vec_in, flag == vec_in);
                        let edges = Edges { padded: shortcut, ragged: n == 0, narrow: shortcut };
                        let (product, vec_out) = (*product, flag);
                        add(Role::Conv { product, prologue, shortcut, slopes, vec_out, edges });
                    }
                }
                add(Role::After { prologue: flag });
                add(Role::Normalize);
                add(Role::Shuffle);
                let from = [DType::F32, DType::F16, DType::Bf16][(n + usize::from(flag)) % 3];
                add(Role::Copy { from });
                let width = if flag { 512 } else { 40 };
                add(Role::Attention(Attend::Threads { values: attention_values(width) }));
                for heads in units().into_iter().filter_map(|u| Heads::new(if flag { 128 } else { width }, u))
                {
                    if dtype == DType::F16 && vec_in {
                        add(Role::Attention(Attend::Matrix(heads)));
                        add(Role::WindowAttention(Attend::Matrix(heads)));
                    }
                }
                add(Role::TokenNorm { from, team: norm_team(if flag { 2560 } else { 128 }) });
                add(Role::Activate);
                add(Role::AddGated { from });
                add(Role::Gather);
                add(Role::Scatter);
                add(Role::WindowAttention(Attend::Threads {
                    values: window_values(if flag { 128 } else { 40 }),
                }));
            }
        }
        for role in [Role::Combine, Role::Tally { checksum: false }, Role::Tally { checksum: true }] {
            kernels.push(Kernel { role, dtype: DType::F32, vec_in: true });
        }
        let reach = |k: &Kernel, n: u8| {
            let mut bindings = [0; Operand::COUNT];
            k.operands().into_iter().for_each(|o| bindings[o as usize] = n);
            Reach { bindings, shift: if n > 1 { 20 } else { 0 } }
        };
        kernels.iter().enumerate().map(|(i, k)| (*k, reach(k, if i % 5 == 4 { 3 } else { 1 }))).collect()
    }

    fn spirv(source: &str) -> Vec<u32> {
        use naga::back::spv;
        use naga::front::wgsl;
        use naga::valid::{Capabilities, ValidationFlags, Validator};
        let options = wgsl::Options { parse_doc_comments: false, capabilities: Capabilities::all() };
        let module = wgsl::Frontend::new_with_options(options)
            .parse(source)
            .unwrap_or_else(|e| panic!("{}", e.emit_to_string(source)));
        let info = Validator::new(ValidationFlags::all(), Capabilities::all())
            .validate(&module)
            .unwrap_or_else(|e| panic!("{}", e.emit_to_string(source)));
        let options = spv::Options { lang_version: (1, 6), ..Default::default() };
        spv::write_vec(&module, &info, &options, None).unwrap()
    }

    /// naga decorates arrays in workgroup memory with a stride, which newer rules forbid
    /// (<https://github.com/gfx-rs/wgpu/issues/7696>). Drivers accept it; spirv-val would stop at it.
    fn without_strides(words: &[u32]) -> Vec<u32> {
        let [variable, pointer, decorate, stride, workgroup] = [59, 32, 71, 6, 4];
        let mut all: Vec<&[u32]> = Vec::new();
        let mut rest = &words[5..];
        while let Some(first) = rest.first() {
            let (one, more) = rest.split_at((first >> 16) as usize);
            all.push(one);
            rest = more;
        }
        let op = |i: &[u32]| i[0] & 0xffff;
        let shared = all.iter().filter(|i| op(i) == variable && i[3] == workgroup).map(|i| i[1]);
        let pointers: Vec<u32> = shared.collect();
        let pointed = |i: &&&[u32]| op(i) == pointer && pointers.contains(&i[1]);
        let arrays: Vec<u32> = all.iter().filter(pointed).map(|i| i[3]).collect();
        let strides = |i: &[u32]| op(i) == decorate && i[2] == stride && arrays.contains(&i[1]);
        let kept = all.iter().filter(|i| !strides(i)).flat_map(|i| i.iter());
        words[..5].iter().chain(kept).copied().collect()
    }

    /// Kernels that this machine cannot run are at least valid: matrices of 16, and subgroups of 32 and 64.
    #[test]
    fn every_kernel_is_valid_spirv() {
        let tool = std::env::var("SPIRV_VAL").unwrap_or_else(|_| "spirv-val".into());
        let mut command = tool.split(' ');
        let program = command.next().unwrap_or_default();
        let arguments: Vec<&str> = command.collect();
        let version = std::process::Command::new(program).args(&arguments).arg("--version").output();
        let found = version.is_ok_and(|o| o.status.success());
        let all = all();
        for (i, (kernel, reach)) in all.iter().enumerate() {
            let words = without_strides(&spirv(&kernel.source(*reach, i % 2 == 0)));
            let matrix = kernel.on_matrix_units();
            if !found || !(matrix || i % 7 == 0) {
                continue;
            }
            let file = std::env::temp_dir().join(format!("remaster-kernel-{}-{i}.spv", std::process::id()));
            std::fs::write(&file, words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
            let out = std::process::Command::new(program)
                .args(&arguments)
                .args(["--target-env", "vulkan1.3"])
                .arg(&file)
                .output()
                .unwrap();
            std::fs::remove_file(&file).unwrap();
            let said =
                String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
            assert!(out.status.success(), "{kernel:?}: {said}");
        }
        println!("{} kernels", all.len());
        if !found {
            remaster_testkit::no_part("spirv-val", "spirv-val on the kernels", "it was not found");
        }
    }
}
