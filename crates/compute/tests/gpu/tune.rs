//! Choosing kernels for the wide linear layers of the transformers.

use remaster_compute::gpu::{ProductLayer, Timing, tune};
use remaster_compute::{DType, WeightSpec};

use crate::device;

/// They are checked at their widths, and a part of them is timed.
#[test]
#[ignore = "nightly: minutes on a software device; the gate tunes narrow layers"]
fn wide_linear_layers_are_right_and_each_gets_its_fastest_kernel() {
    let test = "wide_linear_layers_are_right_and_each_gets_its_fastest_kernel";
    let Some(device) = device(test) else { return };
    let linear = |cin, cout| {
        let spec = WeightSpec::Linear { cin, cout, dtype: DType::F16 };
        ProductLayer { spec, prologue: false }
    };
    let mut tuned = Vec::new();
    let layers = [linear(2560, 7680), linear(3072, 12288)];
    let timing = Some(Timing { side: 4, runs: 1 });
    let best = tune(device, &layers, None, timing, &mut |t| tuned.push(t.clone())).unwrap();
    let table = best.choices.table();
    assert_eq!(table.len(), 2, "{table:?}");
    for layer in ["linear 2560 to 7680 f16", "linear 3072 to 12288 f16"] {
        let of_it: Vec<_> = tuned.iter().filter(|t| t.layer == layer).collect();
        assert!(of_it.len() >= 4, "{of_it:?}");
        assert!(of_it.iter().all(|t| t.fault.is_none() && t.seconds.is_finite()), "{of_it:?}");
        let fastest = of_it.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds)).unwrap();
        assert_eq!(table[layer], fastest.kernel);
    }
}
