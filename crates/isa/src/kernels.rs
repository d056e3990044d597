//! The kernels that the real networks use.

use remaster_compute::gpu::{KernelText, LayerUse, MatrixUnits, other_texts, product_text, variants};
use remaster_compute::{DType, WeightSpec};

/// Layers that take most of the time of the networks, and how they are used.
fn layers(dtype: DType) -> Vec<(WeightSpec, LayerUse)> {
    let conv = |cin, cout| WeightSpec::Conv { cin, cout, kernel: [3; 3], stride: [1; 3], dtype };
    let plain = LayerUse::default();
    let norm = LayerUse { prologue: true, ..plain };
    let shortcut = LayerUse { prologue: true, shortcut: true };
    vec![
        (conv(512, 512), plain),
        (conv(512, 512), norm),
        (conv(256, 256), norm),
        (conv(512, 256), shortcut),
        (conv(128, 128), norm),
        (WeightSpec::Upsample { cin: 512, cout: 512, time: true, dtype }, plain),
        (WeightSpec::Linear { cin: 2560, cout: 2560, dtype }, plain),
        (WeightSpec::Linear { cin: 2560, cout: 7680, dtype }, plain),
    ]
}

/// All of them for a device with these matrix units, in f16 and f32.
pub(crate) fn all(units: MatrixUnits) -> Vec<KernelText> {
    let mut texts = Vec::new();
    for dtype in [DType::F16, DType::F32] {
        for (spec, used) in layers(dtype) {
            let kernels = variants(&spec, Some(units));
            // In f16 those on matrix units; in f32 the default.
            let matrix = kernels.iter().filter(|v| v.family() == "matrix").collect::<Vec<_>>();
            let chosen = if matrix.is_empty() { kernels.iter().take(1).collect() } else { matrix };
            texts.extend(chosen.into_iter().filter_map(|variant| product_text(&spec, variant, used)));
        }
        texts.extend(other_texts(dtype));
    }
    texts
}
