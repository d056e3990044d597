//! Products of transformed tiles: 16 multiplications instead of 36 for four pixels.

use super::threads::add_products;
use super::{constants, each, product_source};

/// Sizes of a product of transformed tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gpu) struct Winograd {
    /// Input channels of a step.
    pub(in crate::gpu) bk: usize,
}

impl Winograd {
    pub(in crate::gpu) const VARIANTS: [Winograd; 2] = [Winograd { bk: 4 }, Winograd { bk: 8 }];
    pub(in crate::gpu) const THREADS: usize = 256;
    /// Tiles and output channels of a workgroup.
    pub(in crate::gpu) const TILES: usize = 32;
    pub(in crate::gpu) const COLUMNS: usize = 32;
    /// Sums of a thread: eight tiles by eight channels of one place.
    pub(in crate::gpu) const SUMS: usize = 64;

    /// Bytes of workgroup memory.
    pub(in crate::gpu) fn shared_bytes(&self) -> usize {
        16 * 4 * self.bk * (Self::TILES + Self::COLUMNS)
    }
}

pub(super) fn text(head: &mut String, winograd: Winograd) -> String {
    constants(head, &[("TM", Winograd::TILES), ("BN", Winograd::COLUMNS), ("BK", winograd.bk)]);
    let load = each(4, |j| {
        format!(
            "                let e{j} = pixel(s, oa, ina && deep, left + {j}u, c) + sign * \
             pixel(s, ob, inb && deep, left + {j}u, c);"
        )
    });
    let mut inner = each(8, |n| {
        format!(
            "                let b{n} = sh[BEHIND + (place * BK + k * 4u + {}u) * (BN / 4u) + tx + {}u];",
            n / 2,
            n % 2 * 4
        )
    });
    add_products(&mut inner, 8, 2, |i| format!("sh[(place * TM + ty + {}u) * QUADS + k]", i * 4));
    // Each round stores sixteen tiles of sixteen channels.
    let store = each(4, |round| {
        let (j, half) = (round / 2, round % 2);
        let put = each(4, |i| {
            let n = (half * 4 + i) * 2 + j;
            format!("    sh[(place * 16u + ty + {}u) * 4u + tx] = acc{n};", i * 4)
        });
        format!(
            "    workgroupBarrier();\n{put}\n    workgroupBarrier();\n    \
             finish(t, first + here + {}u, py, px, 0u, 0u, n0 + (tid % 4u + {}u) * 4u, back(here * 4u + tid % 4u, py, px));",
            half * 16,
            j * 4
        )
    });
    product_source(include_str!("../wgsl/winograd.wgsl"))
        .replace("@ACC@", &each(16, |n| format!("    var acc{n} = vec4<f32>(0.0);")))
        .replace("@LOAD@", &load)
        .replace("@INNER@", &inner)
        .replace("@STORE@", &store)
}
