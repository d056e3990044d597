//! Products on matrix units: subgroups multiply f16 matrices of the size that the device reports, with sums in f32.
//! Results differ from those of the other kernels only by the order inside a sum.

use std::fmt::Write;

use super::conv::{self, Body, Part};
use super::{constants, each};

/// Sizes of a product on matrix units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gpu) struct Blocks {
    /// Rows and columns of a matrix: 8 or 16.
    pub(in crate::gpu) size: usize,
    /// Matrices of a subgroup's sums, down and across.
    pub(in crate::gpu) down: usize,
    pub(in crate::gpu) across: usize,
    /// Subgroups, down and across.
    pub(in crate::gpu) rows: usize,
    pub(in crate::gpu) columns: usize,
    /// Matrices of a step along the input channels.
    pub(in crate::gpu) deep: usize,
    /// Most threads of a subgroup. If the driver makes smaller ones, there are more subgroups than needed, and the
    /// extra ones only help to load.
    pub(in crate::gpu) subgroup: usize,
}

impl Blocks {
    /// Variants for a device: four subgroups with two by two matrices of sums each, and with four by four.
    pub(in crate::gpu) fn variants(size: usize, subgroup: usize) -> [Blocks; 2] {
        [2, 4].map(|n| Blocks { size, down: n, across: n, rows: 2, columns: 2, deep: 2, subgroup })
    }

    pub(in crate::gpu) fn threads(&self) -> usize {
        self.rows * self.columns * self.subgroup
    }

    /// Pixels, output channels, input channels of a step.
    pub(in crate::gpu) fn tile(&self) -> [usize; 3] {
        let Blocks { size, down, across, rows, columns, deep, .. } = *self;
        [rows * down * size, columns * across * size, deep * size]
    }

    /// Bytes of workgroup memory.
    pub(in crate::gpu) fn shared_bytes(&self) -> usize {
        let [bm, bn, bk] = self.tile();
        2 * (bm * (bk + PAD) + bk * (bn + PAD)) + 4 * self.rows * self.columns * self.size * self.size
    }
}

/// Values added to each row, so that rows start in different banks.
const PAD: usize = 8;

pub(super) fn text(head: &mut String, blocks: Blocks) -> String {
    let Blocks { size, down, across, rows, columns, deep, .. } = blocks;
    let [bm, bn, bk] = blocks.tile();
    let threads = blocks.threads();
    // Matrices need control flow that is uniform within a subgroup, and it is. WGSL's analysis cannot prove that,
    // because the flow depends on values read from memory; this is the rule it reports.
    let rule = "diagnostic(off, derivative_uniformity);";
    head.insert_str(0, &format!("enable f16;\nenable wgpu_cooperative_matrix;\n{rule}\n"));
    constants(
        head,
        &[
            ("BM", bm),
            ("BN", bn),
            ("BK", bk),
            ("THREADS", threads),
            ("SIZE", size),
            ("SUBGROUPS", rows * columns),
            ("LINE_A", bk + PAD),
            ("LINE_B", bn + PAD),
        ],
    );
    let matrix = |kind: &str, role: &str| format!("coop_mat{size}x{size}<{kind}, {role}>");
    let (a, b, c) = (matrix("f16", "A"), matrix("f16", "B"), matrix("f32", "C"));
    let zero = each(down * across, |n| format!("    var acc{n} = coopLoadT<{c}>(&sc[0], SIZE);"));
    let begin = format!(
        "    let works = sub < SUBGROUPS;\n    let row0 = sub / {columns}u * {}u;\n    \
         let column0 = sub % {columns}u * {}u;\n    let mine = min(sub, SUBGROUPS - 1u) * SIZE * SIZE;\n    \
         for (var i = tid; i < SUBGROUPS * SIZE * SIZE; i += THREADS) {{ sc[i] = 0.0; }}\n    \
         workgroupBarrier();\n{zero}",
        down * size,
        across * size
    );
    let mut multiply = String::from("            if (works) {");
    for k in 0..deep {
        for i in 0..down {
            let _ = write!(
                multiply,
                "\n            let a{k}_{i} = coopLoadT<{a}>(&sa[(row0 + {}u) * LINE_A + {}u], LINE_A);",
                i * size,
                k * size
            );
        }
        for j in 0..across {
            let _ = write!(
                multiply,
                "\n            let b{k}_{j} = coopLoadT<{b}>(&sb[{}u * LINE_B + column0 + {}u], LINE_B);",
                k * size,
                j * size
            );
        }
        for n in 0..down * across {
            let (i, j) = (n / across, n % across);
            let _ = write!(multiply, "\n            acc{n} = coopMultiplyAdd(a{k}_{i}, b{k}_{j}, acc{n});");
        }
    }
    multiply += "\n            }";
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
    let body = Body {
        shared: "var<workgroup> sa: array<f16, BM * LINE_A>;\n\
                 var<workgroup> sb: array<f16, BK * LINE_B>;\n\
                 var<workgroup> sc: array<f32, SUBGROUPS * SIZE * SIZE>;",
        builtins: ", @builtin(subgroup_id) sub: u32, @builtin(subgroup_invocation_id) lane: u32, \
                   @builtin(subgroup_size) wide: u32",
        begin,
        put_a: "let h = vec4<f16>(v); let o = row * LINE_A + quad * 4u; \
                sa[o] = h.x; sa[o + 1u] = h.y; sa[o + 2u] = h.z; sa[o + 3u] = h.w;",
        put_b: "let h = vec4<f16>(v); let o = row * LINE_B + quad * 4u; \
                sb[o] = h.x; sb[o + 1u] = h.y; sb[o + 2u] = h.z; sb[o + 3u] = h.w;",
        multiply,
        store,
    };
    conv::text(Part { bm, bn, bk, threads }, &body)
}
