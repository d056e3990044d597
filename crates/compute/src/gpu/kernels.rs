//! Kernels as text: WGSL with the sizes of a variant written in, so that a variant is data. The sums of a
//! thread are spelled out one by one: how a driver unrolls loops then decides nothing.

use std::fmt::Write;

use super::params::{NAMES, WORDS};
use crate::dtype::DType;

/// Sizes of the matrix product inside a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tile {
    /// Pixels and output channels of a workgroup.
    pub(super) bm: usize,
    pub(super) bn: usize,
    /// Input channels of a step.
    pub(super) bk: usize,
    /// Pixels and output channels of a thread.
    pub(super) tm: usize,
    pub(super) tn: usize,
}

impl Tile {
    /// For most layers; the first is used where nothing was tuned.
    pub(super) const WIDE: [Tile; 4] = [
        Tile { bm: 128, bn: 64, bk: 8, tm: 8, tn: 8 },
        Tile { bm: 64, bn: 64, bk: 16, tm: 8, tn: 8 },
        Tile { bm: 64, bn: 64, bk: 16, tm: 4, tn: 4 },
        Tile { bm: 128, bn: 128, bk: 8, tm: 8, tn: 8 },
    ];
    /// For layers of few output channels, such as the last one with its three colours.
    pub(super) const NARROW: [Tile; 2] =
        [Tile { bm: 128, bn: 16, bk: 16, tm: 8, tn: 4 }, Tile { bm: 64, bn: 16, bk: 16, tm: 2, tn: 4 }];

    /// Depends on the layer and the device alone. Whatever the tile, a value is the sum of the same products
    /// in the same order.
    pub(super) fn of(cout: usize, tiles: [u8; 2]) -> Self {
        let choose = |list: &[Tile], i: u8| list[usize::from(i).min(list.len() - 1)];
        if cout > 16 { choose(&Tile::WIDE, tiles[0]) } else { choose(&Tile::NARROW, tiles[1]) }
    }

    pub(super) fn threads(&self) -> usize {
        self.bm / self.tm * (self.bn / self.tn)
    }

    /// Bytes of workgroup memory.
    pub(super) fn shared_bytes(&self) -> usize {
        16 * (self.bm * (self.bk / 4 + 1) + self.bk * self.bn / 4)
    }
}

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Conv { tile: Tile, prologue: bool, vec_out: bool },
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

/// How the arena is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Binding {
    pub(super) chunks: usize,
    /// log2 of the 16-byte units of a chunk.
    pub(super) shift: u32,
}

impl Kernel {
    /// Whether it stores single 16-bit values, which share words with others.
    pub(super) fn merges(&self) -> bool {
        let whole = match self.role {
            Role::Conv { vec_out, .. } => vec_out,
            Role::Combine => true,
            _ => self.vec_in,
        };
        self.dtype != DType::F32 && !whole
    }

    pub(super) fn source(&self, binding: Binding) -> String {
        let mut text = memory(binding, self.merges());
        text += include_str!("wgsl/formats.wgsl");
        text += &format_functions(self.dtype, "");
        let prologue = match self.role {
            Role::Conv { prologue, .. } | Role::After { prologue } => prologue,
            Role::Normalize => true,
            _ => false,
        };
        let vec_out = matches!(self.role, Role::Conv { vec_out: true, .. });
        let flags = [("VECIN", self.vec_in), ("VECOUT", vec_out), ("PROLOGUE", prologue)];
        let body = match self.role {
            Role::Conv { tile, .. } => conv(&mut text, tile),
            Role::After { .. } => with_source(include_str!("wgsl/after.wgsl")),
            Role::Combine => include_str!("wgsl/combine.wgsl").into(),
            Role::Normalize => with_source(include_str!("wgsl/normalize.wgsl")),
            Role::Copy { from } => {
                text += &format_functions(from, "_from");
                include_str!("wgsl/copy.wgsl").into()
            }
            Role::Shuffle => {
                let _ = writeln!(text, "const LANES: u32 = {}u;", if self.vec_in { 4 } else { 1 });
                include_str!("wgsl/shuffle.wgsl").into()
            }
            Role::Attention { values } => attention(&mut text, values),
        };
        text + &choose(&body, &flags)
    }
}

fn with_source(body: &str) -> String {
    format!("{}{body}", include_str!("wgsl/source.wgsl"))
}

