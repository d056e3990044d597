//! Products on matrix units: subgroups multiply f16 matrices of the size that the device reports, with sums in f32.
//! Results differ from those of the other kernels only by the order inside a sum.

use std::fmt::Write;

use super::{JOB, constants, each, only_if_needed, product_source};
use crate::gpu::device::MatrixUnits;

/// Sizes of a product on matrix units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gpu) struct Blocks {
    /// Matrices of 8 or 16 rows and columns. If the driver makes smaller subgroups, there are more than needed, and the
    /// extra ones only help to load. Where every subgroup has the same threads, none is extra: on NVIDIA, NAK then plans up
    /// to a third less cycles for a step.
    pub(in crate::gpu) units: MatrixUnits,
    /// Matrices of a subgroup's sums, down and across.
    pub(in crate::gpu) down: usize,
    pub(in crate::gpu) across: usize,
    /// Subgroups, down and across.
    pub(in crate::gpu) rows: usize,
    pub(in crate::gpu) columns: usize,
    /// Matrices of a step along the input channels.
    pub(in crate::gpu) deep: usize,
}

impl Blocks {
    /// Variants for a device: four subgroups with two by two matrices of sums each, four with four by four, and eight with
    /// two by four.
    pub(in crate::gpu) fn variants(units: MatrixUnits) -> [Blocks; 3] {
        let blocks =
            |[down, across, rows]: [usize; 3]| Blocks { units, down, across, rows, columns: 2, deep: 2 };
        [[2, 2, 2], [4, 4, 2], [2, 4, 4]].map(blocks)
    }

    pub(in crate::gpu) fn threads(&self) -> usize {
        self.rows * self.columns * self.units.subgroup
    }

    /// Pixels, output channels, input channels of a step.
    pub(in crate::gpu) fn tile(&self) -> [usize; 3] {
        let Blocks { units: MatrixUnits { size, .. }, down, across, rows, columns, deep } = *self;
        [rows * down * size, columns * across * size, deep * size]
    }

    /// Quads of a row in workgroup memory: those of a step, and two more, so that rows start in different banks.
    fn line(&self) -> usize {
        self.deep * self.units.size / 4 + 2
    }

    /// Bytes of workgroup memory.
    pub(in crate::gpu) fn shared_bytes(&self) -> usize {
        let [bm, bn, _] = self.tile();
        8 * self.line() * (bm + bn) + 4 * self.rows * self.columns * self.units.size.pow(2)
    }
}

/// What a product on matrix units has to look out for; nothing in all other kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::gpu) struct Edges {
    /// There are taps beyond the borders, which are zero.
    pub(in crate::gpu) padded: bool,
    /// Input channels are not whole steps.
    pub(in crate::gpu) ragged: bool,
    /// Groups of a normalisation are not whole quads.
    pub(in crate::gpu) narrow: bool,
}

/// Values that are fetched at once: 16 bytes.
pub(in crate::gpu) const UNIT: usize = 8;

