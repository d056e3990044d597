//! Cutting a clip in time changes no bit, and clips do not see each other.
#![expect(clippy::unwrap_used, reason = "tests")]

use remaster_compute::meter::Meter;
use remaster_compute::{Backend, CancelToken, CpuPath, DType, HostTensor, Ops, Shape};
use remaster_model::vae::{Direction, VaeConfig};
use remaster_model::{Build, Network, Pass, State, load};
use remaster_plan::slices::Lengths;
use remaster_testkit::{Rng, dry_run, nightly, run_clip};
use remaster_weights::FormulaParams;

fn half(direction: Direction, config: &VaeConfig, build: impl Into<Build>) -> Box<dyn Network> {
    direction.network(config, &mut FormulaParams, build)
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

/// Every cut of a clip gives the bits of the whole.
fn cuts_are_the_whole(
    half: &dyn Network,
    backend: Backend,
    build: impl Into<Build>,
    clip: &HostTensor,
    cuts: &[Vec<usize>],
) {
    let build = build.into();
    let whole = run(half, backend, build.dtype, clip, &[clip.shape.t]);
    for cut in cuts {
        let same = run(half, backend, build.dtype, clip, cut) == whole;
        assert!(same, "{} {backend:?} {build:?} {}: {cut:?}", half.name(), clip.shape);
    }
}

/// A clip of `t` frames or latents in slices of each of these lengths.
fn by(t: usize, lengths: [usize; 3]) -> Vec<Vec<usize>> {
    lengths.map(|length| Lengths::new(t, length).iter().collect()).to_vec()
}

#[test]
fn sliced_equals_unsliced_to_the_bit_in_the_small_network() {
    let (config, backend) = (VaeConfig::tiny(), Backend::cpu_with(2));
    for dtype in [DType::F32, DType::Bf16] {
        let encoder = half(Direction::Encode, &config, dtype);
        let decoder = half(Direction::Decode, &config, dtype);
        for (i, (t, h, w)) in [(25, 16, 24), (17, 40, 24), (9, 8, 8)].into_iter().enumerate() {
            let x = noise(i as u64, Shape::new(t, h, w, 3));
            let z = noise(i as u64, Shape::new((t - 1) / 4 + 1, h / 8, w / 8, 16));
            // The first frame alone, and one latent at a time from the very first: the shortest slices there are.
            let first = [vec![1], vec![4; (t - 1) / 4]].concat();
            let cuts = [by(t, [4, 8, 12]), vec![first]].concat();
            cuts_are_the_whole(encoder.as_ref(), backend, dtype, &x, &cuts);
            let cuts = [by(z.shape.t, [1, 2, 3]), vec![vec![1; z.shape.t]]].concat();
            cuts_are_the_whole(decoder.as_ref(), backend, dtype, &z, &cuts);
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
            let encoder = half(Direction::Encode, &config, build);
            cuts_are_the_whole(encoder.as_ref(), backend, build, &x, &[vec![5, 4, 4]]);
            let decoder = half(Direction::Decode, &config, build);
            let cuts = [vec![2, 1, 1], vec![1, 2, 1], vec![1; 4]];
            cuts_are_the_whole(decoder.as_ref(), backend, build, &z, &cuts);
        }
    }
}

#[test]
#[ignore = "nightly: minutes on a CPU without AMX; the gate has the small network"]
fn sliced_equals_unsliced_to_the_bit_in_the_full_network() {
    let (config, backend) = (VaeConfig::full(), Backend::cpu_with(2));
    let x = noise(1, Shape::new(13, 16, 24, 3));
    let z = noise(2, Shape::new(4, 2, 3, 16));
    let encoder = half(Direction::Encode, &config, DType::F32);
    cuts_are_the_whole(encoder.as_ref(), backend, DType::F32, &x, &by(13, [4, 8, 12]));
    drop(encoder);
    let decoder = half(Direction::Decode, &config, DType::F32);
    let cuts = [vec![2, 1, 1], vec![3, 1], vec![1; 4]];
    cuts_are_the_whole(decoder.as_ref(), backend, DType::F32, &z, &cuts);
}

#[test]
fn two_clips_taking_turns_on_one_model_equal_each_run_alone() {
    let config = VaeConfig::tiny();
    let backend = Backend::cpu_with(2);
    for (which, channels, size, lengths) in
        [(Direction::Encode, 3, (24, 16), [5, 4, 4]), (Direction::Decode, 16, (3, 2), [2, 1, 1])]
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
                together[i].extend(ops.values(y.view()).unwrap().iter().map(|v| v.to_bits()));
            }
            start += length;
        }
        assert!(together == alone, "{which:?}");
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
            0 => (Direction::Encode, Shape::new(4 * n + 1, 8 * h, 8 * w, 3), Lengths::new(4 * n + 1, length)),
            _ => (Direction::Decode, Shape::new(n + 1, h, w, 16), Lengths::new(n + 1, length / 4)),
        };
        let lengths: Vec<usize> = lengths.iter().collect();
        let mut meter = Meter::endless(backend.sizing());
        dry_run(&mut meter, half(which, &config, dtype).as_ref(), dtype, shape, &lengths).unwrap();

        let model = half(which, &config, dtype);
        let mut ops = backend.open(meter.arena().peak(), CancelToken::default()).unwrap();
        load(ops.as_mut(), model.as_ref()).unwrap();
        run_clip(ops.as_mut(), model.as_ref(), dtype, &noise(i, shape), &lengths).unwrap();
        assert_eq!(
            ops.arena().peak(),
            meter.arena().peak(),
            "{which:?} {shape} {lengths:?} {dtype} {threads} threads"
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
