//! Weights of convolutions and linear layers in the layout of their kernels.
#![expect(unsafe_code, reason = "prepared weights live in the arena and are read in place")]

use half::f16;

pub(crate) use super::super::kernels::winograd::transform_kernel;
use super::super::kernels::{amx, winograd};
use super::super::matmul::matmul;
use super::super::path::CpuPath;
use super::super::pool::Pool;
use super::super::scratch::Shared;
use super::program::{Kind, fine_pairs, upsampled_phases};
use crate::dtype::{DType, f32_to_bf16};
use crate::error::Result;
use crate::host::HostMemory;
use crate::weight::{Weight, WeightPart, WeightSpec};

/// Which kernel does a layer. Depends on the layer, its precision and the machine: nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Products of f32 vectors, tap by tap.
    Direct,
    /// The same in the transformed domain.
    Winograd,
    /// Products of bf16 tiles.
    Amx,
}

/// How a weight is laid out: panels of output channels, in each the matrices of all taps, in each the
/// input channels. Winograd: all of that once per point. Behind it the bias table in f32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    pub(crate) variant: Variant,
    pub(crate) cin: usize,
    pub(crate) cout: usize,
    pub(crate) matrices: usize,
    /// Output channels of a panel.
    pub(crate) panel: usize,
    pub(crate) panels: usize,
    /// Format of the stored values.
    pub(crate) stored_as: DType,
    /// Bytes of one matrix of a panel.
    pub(crate) matrix_bytes: usize,
    /// Rows of the bias table.
    pub(crate) biases: usize,
}

impl Packing {
    /// Norms have no packing.
    pub(crate) fn new(spec: &WeightSpec, path: CpuPath) -> Option<Self> {
        match *spec {
            WeightSpec::Conv { cin, cout, kernel, stride, dtype, slopes } => {
                Some(Self::conv(cin, cout, kernel, stride, dtype, path).with_slopes(slopes))
            }
            WeightSpec::Upsample { cin, cout, time, dtype } => {
                Some(Self::upsample(cin, cout, time, dtype, path))
            }
            WeightSpec::Linear { cin, cout, dtype } => Some(Self::linear(cin, cout, dtype, path)),
            WeightSpec::Norm { .. } | WeightSpec::Vector { .. } => None,
        }
    }

    pub(crate) fn conv(
        cin: usize,
        cout: usize,
        kernel: [usize; 3],
        stride: [usize; 3],
        dtype: DType,
        path: CpuPath,
    ) -> Self {
        // Narrow layers are not worth transforming, and the transforms work on whole vectors.
        let wide = cin.is_multiple_of(path.isa.lanes()) && cin >= 16 && cout >= 16;
        let winograd =
            path.winograd && wide && kernel[0] <= 3 && kernel[1..] == [3, 3] && stride[1..] == [1, 1];
        let variant = match dtype == DType::Bf16 && path.amx {
            true => Variant::Amx,
            false if winograd => Variant::Winograd,
            false => Variant::Direct,
        };
        Self::with(variant, cin, cout, kernel.iter().product(), 1, path)
    }

    /// With a second row of the bias table for slopes.
    pub(crate) fn with_slopes(self, slopes: bool) -> Self {
        Packing { biases: self.biases + usize::from(slopes), ..self }
    }

    pub(crate) fn upsample(cin: usize, cout: usize, time: bool, dtype: DType, path: CpuPath) -> Self {
        let (matrices, kinds) = if time { (112, 5) } else { (48, 1) };
        let variant = if dtype == DType::Bf16 && path.amx { Variant::Amx } else { Variant::Direct };
        Self::with(variant, cin, cout, matrices, kinds * 16, path)
    }

    /// Values keep their 16 bits: the weights of a transformer are gigabytes, and a panel is widened for
    /// many pixels at a time.
    pub(crate) fn linear(cin: usize, cout: usize, dtype: DType, path: CpuPath) -> Self {
        let variant = if dtype == DType::Bf16 && path.amx { Variant::Amx } else { Variant::Direct };
        let wide = Self::with(variant, cin, cout, 1, 1, path);
        match variant {
            Variant::Amx => wide,
            _ => Packing { stored_as: dtype, matrix_bytes: cin * wide.panel * dtype.bytes(), ..wide },
        }
    }

