//! Kernels as text: WGSL with the sizes of a variant written in, so that a variant is data.

mod conv;
mod matrix;
mod threads;
mod winograd;

use std::fmt::Write;

pub(super) use matrix::Blocks;
pub(super) use threads::Tile;
pub(super) use winograd::Winograd;

use super::params::{NAMES, WORDS};
use super::windows::{Operand, Reach, declare};
use crate::dtype::DType;

/// What multiplies in a convolution.
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
    /// Pixels (of transformed tiles: tiles) and output channels of a workgroup, and input channels of a step.
    pub(super) fn tile(&self) -> [usize; 3] {
        match self {
            Product::Threads(tile) => [tile.bm, tile.bn, tile.bk],
            Product::Matrix(blocks) => blocks.tile(),
            Product::Winograd(w) => [Winograd::TILES, Winograd::COLUMNS, w.bk],
        }
    }

    pub(super) fn threads(&self) -> usize {
        match self {
            Product::Threads(tile) => tile.threads(),
            Product::Matrix(blocks) => blocks.threads(),
            Product::Winograd(_) => Winograd::THREADS,
        }
    }

    /// Bytes of workgroup memory.
    pub(super) fn shared_bytes(&self) -> usize {
        match self {
            Product::Threads(tile) => tile.shared_bytes(),
            Product::Matrix(blocks) => blocks.shared_bytes(),
            Product::Winograd(w) => w.shared_bytes(),
        }
    }

    /// Sums that a thread holds: the registers it needs at the least.
    pub(super) fn sums(&self) -> usize {
        match self {
            Product::Threads(tile) => tile.tm * tile.tn,
            Product::Winograd(_) => Winograd::SUMS,
            Product::Matrix(b) => b.down * b.across * b.size * b.size / b.subgroup.max(1),
        }
    }
}

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Conv { product: Product, prologue: bool, shortcut: bool, vec_out: bool },
    After { prologue: bool },
    Combine,
    Normalize,
    Copy { from: DType },
    Shuffle,
    Attention { values: usize },
}

/// A kernel: all that its text depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kernel {
    pub(super) role: Role,
    pub(super) dtype: DType,
    /// Four channels are read at a time.
    pub(super) vec_in: bool,
}

/// Queries of a workgroup of attention, and its threads.
pub(super) const QUERIES: usize = 16;
pub(super) const ATTENTION_THREADS: usize = 256;

/// Columns of the result that a workgroup of attention makes: at most 512, a whole number of quads a thread.
pub(super) fn attention_values(width: usize) -> usize {
    width.min(512).next_multiple_of(4 * ATTENTION_THREADS / QUERIES)
}

impl Kernel {
    /// What it is given, in the order of its bindings.
    pub(super) fn operands(&self) -> Vec<Operand> {
        use Operand as O;
        let mut operands = match self.role {
            Role::Conv { .. } => vec![O::X, O::C, O::Y, O::W],
            Role::After { .. } => vec![O::X, O::C, O::Y, O::K, O::U],
            Role::Normalize => vec![O::X, O::C, O::Y],
            Role::Combine | Role::Copy { .. } | Role::Shuffle => vec![O::X, O::Y],
            Role::Attention { .. } => vec![O::X, O::C, O::S, O::Y],
        };
        if let Role::Conv { shortcut: true, .. } = self.role {
            operands.extend([O::S, O::V]);
        }
        if self.prologue() {
            operands.extend([O::T, O::A]);
        }
        operands
    }

    fn prologue(&self) -> bool {
        match self.role {
            Role::Conv { prologue, .. } | Role::After { prologue } => prologue,
            role => role == Role::Normalize,
        }
    }

    /// What it stores single 16-bit values to, which share words with others.
    pub(super) fn merged(&self) -> Option<Operand> {
        let (whole, to) = match self.role {
            Role::Conv { vec_out, .. } => (vec_out, Operand::Y),
            Role::After { .. } => (self.vec_in, Operand::K),
            Role::Combine => (true, Operand::Y),
            _ => (self.vec_in, Operand::Y),
        };
        (self.dtype != DType::F32 && !whole).then_some(to)
    }

