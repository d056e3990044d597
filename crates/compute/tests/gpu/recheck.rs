//! Results that are computed again by the naive loops.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use remaster_compute::gpu::{GpuDevice, Watch};
use remaster_compute::{
    ComputeError, ConvDesc, DType, LinearDesc, Ops, Padding, Shape, SourceError, Weight, WeightPart,
    WeightSource, WeightSpec,
};
use remaster_testkit::op_cases::{Case, whole};

use crate::{device, open};

#[test]
fn right_results_are_right_when_they_are_computed_again() {
    let Some(device) = device("right_results_are_right_when_they_are_computed_again") else { return };
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let mut gpu = open(GpuDevice { watch: Watch::Always, ..device });
        for case in (0..260).map(Case::random).filter(|case| case.dtype == dtype) {
            whole(&mut gpu, &case);
        }
        gpu.wait().unwrap();
        println!("{dtype}: {} products", gpu.rechecked());
        assert!(gpu.rechecked() >= 15, "{dtype}: {}", gpu.rechecked());
    }
}

/// Ones, and something else from the second time on: as if the device had computed with other weights.
#[derive(Default)]
struct Changes(AtomicUsize);

impl WeightSource for Changes {
    fn read(&self, part: WeightPart, _: usize, out: &mut [f32]) -> Result<(), SourceError> {
        let times = self.0.fetch_add(usize::from(part == WeightPart::Main), Ordering::Relaxed);
        out.fill(if times < 1 { 1.0 } else { 1.5 });
        Ok(())
    }
}

#[test]
fn wrong_results_end_the_run() {
    let Some(device) = device("wrong_results_end_the_run") else { return };
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        for linear in [false, true] {
            let mut gpu = open(GpuDevice { watch: Watch::Always, ..device });
            let spec = match linear {
                true => WeightSpec::Linear { cin: 1, cout: 1, dtype },
                false => WeightSpec::conv([1, 1], [1; 3], dtype),
            };
            let weight = Weight::new("block.conv", spec, Arc::new(Changes::default()));
            gpu.load(&weight).unwrap();
            let shape = Shape::new(1, 4, 5, 1);
            let (x, y) = (gpu.alloc(shape, dtype).unwrap(), gpu.alloc(shape, dtype).unwrap());
            gpu.upload(&[1.0; 20], x.view()).unwrap();
            let (input, output, weight) = (x.view(), y.view(), &weight);
            let result = match linear {
                true => gpu.linear(&LinearDesc { input, weight, accumulate: false, sums: None, output }),
                false => gpu.conv(&ConvDesc::new(input, weight, Padding::default(), output)),
            };
            let error = result.and_then(|()| gpu.wait()).unwrap_err();
            assert!(matches!(error, ComputeError::DeviceWrong { .. }), "{error}");
            assert!(error.to_string().contains("block.conv is off by"), "{error}");
        }
    }
}
