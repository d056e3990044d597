//! Results that are computed again by the naive loops.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use remaster_compute::gpu::{ENOUGH, Gpu, GpuDevice, GpuLimits, Monitor, MonitorRef, NetworkId, Watch};
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

/// Remembers everything.
#[derive(Default)]
struct Notes {
    verified: Mutex<HashMap<NetworkId, u64>>,
    wrong: Mutex<Vec<String>>,
}

impl Notes {
    fn new() -> &'static Self {
        Box::leak(Box::default())
    }
}

impl Monitor for Notes {
    fn verified(&self, network: NetworkId) -> u64 {
        self.verified.lock().unwrap().get(&network).copied().unwrap_or(0)
    }

    fn add_verified(&self, network: NetworkId) -> Option<String> {
        *self.verified.lock().unwrap().entry(network).or_default() += 1;
        None
    }

    fn found_wrong(&self, reason: &str) {
        self.wrong.lock().unwrap().push(reason.to_owned());
    }
}

const NETWORKS: [NetworkId; 3] = [
    NetworkId { name: "encode", values: 1, dtype: DType::F32 },
    NetworkId { name: "encode", values: 1, dtype: DType::F16 },
    NetworkId { name: "encode", values: 2, dtype: DType::F32 },
];

/// A session of a network on a device that is watched as a card is.
fn session(device: GpuDevice, notes: &'static Notes, network: NetworkId) -> Gpu {
    let limits = GpuLimits { timed: true, ..GpuLimits::default() };
    let (monitor, network) = (Some(MonitorRef(notes)), Some(network));
    open(GpuDevice { limits, watch: Watch::Seldom, monitor, network, ..device })
}

/// Values that come slowly and are others from the second time on.
struct Slow(Changes);

impl WeightSource for Slow {
    fn read(&self, part: WeightPart, first: usize, out: &mut [f32]) -> Result<(), SourceError> {
        let result = self.0.read(part, first, out);
        if self.0.0.load(Ordering::Relaxed) > 1 {
            std::thread::sleep(Duration::from_millis(300));
        }
        result
    }
}

/// Ones, always.
struct Ones;

impl WeightSource for Ones {
    fn read(&self, _: WeightPart, _: usize, out: &mut [f32]) -> Result<(), SourceError> {
        out.fill(1.0);
        Ok(())
    }
}

/// So many products, as a short clip has.
fn products(gpu: &mut Gpu, count: usize, source: Arc<dyn WeightSource>) -> Result<(), ComputeError> {
    let spec = WeightSpec::Linear { cin: 1, cout: 1, dtype: DType::F32 };
    let weight = Weight::new("block.linear", spec, source);
    gpu.load(&weight)?;
    let shape = Shape::new(1, 4, 5, 1);
    let (x, y) = (gpu.alloc(shape, DType::F32)?, gpu.alloc(shape, DType::F32)?);
    gpu.upload(&[1.0; 20], x.view())?;
    for _ in 0..count {
        let (input, output, weight) = (x.view(), y.view(), &weight);
        gpu.linear(&LinearDesc { input, weight, accumulate: false, sums: None, output })?;
    }
    gpu.wait()
}

#[test]
fn the_finding_of_a_look_that_is_under_way_at_the_end_is_not_lost() {
    let test = "the_finding_of_a_look_that_is_under_way_at_the_end_is_not_lost";
    let Some(device) = device(test) else { return };
    let notes = Notes::new();
    let mut gpu = session(device, notes, NETWORKS[0]);
    // The last wait of a clip comes before the look is over.
    let ended = products(&mut gpu, 20, Arc::new(Slow(Changes::default())));
    assert!(ended.is_ok(), "{ended:?}");
    let error = gpu.finish_checks().unwrap_err();
    assert!(matches!(error, ComputeError::DeviceWrong { .. }), "{error}");
    assert_eq!((notes.wrong.lock().unwrap().len(), notes.verified(NETWORKS[0])), (1, 0));
    // One that is given up is remembered, too, though nobody hears of it.
    let notes = Notes::new();
    let mut gpu = session(device, notes, NETWORKS[0]);
    products(&mut gpu, 20, Arc::new(Slow(Changes::default()))).unwrap();
    drop(gpu);
    let began = std::time::Instant::now();
    while notes.wrong.lock().unwrap().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn each_network_and_format_is_looked_at_in_short_sessions_until_enough_was_right() {
    let test = "each_network_and_format_is_looked_at_in_short_sessions_until_enough_was_right";
    let Some(device) = device(test) else { return };
    let notes = Notes::new();
    for network in NETWORKS {
        // The looks at the network before do not put off the first at this one.
        let mut gpu = session(device, notes, network);
        products(&mut gpu, 20, Arc::new(Ones)).unwrap();
        gpu.finish_checks().unwrap();
        assert!(notes.verified(network) >= 1, "{network}");
    }
    // One that was verified often enough is left alone; what is not a network is never looked at.
    notes.verified.lock().unwrap().insert(NETWORKS[0], ENOUGH);
    let mut gpu = session(device, notes, NETWORKS[0]);
    products(&mut gpu, 40, Arc::new(Ones)).unwrap();
    gpu.finish_checks().unwrap();
    assert_eq!((gpu.rechecked(), notes.verified(NETWORKS[0])), (0, ENOUGH));
    let mut gpu = open(GpuDevice { watch: Watch::Always, monitor: Some(MonitorRef(notes)), ..device });
    products(&mut gpu, 20, Arc::new(Ones)).unwrap();
    assert_eq!(gpu.rechecked(), 0);
}
