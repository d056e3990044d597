//! Softmax attention, by threads or on matrix units.

use super::matrix::{Step, enable_matrices};
use super::{constants, each, only_if_needed};
use crate::gpu::device::MatrixUnits;

/// How attention multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gpu) enum Attend {
    /// Threads with sums of their own, and up to so many output columns of a workgroup.
    Threads { values: usize },
    /// Matrix units.
    Matrix(Heads),
}

/// Queries of a workgroup of attention by threads, and its threads.
const QUERIES: usize = 16;
const THREADS: usize = 256;

/// Output columns of a workgroup of attention by threads: at most 512, a whole number of quads per thread.
pub(in crate::gpu) fn attention_values(width: usize) -> usize {
    width.min(512).next_multiple_of(4 * THREADS / QUERIES)
}

pub(super) fn by_threads(text: &mut String, values: usize) -> String {
    constants(text, &[("QUERIES", QUERIES), ("THREADS", THREADS), ("VALUES", values)]);
    let quads = values / 4 / (THREADS / QUERIES);
    let tokens =
        ["queries", "keys", "values"].map(|o| include_str!("../wgsl/token.wgsl").replace("@O@", o)).concat();
    (tokens + include_str!("../wgsl/attention.wgsl"))
        .replace("@ACC@", &each(quads, |j| format!("    var r{j} = vec4<f32>(0.0);")))
        .replace("@FADE@", &each(quads, |j| format!("        r{j} *= fade;")))
        .replace(
            "@INNER@",
            &each(quads, |j| {
                format!(
                    "            r{j} = fma(vec4<f32>(w), token4_values(o, column + (lane + {j}u * PER) * 4u, true), r{j});"
                )
            }),
        )
        .replace(
            "@STORE@",
            &each(quads, |j| format!("    give(o, column + (lane + {j}u * PER) * 4u, r{j} / sum);")),
        )
}

impl Attend {
    /// Queries of a workgroup in a frame or, `windowed`, in a window.
    pub(in crate::gpu) fn queries(&self, windowed: bool) -> usize {
        match self {
            Attend::Threads { .. } if windowed => super::tokens::WINDOW_QUERIES,
            Attend::Threads { .. } => QUERIES,
            Attend::Matrix(heads) => heads.queries(),
        }
    }

    /// Most output columns of a workgroup.
    pub(in crate::gpu) fn values(&self) -> usize {
        match self {
            Attend::Threads { values } => *values,
            Attend::Matrix(heads) => heads.values(),
        }
    }
}

/// Most chunks of output columns of a workgroup: those of a head of 512 on matrices of 16.
const MOST_CHUNKS: usize = 8;

/// Sizes of attention on matrix units. Queries, keys and output columns come in blocks of four matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gpu) struct Heads {
    /// Matrices of 8 or 16 rows and columns.
    units: MatrixUnits,
    /// Blocks of output columns of a workgroup.
    chunks: usize,
    /// Subgroups across a block; two are down.
    columns: usize,
    /// The head is not a whole number of blocks wide.
    ragged: bool,
}

/// Matrices of a block, and subgroups and matrices of a subgroup down.
const SIDE: usize = 4;
const ROWS: usize = 2;
const DOWN: usize = SIDE / ROWS;

impl Heads {
    /// For heads of this width. `None` if units of eight channels would straddle two of them.
    pub(in crate::gpu) fn new(width: usize, units: MatrixUnits) -> Option<Self> {
        let side = SIDE * units.size;
        let chunks = width.div_ceil(side).min(MOST_CHUNKS);
        // The sums of wide heads are many registers: eight subgroups share them.
        let columns = if chunks > 2 { 4 } else { 2 };
        let threads = ROWS * columns * units.subgroup;
        let fits = width.is_multiple_of(8) && width > 0 && threads.is_multiple_of(side);
        let ragged = !width.is_multiple_of(side);
        fits.then_some(Heads { units, chunks, columns, ragged })
    }

    /// Queries of a workgroup.
    pub(in crate::gpu) fn queries(&self) -> usize {
        SIDE * self.units.size
    }

    /// Output columns of a workgroup.
    pub(in crate::gpu) fn values(&self) -> usize {
        self.chunks * self.queries()
    }