    fn with(
        variant: Variant,
        cin: usize,
        cout: usize,
        matrices: usize,
        biases: usize,
        path: CpuPath,
    ) -> Self {
        let lanes = path.isa.lanes();
        let (panel, matrix_bytes) = match variant {
            Variant::Amx => (amx::PANEL, cin.div_ceil(amx::STEP) * amx::STEP_BYTES),
            _ if cout > lanes => (path.isa.panel(), cin * path.isa.panel() * 4),
            _ => (lanes, cin * lanes * 4),
        };
        let stored_as = if variant == Variant::Amx { DType::Bf16 } else { DType::F32 };
        let panels = cout.div_ceil(panel);
        Packing { variant, cin, cout, matrices, panel, panels, stored_as, matrix_bytes, biases }
    }

    /// Matrices of a panel as stored: time taps only once transformed.
    fn stored(&self) -> usize {
        match self.variant {
            Variant::Winograd => self.matrices / 9,
            _ => self.matrices,
        }
    }

    /// Values of a pixel with this many channels as the kernel reads it: whole steps of the tile unit.
    pub(crate) fn held(&self, channels: usize) -> usize {
        match self.variant {
            Variant::Amx => channels.next_multiple_of(amx::STEP),
            _ => channels,
        }
    }

    /// Vectors of so many lanes that a panel's output channels fill.
    pub(crate) fn vectors(&self, panel: usize, lanes: usize) -> usize {
        self.panel.min(self.cout - panel * self.panel).div_ceil(lanes)
    }

    pub(crate) fn panel_bytes(&self) -> usize {
        self.stored() * self.matrix_bytes
    }

    /// Bytes of all panels, for one point of a transformed kernel.
    pub(crate) fn plane_bytes(&self) -> usize {
        self.panels * self.panel_bytes()
    }

    pub(crate) fn main_bytes(&self) -> usize {
        self.plane_bytes() * if self.variant == Variant::Winograd { winograd::POINTS } else { 1 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.main_bytes() + self.biases * self.cout * 4) as u64
    }
}

/// Bytes of scratch while a weight is prepared.
pub(crate) fn scratch_bytes(spec: &WeightSpec, threads: usize) -> u64 {
    match *spec {
        WeightSpec::Conv { cin, kernel, .. } => 4 * (CHUNK * cin * kernel.iter().product::<usize>()) as u64,
        WeightSpec::Upsample { cin, cout, time, .. } => {
            let phases = if time { 8 } else { 4 };
            4 * (27 * cout * cout + phases * cout * (cin + 1) + threads.max(1) * cin * cout) as u64
        }
        WeightSpec::Linear { cin, .. } => 4 * (CHUNK * cin) as u64,
        WeightSpec::Norm { .. } | WeightSpec::Vector { .. } => 0,
    }
}

/// Output channels read at a time.
const CHUNK: usize = 16;

/// A prepared weight in memory.
#[derive(Clone, Copy)]
pub(crate) struct Packed<'a> {
    pub(crate) packing: Packing,
    pub(crate) main: *const u8,
    pub(crate) bias: &'a [f32],
}

// SAFETY: an address of memory that nothing writes while the weight is borrowed.
unsafe impl Sync for Packed<'_> {}

impl<'a> Packed<'a> {
    pub(crate) fn of(host: &HostMemory, op: &'static str, weight: &'a Weight, path: CpuPath) -> Result<Self> {
        let buffer = weight.buffer(host.arena())?;
        let main = host.address(op, "weight", &buffer)?;
        let Some(packing) = Packing::new(&weight.spec(), path) else {
            return Err(crate::error::mismatch(op, "weight", format!("{weight:?}"), "a packed one"));
        };
        // SAFETY: `load` made the buffer for this spec and filled it; it is not written again while it is
        // loaded, and eviction needs the backend that an op borrows.
        let bias = unsafe {
            std::slice::from_raw_parts(main.add(packing.main_bytes()).cast(), packing.biases * packing.cout)
        };
        Ok(Packed { packing, main, bias })
    }

