//! Cutting a clip in time changes no bit, and clips do not see each other.
#![expect(clippy::unwrap_used, reason = "tests")]

use remaster_compute::meter::Meter;
use remaster_compute::{Backend, CancelToken, CpuPath, DType, HostTensor, Ops, Shape};
use remaster_model::vae::{Decoder, Encoder, VaeConfig};
use remaster_model::{Build, Network, Pass, Scope, State, load};
use remaster_plan::slices::Lengths;
use remaster_testkit::{Rng, dry_run, nightly, run_clip};
use remaster_weights::FormulaParams;

fn half(which: &str, config: &VaeConfig, build: impl Into<Build>) -> Box<dyn Network> {
    let mut params = FormulaParams;
    let mut scope = Scope::root(&mut params, build);
    match which {
        "encoder" => Box::new(Encoder::new(config, &mut scope.at("encoder"))),
        _ => Box::new(Decoder::new(config, &mut scope.at("decoder"))),
    }
}

fn noise(seed: u64, shape: Shape) -> HostTensor {
    HostTensor { shape, data: Rng::new(seed).values(shape.len()) }
}

fn run(half: &dyn Network, backend: Backend, dtype: DType, clip: &HostTensor, lengths: &[usize]) -> Vec<u32> {
    let mut ops = backend.open(2 << 30, CancelToken::default()).unwrap();
    load(ops.as_mut(), half).unwrap();
    let out = run_clip(ops.as_mut(), half, dtype, clip, lengths).unwrap();
    out.data.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn sliced_equals_unsliced_to_the_bit_in_the_small_network() {
    let config = VaeConfig::tiny();
    for dtype in [DType::F32, DType::Bf16] {
        let encoder = half("encoder", &config, dtype);
        let decoder = half("decoder", &config, dtype);
        for (i, (t, h, w)) in [(25, 16, 24), (17, 40, 24), (9, 8, 8)].into_iter().enumerate() {
            let x = noise(i as u64, Shape::new(t, h, w, 3));
            let z = noise(i as u64, Shape::new((t - 1) / 4 + 1, h / 8, w / 8, 16));
            let backend = Backend::cpu_with(2);
            let whole = run(encoder.as_ref(), backend, dtype, &x, &[t]);
            let back = run(decoder.as_ref(), backend, dtype, &z, &[z.shape.t]);
            for length in [4, 8, 12] {
                let cut = Lengths::new(t, length).iter().collect::<Vec<_>>();
                assert!(
                    run(encoder.as_ref(), backend, dtype, &x, &cut) == whole,
                    "encoder {dtype} {t} by {length}"
                );
                let cut = Lengths::new(z.shape.t, length / 4).iter().collect::<Vec<_>>();
                assert!(
                    run(decoder.as_ref(), backend, dtype, &z, &cut) == back,
                    "decoder {dtype} {t} by {length}"
                );
            }
            // One latent at a time from the very first: the shortest slices there are.
            let ones = vec![1; z.shape.t];
            assert!(
                run(decoder.as_ref(), backend, dtype, &z, &ones) == back,
                "decoder {dtype} by single latents"
            );
            let first: Vec<usize> = std::iter::once(1).chain(vec![4; (t - 1) / 4]).collect();
            assert!(
                run(encoder.as_ref(), backend, dtype, &x, &first) == whole,
                "encoder {dtype}, first frame alone"
            );
        }
    }
}

#[test]
fn sliced_equals_unsliced_to_the_bit_on_every_cpu_path_folded_or_not() {
    let config = VaeConfig::tiny();
    let x = noise(20, Shape::new(13, 24, 32, 3));
    let z = noise(21, Shape::new(4, 3, 4, 16));
    for path in CpuPath::all() {
        let backend = Backend::Cpu { threads: 2, path };
        let all = [(true, DType::F32), (false, DType::Bf16), (false, DType::F32), (true, DType::Bf16)];
        for (collapse, dtype) in all.into_iter().take(nightly(2, 4)) {
            let build = Build { dtype, collapse };
            let encoder = half("encoder", &config, build);
            let decoder = half("decoder", &config, build);
            let whole = run(encoder.as_ref(), backend, dtype, &x, &[13]);
            assert!(
                run(encoder.as_ref(), backend, dtype, &x, &[5, 4, 4]) == whole,
                "encoder {path} {build:?}"
            );
            let whole = run(decoder.as_ref(), backend, dtype, &z, &[4]);
            for cut in [vec![2, 1, 1], vec![1, 2, 1], vec![1; 4]] {
                assert!(
                    run(decoder.as_ref(), backend, dtype, &z, &cut) == whole,
                    "decoder {path} {build:?} {cut:?}"
                );
            }
        }
    }
}

#[test]
fn sliced_equals_unsliced_to_the_bit_in_the_full_network() {
    let config = VaeConfig::full();
    let x = noise(1, Shape::new(13, 16, 24, 3));
    let z = noise(2, Shape::new(4, 2, 3, 16));
    let backend = Backend::cpu_with(2);
    let encoder = half("encoder", &config, DType::F32);
    let whole = run(encoder.as_ref(), backend, DType::F32, &x, &[13]);
    for length in [4, 8, 12] {
        let cut = Lengths::new(13, length).iter().collect::<Vec<_>>();
        assert!(run(encoder.as_ref(), backend, DType::F32, &x, &cut) == whole, "encoder by {length}");
    }
    drop(encoder);
    let decoder = half("decoder", &config, DType::F32);
    let whole = run(decoder.as_ref(), backend, DType::F32, &z, &[4]);
    for cut in [vec![2, 1, 1], vec![3, 1], vec![1; 4]] {
        assert!(run(decoder.as_ref(), backend, DType::F32, &z, &cut) == whole, "decoder by {cut:?}");
    }
}

#[test]
fn two_clips_taking_turns_on_one_model_equal_each_run_alone() {
    let config = VaeConfig::tiny();
    let backend = Backend::cpu_with(2);
    for (which, channels, size, lengths) in
        [("encoder", 3, (24, 16), [5, 4, 4]), ("decoder", 16, (3, 2), [2, 1, 1])]
    {
        let model = half(which, &config, DType::F32);
        let t = lengths.iter().sum();
        let clips = [10, 11].map(|seed| noise(seed, Shape::new(t, size.0, size.1, channels)));
        let alone = clips.each_ref().map(|c| run(model.as_ref(), backend, DType::F32, c, &lengths));

        let mut ops = backend.open(1 << 30, CancelToken::default()).unwrap();
        load(ops.as_mut(), model.as_ref()).unwrap();
        let mut states = [State::new(), State::new()];
        let mut together = [Vec::new(), Vec::new()];
        let mut start = 0;
        for length in lengths {
            for i in 0..2 {
                let x = ops.alloc(Shape { t: length, ..clips[i].shape }, DType::F32).unwrap();
                ops.upload(clips[i].frames(start..start + length), x.view()).unwrap();
                let y = model.forward(&mut Pass { ops: ops.as_mut(), state: &mut states[i] }, x).unwrap();
                let mut out = vec![0.0; y.shape().len()];
                ops.download(y.view(), &mut out).unwrap();
                together[i].extend(out.iter().map(|v| v.to_bits()));
            }
            start += length;
        }
        assert!(together == alone, "{which}");
    }
}

#[test]
fn the_arena_peaks_where_the_meter_said_to_the_byte() {
    let config = VaeConfig::tiny();
    let mut rng = Rng::new(7);
    for i in 0..nightly(8, 24) {
        let threads = rng.between(1, 3);
        let dtype = rng.pick(&[DType::F32, DType::Bf16, DType::F16]);
        let backend = Backend::cpu_with(threads);
        let (n, h, w) = (rng.between(0, 4), rng.between(1, 6), rng.between(1, 6));
        let length = 4 * rng.between(0, 3);
        let (which, shape, lengths) = match i % 2 {
            0 => (
                "encoder",
                Shape::new(4 * n + 1, 8 * h, 8 * w, 3),
                Lengths::new(4 * n + 1, length).iter().collect::<Vec<_>>(),
            ),
            _ => (
                "decoder",
                Shape::new(n + 1, h, w, 16),
                Lengths::new(n + 1, length / 4).iter().collect::<Vec<_>>(),
            ),
        };
        let mut meter = Meter::endless(backend.sizing());
        dry_run(&mut meter, half(which, &config, dtype).as_ref(), dtype, shape, &lengths).unwrap();

        let model = half(which, &config, dtype);
        let mut ops = backend.open(meter.arena().peak(), CancelToken::default()).unwrap();
        load(ops.as_mut(), model.as_ref()).unwrap();
        run_clip(ops.as_mut(), model.as_ref(), dtype, &noise(i, shape), &lengths).unwrap();
        assert_eq!(
            ops.arena().peak(),
            meter.arena().peak(),
            "{which} {shape} {lengths:?} {dtype} {threads} threads"
        );
        assert_eq!(ops.arena().peak_live(), meter.arena().peak_live());

        // One step less and it does not fit: refused, not crashed.
        let model = half(which, &config, dtype);
        let mut small = backend.open(meter.arena().peak() - 256, CancelToken::default()).unwrap();
        let refused = load(small.as_mut(), model.as_ref()).and_then(|()| {
            run_clip(small.as_mut(), model.as_ref(), dtype, &noise(i, shape), &lengths).map(drop)
        });
        assert!(matches!(refused, Err(remaster_compute::ComputeError::OutOfMemory { .. })), "{refused:?}");
    }
}