pub(super) fn text(head: &mut String, blocks: Blocks, edges: Edges, prologue: bool) -> String {
    let Blocks { units: MatrixUnits { size, fixed, .. }, down, across, rows, columns, deep } = blocks;
    let [bm, bn, bk] = blocks.tile();
    let (threads, units) = (blocks.threads(), bk / UNIT);
    enable_matrices(head);
    constants(
        head,
        &[
            ("BM", bm),
            ("BN", bn),
            ("BK", bk),
            ("THREADS", threads),
            ("SIZE", size),
            ("SUBGROUPS", rows * columns),
            ("COLUMNS", columns),
            ("DOWN", down * size),
            ("ACROSS", across * size),
            ("LINE", blocks.line()),
            ("UNITS", units),
        ],
    );
    let c = Step::matrix(size, "f32", "C");
    // Those of the weight are turned.
    let step = Step { size, deep, down, across, turned: true, indent: "            " };
    let zero = each(down * across, |n| format!("    var acc{n} = coopLoadT<{c}>(&sc[0], SIZE);"));
    let fetch =
        Fetch { edges, prologue, each_a: loads(bm, threads, units), each_b: loads(bn, threads, units) };
    // Each subgroup passes one matrix at a time through workgroup memory.
    let store = each(down * across, |n| {
        let (i, j) = (n / across * size, n % across * size);
        format!(
            "    workgroupBarrier();\n    if (works) {{ coopStoreT(acc{n}, &sc[mine], SIZE); }}\n    \
             workgroupBarrier();\n    if (works) {{\n        \
             for (var e = lane; e < SIZE * SIZE / 4u; e += wide) {{\n            \
             let o = mine + e * 4u;\n            \
             finish(t, first + row0 + {i}u + e / (SIZE / 4u), py, px, phase, frame.kind, \
             n0 + column0 + {j}u + e % (SIZE / 4u) * 4u, vec4<f32>(sc[o], sc[o + 1u], sc[o + 2u], sc[o + 3u]));\n        \
             }}\n    }}"
        )
    });
    let text = product_source(include_str!("../wgsl/matrix.wgsl"))
        .replace("@JOB@", JOB)
        .replace("@ZERO@", &zero)
        .replace("@PIXELS@", &fetch.pixels())
        .replace("@VARIABLES@", &fetch.variables())
        .replace("@TAP1@", &fetch.tap("1u"))
        .replace("@TAP@", &fetch.tap("(n + 1u)"))
        .replace("@FETCH0@", &fetch.units("0u"))
        .replace("@FETCH@", &fetch.units("c0"))
        .replace("@PUT@", &fetch.put("c0 - BK"))
        .replace("@PUT_LAST@", &fetch.put("(cin - 1u) / BK * BK"))
        .replace("@SHORT_PLACES@", &fetch.short_places())
        .replace("@SHORT_FETCH@", &fetch.short_units())
        .replace("@SHORT_PUT@", &fetch.short_put())
        .replace("@MULTIPLY@", &step.text(|n| format!("acc{n}")))
        .replace("@STORE@", &store);
    only_if_needed(text, fixed)
}

/// Rows that a thread fetches a unit of: each `threads / units`-th, and whether the last of them may be beyond the tile.
fn loads(rows: usize, threads: usize, units: usize) -> (usize, bool) {
    let step = threads / units;
    (rows.div_ceil(step), !rows.is_multiple_of(step))
}

/// Turns matrix units on in a kernel. They need control flow that is uniform within a subgroup, and it is. WGSL's
/// analysis cannot prove that, because the flow depends on values read from memory; this is the rule it reports.
pub(super) fn enable_matrices(head: &mut String) {
    let rule = "diagnostic(off, derivative_uniformity);";
    head.insert_str(0, &format!("enable f16;\nenable wgpu_cooperative_matrix;\n{rule}\n"));
}

/// One step of a product on matrix units, from blocks in workgroup memory.
pub(super) struct Step {
    /// Rows and columns of a matrix, and matrices of the step.
    pub(super) size: usize,
    pub(super) deep: usize,
    /// Matrices of a subgroup's sums, down and across.
    pub(super) down: usize,
    pub(super) across: usize,
    /// Whether the matrices in `sb` are turned.
    pub(super) turned: bool,
    pub(super) indent: &'static str,
}

impl Step {
    /// Its type of matrices.
    pub(super) fn matrix(size: usize, kind: &str, role: &str) -> String {
        format!("coop_mat{size}x{size}<{kind}, {role}>")
    }

