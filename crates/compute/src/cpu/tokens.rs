//! Ops on tokens that are rows: norm with rotation, activation, gated sum, and moves between grid and windows. They take
//! about a thirtieth of the time of a block of 2560 channels; the rest is matrix products.
#![expect(unsafe_code, reason = "threads write disjoint rows of one tensor")]

use super::scratch::{Layout, Piece};
use super::simd::{Kernel, Simd, exp, run, silu};
use super::{Cpu, weight_parts};
use crate::error::Result;
use crate::host::Pixels;
use crate::ops::{ActivateDesc, Activation, AddGatedDesc, TokenNormDesc, WindowsDesc};
use crate::tensor::Shape;

/// Rows of one item of work: a row alone is a microsecond.
const ROWS: usize = 16;

/// Scratch of a thread: two rows.
pub(super) fn rows_layout(shape: Shape) -> (Layout, [Piece<f32>; 2]) {
    Layout::of([shape.w * shape.c; 2])
}

impl Cpu {
    /// Calls `work(frame, row, line, other)` for every row of a shape, with two rows of scratch.
    fn rows(
        &self,
        op: &'static str,
        shape: Shape,
        work: impl Fn(usize, usize, &mut [f32], &mut [f32]) + Sync,
    ) -> Result<()> {
        let (private, [line, other]) = rows_layout(shape);
        let scratch = self.scratch(op, &private)?;
        let rows = shape.t * shape.h;
        self.pool.run(rows.div_ceil(ROWS), |thread, item| {
            let own = scratch.own(thread);
            // SAFETY: pieces of this thread, borrowed once.
            let (line, other) = unsafe { (own.piece(line), own.piece(other)) };
            for row in item * ROWS..rows.min((item + 1) * ROWS) {
                work(row / shape.h, row % shape.h, line, other);
            }
        });
        Ok(())
    }

    pub(super) fn token_norm_now(&self, d: &TokenNormDesc<'_>) -> Result<()> {
        const OP: &str = "token_norm";
        let shape = d.input.shape();
        let (input, output) =
            (self.host.pixels(OP, "input", &d.input)?, self.host.pixels(OP, "output", &d.output)?);
        let affine = d.affine.map(|weight| weight_parts(&self.host, weight)).transpose()?;
        let (scale, shift) = affine.unwrap_or((&[], &[]));
        let turns = match &d.rotation {
            None => None,
            Some(r) => {
                let table = self.host.pixels(OP, "rotations", &r.table)?;
                Some((table, self.host.pixels(OP, "places", &r.places)?, r.table.shape()))
            }
        };
        let (isa, width) = (self.path.isa, (shape.c / d.heads).max(1));
        self.rows(OP, shape, |t, y, line, other| {
            // SAFETY: inputs are not written; the output row is this item's own.
            unsafe {
                input.load(t, input.first_row + y, line);
                run(isa, Rms { line, heads: d.heads, eps: d.eps, scale, shift });
                if let Some((table, places, shape)) = &turns {
                    let mut place = [0.0; 3];
                    places.load(t, places.first_row + y, &mut place);
                    let turn = &mut other[..3 * shape.c];
                    for (turn, place) in turn.chunks_exact_mut(shape.c).zip(place) {
                        let row = (place as usize).min(shape.h - 1);
                        table.load(0, table.first_row + row, turn);
                    }
                    line.chunks_exact_mut(width).for_each(|head| rotate(head, turn, shape.c / 2));
                }
                output.store(t, output.first_row + y, line);
            }
        })
    }

    pub(super) fn activate_now(&self, d: &ActivateDesc<'_>) -> Result<()> {
        const OP: &str = "activate";
        let x = self.host.pixels(OP, "values", &d.x)?;
        let times = d.times.as_ref().map(|v| self.host.pixels(OP, "factors", v)).transpose()?;
        let isa = self.path.isa;
        self.rows(OP, d.x.shape(), |t, y, line, other| {
            // SAFETY: the row is this item's own; factors are not written.
            unsafe {
                x.load(t, x.first_row + y, line);
                run(isa, Activate { line, function: d.function });
                if let Some(times) = &times {
                    times.load(t, times.first_row + y, other);
                    line.iter_mut().zip(other).for_each(|(x, factor)| *x *= *factor);
                }
                x.store(t, x.first_row + y, line);
            }
        })
    }

    pub(super) fn add_gated_now(&self, d: &AddGatedDesc<'_>) -> Result<()> {
        const OP: &str = "add_gated";
        let (input, sum) =
            (self.host.pixels(OP, "input", &d.input)?, self.host.pixels(OP, "residual", &d.residual)?);
        let gate = d.gate.map(|weight| weight_parts(&self.host, weight)).transpose()?.map(|(gate, _)| gate);
        let channels = d.input.shape().c;
        self.rows(OP, d.input.shape(), |t, y, line, other| {
            // SAFETY: the row of the sum is this item's own; the input is not written.
            unsafe {
                input.load(t, input.first_row + y, line);
                sum.load(t, sum.first_row + y, other);
                match gate {
                    Some(gate) => {
                        for (pixel, more) in other.chunks_exact_mut(channels).zip(line.chunks_exact(channels))
                        {
                            pixel.iter_mut().zip(more).zip(gate).for_each(|((s, x), g)| *s += g * x);
                        }
                    }
                    None => other.iter_mut().zip(&*line).for_each(|(s, x)| *s += x),
                }
                sum.store(t, sum.first_row + y, other);
            }
        })
    }

