//! The trained small transformer of `testdata`: recognised, loaded, and the same as in PyTorch.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{tensor, testdata};
use remaster_compute::{Backend, DType, Difference, HostTensor, Shape};
use remaster_engine::{MemoryClip, Task};
use remaster_model::dit::{Dit, DitConfig, Family, Text, patches, unpatched};
use remaster_model::{Build, Scope, computed};
use remaster_plan::{Candidate, Cells};
use remaster_weights::{NamedTensor, TextEmbedding, open_dit};

/// Largest difference to PyTorch with the same 16-bit weights in f32. Measured: 3.1e-5, a unit in the last place of the
/// largest latents times their scale; this is four times that.
const TOLERANCE: f64 = 1.3e-4;

fn nano() -> DitConfig {
    DitConfig {
        family: Family::Shared,
        width: 192,
        head: 32,
        layers: 4,
        separate: 1,
        hidden: 512,
        text: 64,
        latent: 28,
    }
}

fn golden(name: &str) -> NamedTensor {
    tensor("nano_dit_3x6x4.safetensors", name)
}

/// The restored latent: noise minus what the network makes of noise, latent and one.
fn restored(dtype: DType) -> Vec<f32> {
    let (config, mut params, _) = open_dit(&testdata("nano_dit.safetensors")).unwrap();
    let TextEmbedding { rows, values, .. } =
        TextEmbedding::of_checkpoint(params.checkpoint(), config.text).unwrap();
    let (noise, latent) = (golden("noise"), golden("latent"));
    let [t, h, w, c]: [usize; 4] = noise.shape.clone().try_into().unwrap();
    let mut cells = Vec::new();
    for (noise, latent) in noise.data.chunks(c).zip(latent.data.chunks(c)) {
        cells.extend_from_slice(noise);
        cells.extend_from_slice(latent);
        cells.push(1.0);
    }
    let size = [h / DitConfig::PATCH, w / DitConfig::PATCH];
    let tokens = size[0] * size[1];
    let data = patches(&cells, [t, h, w], 2 * c + 1);
    let input = HostTensor { shape: Shape::new(t, tokens, 1, data.len() / (t * tokens)), data };

    let build = Build::from(dtype);
    let scope = &mut Scope::root(&mut params, build);
    let text = Text::new(&config, scope, rows, computed(move |i| values[i]));
    let network = Dit::new(&config, scope, text, size, DitConfig::STEP);
    let grid = Cells { steps: t, rows: tokens, columns: 1 };
    let task = Task::new(Box::new(network), grid, Backend::cpu(), build.dtype);
    let plan = task.exactly(Candidate::WHOLE).unwrap();
    let (mut source, mut sink) = (MemoryClip::source(input), MemoryClip::sink());
    task.run(&plan, &mut source, &mut sink, &mut |_| ()).unwrap();
    let v = unpatched(&sink.clip.data, [t, h, w], config.latent);
    noise.data.iter().zip(v).map(|(noise, v)| noise - v).collect()
}

#[test]
fn the_file_is_recognised_with_its_widths_text_and_scale() {
    let (config, params, report) = open_dit(&testdata("nano_dit.safetensors")).unwrap();
    assert_eq!(config, nano());
    assert!(report.warnings.is_empty());
    let scale = params.checkpoint().latent_scale().unwrap();
    assert_eq!(scale, 16.0);
    let text = TextEmbedding::of_checkpoint(params.checkpoint(), config.text).unwrap();
    assert_eq!((text.rows, text.width), (4, 64));
}

#[test]
fn the_restored_latent_is_that_of_pytorch() {
    let off = Difference::between(&restored(DType::F32), &golden("z").data).max_abs;
    println!("off by {off:e}");
    assert!(off <= TOLERANCE, "off by {off:e}");
}

/// Latents times their scale have a deviation of about 14, so this is a hundredth of it.
#[test]
fn sixteen_bits_are_40_decibels_away_at_most() {
    for dtype in [DType::Bf16, DType::F16] {
        let psnr = Difference::between(&restored(dtype), &golden("z").data).psnr(14.0);
        println!("{}: {psnr:.1} dB", dtype.name());
        assert!(psnr >= 40.0, "{}: {psnr:.1} dB", dtype.name());
    }
}