    /// Adds the product of `sa` and `sb` to named sums.
    pub(super) fn text(&self, name: impl Fn(usize) -> String) -> String {
        let Step { size, deep, down, across, turned, indent } = *self;
        let [a, b] = ["A", "B"].map(|role| Step::matrix(size, "f16", role));
        let mut text = format!("{indent}if (works) {{");
        for k in 0..deep {
            let quad = k * size / 4;
            for i in 0..down {
                let at = format!("(row0 + {}u) * LINE + {quad}u", i * size);
                let _ = write!(text, "\n{indent}let a{k}_{i} = coopLoadT<{a}>(&sa[{at}], LINE);");
            }
            for j in 0..across {
                let (load, at) = match turned {
                    true => ("coopLoad", format!("(column0 + {}u) * LINE + {quad}u", j * size)),
                    false => ("coopLoadT", format!("{}u * LINE + (column0 + {}u) / 4u", k * size, j * size)),
                };
                let _ = write!(text, "\n{indent}let b{k}_{j} = {load}<{b}>(&sb[{at}], LINE);");
            }
            for n in 0..down * across {
                let (i, j, sum) = (n / across, n % across, name(n));
                let _ = write!(text, "\n{indent}{sum} = coopMultiplyAdd(a{k}_{i}, b{k}_{j}, {sum});");
            }
        }
        text + &format!("\n{indent}}}")
    }
}

/// How a thread fetches its units and puts them into workgroup memory.
struct Fetch {
    edges: Edges,
    prologue: bool,
    /// Units of pixels and of output channels.
    each_a: (usize, bool),
    each_b: (usize, bool),
}

impl Fetch {
    /// The pixels and output channels of this thread.
    fn pixels(&self) -> String {
        // Without a border, every cell is a pixel of the output.
        let is_output = match self.edges.padded {
            true => "oy@ >= op.output_row0 && oy@ < op.output_end",
            false => "true",
        };
        let pixels = each(self.each_a.0, |l| {
            format!(
                "    let p{l} = min(first + own + {l}u * (THREADS / UNITS), op.cells - 1u);\n    \
                 let cy{l} = op.cell_row0 + p{l} / op.grid_w;\n    let cx{l} = p{l} % op.grid_w;\n    \
                 let oy{l} = cy{l} * factor + py;\n    let ok{l} = {};",
                is_output.replace('@', &l.to_string())
            )
        });
        let channels = each(self.each_b.0, |l| {
            format!("    let col{l} = min(n0 + own + {l}u * (THREADS / UNITS), op.cout - 1u);")
        });
        format!("{pixels}\n{channels}")
    }

    fn variables(&self) -> String {
        let a = each(self.each_a.0, |l| {
            format!("    var a{l}: vec4<u32>;\n    var u{l} = 0u;\n    var in{l} = true;")
        });
        let b = each(self.each_b.0, |l| format!("    var b{l}: vec4<u32>;\n    var w{l} = 0u;"));
        format!("{a}\n{b}")
    }

    /// Where the units of a tap are.
    fn tap(&self, number: &str) -> String {
        let a = each(self.each_a.0, |l| {
            let inside = match self.edges.padded {
                true => format!("in{l} = ok{l} && y < op.h_in && x < op.w_in;"),
                false => String::new(),
            };
            format!(
                "    {{ let y = cy{l} * op.stride_y + dy - op.pad_top; let x = cx{l} * op.stride_x + dx - op.pad_left;\n      \
                 {inside}\n      \
                 u{l} = (s.start + select(0u, ((y - s.row0) * op.w_in + x) * cin, in{l})) / 8u; }}"
            )
        });
        let b = each(self.each_b.0, |l| format!("    w{l} = (matrix + col{l}) * (cin / 8u);"));
        format!(
            "    {{\n    let tap = word_weight((list + {number}) >> 2u, (list + {number}) & 3u);\n    \
             let s = source(frame.newest - (tap & 63u)); tail = s.tail; stats = s.stats;\n    \
             let dy = (tap >> 6u) & 63u; let dx = (tap >> 12u) & 63u; let matrix = (tap >> 18u) * op.cout;\n{a}\n{b}\n    }}"
        )
    }