    pub(super) fn source(&self, reach: Reach) -> String {
        let operands = self.operands();
        let mut text = parameters();
        text += &declare(&operands, reach, self.merged());
        text += include_str!("../wgsl/formats.wgsl");
        for operand in operands {
            let dtype = match self.role {
                Role::Copy { from } if operand == Operand::X => from,
                _ => self.dtype,
            };
            text += &values(dtype, operand);
        }
        let (shortcut, vec_out) = match self.role {
            Role::Conv { shortcut, vec_out, .. } => (shortcut, vec_out),
            _ => (false, false),
        };
        let flags = [
            ("VECIN", self.vec_in),
            ("VECOUT", vec_out),
            ("PROLOGUE", self.prologue()),
            ("SHORTCUT", shortcut),
        ];
        let body = match self.role {
            Role::Conv { product: Product::Threads(tile), .. } => threads::text(&mut text, tile),
            Role::Conv { product: Product::Matrix(blocks), .. } => matrix::text(&mut text, blocks),
            Role::Conv { product: Product::Winograd(w), .. } => winograd::text(&mut text, w),
            Role::After { .. } => with_source(include_str!("../wgsl/after.wgsl")),
            Role::Combine => include_str!("../wgsl/combine.wgsl").into(),
            Role::Normalize => with_source(include_str!("../wgsl/normalize.wgsl")),
            Role::Copy { .. } => include_str!("../wgsl/copy.wgsl").into(),
            Role::Shuffle => {
                constants(&mut text, &[("LANES", if self.vec_in { 4 } else { 1 })]);
                include_str!("../wgsl/shuffle.wgsl").into()
            }
            Role::Attention { values } => attention(&mut text, values),
        };
        text + &choose(&body, &flags)
    }
}

fn with_source(body: &str) -> String {
    format!("{}{body}", include_str!("../wgsl/source.wgsl"))
}

/// The frame of a convolution, without what multiplies.
fn product_source() -> String {
    with_source(include_str!("../wgsl/product.wgsl")) + include_str!("../wgsl/conv.wgsl")
}

fn parameters() -> String {
    let mut text = format!("@group(0) @binding(0) var<uniform> params: array<vec4<u32>, {}>;\n", WORDS / 4);
    text += "fn P(i: u32) -> u32 { return params[i >> 2u][i & 3u]; }\n";
    for (i, name) in NAMES.iter().enumerate() {
        let _ = writeln!(text, "const {name}: u32 = {i}u;");
    }
    text
}

/// Reading and writing the values of an operand.
fn values(dtype: DType, operand: Operand) -> String {
    let (text, bits, value) = match dtype {
        DType::F32 => (include_str!("../wgsl/f32.wgsl"), "", ""),
        DType::F16 => (include_str!("../wgsl/half.wgsl"), "f16_bits", "f16_value(h)"),
        DType::Bf16 => (include_str!("../wgsl/half.wgsl"), "bf16_bits", "bitcast<f32>(h << 16u)"),
    };
    let text = [include_str!("../wgsl/values.wgsl"), text].concat();
    text.replace("@O@", &operand.letter().to_string()).replace("@BITS@", bits).replace("@VALUE@", value)
}

/// Keeps the lines whose flags hold: `@IF NAME@`, `@IF !NAME@`, `@ELSE@`, `@END@`.
fn choose(text: &str, flags: &[(&str, bool)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut stack: Vec<bool> = Vec::new();
    for line in text.lines() {
        let word = line.trim();
        if let Some(flag) = word.strip_prefix("@IF ").and_then(|w| w.strip_suffix('@')) {
            let (wanted, name) = flag.strip_prefix('!').map_or((true, flag), |n| (false, n));
            stack.push(flags.iter().any(|(n, on)| *n == name && *on) == wanted);
        } else if word == "@ELSE@" {
            if let Some(top) = stack.last_mut() {
                *top = !*top;
            }
        } else if word == "@END@" {
            stack.pop();
        } else if stack.iter().all(|on| *on) {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

fn constants(text: &mut String, values: &[(&str, usize)]) {
    for (name, value) in values {
        let _ = writeln!(text, "const {name}: u32 = {value}u;");
    }
}

/// `lines(i)` for all i below `n`.
fn each(n: usize, lines: impl Fn(usize) -> String) -> String {
    (0..n).map(lines).collect::<Vec<_>>().join("\n")
}

fn attention(text: &mut String, values: usize) -> String {
    constants(text, &[("QUERIES", QUERIES), ("THREADS", ATTENTION_THREADS), ("VALUES", values)]);
    let quads = values / 4 / (ATTENTION_THREADS / QUERIES);
    let tokens = ["x", "c", "s"].map(|o| include_str!("../wgsl/token.wgsl").replace("@O@", o)).concat();
    (tokens + include_str!("../wgsl/attention.wgsl"))
        .replace("@ACC@", &each(quads, |j| format!("    var r{j} = vec4<f32>(0.0);")))
        .replace("@FADE@", &each(quads, |j| format!("        r{j} *= fade;")))
        .replace(
            "@INNER@",
            &each(quads, |j| {
                format!(
                    "            r{j} = fma(vec4<f32>(w), token4_s(o, column + (lane + {j}u * PER) * 4u, true), r{j});"
                )
            }),
        )
        .replace(
            "@STORE@",
            &each(quads, |j| format!("    give(o, column + (lane + {j}u * PER) * 4u, r{j} / sum);")),
        )
}
