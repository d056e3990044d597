//! Long ops stop soon after cancellation, and report it where it matters.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use remaster_compute::{
    AttentionDesc, Backend, CancelToken, ComputeError, ConvDesc, DType, Ops, Padding, Shape, Weight,
    WeightSpec,
};
use remaster_testkit::Noise;

/// Runs `op` on a thread of its own, cancels it after 50 ms, and returns how long it went on.
fn cancelled(mut op: impl FnMut(&mut dyn Ops) + Send + 'static) -> Duration {
    let token = CancelToken::default();
    let mut ops = Backend::cpu_with(2).open(2 << 30, token.clone()).unwrap();
    let worker = std::thread::spawn(move || {
        op(ops.as_mut());
        let ended = Instant::now();
        assert!(matches!(ops.wait(), Err(ComputeError::Cancelled)));
        let mut out = [0.0];
        let x = ops.alloc(Shape::new(1, 1, 1, 1), DType::F32).unwrap();
        assert!(matches!(ops.download(x.view(), &mut out), Err(ComputeError::Cancelled)));
        ended
    });
    std::thread::sleep(Duration::from_millis(50));
    token.cancel();
    let asked = Instant::now();
    worker.join().unwrap().saturating_duration_since(asked)
}

#[test]
fn a_convolution_of_many_seconds_stops_when_cancelled() {
    let late = cancelled(|ops| {
        let spec = WeightSpec::conv([64, 512], [3; 3], DType::F32);
        let weight = Weight::new("w", spec, Arc::new(Noise { seed: 1, scale: 0.1, centre: 0.0 }));
        ops.load(&weight).unwrap();
        let x = ops.alloc(Shape::new(2, 512, 512, 64), DType::F32).unwrap();
        let y = ops.alloc(Shape::new(2, 512, 512, 512), DType::F32);
        let Ok(y) = y else { return };
        for _ in 0..20 {
            ops.conv(&ConvDesc::new(x.view(), &weight, Padding::all(1), y.view())).unwrap();
        }
    });
    // 100 ms is the promise on a quiet machine; tests share theirs.
    assert!(late < Duration::from_millis(400), "{late:?}");
}

#[test]
fn attention_over_many_tokens_stops_when_cancelled() {
    let late = cancelled(|ops| {
        let shape = Shape::new(1, 160, 160, 512);
        let t: Vec<_> = (0..4).map(|_| ops.alloc(shape, DType::F32).unwrap()).collect();
        for _ in 0..20 {
            let (q, k, v, output) = (t[0].view(), t[1].view(), t[2].view(), t[3].view());
            ops.attention(&AttentionDesc { q, k, v, heads: 1, scale: 0.1, output }).unwrap();
        }
    });
    assert!(late < Duration::from_millis(400), "{late:?}");
}