    /// Fetches the units of the step from channel `c0` on.
    fn units(&self, c0: &str) -> String {
        let part = self.part(c0);
        let a = |from: &str| each(self.each_a.0, |l| format!("        a{l} = unit_{from}(u{l} + q);"));
        let b = each(self.each_b.0, |l| format!("        b{l} = unit_weight(w{l} + q);"));
        format!(
            "        {{ let q = {part};\n        if (tail) {{\n{}\n        }} else {{\n{}\n        }}\n{b}\n        }}",
            a("carried"),
            a("input")
        )
    }

    /// The unit of this thread in the step from `c0` on; the last one of the pixel if it would be behind that.
    fn part(&self, c0: &str) -> String {
        match self.edges.ragged {
            false => format!("({c0} + c8) / 8u"),
            true => format!("min({c0} + c8, cin - 8u) / 8u"),
        }
    }

    /// Puts the units of the step from channel `c0` on into workgroup memory.
    fn put(&self, c0: &str) -> String {
        let Edges { padded, ragged, .. } = self.edges;
        let mut text = format!("            {{ let c = {c0} + c8;\n");
        if ragged {
            text += "            let inside = c < cin;\n";
        }
        if self.prologue {
            let c = if ragged { "min(c, cin - 8u)" } else { "c" };
            let each = each(self.each_a.0, |l| format!("                a{l} = prepared(a{l}, low, high);"));
            let _ = writeln!(
                text,
                "            if (!tail) {{\n                let low = norm_of({c}, stats); let high = norm_of({c} + 4u, stats);\n{each}\n            }}"
            );
        }
        let a = |l: usize| match (padded, ragged) {
            (true, false) => format!("select(vec4<u32>(), a{l}, in{l})"),
            (true, true) => format!("select(vec4<u32>(), a{l}, in{l} && inside)"),
            (false, false) => format!("a{l}"),
            (false, true) => format!("select(vec4<u32>(), a{l}, inside)"),
        };
        let b = |l: usize| match ragged {
            false => format!("b{l}"),
            true => format!("select(vec4<u32>(), b{l}, inside)"),
        };
        text + &self.stores(a, b) + "\n            }"
    }

    fn stores(&self, a: impl Fn(usize) -> String, b: impl Fn(usize) -> String) -> String {
        let store = |memory: &str,
                     rows: &str,
                     (n, beyond): (usize, bool),
                     value: &dyn Fn(usize) -> String| {
            each(n, |l| {
                let row = format!("own + {l}u * (THREADS / UNITS)");
                let guard = if beyond { format!("if ({row} < {rows}) ") } else { String::new() };
                format!(
                    "            {guard}{{ let u = {}; let o = ({row}) * LINE + 2u * part; {memory}[o] = halves(u.xy); \
                     {memory}[o + 1u] = halves(u.zw); }}",
                    value(l)
                )
            })
        };
        format!("{}\n{}", store("sa", "BM", self.each_a, &a), store("sb", "BN", self.each_b, &b))
    }

    /// Where the units of the shortcut are.
    fn short_places(&self) -> String {
        let a = each(self.each_a.0, |l| {
            format!(
                "        let v{l} = (op.shortcut_skip + t * op.shortcut_frame + select(0u, ((oy{l} - op.output_row0) * \
                 op.grid_w + cx{l}) * deep, ok{l})) / 8u;"
            )
        });
        let b = each(self.each_b.0, |l| format!("        let x{l} = col{l} * (deep / 8u);"));
        format!("{a}\n{b}")
    }

    fn short_units(&self) -> String {
        let a = each(self.each_a.0, |l| format!("            a{l} = unit_shortcut(v{l} + q);"));
        let b = each(self.each_b.0, |l| format!("            b{l} = unit_shortcut_weight(x{l} + q);"));
        // Its channels need not be whole steps where those of the input are.
        format!("            {{ let q = min(c0 + c8, deep - 8u) / 8u;\n{a}\n{b}\n            }}")
    }

    fn short_put(&self) -> String {
        let masked =
            |name: &'static str| move |l: usize| format!("select(vec4<u32>(), {name}{l}, c0 + c8 < deep)");
        self.stores(masked("a"), masked("b"))
    }
}
