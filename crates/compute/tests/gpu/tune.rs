//! Choosing kernels for the wide linear layers of the transformers.

use remaster_compute::gpu::tune;
use remaster_compute::{DType, WeightSpec};

use crate::device;

/// One part of them is timed, once for both.
#[test]
fn wide_linear_layers_share_a_timing_and_each_gets_a_kernel() {
    let test = "wide_linear_layers_share_a_timing_and_each_gets_a_kernel";
    let Some(device) = device(test) else { return };
    let linear = |cin, cout| WeightSpec::Linear { cin, cout, dtype: DType::F16 };
    let mut tuned = Vec::new();
    let layers = [linear(2560, 7680), linear(3072, 12288)];
    let best = tune(device, &layers, None, 4, 1, &mut |t| tuned.push(t.clone())).unwrap();
    let (first, second) = tuned.split_at(tuned.len() / 2);
    assert!(first.len() >= 4, "{first:?}");
    for (a, b) in first.iter().zip(second) {
        assert_eq!((&*a.layer, &*b.layer), ("linear 2560 to 7680 f16", "linear 3072 to 12288 f16"));
        assert_eq!((&a.kernel, a.seconds), (&b.kernel, b.seconds));
        assert!(a.right && a.seconds.is_finite(), "{a:?}");
    }
    let fastest = first.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds)).unwrap();
    let table = best.choices.table();
    assert_eq!(table.len(), 2, "{table:?}");
    assert!(table.values().all(|v| *v == fastest.kernel), "{table:?}");
}
