//! Finds the faster way to attend: by threads, or on matrix units.

use std::collections::BTreeMap;

use super::{Guard, Ran, Tuned, fastest, number, tried};
use crate::cancel::CancelToken;
use crate::dtype::DType;
use crate::error::{ComputeError, Result};
use crate::gpu::choice::{Choices, attention_name};
use crate::gpu::kernels::Heads;
use crate::gpu::{Gpu, GpuDevice};
use crate::ops::{AttentionDesc, Ops, WindowAttentionDesc};
use crate::reference::Reference;
use crate::tensor::Shape;

/// Attention of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionLayer {
    /// In windows, with common tokens.
    pub windowed: bool,
    /// Channels of a head.
    pub width: usize,
    /// Format of its operands.
    pub dtype: DType,
}

/// Tokens and heads that are compared with the reference, and those that are timed.
const SMALL: [usize; 2] = [77, 2];
const LARGE: [usize; 2] = [1024, 8];
/// Tokens that every window sees.
const COMMON: usize = 9;

/// Times every way, or that of one `family`, and passes each result to `tell`. Returns the device with the fastest chosen,
/// beside the choices that it has.
pub fn tune_attention(
    device: GpuDevice,
    layers: &[AttentionLayer],
    family: Option<&str>,
    runs: Option<usize>,
    tell: &mut dyn FnMut(&Tuned),
) -> Result<GpuDevice> {
    let mut table = device.choices.table();
    for layer in layers {
        let name = attention_name(layer.windowed, layer.width, layer.dtype);
        let units = device.open()?.units.filter(|_| layer.dtype == DType::F16);
        let heads = units.and_then(|u| Heads::new(layer.width, u)).map(|h| ("matrix", h.to_string()));
        let all = [Some(("direct", "direct".to_owned())), heads];
        let mut results = Vec::new();
        let twin = attend(&mut Reference::new(64 << 20)?, layer, SMALL, 1)?.values;
        for (of, kernel) in all.into_iter().flatten().filter(|(of, _)| family.is_none_or(|f| f == *of)) {
            let choices = Choices::new(BTreeMap::from([(name.clone(), kernel.clone())]));
            let run = |[tokens, heads]: [usize; 2], runs: usize| {
                let bytes = 4 * (tokens + COMMON) * heads * layer.width * layer.dtype.bytes();
                let with = GpuDevice { choices, ..device };
                let mut gpu = Gpu::new(with, bytes as u64 + (1 << 20), CancelToken::default())?;
                attend(&mut gpu, layer, [tokens, heads], runs)
            };
            let seconds = || runs.map_or(Ok(0.0), |runs| Ok(run(LARGE, runs.max(1) + 1)?.seconds));
            let (max_abs, fault, seconds) = tried(layer.dtype, &twin, || run(SMALL, 2), seconds);
            let result = Tuned { layer: name.clone(), kernel, family: of, max_abs, fault, seconds };
            tell(&result);
            results.push(result);
        }
        if let Some(best) = fastest(&results) {
            table.insert(name, best.kernel.clone());
        }
    }
    Ok(GpuDevice { choices: Choices::new(table), ..device })
}

/// Attends once or more.
fn attend(
    ops: &mut dyn Ops,
    layer: &AttentionLayer,
    [tokens, heads]: [usize; 2],
    runs: usize,
) -> Result<Ran> {
    let shape = Shape::new(1, tokens, 1, heads * layer.width);
    let mut seed = 0;
    let mut tensor = |shape: Shape| {
        let tensor = ops.alloc(shape, layer.dtype)?;
        seed += 1_000_003;
        let values: Vec<f32> = (0..shape.len()).map(|i| number(seed + i)).collect();
        ops.upload(&values, tensor.view())?;
        Ok::<_, ComputeError>(tensor)
    };
    let [q, k, v] = [tensor(shape)?, tensor(shape)?, tensor(shape)?];
    let common = Shape { h: COMMON, ..shape };
    let [common_k, common_v] = [tensor(common)?, tensor(common)?];
    let front = Guard::new(ops)?;
    let y = ops.alloc(shape, layer.dtype)?;
    let behind = Guard::new(ops)?;
    let scale = (layer.width as f32).sqrt().recip();
    Ran::of(ops, &y, &[front, behind], runs, |ops| {
        let (q, k, v, output) = (q.view(), k.view(), v.view(), y.view());
        match layer.windowed {
            false => ops.attention(&AttentionDesc { q, k, v, heads, scale, output }),
            true => ops.window_attention(&WindowAttentionDesc {
                q,
                k,
                v,
                windows: &[tokens],
                common_k: common_k.view(),
                common_v: common_v.view(),
                common: None,
                heads,
                scale,
                output,
            }),
        }
    })
}
