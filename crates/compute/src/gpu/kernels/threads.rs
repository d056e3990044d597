//! Products in which each thread holds a few sums. The text is unrolled, so nothing depends on how a driver unrolls
//! loops.

use std::fmt::Write;

use super::conv::{self, Body, Part};
use super::{constants, each};

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
    let body = Body {
        // Rows of pixels are one quad longer, so that they start in different banks.
        shared: "const ROW: u32 = BK / 4u + 1u;\n\
                 var<workgroup> sa: array<vec4<f32>, BM * ROW>;\n\
                 var<workgroup> sb: array<vec4<f32>, BK * BN / 4u>;",
        begin: format!("    let tx = tid % TX;\n    let ty = tid / TX;\n{acc}"),
        put_a: "sa[row * ROW + quad] = v;",
        put_b: "sb[row * (BN / 4u) + quad] = v;",
        multiply,
        store,
    };
    conv::text(Part { bm, bn, bk, threads }, &body)
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
