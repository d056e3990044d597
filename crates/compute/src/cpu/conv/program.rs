//! What a convolution does, as data: which taps on which frames make which output pixels. Plain
//! convolutions and folded upsamplers are both lists of phases of taps over one grid.

use std::ops::Range;

use crate::dtype::DType;
use crate::ops::{ConvWork, UpsampleWork};

/// One tap: how many frames back, where in the window, and which matrix of the weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GridTap {
    pub(crate) back: usize,
    pub(crate) dy: usize,
    pub(crate) dx: usize,
    pub(crate) matrix: usize,
}

/// The taps of the output pixels at one place inside a grid cell.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) y: usize,
    pub(crate) x: usize,
    pub(crate) taps: Vec<GridTap>,
    /// Row of the bias table; of an upsampler the first of four: inside, at a side, above or below, both.
    pub(crate) bias: usize,
}

/// An output frame: made as soon as frame `newest` of `prefix ++ input` is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) newest: usize,
    pub(crate) kind: usize,
}

/// A convolution over a grid of cells; a cell is `factor` output pixels down and across.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) dtype: DType,
    pub(crate) t_in: usize,
    pub(crate) prefix: usize,
    pub(crate) continued: bool,
    pub(crate) tail: usize,
    pub(crate) w_in: usize,
    pub(crate) cin: usize,
    pub(crate) cout: usize,
    /// Rows and columns a cell's window spans, and steps between windows.
    pub(crate) window: [usize; 2],
    pub(crate) stride: [usize; 2],
    /// Rows above and columns left of the frame where the first window starts.
    pub(crate) before: [usize; 2],
    pub(crate) h_grid: usize,
    pub(crate) w_grid: usize,
    pub(crate) factor: usize,
    /// Output rows to make.
    pub(crate) rows: Range<usize>,
    /// Input rows that may be read.
    pub(crate) readable: Range<usize>,
    /// Frames a window reaches back, itself included.
    pub(crate) depth: usize,
    pub(crate) frames: Vec<Frame>,
    pub(crate) kinds: Vec<Vec<Phase>>,
}

impl Program {
    /// A plain convolution: one kind of frame, one phase, every tap its own matrix.
    pub(crate) fn conv(work: &ConvWork) -> Self {
        let [kt, kh, kw] = work.kernel;
        let taps = (0..kt * kh * kw).map(|matrix| GridTap {
            back: kt - 1 - matrix / (kh * kw),
            dy: matrix / kw % kh,
            dx: matrix % kw,
            matrix,
        });
        let frame = |t| Frame { newest: t * work.stride[0] + kt - 1, kind: 0 };
        Program {
            dtype: work.dtype,
            t_in: work.t_in,
            prefix: work.prefix,
            continued: work.continued,
            tail: work.tail,
            w_in: work.w_in,
            cin: work.cin,
            cout: work.cout,
            window: [kh, kw],
            stride: [work.stride[1], work.stride[2]],
            before: [work.padding.top, work.padding.left],
            h_grid: work.h_out,
            w_grid: work.w_out,
            factor: 1,
            rows: work.rows.clone(),
            readable: work.input_rows(),
            depth: kt,
            frames: (0..work.t_out).map(frame).collect(),
            kinds: vec![vec![Phase { y: 0, x: 0, taps: taps.collect(), bias: 0 }]],
        }
    }

    /// A folded upsampler.
    pub(crate) fn upsample(work: &UpsampleWork) -> Self {
        let prefix = if work.time && !work.continued { 0 } else { if work.time { 1 } else { 2 } };
        Program {
            dtype: work.dtype,
            t_in: work.t_in,
            prefix,
            continued: work.continued,
            tail: work.tail,
            w_in: work.w,
            cin: work.cin,
            cout: work.cout,
            window: [3; 2],
            stride: [1; 2],
            before: [1; 2],
            h_grid: work.h,
            w_grid: work.w,
            factor: 2,
            rows: work.rows.clone(),
            readable: work.input_rows(),
            depth: if work.time { 2 } else { 3 },
            frames: upsampled_frames(work),
            kinds: upsampled_phases(work.time),
        }
    }
}

/// The phases of each kind of frame of an upsampler. Matrices are counted in the order they are met.
pub(crate) fn upsampled_phases(time: bool) -> Vec<Vec<Phase>> {
    let mut matrices = 0;
    let mut tables = Vec::new();
    for (k, kind) in Kind::all(time).iter().enumerate() {
        let mut phases = Vec::new();
        for (y, x) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let mut taps = Vec::new();
            for back in (0..kind.frames.len()).rev() {
                for (dy, dx) in cells(y).flat_map(|dy| cells(x).map(move |dx| (dy, dx))) {
                    let shared = kind.shares(back).map(|steady| steady_matrix(steady, y, x, back, dy, dx));
                    let matrix = shared.unwrap_or(matrices);
                    matrices = matrices.max(matrix + 1);
                    taps.push(GridTap { back, dy, dx, matrix });
                }
            }
            phases.push(Phase { y, x, taps, bias: (k * 4 + y * 2 + x) * 4 });
        }
        tables.push(phases);
    }
    tables
}

