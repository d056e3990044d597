//! Products in which each thread holds a few sums. The text is unrolled, so nothing depends on how a driver unrolls
//! loops.

use std::fmt::Write;

use super::{JOB, constants, each, product_source};

/// Sizes of the matrix product inside a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gpu) struct Tile {
    /// Pixels and output channels of a workgroup.
    pub(in crate::gpu) bm: usize,
    pub(in crate::gpu) bn: usize,
    /// Input channels of a step.
    pub(in crate::gpu) bk: usize,
    /// Pixels and output channels of a thread.
    pub(in crate::gpu) tm: usize,
    pub(in crate::gpu) tn: usize,
}

impl Tile {
    /// For most layers. The first is the default.
    pub(in crate::gpu) const WIDE: [Tile; 4] = [
        Tile { bm: 128, bn: 64, bk: 8, tm: 8, tn: 8 },
        Tile { bm: 64, bn: 64, bk: 16, tm: 8, tn: 8 },
        Tile { bm: 64, bn: 64, bk: 16, tm: 4, tn: 4 },
        Tile { bm: 128, bn: 128, bk: 8, tm: 8, tn: 8 },
    ];
    /// For layers with few output channels, such as the last one with three.
    pub(in crate::gpu) const NARROW: [Tile; 2] =
        [Tile { bm: 128, bn: 16, bk: 16, tm: 8, tn: 4 }, Tile { bm: 64, bn: 16, bk: 16, tm: 2, tn: 4 }];

    pub(in crate::gpu) fn threads(&self) -> usize {
        self.bm / self.tm * (self.bn / self.tn)
    }

    /// Bytes of workgroup memory.
    pub(in crate::gpu) fn shared_bytes(&self) -> usize {
        16 * (self.bm * (self.bk / 4 + 1) + self.bk * self.bn / 4)
    }
}

pub(super) fn text(head: &mut String, tile: Tile) -> String {
    let Tile { bm, bn, bk, tm, tn } = tile;
    let (threads, quads) = (tile.threads(), tn / 4);
    let values = [("BM", bm), ("BN", bn), ("BK", bk), ("TX", bn / tn), ("TY", bm / tm), ("THREADS", threads)];
    constants(head, &values);
    let acc = each(tm * quads, |n| format!("    var acc{n} = vec4<f32>(0.0);"));
    let mut multiply = String::from("            for (var k = 0u; k < deep / 4u; k++) {\n");
    multiply += &each(4 * quads, |n| {
        format!(
            "                let b{n} = sb[(k * 4u + {}u) * (BN / 4u) + tx + {}u * TX];",
            n / quads,
            n % quads
        )
    });
    add_products(&mut multiply, tm, quads, |i| format!("sa[(ty + {i}u * TY) * ROW + k]"));
    multiply += "\n            }";
    let store = each(tm * quads, |n| {
        let (i, j) = (n / quads, n % quads);
        format!(
            "    finish(t, first + ty + {i}u * TY, py, px, phase, frame.kind, n0 + (tx + {j}u * TX) * 4u, acc{n});"
        )
    });
    // Rows of pixels are one quad longer, so that they start in different banks.
    let shared = "const ROW: u32 = BK / 4u + 1u;\n\
                  var<workgroup> sa: array<vec4<f32>, BM * ROW>;\n\
                  var<workgroup> sb: array<vec4<f32>, BK * BN / 4u>;";
    with_loads(tile)
        .replace("@SHARED@", shared)
        .replace("@BEGIN@", &format!("    let tx = tid % TX;\n    let ty = tid / TX;\n{acc}"))
        .replace("@MULTIPLY@", &multiply)
        .replace("@STORE@", &store)
}