    pub(super) fn gather_now(&self, d: &WindowsDesc<'_>) -> Result<()> {
        self.move_runs(d, |grid, tokens, bytes| {
            // SAFETY: two buffers (the descriptor refuses one), runs inside both, tokens of one item only.
            unsafe { std::ptr::copy_nonoverlapping(grid.cast_const(), tokens, bytes) }
        })
    }

    pub(super) fn scatter_now(&self, d: &WindowsDesc<'_>) -> Result<()> {
        self.move_runs(d, |grid, tokens, bytes| {
            // SAFETY: as above; windows share no token.
            unsafe { std::ptr::copy_nonoverlapping(tokens.cast_const(), grid, bytes) }
        })
    }

    /// Calls `copy(grid, tokens, bytes)` for each run of tokens that lie next to each other in both.
    fn move_runs(&self, d: &WindowsDesc<'_>, copy: impl Fn(*mut u8, *mut u8, usize) + Sync) -> Result<()> {
        let grid = self.host.pixels("windows", "grid", &d.grid)?;
        let tokens = self.host.pixels("windows", "tokens", &d.tokens)?;
        let starts: Vec<usize> =
            d.windows.iter().scan(0, |at, w| Some(std::mem::replace(at, *at + w.tokens()))).collect();
        let bytes = grid.row * grid.dtype.bytes();
        self.pool.run(d.windows.len(), |_, item| {
            let mut to = starts[item];
            for (t, run) in d.windows[item].runs(d.width) {
                if !run.is_empty() {
                    let place = |pixels: &Pixels, t, row| pixels.row_ptr(t, pixels.first_row + row);
                    // The ends are looked up as well: that checks that they are inside.
                    place(&grid, t, run.end - 1);
                    place(&tokens, 0, to + run.len() - 1);
                    copy(place(&grid, t, run.start), place(&tokens, 0, to), run.len() * bytes);
                }
                to += run.len();
            }
        });
        Ok(())
    }
}

/// Turns the pairs of the first channels of a head; `turn` has cosines and sines of three axes.
fn rotate(head: &mut [f32], turn: &[f32], frequencies: usize) {
    let pairs = head.chunks_exact_mut(2);
    let turns = turn.chunks_exact(2 * frequencies).flat_map(|axis| {
        let (cosines, sines) = axis.split_at(frequencies);
        cosines.iter().zip(sines)
    });
    for (pair, (cosine, sine)) in pairs.zip(turns) {
        let (a, b) = (pair[0], pair[1]);
        pair[0] = a * cosine - b * sine;
        pair[1] = b * cosine + a * sine;
    }
}

/// RMS norm of the heads of one token, in place. Squares are added up in f64, lane by lane.
struct Rms<'a> {
    line: &'a mut [f32],
    heads: usize,
    eps: f32,
    /// For all channels, for those of a head, or nothing.
    scale: &'a [f32],
    shift: &'a [f32],
}

impl Kernel for Rms<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        let width = self.line.len() / self.heads;
        for (h, head) in self.line.chunks_exact_mut(width).enumerate() {
            let mut lanes = [0.0f64; 8];
            let whole = head.chunks_exact(8);
            let rest = whole.remainder();
            for chunk in whole {
                for (lane, v) in lanes.iter_mut().zip(chunk) {
                    *lane += f64::from(*v) * f64::from(*v);
                }
            }
            for (lane, v) in lanes.iter_mut().zip(rest) {
                *lane += f64::from(*v) * f64::from(*v);
            }
            let mean = lanes.iter().sum::<f64>() / width as f64;
            let factor = (1.0 / (mean + f64::from(self.eps)).sqrt()) as f32;
            let own = if self.scale.len() == width { 0 } else { h * width };
            match (self.scale.get(own..own + width), self.shift.get(own..own + width)) {
                (Some(scale), Some(shift)) => {
                    for ((v, a), b) in head.iter_mut().zip(scale).zip(shift) {
                        *v = *v * factor * a + b;
                    }
                }
                (Some(scale), None) => {
                    head.iter_mut().zip(scale).for_each(|(v, a)| *v = *v * factor * a);
                }
                _ => head.iter_mut().for_each(|v| *v *= factor),
            }
        }
    }
}

struct Activate<'a> {
    line: &'a mut [f32],
    function: Activation,
}

impl Kernel for Activate<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn call<S: Simd>(self) {
        let function = self.function;
        let mut whole = self.line.chunks_exact_mut(S::LANES);
        for chunk in &mut whole {
            // SAFETY: a whole vector.
            unsafe { S::store(chunk.as_mut_ptr(), apply::<S>(function, S::load(chunk.as_ptr()))) };
        }
        let rest = whole.into_remainder();
        let mut lanes = [0.0f32; 16];
        lanes[..rest.len()].copy_from_slice(rest);
        // SAFETY: the buffer holds the widest vector.
        unsafe { S::store(lanes.as_mut_ptr(), apply::<S>(function, S::load(lanes.as_ptr()))) };
        rest.copy_from_slice(&lanes[..rest.len()]);
    }
}

/// # Safety
/// As for `Simd`.
#[inline(always)]
unsafe fn apply<S: Simd>(function: Activation, x: S::V) -> S::V {
    // SAFETY: passed on to the caller.
    unsafe {
        match function {
            Activation::Silu => silu::<S>(x),
            // 0.5 x (1 + tanh u) = x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
            Activation::GeluTanh => {
                const FACTOR: f32 = -1.595_769;
                let inner = S::fma(S::mul(S::mul(x, x), S::splat(0.044715)), x, x);
                let power = exp::<S>(S::mul(inner, S::splat(FACTOR)));
                S::div(x, S::add(power, S::splat(1.0)))
            }
        }
    }
}
