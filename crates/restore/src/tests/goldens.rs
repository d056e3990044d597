//! The whole way against the original: every phase of `pipeline_tiny`, and its batches.

use std::path::Path;
use std::sync::Arc;

use remaster_colour::Mode;
use remaster_colour::alpha::Border;
use remaster_compute::Backend;
use remaster_engine::{ClipRunner, MemoryClip};
use remaster_model::dit::{DitConfig, Family};
use remaster_model::vae::VaeConfig;
use remaster_picture::{Edges, Frame};
use remaster_plan::{LookBack, ShotRange, Windows};
use remaster_weights::{FormulaParams, LATENT_SCALE, NamedTensor, read_tensors};

use super::invariance::plain;
use super::{Machines, dit, plenty, source, vae};
use crate::cuts::Cuts;
use crate::decode_thread::Footage;
use crate::film::{Encoded, Restored};
use crate::finish::Pool;
use crate::geometry::{Geometry, Resize};
use crate::latent_store::LatentStore;
use crate::noise::Noise;
use crate::planned::Planned;
use crate::prepare::Prepare;
use crate::reader::Reader;
use crate::sample::{Sampler, Sampling, Start};

/// The golden, and the small networks that it was made with.
struct Golden {
    tensors: Vec<NamedTensor>,
    images: Arc<Vec<Frame>>,
}

impl Golden {
    fn open() -> Self {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/restore/pipeline_tiny.safetensors");
        let tensors = read_tensors(&path).unwrap();
        let images = tensors.iter().find(|t| t.name == "images").unwrap();
        let frames = images.data.chunks_exact(40 * 56 * 3);
        let frame = |data: &[f32]| Frame { width: 56, height: 40, channels: 3, data: data.to_vec() };
        let images = Arc::new(frames.map(frame).collect());
        Golden { images, tensors }
    }

    fn get(&self, name: &str) -> &[f32] {
        &self.tensors.iter().find(|t| t.name == name).unwrap().data
    }

    /// Encoder, transformer and decoder on frames of 80 x 48, windows of `latents`.
    fn machines(&self, latents: usize) -> Machines {
        let backend = Backend::cpu_with(1);
        let [encode, decode] = vae(&VaeConfig::tiny(), &mut FormulaParams, [80, 48], backend);
        let text = self.get("txt").to_vec();
        let text = (11, move |i: usize| text[i]);
        let config = DitConfig::tiny(Family::Shared);
        let dit = dit(&config, &mut FormulaParams, text, [latents, 3, 5], backend);
        Machines::sliced([encode, dit, decode], 4)
    }
}

/// The film that a reader gets, in batches.
fn reader(images: &Arc<Vec<Frame>>, geometry: Geometry, cuts: Cuts) -> Reader<'static> {
    let prepare = Prepare { geometry, upscale: None, softness: 0.0, input_noise: 0.0, noise: Noise::new(0) };
    Reader::start(Footage::from(source(images)), Arc::new(prepare), cuts, 0)
}

fn sampling(noise: &[f32], frames: usize) -> Sampling {
    let (start, windows) = (Start::Values(Arc::new(noise.to_vec())), Windows::new(frames).unwrap());
    Sampling { start, windows, scale: LATENT_SCALE, latent_noise: 0.0 }
}

fn geometry(short: usize) -> Geometry {
    Geometry::new([56, 40], Resize::Short(short), Edges::Black)
}

fn distance(what: &str, ours: &[f32], theirs: &[f32], most: f32) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let worst = remaster_testkit::largest(ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()));
    println!("{what}: {worst:.2e}");
    assert!(worst <= most, "{what}: {worst} is more than {most}");
}

/// Inside the mask, where the order of equal values does not matter; and the mean.
fn masked(what: &str, ours: &[f32], theirs: &[f32], mask: &[f32]) {
    let mut worst = 0.0f32;
    let (mut sum, mut count) = (0.0f64, 0);
    for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
        if mask[i / 3] == 1.0 {
            worst = worst.max((a - b).abs());
            sum += f64::from((a - b).abs());
            count += 1;
        }
    }
    println!("{what}: {worst:.2e}, mean {:.2e} of {count}", sum / f64::from(count));
    assert_eq!(ours.len(), theirs.len());
    assert!(worst <= 1e-3 && sum / f64::from(count) <= 5e-5 && count > 1000, "{what}");
}

