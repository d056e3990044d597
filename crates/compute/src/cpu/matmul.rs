//! Plain matrix products for folding weights, on the calling thread.
#![expect(unsafe_code, reason = "register blocks work on raw addresses inside checked buffers")]

use super::simd::{Isa, Kernel, Simd, load_as, run, store_as};
use crate::dtype::DType;

/// `out[m, n] = (keep ? out : 0) + a[m, k] * b[k, n]` of matrices whose rows lie one after the other.
///
/// Each sum runs over `k` in order, and what was in `out` joins last. With fused multiply-adds ([`folds_fused`]) all instruction
/// sets give the same bits.
pub(crate) fn matmul([m, n, k]: [usize; 3], out: &mut [f32], keep: bool, a: &[f32], b: &[f32]) {
    product(Isa::detect(), [m, n, k], out, keep, a, b);
}

fn product(isa: Isa, [m, n, k]: [usize; 3], out: &mut [f32], keep: bool, a: &[f32], b: &[f32]) {
    assert!(a.len() == m * k && b.len() == k * n && out.len() == m * n);
    run(isa, Matmul { size: [m, n, k], out: out.as_mut_ptr(), keep, a, b });
}

/// Whether this CPU folds weights with fused multiply-adds, for whatever device.
pub fn folds_fused() -> bool {
    Isa::detect() != Isa::Portable
}

struct Matmul<'a> {
    size: [usize; 3],
    out: *mut f32,
    keep: bool,
    a: &'a [f32],
    b: &'a [f32],
}

impl Kernel for Matmul<'_> {
    type Output = ();

    /// Contract: `a`, `b` and `out` have the size, and nothing else writes `out`.
    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        let n = self.size[1];
        let (pairs, lanes) = (n / (2 * S::LANES), S::LANES);
        // SAFETY: the contract: every block ends inside the matrices.
        unsafe {
            for pair in 0..pairs {
                self.rows::<S, 2>(pair * 2 * lanes, lanes);
            }
            let mut column = pairs * 2 * lanes;
            while column < n {
                self.rows::<S, 1>(column, lanes.min(n - column));
                column += lanes;
            }
        }
    }
}

impl Matmul<'_> {
    /// All rows of `N` vectors of columns, each of which holds `filled` values.
    ///
    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn rows<S: Simd, const N: usize>(&self, column: usize, filled: usize) {
        // Sums, a vector of weights each, and a value: 19 of 32 registers, 11 of 16.
        let block = if S::ROWS == 12 { 8 } else { 4 };
        let m = self.size[0];
        // SAFETY: the contract of `call`.
        unsafe {
            for row in (0..m / block * block).step_by(block) {
                match block {
                    8 => self.block::<S, 8, N>(row, column, filled),
                    _ => self.block::<S, 4, N>(row, column, filled),
                }
            }
            for row in m / block * block..m {
                self.block::<S, 1, N>(row, column, filled);
            }
        }
    }

    /// # Safety
    /// As for `call`.
    #[inline(always)]
    unsafe fn block<S: Simd, const M: usize, const N: usize>(
        &self,
        row: usize,
        column: usize,
        filled: usize,
    ) {
        let [_, n, k] = self.size;
        // SAFETY: the contract of `call`.
        unsafe {
            let mut sums = [[S::splat(0.0); N]; M];
            for step in 0..k {
                let from = self.b.as_ptr().add(step * n + column);
                let mut weights = [S::splat(0.0); N];
                for (v, weights) in weights.iter_mut().enumerate() {
                    *weights = load_as::<S>(DType::F32, from.add(v * S::LANES).cast(), filled);
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let value = S::splat(*self.a.as_ptr().add((row + r) * k + step));
                    for v in 0..N {
                        sums[v] = S::fma(value, weights[v], sums[v]);
                    }
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate() {
                    let place = self.out.add((row + r) * n + column + v * S::LANES).cast();
                    let sum = match self.keep {
                        true => S::add(load_as::<S>(DType::F32, place, filled), *sum),
                        false => *sum,
                    };
                    store_as::<S>(DType::F32, place, sum, filled);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CpuPath;
    use super::*;

    /// The slow obvious twin.
    fn naive(isa: Isa, [m, n, k]: [usize; 3], out: &mut [f32], keep: bool, a: &[f32], b: &[f32]) {
        for (i, out) in out.iter_mut().enumerate().take(m * n) {
            let mut sum = 0.0f32;
            for step in 0..k {
                let (a, b) = (a[i / n * k + step], b[step * n + i % n]);
                sum = if isa != Isa::Portable { a.mul_add(b, sum) } else { sum + a * b };
            }
            *out = if keep { *out + sum } else { sum };
        }
    }

    #[test]
    fn products_have_the_bits_of_the_naive_loops() {
        let sizes = [
            [1, 1, 1],
            [3, 5, 7],
            [8, 16, 8],
            [12, 33, 20],
            [17, 47, 5],
            [64, 64, 64],
            [9, 512, 3],
            [4, 0, 2],
        ];
        for size @ [m, n, k] in sizes {
            let values = |count: usize, seed: usize| -> Vec<f32> {
                (0..count).map(|i| ((i * 7919 + seed) % 1013) as f32 / 509.0 - 1.0).collect()
            };
            let (a, b) = (values(m * k, 1), values(k * n, 2));
            for (isa, keep) in CpuPath::all().iter().flat_map(|path| [(path.isa, false), (path.isa, true)]) {
                let (mut fast, mut slow) = (values(m * n, 3), values(m * n, 3));
                product(isa, size, &mut fast, keep, &a, &b);
                naive(isa, size, &mut slow, keep, &a, &b);
                let same = fast.iter().zip(&slow).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{isa:?} {size:?} {keep}");
            }
        }
    }
}
