//! F(2x2, 3x3): four outputs of a 3x3 convolution from 16 products instead of 36. Tiles are 2x2 output
//! pixels at even absolute rows and columns; an output row depends on the same input rows as before, so
//! a tile of which only one row is wanted needs no more halo than that row.
#![expect(unsafe_code, reason = "kernels work on raw addresses inside checked buffers")]

use super::super::simd::{Kernel, Simd};

/// Positions of a transformed tile.
pub(crate) const POINTS: usize = 16;

/// Transforms the 3x3 kernel of one pair of channels: `G g G^T`.
pub(crate) fn transform_kernel(g: [f32; 9]) -> [f32; POINTS] {
    let half = |a: [f64; 3]| [a[0], 0.5 * (a[0] + a[1] + a[2]), 0.5 * (a[0] - a[1] + a[2]), a[2]];
    let g = g.map(f64::from);
    let columns: [[f64; 4]; 3] = std::array::from_fn(|x| half([g[x], g[3 + x], g[6 + x]]));
    let mut out = [0.0; POINTS];
    for y in 0..4 {
        let row = half([columns[0][y], columns[1][y], columns[2][y]]);
        for x in 0..4 {
            out[4 * y + x] = row[x] as f32;
        }
    }
    out
}

/// `B^T d B` for every tile of a patch and every channel; channels are a multiple of the lanes.
pub(crate) struct TransformInput {
    /// `[2 * tiles_y + 2][pitch][channels]`
    pub(crate) patch: *const f32,
    pub(crate) pitch: usize,
    pub(crate) channels: usize,
    pub(crate) tiles_y: usize,
    pub(crate) tiles_x: usize,
    /// `[POINTS]` planes, `plane` values apart, of `[tiles_y * tiles_x][channels]`.
    pub(crate) out: *mut f32,
    pub(crate) plane: usize,
}

impl Kernel for TransformInput {
    type Output = ();

    /// Contract: both buffers hold everything the numbers reach, and nothing else writes `out`.
    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        let line = self.pitch * self.channels;
        for ty in 0..self.tiles_y {
            for tx in 0..self.tiles_x {
                for c in (0..self.channels).step_by(S::LANES) {
                    // SAFETY: the contract above and that of `Simd`.
                    unsafe {
                        let from = self.patch.add(2 * ty * line + 2 * tx * self.channels + c);
                        let d: [[S::V; 4]; 4] = std::array::from_fn(|y| {
                            std::array::from_fn(|x| S::load(from.add(y * line + x * self.channels)))
                        });
                        let mut t = d;
                        for x in 0..4 {
                            t[0][x] = S::sub(d[0][x], d[2][x]);
                            t[1][x] = S::add(d[1][x], d[2][x]);
                            t[2][x] = S::sub(d[2][x], d[1][x]);
                            t[3][x] = S::sub(d[1][x], d[3][x]);
                        }
                        let to = self.out.add((ty * self.tiles_x + tx) * self.channels + c);
                        for y in 0..4 {
                            let to = to.add(4 * y * self.plane);
                            S::store(to, S::sub(t[y][0], t[y][2]));
                            S::store(to.add(self.plane), S::add(t[y][1], t[y][2]));
                            S::store(to.add(2 * self.plane), S::sub(t[y][2], t[y][1]));
                            S::store(to.add(3 * self.plane), S::sub(t[y][1], t[y][3]));
                        }
                    }
                }
            }
        }
    }
}

/// `A^T m A` for every tile: products to the sums of 2x2 pixels.
pub(crate) struct TransformOutput {
    /// `[POINTS]` planes, `plane` values apart, of `[tiles][width]`.
    pub(crate) products: *const f32,
    pub(crate) plane: usize,
    /// Output channels; a multiple of the lanes.
    pub(crate) width: usize,
    pub(crate) tiles_y: usize,
    pub(crate) tiles_x: usize,
    /// `[2 * tiles_y][pitch][width]`
    pub(crate) out: *mut f32,
    pub(crate) pitch: usize,
}

impl Kernel for TransformOutput {
    type Output = ();

    /// Contract: both buffers hold everything the numbers reach, and nothing else writes `out`.
    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        let line = self.pitch * self.width;
        for ty in 0..self.tiles_y {
            for tx in 0..self.tiles_x {
                for c in (0..self.width).step_by(S::LANES) {
                    // SAFETY: the contract above and that of `Simd`.
                    unsafe {
                        let from = self.products.add((ty * self.tiles_x + tx) * self.width + c);
                        let m: [[S::V; 4]; 4] = std::array::from_fn(|y| {
                            std::array::from_fn(|x| S::load(from.add((4 * y + x) * self.plane)))
                        });
                        let to = self.out.add(2 * ty * line + 2 * tx * self.width + c);
                        let upper: [S::V; 4] =
                            std::array::from_fn(|x| S::add(S::add(m[0][x], m[1][x]), m[2][x]));
                        let lower: [S::V; 4] =
                            std::array::from_fn(|x| S::sub(S::sub(m[1][x], m[2][x]), m[3][x]));
                        for (y, r) in [upper, lower].into_iter().enumerate() {
                            S::store(to.add(y * line), S::add(S::add(r[0], r[1]), r[2]));
                            S::store(to.add(y * line + self.width), S::sub(S::sub(r[1], r[2]), r[3]));
                        }
                    }
                }
            }
        }
    }
}