/// Parameters, the arena, and how to reach a 16-byte unit or a word of it.
fn memory(binding: Binding, merges: bool) -> String {
    let Binding { chunks, shift } = binding;
    let mut text = format!("@group(0) @binding(0) var<uniform> params: array<vec4<u32>, {}>;\n", WORDS / 4);
    for i in 0..chunks {
        let _ =
            writeln!(text, "@group(0) @binding({}) var<storage, read_write> m{i}: array<vec4<u32>>;", i + 1);
        if merges {
            let b = i + 1 + chunks;
            let _ =
                writeln!(text, "@group(0) @binding({b}) var<storage, read_write> a{i}: array<atomic<u32>>;");
        }
    }
    text += "fn P(i: u32) -> u32 { return params[i >> 2u][i & 3u]; }\n";
    for (i, name) in NAMES.iter().enumerate() {
        let _ = writeln!(text, "const {name}: u32 = {i}u;");
    }
    let mask = (1u64 << shift) - 1;
    // One chunk is reached as it is; of several, the upper bits of the address say which.
    let mut function = |head: &str, body: &dyn Fn(usize, &str) -> String, value: &str| {
        let _ = writeln!(text, "{head} {{");
        if chunks == 1 {
            let _ = writeln!(text, "    {}", body(0, "q"));
        } else {
            let _ = writeln!(text, "    let r = q & {mask}u;\n    switch (q >> {shift}u) {{");
            for i in 1..chunks {
                let _ = writeln!(text, "        case {i}u: {{ {} }}", body(i, "r"));
            }
            let _ = writeln!(text, "        default: {{ {} }}\n    }}", body(0, "r"));
        }
        let _ = writeln!(text, "{value}}}");
    };
    function("fn unit(q: u32) -> vec4<u32>", &|i, q| format!("return m{i}[{q}];"), "");
    function("fn word(q: u32, s: u32) -> u32", &|i, q| format!("return m{i}[{q}][s];"), "");
    function("fn put_unit(q: u32, v: vec4<u32>)", &|i, q| format!("m{i}[{q}] = v;"), "");
    function("fn put_word(q: u32, s: u32, v: u32)", &|i, q| format!("m{i}[{q}][s] = v;"), "");
    let merge = |i: usize, q: &str| match merges {
        true => format!("atomicAnd(&a{i}[{q} * 4u + s], ~mask); atomicOr(&a{i}[{q} * 4u + s], bits);"),
        false => format!("m{i}[{q}][s] = (m{i}[{q}][s] & ~mask) | bits;"),
    };
    function("fn merge(q: u32, s: u32, mask: u32, bits: u32)", &merge, "");
    text
}