/// `[c, t, h, w]` to `[t, h, w, c]`.
fn channels_last(values: &[f32], [c, t, h, w]: [usize; 4]) -> Vec<f32> {
    let plane = t * h * w;
    (0..plane).flat_map(|i| (0..c).map(move |k| values[k * plane + i])).collect()
}

/// Latents of every batch, before and behind the transformer.
fn latents(
    golden: &Golden,
    frames: usize,
    short: usize,
    cuts: Cuts,
    noise: &str,
    window: usize,
) -> Vec<[Vec<f32>; 2]> {
    let images: Arc<Vec<Frame>> = Arc::new(golden.images[..frames].to_vec());
    let Machines { tasks, plans } = golden.machines(Windows::new(window).unwrap().length());
    let mut reader = reader(&images, geometry(short), cuts);
    let mut store = LatentStore::new(None, 6 * 10 * 16, 1 << 30).unwrap();
    let mut encoder = ClipRunner::start(tasks[0].network_run(&plans[0]), &mut |_| ()).unwrap();
    let mut shots = Vec::new();
    while reader.next_shot().unwrap() {
        let first = store.latents();
        let mut sink = Encoded { store: &mut store, channels: 16, start: 0, early: 0 };
        encoder.clip(&mut reader, &mut sink, &mut |_| ()).unwrap();
        shots.push((first..store.latents(), reader.shot().unwrap().frames));
    }
    let sampling = sampling(golden.get(noise), window);
    let transform = Planned { task: &tasks[1], plan: &plans[1] };
    let runner = ClipRunner::start(tasks[1].network_run(&plans[1]), &mut |_| ()).unwrap();
    let mut sampler = Sampler::new(runner, transform, &sampling, [6, 10, 16]);
    let mut out = Vec::new();
    for (range, frames) in shots {
        let before: Vec<f32> = store.read(range.clone()).unwrap().iter().map(|v| v * LATENT_SCALE).collect();
        let shot = ShotRange::whole(frames);
        sampler.range(&mut store, range.start, &shot, LookBack::default(), &mut |_| ()).unwrap();
        out.push([before, store.read(range).unwrap()]);
    }
    out
}

/// The whole way.
fn film(
    golden: &Golden,
    frames: usize,
    short: usize,
    shown: [usize; 2],
    cuts: Cuts,
    noise: &str,
    window: usize,
    colour: Mode,
) -> Vec<f32> {
    let machines = golden.machines(Windows::new(window).unwrap().length());
    let sampling = sampling(golden.get(noise), window);
    let mut recipe = plain(geometry(short), cuts, sampling, Pool::Window, colour);
    (recipe.shown, recipe.finish.border) = (shown, Border::Zeros);
    let (made, done) = machines.restore(&golden.images[..frames], &recipe, &plenty(), None, &mut |_| ());
    assert_eq!((done.frames, made.len()), (frames, frames));
    made.into_iter().flat_map(|frame| frame.data).collect()
}

#[test]
fn every_phase_of_one_batch_is_the_originals() {
    let golden = Golden::open();
    let geometry = geometry(48);
    assert_eq!((geometry.shown, geometry.padded), ([67, 48], [80, 48]));
    let transformed: Vec<f32> = golden.images[..9].iter().flat_map(|f| geometry.prepare(f).0).collect();
    distance("transformed", &transformed, &channels_last(golden.get("transformed"), [3, 9, 48, 80]), 1e-5);
    let latents = latents(&golden, 9, 48, Cuts::None, "noise", 9);
    distance("latent", &latents[0][0], golden.get("latent"), 5e-5);
    distance("z", &latents[0][1], golden.get("z"), 5e-5);
    // The decoder on the original's latents.
    let Machines { tasks, plans } = golden.machines(3);
    let mut store = LatentStore::new(None, 6 * 10 * 16, 1 << 30).unwrap();
    golden.get("z").chunks_exact(6 * 10 * 16).for_each(|z| assert!(store.push(z).unwrap()));
    let mut decoded = MemoryClip::sink();
    let mut z = Restored { store: &store, shot: 0..3, next: 0, scale: LATENT_SCALE };
    let mut decoder = ClipRunner::start(tasks[2].network_run(&plans[2]), &mut |_| ()).unwrap();
    decoder.clip(&mut z, &mut decoded, &mut |_| ()).unwrap();
    distance("decoded", &decoded.clip.data, &channels_last(golden.get("decoded"), [3, 9, 48, 80]), 5e-5);
    let none = film(&golden, 9, 48, [66, 48], Cuts::None, "noise", 9, Mode::None);
    let assembled: Vec<f32> =
        golden.get("assembled").iter().map(|v| (0.5 * v + 0.5).clamp(0.0, 1.0)).collect();
    distance("assembled", &none, &assembled, 5e-5);
    let lab = film(&golden, 9, 48, [66, 48], Cuts::None, "noise", 9, Mode::Lab);
    masked("final", &lab, golden.get("final"), golden.get("final_mask"));
}