    /// Bias of row `i` of the table.
    pub(crate) fn bias(&self, i: usize) -> &'a [f32] {
        &self.bias[i * self.packing.cout..(i + 1) * self.packing.cout]
    }
}

/// Writes values into a weight under preparation; disjoint places from several threads.
struct Writer {
    packing: Packing,
    main: *mut u8,
}

// SAFETY: threads write disjoint matrices.
unsafe impl Sync for Writer {}

impl Writer {
    /// Sets one value: matrix, point (0 unless transformed), input and output channel.
    ///
    /// # Safety
    /// All numbers are inside the packing, and no other thread writes this matrix.
    unsafe fn put(&self, matrix: usize, point: usize, i: usize, o: usize, value: f32) {
        let p = &self.packing;
        let panel = (point * p.panels + o / p.panel) * p.panel_bytes() + matrix * p.matrix_bytes;
        let o = o % p.panel;
        // SAFETY: inside the buffer by the caller's promise.
        unsafe {
            match p.variant {
                Variant::Amx => {
                    // Two tiles side by side; in each, rows of channel pairs and columns of outputs.
                    let place = i / 32 * 1024 + o / 16 * 512 + i % 32 / 2 * 32 + o % 16 * 2 + i % 2;
                    self.main.add(panel).cast::<u16>().add(place).write(f32_to_bf16(value));
                }
                _ => self.main.add(panel).cast::<f32>().add(i * p.panel + o).write(value),
            }
        }
    }

    /// Sets the weights of output `o` of a linear layer. A row at a time: `put` looks for the place of every
    /// value anew, and a transformer has billions of them.
    fn put_row(&self, o: usize, values: &[f32]) {
        let p = &self.packing;
        assert!(o < p.cout && values.len() == p.cin);
        let (panel, o) = (self.main.wrapping_add(o / p.panel * p.panel_bytes()), o % p.panel);
        // SAFETY: `i` is below `cin` and `o` inside the panel, which the buffer was made for; one thread.
        unsafe {
            match (p.variant, p.stored_as) {
                (Variant::Amx, _) => {
                    let start = panel.cast::<u16>().add(o / 16 * 512 + o % 16 * 2);
                    for (i, value) in values.iter().enumerate() {
                        start.add(i / 32 * 1024 + i % 32 / 2 * 32 + i % 2).write(f32_to_bf16(*value));
                    }
                }
                (_, DType::F32) => {
                    for (i, value) in values.iter().enumerate() {
                        panel.cast::<f32>().add(i * p.panel + o).write(*value);
                    }
                }
                (_, dtype) => {
                    let bf16 = dtype == DType::Bf16;
                    for (i, value) in values.iter().enumerate() {
                        let bits = if bf16 { f32_to_bf16(*value) } else { f16::from_f32(*value).to_bits() };
                        panel.cast::<u16>().add(i * p.panel + o).write(bits);
                    }
                }
            }
        }
    }
}

/// Reads, transforms and lays out a weight. `main` has room for all of it, and
/// `room` is its scratch.
pub(in crate::cpu) fn fill(
    main: *mut u8,
    room: &mut [f32],
    pool: &Pool,
    weight: &Weight,
    packing: Packing,
) -> Result<()> {
    // SAFETY: the caller's fresh piece of exactly this size that nothing else refers to; bytes of any value are numbers.
    let bias = unsafe {
        std::ptr::write_bytes(main, 0, packing.main_bytes());
        std::slice::from_raw_parts_mut(
            main.add(packing.main_bytes()).cast::<f32>(),
            packing.biases * packing.cout,
        )
    };
    let writer = Writer { packing, main };
    match weight.spec() {
        WeightSpec::Conv { dtype, kernel, .. } => conv(weight, dtype, kernel[0], &writer, room)?,
        WeightSpec::Upsample { dtype, time, .. } => upsample(pool, weight, dtype, time, &writer, bias, room)?,
        WeightSpec::Linear { dtype, .. } => linear(weight, dtype, &writer, room)?,
        WeightSpec::Norm { .. } | WeightSpec::Vector { .. } => {}
    }
    match (packing.biases, weight.spec().bias_len()) {
        (1, 0) => bias.fill(0.0),
        (1 | 2, _) => weight.read(WeightPart::Bias, 0, bias)?,
        _ => {}
    }
    Ok(())
}