/// Window rows or columns (0 to 2, the cell itself is 1) that a phase's fine neighbours fall into.
fn cells(phase: usize) -> Range<usize> {
    phase..phase + 2
}

/// Output frames of an upsampler in order.
fn upsampled_frames(work: &UpsampleWork) -> Vec<Frame> {
    if !work.time {
        return (0..work.t_in).map(|f| Frame { newest: f + 2, kind: 0 }).collect();
    }
    let mut frames = Vec::new();
    for f in 0..work.t_in {
        let newest = if work.continued { f + 1 } else { f };
        let kinds = match (work.continued, f) {
            (false, 0) => 2..3,
            (false, 1) => 3..5,
            (true, 0) if work.second => 3..5,
            _ => 0..2,
        };
        frames.extend(kinds.map(|kind| Frame { newest, kind }));
    }
    frames
}

/// How an output frame of an upsampler sees the coarse frames: for each one back, the pairs of a time tap
/// of the fine convolution and the fine frame of the coarse one that it falls on.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// Indexed by how many coarse frames back.
    pub(crate) frames: Vec<Vec<(usize, usize)>>,
    /// For a frame near the start of a clip: the steady kind it resembles.
    like: Option<usize>,
}

impl Kind {
    /// Steady frames first. Where time doubles: the two steady frames of a coarse frame; the only frame
    /// of a clip's first coarse frame; the two of its second, whose predecessor has one frame only.
    pub(crate) fn all(time: bool) -> Vec<Kind> {
        let kind = |frames: &[&[(usize, usize)]], like| Kind {
            frames: frames.iter().map(|f| f.to_vec()).collect(),
            like,
        };
        if !time {
            return vec![kind(&[&[(2, 0)], &[(1, 0)], &[(0, 0)]], None)];
        }
        vec![
            kind(&[&[(2, 0)], &[(0, 0), (1, 1)]], None),
            kind(&[&[(1, 0), (2, 1)], &[(0, 1)]], None),
            kind(&[&[(0, 0), (1, 0), (2, 0)]], None),
            kind(&[&[(2, 0)], &[(0, 0), (1, 0)]], Some(0)),
            kind(&[&[(1, 0), (2, 1)], &[(0, 0)]], Some(1)),
        ]
    }

    /// The steady kind whose matrices for the frame `back` can be used as they are.
    fn shares(&self, back: usize) -> Option<usize> {
        self.like.filter(|_| back == 0)
    }
}

/// Number of a matrix of a steady kind: they are counted in the order `upsampled_phases` meets them.
fn steady_matrix(kind: usize, y: usize, x: usize, back: usize, dy: usize, dx: usize) -> usize {
    let older_first = 1 - back;
    (((kind * 4 + y * 2 + x) * 2 + older_first) * 2 + (dy - y)) * 2 + (dx - x)
}

/// For a phase and a window row or column: the pairs of a tap of the fine convolution and the fine pixel
/// of the cell it falls on.
pub(crate) fn fine_pairs(phase: usize, cell: usize) -> &'static [(usize, usize)] {
    match (phase, cell) {
        (0, 0) => &[(0, 1)],
        (0, 1) => &[(1, 0), (2, 1)],
        (1, 1) => &[(0, 0), (1, 1)],
        (1, 2) => &[(2, 0)],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upsampler_that_doubles_time_needs_112_matrices_and_one_that_does_not_48() {
        for (time, expected) in [(true, 64 + 32 + 16), (false, 48)] {
            let work = UpsampleWork {
                dtype: DType::F32,
                time,
                t_in: 3,
                continued: false,
                second: false,
                tail: 1,
                t_out: if time { 5 } else { 3 },
                h: 4,
                w: 4,
                cin: 8,
                cout: 8,
                rows: 0..8,
                groups: 0,
            };
            let program = Program::upsample(&work);
            let used: std::collections::BTreeSet<usize> =
                program.kinds.iter().flatten().flat_map(|p| p.taps.iter().map(|t| t.matrix)).collect();
            assert_eq!(used.len(), expected);
            assert_eq!(used.last(), Some(&(expected - 1)));
            assert_eq!(program.frames.len(), work.t_out);
        }
    }
}