#[test]
fn overlapping_batches_are_the_originals() {
    let golden = Golden::open();
    let cuts = Cuts::Batches { size: 5, overlap: 3 };
    let latents = latents(&golden, 10, 47, cuts.clone(), "overlap/noise", 5);
    assert_eq!(latents.len(), 4);
    for (i, [latent, z]) in latents.iter().enumerate() {
        distance(&format!("latent_{i}"), latent, golden.get(&format!("overlap/latent_{i}")), 5e-5);
        distance(&format!("z_{i}"), z, golden.get(&format!("overlap/z_{i}")), 5e-5);
    }
    let none = film(&golden, 10, 47, [64, 46], cuts.clone(), "overlap/noise", 5, Mode::None);
    let assembled = golden.get("overlap/assembled").iter().map(|v| (0.5 * v + 0.5).clamp(0.0, 1.0));
    distance("assembled", &none, &assembled.collect::<Vec<f32>>(), 5e-5);
    let lab = film(&golden, 10, 47, [64, 46], cuts, "overlap/noise", 5, Mode::Lab);
    masked("final", &lab, golden.get("overlap/final"), golden.get("overlap/final_mask"));
}

#[test]
fn batches_and_their_weights_are_the_originals() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/restore/overlap_blend.json");
    let golden: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for (overlap, weights) in golden["w_prev"].as_object().unwrap() {
        let weights = weights.as_array().unwrap();
        assert_eq!(weights.len(), overlap.parse::<usize>().unwrap());
        for (i, weight) in weights.iter().enumerate() {
            let ours = crate::finish::weight_before(i, weights.len());
            assert!((f64::from(ours) - weight.as_f64().unwrap()).abs() < 1e-6, "{overlap}, {i}");
        }
    }
    let mut compared = 0;
    for case in golden["batch_cases"].as_array().unwrap() {
        // The last batch is as long as it is.
        if case["uniform_batch_size"].as_bool().unwrap() {
            continue;
        }
        let number = |key: &str| case[key].as_u64().unwrap() as usize;
        let (total, size, overlap) = (number("total"), number("batch_size"), number("actual_overlap"));
        let frames: Arc<Vec<Frame>> = Arc::new(
            (0..total).map(|i| Frame { width: 1, height: 1, channels: 3, data: vec![i as f32; 3] }).collect(),
        );
        let geometry = Geometry::new([1, 1], Resize::Keep, Edges::Black);
        let mut reader = reader(&frames, geometry, Cuts::Batches { size, overlap });
        for batch in case["batches"].as_array().unwrap() {
            assert!(reader.next_shot().unwrap());
            let wanted = batch["encoded_frames"].as_array().unwrap();
            let wanted: Vec<usize> = wanted.iter().map(|n| n.as_u64().unwrap() as usize).collect();
            let shape = remaster_compute::Shape::new(1, 16, 16, 3);
            let mut given = Vec::new();
            let mut frame = vec![0.0; shape.len()];
            while remaster_engine::Source::read(&mut reader, shape, &mut frame).unwrap() == 1 {
                given.push(((frame[0] + 1.0) / 2.0).round() as usize);
            }
            assert_eq!(given, wanted, "{total} frames, {size}, {overlap}");
            assert_eq!(reader.shot().unwrap().frames as u64, batch["ori_length"].as_u64().unwrap());
        }
        assert!(!reader.next_shot().unwrap(), "{total} frames, {size}, {overlap}");
        compared += 1;
    }
    assert!(compared > 5, "{compared}");
}
