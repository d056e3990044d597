//! The one door to the `gemm` crate.
#![expect(unsafe_code, reason = "gemm takes raw pointers")]

/// A matrix in memory: element `[i, j]` is at `i * row_step + j`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    data: &'a [f32],
    row_step: usize,
}

impl<'a> Matrix<'a> {
    /// Rows of `row_step` values, columns next to each other.
    pub(crate) fn rows(data: &'a [f32], row_step: usize) -> Self {
        Matrix { data, row_step }
    }

    fn holds(&self, rows: usize, columns: usize) -> bool {
        rows == 0 || columns == 0 || (rows - 1) * self.row_step + columns <= self.data.len()
    }
}

/// `out[m, n] = (keep ? out : 0) + a[m, k] * b[k, n]` on the calling thread.
///
/// The order in which `gemm` adds up an element depends on `m`, `n`, `k` (one row or one column takes
/// another route, the blocking follows the cache size) and on nothing else: callers keep the three fixed
/// for a layer, however its frame is cut.
pub(crate) fn matmul(
    [m, n, k]: [usize; 3],
    out: &mut [f32],
    out_row_step: usize,
    keep: bool,
    a: Matrix<'_>,
    b: Matrix<'_>,
) {
    assert!(a.holds(m, k) && b.holds(k, n));
    assert!(m == 0 || n == 0 || (m - 1) * out_row_step + n <= out.len());
    // SAFETY: the asserts above say that all three matrices lie inside their slices, `out` is borrowed
    // alone, and every stride fits isize because it is below a slice length.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            out_row_step as isize,
            keep,
            a.data.as_ptr(),
            1,
            a.row_step as isize,
            b.data.as_ptr(),
            1,
            b.row_step as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