fn format_functions(dtype: DType, suffix: &str) -> String {
    let (text, bits, value) = match dtype {
        DType::F32 => (include_str!("wgsl/f32.wgsl"), "", ""),
        DType::F16 => (include_str!("wgsl/half.wgsl"), "f16_bits", "f16_value(h)"),
        DType::Bf16 => (include_str!("wgsl/half.wgsl"), "bf16_bits", "bitcast<f32>(h << 16u)"),
    };
    text.replace("@S@", suffix).replace("@BITS@", bits).replace("@VALUE@", value)
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

fn conv(text: &mut String, tile: Tile) -> String {
    let Tile { bm, bn, bk, tm, tn } = tile;
    let (threads, quads) = (tile.threads(), tn / 4);
    let values = [("BM", bm), ("BN", bn), ("BK", bk), ("TX", bn / tn), ("TY", bm / tm), ("THREADS", threads)];
    constants(text, &values);
    let (units_a, units_b) = (bm * bk / 4, bk * bn / 4);
    let loads_a = units_a.div_ceil(threads);
    let loads_b = units_b.div_ceil(threads);
    let acc = each(tm * quads, |n| format!("    var acc{n} = vec4<f32>(0.0);"));
    let pixels = each(loads_a, |l| {
        format!(
            "    let u{l} = tid + {l}u * THREADS;\n    let p{l} = first + u{l} / (BK / 4u);\n    \
             let cy{l} = P(CELL0) + p{l} / P(W_GRID);\n    let cx{l} = p{l} % P(W_GRID);\n    \
             let oy{l} = cy{l} * factor + py;\n    \
             let ok{l} = u{l} < {units_a}u && p{l} < P(CELLS) && oy{l} >= P(Y_ROW0) && oy{l} < P(Y_END);"
        )
    });
    let places = each(loads_a, |l| {
        format!(
            "        let y{l} = cy{l} * P(STRIDE_Y) + dy - P(BEFORE_Y);\n        \
             let x{l} = cx{l} * P(STRIDE_X) + dx - P(BEFORE_X);\n        \
             let in{l} = ok{l} && y{l} < P(H_IN) && x{l} < P(W_IN);\n        \
             let o{l} = s.start + ((y{l} - s.row0) * P(W_IN) + x{l}) * cin;"
        )
    });
    let short_places = each(loads_a, |l| {
        format!(
            "        let o{l} = P(S_SKIP) + t * P(S_FRAME) + ((oy{l} - P(Y_ROW0)) * P(W_GRID) + cx{l}) \
             * P(SHORT_CIN);"
        )
    });
    let load_a = |inside: &str, limit: &str, call: &str| {
        each(loads_a, |l| {
            let guard =
                if units_a.is_multiple_of(threads) { "true".into() } else { format!("u{l} < {units_a}u") };
            format!(
                "            {{ let c = c0 + u{l} % (BK / 4u) * 4u; var v = vec4<f32>(0.0);\n              \
                 if ({inside}{l} && c < {limit}) {{ v = {call}o{l}, c); }}\n              \
                 if ({guard}) {{ sa[u{l} / (BK / 4u) * ROW + u{l} % (BK / 4u)] = v; }} }}"
            )
        })
    };
    let load_b = |limit: &str, weight: &str, matrix: &str| {
        each(loads_b, |l| {
            let guard =
                if units_b.is_multiple_of(threads) { "true".into() } else { format!("i < {units_b}u") };
            format!(
                "            {{ let i = tid + {l}u * THREADS; let kk = c0 + i / (BN / 4u);\n              \
                 let n = n0 + i % (BN / 4u) * 4u; var v = vec4<f32>(0.0);\n              \
                 if (kk < {limit} && n < cout4) {{ v = ld4(P({weight}), ({matrix}kk) * cout4 + n); }}\n              \
                 if ({guard}) {{ sb[i] = v; }} }}"
            )
        })
    };
    let mut inner = each(4 * quads, |n| {
        format!(
            "                let b{n} = sb[(k * 4u + {}u) * (BN / 4u) + tx + {}u * TX];",
            n / quads,
            n % quads
        )
    });
    for i in 0..tm {
        let _ = write!(inner, "\n                let a{i} = sa[(ty + {i}u * TY) * ROW + k];");
        for (e, part) in ["x", "y", "z", "w"].iter().enumerate() {
            for j in 0..quads {
                let (n, b) = (i * quads + j, e * quads + j);
                let _ =
                    write!(inner, "\n                acc{n} = fma(vec4<f32>(a{i}.{part}), b{b}, acc{n});");
            }
        }
    }
    let store = each(tm * quads, |n| {
        let (i, j) = (n / quads, n % quads);
        format!(
            "    finish(t, first + ty + {i}u * TY, py, px, phase, frame.kind, n0 + (tx + {j}u * TX) * 4u, acc{n});"
        )
    });
    with_source(include_str!("wgsl/conv.wgsl"))
        .replace("@ACC@", &acc)
        .replace("@PIXELS@", &pixels)
        .replace("@PLACES@", &places)
        .replace("@SHORT_PLACES@", &short_places)
        .replace("@LOAD_A@", &load_a("in", "cin4", "input4(s, "))
        .replace("@SHORT_A@", &load_a("ok", "deep4", "short4("))
        .replace("@LOAD_B@", &load_b("cin4", "WEIGHT", "matrix + "))
        .replace("@SHORT_B@", &load_b("deep4", "SHORT_WEIGHT", ""))
        .replace("@INNER@", &inner)
        .replace("@STORE@", &store)
}

fn attention(text: &mut String, values: usize) -> String {
    constants(text, &[("QUERIES", QUERIES), ("THREADS", ATTENTION_THREADS), ("VALUES", values)]);
    let quads = values / 4 / (ATTENTION_THREADS / QUERIES);
    include_str!("wgsl/attention.wgsl")
        .replace("@ACC@", &each(quads, |j| format!("    var r{j} = vec4<f32>(0.0);")))
        .replace("@FADE@", &each(quads, |j| format!("        r{j} *= fade;")))
        .replace(
            "@INNER@",
            &each(quads, |j| {
                format!(
                    "            r{j} = fma(vec4<f32>(w), token4(P(S_BASE), o, column + (lane + {j}u * PER) * 4u, true), r{j});"
                )
            }),
        )
        .replace(
            "@STORE@",
            &each(quads, |j| format!("    give(o, column + (lane + {j}u * PER) * 4u, r{j} / sum);")),
        )
}
