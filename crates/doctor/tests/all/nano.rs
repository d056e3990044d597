//! The small networks of `testdata`, computed and trained: recognised, loaded, and the same as in PyTorch.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{tensor, testdata};
use remaster_compute::{Backend, DType, HostTensor};
use remaster_engine::{MemoryClip, Task};
use remaster_model::Build;
use remaster_model::vae::{Direction, Gaussian, VaeConfig};
use remaster_plan::{Candidate, Clip, TIME};
use remaster_weights::{Checkpoint, Kind, identify, open_vae};

/// A network and what it must do.
struct Small {
    file: &'static str,
    golden: &'static str,
    latent: usize,
    parameters: u64,
    /// Largest difference of the mean and of the decoded clip to PyTorch with the same 16-bit weights in f32: four times
    /// what was measured.
    tolerance: [f64; 2],
    /// Decibels of the clip that comes back, at least, in every format.
    decibels: f64,
}

const SMALL: [Small; 2] = [
    Small {
        file: "nano.safetensors",
        golden: "nano_clip_9x48x32.safetensors",
        latent: 28,
        parameters: 2_788_043,
        tolerance: [2.1e-5, 4e-6],
        decibels: 29.0,
    },
    // Measured: 8e-6 for the mean, whose values reach further than those of a picture, and 1e-6 for the decoded clip.
    Small {
        file: "trained.safetensors",
        golden: "trained_clip_9x48x32.safetensors",
        latent: 16,
        parameters: 2_725_811,
        tolerance: [3.2e-5, 4e-6],
        decibels: 23.0,
    },
];

/// One tensor of a golden as `[t, h, w, c]`.
fn golden(small: &Small, name: &str) -> HostTensor {
    let found = tensor(small.golden, name);
    let shape: [usize; 5] = found.shape.try_into().unwrap();
    HostTensor::from_channels_first([shape[1], shape[2], shape[3], shape[4]], &found.data)
}

fn half(small: &Small, direction: Direction, input: &HostTensor, slice: usize, dtype: DType) -> HostTensor {
    let (config, mut params, _) = open_vae(&testdata(small.file)).unwrap();
    let shape = input.shape;
    let clip = match direction {
        Direction::Encode => Clip::new(shape.t, shape.h, shape.w).unwrap(),
        Direction::Decode => Clip::of_latents(shape.t, shape.h, shape.w).unwrap(),
    };
    let build = Build::from(dtype);
    let network = direction.network(&config, &mut params, build);
    let task = Task::new(network, clip.cells(), Backend::cpu(), build.dtype);
    let plan = task.exactly(Candidate { slice, ..Candidate::WHOLE }).unwrap();
    let (mut source, mut sink) = (MemoryClip::source(input.clone()), MemoryClip::sink());
    task.run(&plan, &mut source, &mut sink, &mut |_| ()).unwrap();
    sink.clip
}

fn roundtrip(small: &Small, slice: usize, dtype: DType) -> (HostTensor, HostTensor) {
    let mean = Gaussian::new(&half(small, Direction::Encode, &golden(small, "x"), slice, dtype)).mean;
    let decoded = half(small, Direction::Decode, &mean, slice, dtype);
    (mean, decoded)
}

#[test]
fn the_files_are_recognised_with_their_widths() {
    for small in &SMALL {
        let identity = identify(&Checkpoint::open(&testdata(small.file)).unwrap());
        let config =
            VaeConfig { colours: 3, latent: small.latent, channels: [16, 16, 32, 64], resnets: 2, groups: 4 };
        assert_eq!(identity.kind, Kind::Vae { config }, "{}", small.file);
        assert_eq!((identity.tensors, identity.parameters), (250, small.parameters), "{}", small.file);
    }
}

#[test]
fn the_round_trip_is_that_of_pytorch_sliced_or_not() {
    for (small, slice) in SMALL.iter().flat_map(|small| [(small, 0), (small, TIME)]) {
        let (mean, decoded) = roundtrip(small, slice, DType::F32);
        let parts = [(mean, "mean"), (decoded, "decoded")];
        for ((ours, what), tolerance) in parts.into_iter().zip(small.tolerance) {
            let off = ours.difference(&golden(small, what)).max_abs;
            println!("{}, slice {slice}: {what} is off by {off:e}", small.file);
            assert!(off <= tolerance, "{}, slice {slice}: {what} is off by {off:e}", small.file);
        }
    }
}

#[test]
fn a_clip_comes_back_as_a_picture_and_not_as_noise() {
    for small in &SMALL {
        for dtype in [DType::F32, DType::Bf16, DType::F16] {
            let (_, decoded) = roundtrip(small, 0, dtype);
            let psnr = decoded.difference(&golden(small, "x")).psnr(2.0);
            println!("{}, {}: {psnr:.2} dB", small.file, dtype.name());
            assert!(psnr >= small.decibels, "{}, {}: {psnr:.2} dB", small.file, dtype.name());
        }
    }
}