/// Reads the `len` values of each output channel, a few channels at a time, and passes them on, rounded.
fn in_chunks(
    weight: &Weight,
    dtype: DType,
    [cout, len]: [usize; 2],
    room: &mut [f32],
    put: impl Fn(usize, &[f32]),
) -> Result<()> {
    for first in (0..cout).step_by(CHUNK) {
        let chunk = &mut room[..CHUNK.min(cout - first) * len];
        weight.read(WeightPart::Main, first * len, chunk)?;
        dtype.round_all(chunk);
        (first..).zip(chunk.chunks_exact(len.max(1))).for_each(|(o, values)| put(o, values));
    }
    Ok(())
}

fn conv(weight: &Weight, dtype: DType, kt: usize, writer: &Writer, room: &mut [f32]) -> Result<()> {
    let Packing { cin, cout, matrices: taps, variant, .. } = writer.packing;
    in_chunks(weight, dtype, [cout, cin * taps], room, |o, values| {
        for (i, values) in values.chunks_exact(taps).enumerate() {
            // SAFETY: inside the packing; one thread.
            unsafe {
                if variant == Variant::Winograd {
                    for t in 0..kt {
                        let kernel = transform_kernel(std::array::from_fn(|j| values[9 * t + j]));
                        for (point, value) in kernel.into_iter().enumerate() {
                            writer.put(t, point, i, o, value);
                        }
                    }
                } else {
                    for (tap, value) in values.iter().enumerate() {
                        writer.put(tap, 0, i, o, *value);
                    }
                }
            }
        }
    })
}

fn linear(weight: &Weight, dtype: DType, writer: &Writer, room: &mut [f32]) -> Result<()> {
    let Packing { cin, cout, .. } = writer.packing;
    in_chunks(weight, dtype, [cout, cin], room, |o, values| writer.put_row(o, values))
}

/// Folds `upscale`, shuffle and 3x3x3 into one matrix per phase and tap:
/// the sum of `conv[tap] * upscale[phase the tap falls on]` over the fine taps that share a coarse cell.
fn upsample(
    pool: &Pool,
    weight: &Weight,
    dtype: DType,
    time: bool,
    writer: &Writer,
    bias: &mut [f32],
    room: &mut [f32],
) -> Result<()> {
    let Packing { cin, cout, .. } = writer.packing;
    let z = if time { 2 } else { 1 };
    let (kernel, room) = room.split_at_mut(27 * cout * cout);
    let (matrix, room) = room.split_at_mut(4 * z * cout * cin);
    let (matrix_bias, room) = room.split_at_mut(4 * z * cout);
    read_kernel(weight, cout, kernel)?;
    weight.read_upscale(WeightPart::Main, 0, matrix)?;
    weight.read_upscale(WeightPart::Bias, 0, matrix_bias)?;
    let (kernel, matrix, matrix_bias) = (&*kernel, &*matrix, &*matrix_bias);
    // Rows of `matrix` that make the fine pixel (y, x) of fine frame s of a cell.
    let upscale = |s: usize, y: usize, x: usize| ((y * 2 + x) * z + s) * cout;
    let kinds = Kind::all(time);
    let jobs = folds(time, upscale);
    let room = Shared::new(room);
    pool.run(jobs.len(), |thread, job| {
        // SAFETY: one part per thread, as many as the scratch was made for.
        let sums = unsafe { room.part(thread * cin * cout, cin * cout) };
        fold(&jobs[job], [cin, cout], kernel, matrix, sums);
        for (o, i) in (0..cout).flat_map(|o| (0..cin).map(move |i| (o, i))) {
            // SAFETY: inside the packing; this job's own matrix.
            unsafe { writer.put(job, 0, i, o, dtype.round(sums[o * cin + i])) };
        }
    });
    fold_bias(weight, &kinds, [cout, z], kernel, matrix_bias, bias)
}