    /// Threads of a workgroup.
    pub(in crate::gpu) fn threads(&self) -> usize {
        ROWS * self.columns * self.units.subgroup
    }
}

impl std::fmt::Display for Heads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let side = self.queries();
        write!(f, "matrix {side}x{side} of {} by {}", self.units.size, ROWS * self.columns)
    }
}

/// `place` says where queries, keys and values are.
pub(super) fn by_matrix(head: &mut String, heads: Heads, place: &str) -> String {
    let Heads { units: MatrixUnits { size, fixed, .. }, chunks, columns, ragged } = heads;
    let (side, across) = (heads.queries(), SIDE / columns);
    enable_matrices(head);
    constants(
        head,
        &[
            ("SIDE", side),
            ("CHUNKS", chunks),
            ("THREADS", heads.threads()),
            ("SUBGROUPS", ROWS * columns),
            ("COLUMNS", columns),
            ("DOWN", DOWN * size),
            ("ACROSS", across * size),
        ],
    );
    let product = |turned| Step { size, deep: SIDE, down: DOWN, across, turned, indent: "                " };
    let mine = DOWN * across;
    let sums = |line: &dyn Fn(usize) -> String| each(mine, line);
    let quad = |n: usize| (n / across * size, n % across * size / 4);
    let save = |name: String, n: usize| {
        let (i, j) = quad(n);
        format!("                coopStoreT({name}, &sc[(row0 + {i}u) * WIDE + column0 / 4u + {j}u], WIDE);")
    };
    let step = heads.threads() / (side / 8);
    let load = |memory: &str, unit: &dyn Fn(&str) -> String| {
        each(side.div_ceil(step), |l| {
            let n = format!("(own + {}u)", l * step);
            let guard = if side.is_multiple_of(step) { String::new() } else { format!("if ({n} < SIDE) ") };
            format!(
                "                {guard}{{ let u = {}; let o = {n} * LINE + part / 4u; {memory}[o] = halves(u.xy); \
                 {memory}[o + 1u] = halves(u.zw); }}",
                unit(&n)
            )
        })
    };
    // Channels beyond the head are zero.
    let masked = |x: &str, unit: &dyn Fn(&str) -> String| match ragged {
        false => unit(x),
        true => format!(
            "select(vec4<u32>(), {}, {x} < op.head_width)",
            unit(&format!("min({x}, op.head_width - 8u)"))
        ),
    };
    let score_units = [
        load("sa", &|n| masked("(d + part)", &|x| format!("query_unit(place, {n}, {x})"))),
        load("sb", &|n| masked("(d + part)", &|x| format!("key_unit(place, start + {n}, {x})"))),
    ];
    let values = each(chunks, |c| {
        let from = format!("(column + {}u + part)", c * side);
        let units = load("sb", &|n| masked(&from, &|x| format!("value_unit(place, start + {n}, {x})")));
        let product = product(false).text(|n| format!("r{c}_{n}"));
        format!(
            "                workgroupBarrier();\n{units}\n                workgroupBarrier();\n{product}"
        )
    });
    let store = each(chunks, |c| {
        let save = sums(&|n| save(format!("r{c}_{n}"), n));
        format!(
            "    workgroupBarrier();\n    if (works) {{\n{save}\n    }}\n    workgroupBarrier();\n    \
             for (var e = lane; e < SIDE / 4u; e += PER) {{\n        \
             give(place, mine, column + {}u + e * 4u, sc[mine * WIDE + e] / sum);\n    }}",
            c * side
        )
    });
    let zero = sums(&|n| format!("            var s{n} = zero;"));
    let all = each(chunks, |c| sums(&|n| format!("    var r{c}_{n} = zero;")));
    let text = (place.to_owned() + include_str!("../wgsl/attention_matrix.wgsl"))
        .replace("@C@", &Step::matrix(size, "f32", "C"))
        .replace("@SUMS@", &all)
        .replace("@ZERO@", &zero)
        .replace("@LOAD_SCORES@", &score_units.join("\n"))
        .replace("@SCORES@", &product(true).text(|n| format!("s{n}")))
        .replace("@STORE_SCORES@", &sums(&|n| save(format!("s{n}"), n)))
        .replace("@VALUES@", &values)
        .replace("@STORE@", &store);
    only_if_needed(text, fixed)
}
