//! Weights in the layout of the kernels: f32, rounded to the weight's precision, input channels down and
//! output channels across, tap after tap; then the bias.
#![expect(unsafe_code, reason = "prepared weights live in the arena and are read in place")]

use crate::dtype::DType;
use crate::error::ComputeError;
use crate::host::HostMemory;
use crate::weight::{Part, Weight, WeightSpec};

/// Output channels read at a time: the transposed writes then fill whole cache lines.
const CHUNK: usize = 16;

pub(super) fn bytes(spec: &WeightSpec) -> u64 {
    4 * (spec.main_len() + spec.bias_len()) as u64
}

/// Main part and bias of a loaded weight.
pub(super) fn weight_parts<'a>(
    host: &HostMemory,
    weight: &'a Weight,
) -> Result<(&'a [f32], &'a [f32]), ComputeError> {
    let buffer = weight.buffer()?;
    let base = host.address("weight", "weight", &buffer)?.cast::<f32>();
    let (main, bias) = (weight.spec().main_len(), weight.spec().bias_len());
    // SAFETY: `load` made the buffer for this spec and filled it; it is not written again while loaded.
    // The slices live as long as the borrowed weight, which eviction (`&mut` backend) cannot interleave
    // with an op that holds them (`&` backend).
    let all = unsafe { std::slice::from_raw_parts(base, main + bias) };
    Ok(all.split_at(main))
}

pub(super) fn load(host: &HostMemory, weight: &Weight) -> Result<(), ComputeError> {
    if weight.is_resident() {
        return Ok(());
    }
    let spec = weight.spec();
    let buffer = host.arena().alloc(bytes(&spec))?;
    let base = host.address("load", "weight", &buffer)?.cast::<f32>();
    // SAFETY: a fresh buffer of exactly this many values that nobody else knows.
    let all = unsafe { std::slice::from_raw_parts_mut(base, spec.main_len() + spec.bias_len()) };
    let (main, bias) = all.split_at_mut(spec.main_len());
    match spec {
        WeightSpec::Conv { cin, cout, kernel, dtype } => {
            transpose(weight, dtype, [cout, cin, kernel.iter().product()], main)?;
        }
        WeightSpec::Linear { cin, cout, dtype } => transpose(weight, dtype, [cout, cin, 1], main)?,
        WeightSpec::Norm { .. } => weight.read(Part::Main, 0, main)?,
    }
    weight.read(Part::Bias, 0, bias)?;
    weight.set_buffer(Some(buffer));
    Ok(())
}

/// `[cout, cin, taps]` to `[taps, cin, cout]`.
fn transpose(
    weight: &Weight,
    dtype: DType,
    [cout, cin, taps]: [usize; 3],
    out: &mut [f32],
) -> Result<(), ComputeError> {
    let mut chunk = vec![0.0; CHUNK.min(cout) * cin * taps];
    for first in (0..cout).step_by(CHUNK) {
        let n = CHUNK.min(cout - first);
        let chunk = &mut chunk[..n * cin * taps];
        weight.read(Part::Main, first * cin * taps, chunk)?;
        dtype.round_all(chunk);
        for (tap, i) in (0..taps).flat_map(|tap| (0..cin).map(move |i| (tap, i))) {
            let line = &mut out[(tap * cin + i) * cout + first..][..n];
            for (o, value) in line.iter_mut().enumerate() {
                *value = chunk[(o * cin + i) * taps + tap];
            }
        }
    }
    Ok(())
}
