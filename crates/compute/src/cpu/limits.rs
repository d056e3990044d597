//! What the machine can do at most, measured the same way as the kernels are: the denominators of every
//! speed that is claimed.
#![expect(unsafe_code, reason = "the tile unit is driven by assembly, gemm takes raw pointers")]

use std::time::Instant;

use super::kernels::amx;
use super::pool::Pool;
use super::scratch::Shared;
use crate::cancel::CancelToken;
use crate::error::Result;

/// Measures limits with a number of threads.
pub struct Limits {
    pool: Pool,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

/// Pixels, output channels and channels of the product that stands for a convolution: one tap of a
/// 512-channel layer over 1024 pixels per thread.
const M: usize = 1024;
const N: usize = 512;
const K: usize = 512;

/// Values copied per thread: 64 MiB, far beyond any cache a thread has to itself.
const COPY: usize = 16 << 20;

impl Limits {
    /// Prepares operands for `threads` threads.
    pub fn new(threads: usize) -> Result<Self> {
        let pool = Pool::new(threads, CancelToken::default())?;
        let n = pool.threads();
        let fill = |len: usize| (0..len).map(|i| (i % 97) as f32 * 0.01).collect();
        Ok(Limits { pool, a: fill(M * K), b: fill(K * N), c: vec![0.0; n * 2 * COPY] })
    }

    /// Multiply-adds per second of the `gemm` crate in f32, one product per thread.
    pub fn sgemm(&mut self) -> f64 {
        const ROUNDS: usize = 16;
        let (a, b) = (&self.a, &self.b);
        let out = Shared::new(&mut self.c);
        let started = Instant::now();
        self.pool.run(self.pool.threads() * ROUNDS, |thread, _| {
            // SAFETY: each thread has a part of its own.
            let c = unsafe { out.part(thread * M * N, M * N) };
            sgemm(c, a, b);
        });
        (self.pool.threads() * ROUNDS * M * N * K) as f64 / started.elapsed().as_secs_f64()
    }

    /// Multiply-adds per second of the tile unit with operands in registers; `None` without the unit.
    pub fn amx(&mut self) -> Option<f64> {
        const ROUNDS: usize = 200_000;
        if !amx::available() {
            return None;
        }
        let threads = self.pool.threads();
        let started = Instant::now();
        self.pool.run(threads, |_, _| {
            let tiles = amx::Tiles::new();
            // SAFETY: the unit is available.
            unsafe { tiles.spin(ROUNDS) };
        });
        Some((threads * ROUNDS * 4 * 16 * 16 * 32) as f64 / started.elapsed().as_secs_f64())
    }

    /// Bytes copied per second, each counted once.
    pub fn copy(&mut self) -> f64 {
        let out = Shared::new(&mut self.c);
        let threads = self.pool.threads();
        let started = Instant::now();
        self.pool.run(threads, |thread, _| {
            // SAFETY: each thread has a part of its own, and its halves do not overlap.
            let (from, to) = unsafe { out.part(thread * 2 * COPY, 2 * COPY) }.split_at_mut(COPY);
            to.copy_from_slice(from);
        });
        (threads * COPY * 4) as f64 / started.elapsed().as_secs_f64()
    }
}

/// `c[M, N] = a[M, K] * b[K, N]`.
fn sgemm(c: &mut [f32], a: &[f32], b: &[f32]) {
    assert!(c.len() >= M * N && a.len() >= M * K && b.len() >= K * N);
    let none = gemm::Parallelism::None;
    let (c, a, b) = (c.as_mut_ptr(), a.as_ptr(), b.as_ptr());
    let (steps, inner) = ([N as isize, K as isize, N as isize], 1);
    // SAFETY: the assert above says that all three matrices lie inside their slices, and `c` is borrowed alone.
    unsafe {
        gemm::gemm(
            M, N, K, c, inner, steps[0], false, a, inner, steps[1], b, inner, steps[2], 1.0, 1.0, false,
            false, false, none,
        );
    }
}
