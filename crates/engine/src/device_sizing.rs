//! Sizes of a graphics card that is not there.

use remaster_compute::{DType, OpWork, Sizing, WeightSpec};

/// What a device with memory of its own will take: dense weights, no scratch. Stands for graphics cards
/// until a backend for them says it more exactly.
struct DeviceSizing;

impl Sizing for DeviceSizing {
    fn weight_bytes(&self, spec: &WeightSpec) -> u64 {
        let dense = |values: usize, dtype: DType, bias: usize| (values * dtype.bytes() + 4 * bias) as u64;
        match *spec {
            WeightSpec::Conv { dtype, .. } | WeightSpec::Linear { dtype, .. } => {
                dense(spec.main_len(), dtype, spec.bias_len())
            }
            // Folded: 112 matrices and 80 biases where time doubles, else 48 and 16.
            WeightSpec::Upsample { cin, cout, time, dtype } => {
                let (matrices, biases) = if time { (112, 80) } else { (48, 16) };
                dense(matrices * cin * cout, dtype, biases * cout)
            }
            WeightSpec::Norm { channels } => 8 * channels as u64,
            WeightSpec::Vector { len } => 4 * len as u64,
        }
    }

    fn scratch_bytes(&self, _: &OpWork) -> u64 {
        0
    }
}

/// Sizes of a device with memory of its own.
pub fn device_sizing() -> Box<dyn Sizing> {
    Box::new(DeviceSizing)
}