/// The 3x3x3 convolution of an upsampler, `[cout, mid, tap]`, as `[tap, cout, mid]`: products want matrices.
pub(crate) fn read_kernel(weight: &Weight, cout: usize, kernel: &mut [f32]) -> Result<()> {
    let mut line = vec![0.0; 27 * cout];
    for o in 0..cout {
        weight.read(WeightPart::Main, o * 27 * cout, &mut line)?;
        for (tap, out) in kernel.chunks_exact_mut(cout * cout).enumerate() {
            let row = &mut out[o * cout..(o + 1) * cout];
            row.iter_mut().zip(line[tap..].iter().step_by(27)).for_each(|(to, from)| *to = *from);
        }
    }
    Ok(())
}

/// One matrix of a folded upsampler, `[cout, cin]`: the sum of its products.
pub(crate) fn fold(
    pairs: &[(usize, usize)],
    [cin, cout]: [usize; 2],
    kernel: &[f32],
    matrix: &[f32],
    sums: &mut [f32],
) {
    for (n, (tap, rows)) in pairs.iter().enumerate() {
        // [cout, mid] times [mid, cin].
        let left = &kernel[tap * cout * cout..(tap + 1) * cout * cout];
        let right = &matrix[rows * cin..(rows + cout) * cin];
        matmul([cout, cin, cout], sums, n > 0, left, right);
    }
}

/// For each matrix of a folded upsampler the products it is the sum of: a tap of the fine convolution, and
/// the first row of the upscaling (as `upscale` says for fine frame, row and column of a cell) it falls on.
pub(crate) fn folds(time: bool, upscale: impl Fn(usize, usize, usize) -> usize) -> Vec<Vec<(usize, usize)>> {
    // Each matrix once, from the first phase that names it.
    let mut jobs = Vec::new();
    for (kind, phases) in Kind::all(time).iter().zip(&upsampled_phases(time)) {
        for phase in phases {
            for tap in &phase.taps {
                if tap.matrix == jobs.len() {
                    let mut pairs = Vec::new();
                    for (dt, s) in &kind.frames[tap.back] {
                        for (ky, py) in fine_pairs(phase.y, tap.dy) {
                            for (kx, px) in fine_pairs(phase.x, tap.dx) {
                                pairs.push((dt * 9 + ky * 3 + kx, upscale(*s, *py, *px)));
                            }
                        }
                    }
                    jobs.push(pairs);
                }
            }
        }
    }
    jobs
}

/// The bias: the convolution's own, and what the upscaling's bias becomes in the taps inside the frame.
pub(crate) fn fold_bias(
    weight: &Weight,
    kinds: &[Kind],
    [cout, z]: [usize; 2],
    kernel: &[f32],
    matrix_bias: &[f32],
    bias: &mut [f32],
) -> Result<()> {
    let mut own = vec![0.0; cout];
    weight.read(WeightPart::Bias, 0, &mut own)?;
    for o in 0..cout {
        // One tap of the convolution on the bias of one fine pixel of a cell.
        let mut products = [[0.0f64; 8]; 27];
        for (tap, products) in products.iter_mut().enumerate() {
            let row = &kernel[(tap * cout + o) * cout..(tap * cout + o + 1) * cout];
            for (phase, product) in products.iter_mut().enumerate().take(4 * z) {
                let pairs = row.iter().zip(&matrix_bias[phase * cout..(phase + 1) * cout]);
                *product = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            }
        }
        for (k, kind) in kinds.iter().enumerate() {
            for (y, x, edges) in (0..16).map(|i| (i / 8, i / 4 % 2, i % 4)) {
                let mut sum = f64::from(own[o]);
                for (dt, s) in kind.frames.iter().flatten() {
                    for (ky, kx) in (0..9).map(|i| (i / 3, i % 3)) {
                        // The border that a phase can touch: its own side of the cell.
                        let outside = (edges & 2 != 0 && ky == 2 * y) || (edges & 1 != 0 && kx == 2 * x);
                        let phase = ((y + ky + 1) % 2 * 2 + (x + kx + 1) % 2) * z + s;
                        sum += if outside { 0.0 } else { products[dt * 9 + ky * 3 + kx][phase] };
                    }
                }
                bias[((k * 4 + y * 2 + x) * 4 + edges) * cout + o] = sum as f32;
            }
        }
    }
    Ok(())
}