/// The text of a direct convolution that loads pixels and weights into workgroup memory, with placeholders where it
/// multiplies.
fn with_loads(tile: Tile) -> String {
    let (Tile { bm, bn, bk, .. }, threads) = (tile, tile.threads());
    let (units_a, units_b) = (bm * bk / 4, bk * bn / 4);
    let (loads_a, loads_b) = (units_a.div_ceil(threads), units_b.div_ceil(threads));
    let pixels = each(loads_a, |l| {
        format!(
            "    let u{l} = tid + {l}u * THREADS;\n    let p{l} = first + u{l} / (BK / 4u);\n    \
             let cy{l} = op.cell_row0 + p{l} / op.grid_w;\n    let cx{l} = p{l} % op.grid_w;\n    \
             let oy{l} = cy{l} * factor + py;\n    \
             let ok{l} = u{l} < {units_a}u && p{l} < op.cells && oy{l} >= op.output_row0 && oy{l} < op.output_end;"
        )
    });
    let places = each(loads_a, |l| {
        format!(
            "        let y{l} = cy{l} * op.stride_y + dy - op.pad_top;\n        \
             let x{l} = cx{l} * op.stride_x + dx - op.pad_left;\n        \
             let in{l} = ok{l} && y{l} < op.h_in && x{l} < op.w_in;\n        \
             let o{l} = s.start + ((y{l} - s.row0) * op.w_in + x{l}) * cin;"
        )
    });
    let short_places = each(loads_a, |l| {
        format!(
            "        let o{l} = op.shortcut_skip + t * op.shortcut_frame + ((oy{l} - op.output_row0) * op.grid_w + cx{l}) \
             * op.shortcut_cin;"
        )
    });
    let load_a = |inside: &str, limit: &str, call: &str| {
        each(loads_a, |l| {
            let guard = if units_a.is_multiple_of(threads) { "true" } else { "row < BM" };
            format!(
                "            {{ let row = u{l} / (BK / 4u); let quad = u{l} % (BK / 4u);\n              \
                 let c = c0 + quad * 4u; var v = vec4<f32>(0.0);\n              \
                 if ({inside}{l} && c < {limit}) {{ v = {call}o{l}, c); }}\n              \
                 if ({guard}) {{ sa[row * ROW + quad] = v; }} }}"
            )
        })
    };
    let load_b = |limit: &str, weight: &str, matrix: &str| {
        each(loads_b, |l| {
            let guard = if units_b.is_multiple_of(threads) { "true" } else { "row < BK" };
            format!(
                "            {{ let i = tid + {l}u * THREADS; let row = i / (BN / 4u); let quad = i % (BN / 4u);\n              \
                 let kk = c0 + row; let n = n0 + quad * 4u; var v = vec4<f32>(0.0);\n              \
                 if (kk < {limit} && n < cout4) {{ v = ld4_{weight}(({matrix}kk) * cout4 + n); }}\n              \
                 if ({guard}) {{ sb[row * (BN / 4u) + quad] = v; }} }}"
            )
        })
    };
    product_source(include_str!("../wgsl/conv.wgsl"))
        .replace("@JOB@", JOB)
        .replace("@PIXELS@", &pixels)
        .replace("@PLACES@", &places)
        .replace("@SHORT_PLACES@", &short_places)
        .replace("@LOAD_A@", &load_a("in", "cin4", "input4(s, "))
        .replace("@SHORT_A@", &load_a("ok", "deep4", "short4("))
        .replace("@LOAD_B@", &load_b("cin4", "weight", "matrix + "))
        .replace("@SHORT_B@", &load_b("deep4", "shortcut_weight", ""))
}

/// Adds products to the sums of threads: rows of quads `a(i)`, by `quads` quads of each of four channels.
pub(super) fn add_products(text: &mut String, rows: usize, quads: usize, a: impl Fn(usize) -> String) {
    for i in 0..rows {
        let _ = write!(text, "\n                let a{i} = {};", a(i));
        for (e, part) in ["x", "y", "z", "w"].iter().enumerate() {
            for j in 0..quads {
                let (n, b) = (i * quads + j, e * quads + j);
                let _ = write!(text, "\n                acc{n} = fma(vec4<f32>(a{i}.{part}), b{b}, acc{n});");
            }
        }
    }
}
