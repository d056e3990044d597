//! The trained small network of `testdata`: recognised, loaded, and the same as in PyTorch.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use remaster_compute::{Backend, DType, HostTensor};
use remaster_engine::{MemoryClip, Task};
use remaster_model::Build;
use remaster_model::vae::Direction;
use remaster_model::vae::{Gaussian, VaeConfig};
use remaster_plan::{Candidate, Clip, TIME};
use remaster_weights::{Checkpoint, Kind, identify, open_vae, read_tensors};

/// Largest difference to PyTorch with the same 16-bit weights in f32. Measured: 8e-6 for the mean, whose values reach
/// further than those of a picture, and 1e-6 for the decoded clip; this is four times that.
const TOLERANCE: [(&str, f64); 2] = [("mean", 3.2e-5), ("decoded", 4e-6)];

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

fn nano() -> VaeConfig {
    VaeConfig { colours: 3, latent: 16, channels: [16, 16, 32, 64], resnets: 2, groups: 4 }
}

/// One tensor of the golden as `[t, h, w, c]`.
fn golden(name: &str) -> HostTensor {
    let tensors = read_tensors(&testdata("nano_clip_9x48x32.safetensors")).unwrap();
    let found = tensors.into_iter().find(|t| t.name == name).unwrap();
    let shape: [usize; 5] = found.shape.try_into().unwrap();
    HostTensor::from_channels_first([shape[1], shape[2], shape[3], shape[4]], &found.data)
}

fn half(direction: Direction, input: &HostTensor, slice: usize, dtype: DType) -> HostTensor {
    let (config, mut params, _) = open_vae(&testdata("nano.safetensors")).unwrap();
    let shape = input.shape;
    let clip = match direction {
        Direction::Encode => Clip::new(shape.t, shape.h, shape.w).unwrap(),
        Direction::Decode => Clip::of_latents(shape.t, shape.h, shape.w).unwrap(),
    };
    let task = Task::new(
        direction.network(&config, &mut params, Build::from(dtype)),
        clip.cells(),
        Backend::cpu(),
        Build::from(dtype).dtype,
    );
    let plan = task.exactly(Candidate { slice, ..Candidate::WHOLE }).unwrap();
    let (mut source, mut sink) = (MemoryClip::source(input.clone()), MemoryClip::sink());
    task.run(&plan, &mut source, &mut sink, &mut |_| ()).unwrap();
    sink.clip
}

fn roundtrip(slice: usize, dtype: DType) -> (HostTensor, HostTensor) {
    let mean = Gaussian::new(&half(Direction::Encode, &golden("x"), slice, dtype)).mean;
    let decoded = half(Direction::Decode, &mean, slice, dtype);
    (mean, decoded)
}

#[test]
fn the_file_is_recognised_with_its_widths() {
    let identity = identify(&Checkpoint::open(&testdata("nano.safetensors")).unwrap());
    assert_eq!(identity.kind, Kind::Vae { config: nano() });
    assert_eq!((identity.tensors, identity.parameters), (250, 2_725_811));
}

#[test]
fn the_round_trip_is_that_of_pytorch_sliced_or_not() {
    for slice in [0, TIME] {
        let (mean, decoded) = roundtrip(slice, DType::F32);
        for (ours, (what, tolerance)) in [mean, decoded].into_iter().zip(TOLERANCE) {
            let off = ours.difference(&golden(what)).max_abs;
            println!("slice {slice}: {what} is off by {off:e}");
            assert!(off <= tolerance, "slice {slice}: {what} is off by {off:e}");
        }
    }
}

#[test]
fn a_clip_comes_back_as_a_picture_and_not_as_noise() {
    for dtype in [DType::F32, DType::Bf16, DType::F16] {
        let (_, decoded) = roundtrip(0, dtype);
        let psnr = decoded.difference(&golden("x")).psnr(2.0);
        println!("{}: {psnr:.2} dB", dtype.name());
        assert!(psnr >= 23.0, "{}: {psnr:.2} dB", dtype.name());
    }
}
