//! Where windows meet: a film that does not move must not jump there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use remaster_colour::Mode;
use remaster_compute::Backend;
use remaster_picture::{Edges, Frame};
use remaster_plan::Windows;
use remaster_weights::{TextEmbedding, open_dit, open_vae, read_tensors};

use super::invariance::plain;
use super::{Machines, dit, plenty, vae};
use crate::cuts::Cuts;
use crate::finish::Pool;
use crate::geometry::{Geometry, Resize};
use crate::noise::Noise;
use crate::sample::{Sampling, Start};

const FRAMES: usize = 97;
const SIZE: [usize; 2] = [32, 48];

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

/// One picture of a real clip, again and again, with other noise of 8 levels in every frame.
fn still() -> Vec<Frame> {
    let clip = read_tensors(&testdata("trained_clip_9x48x32.safetensors"))
        .unwrap()
        .into_iter()
        .find(|t| t.name == "x")
        .unwrap();
    let [w, h] = SIZE;
    let plane = clip.data.len() / 3;
    let pixel = |i: usize| (0..3).map(move |c| i + c * plane);
    let picture: Vec<f32> = (0..w * h).flat_map(pixel).map(|i| clip.data[i] / 2.0 + 0.5).collect();
    let frame = |i| {
        let mut data = picture.clone();
        Noise::new(3).add_to_frame(i, [h, w, 3], 8.0 / 255.0, &mut data);
        data.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
        Frame { width: w, height: h, channels: 3, data }
    };
    (0..FRAMES).map(frame).collect()
}

/// The still restored by the trained networks in these windows. What `nano` makes hardly depends on its noise, so its
/// windows would not jump anyway.
fn restored(windows: Windows) -> Vec<Frame> {
    let (config, mut vae_params, _) = open_vae(&testdata("trained.safetensors")).unwrap();
    let (dit_config, mut params, _) = open_dit(&testdata("trained_dit.safetensors")).unwrap();
    let geometry = Geometry::new(SIZE, Resize::Keep, Edges::Black);
    let [width, height] = geometry.padded;
    let [encode, decode] = vae(&config, &mut vae_params, geometry.padded, Backend::cpu());
    let checkpoint = Arc::clone(params.checkpoint());
    let text = TextEmbedding::of_checkpoint(&checkpoint, dit_config.text).unwrap();
    let (rows, values) = (text.rows, text.values);
    let tokens = [windows.length(), height / 16, width / 16];
    let dit = dit(&dit_config, &mut params, (rows, move |i| values[i]), tokens, Backend::cpu());
    let scale = checkpoint.latent_scale().unwrap();
    let sampling = Sampling { start: Start::Seed(42), windows, scale, latent_noise: 0.0 };
    let mut recipe = plain(geometry, Cuts::None, sampling, Pool::Frame, Mode::None);
    // A pool of a frame needs no room.
    recipe.finish.room = 0;
    Machines::sliced([encode, dit, decode], 16).restore(&still(), &recipe, &plenty(), None, &mut |_| ()).0
}

/// Mean difference of frames on both sides of the borders of windows, over that of all other neighbours. Borders are
/// where the share of a window changes: every latent that two of them share, and the one behind.
fn jump(windows: Windows) -> f64 {
    let frames = restored(windows);
    let list: Vec<_> = windows.of(25).collect();
    let mut borders = Vec::new();
    for pair in list.windows(2) {
        borders.extend((pair[1].start..=pair[0].end).map(|latent| latent * 4 - 3));
    }
    let step = |i: usize| -> f64 {
        let pairs = frames[i].data.iter().zip(&frames[i - 1].data);
        pairs.map(|(a, b)| f64::from((a - b).abs())).sum::<f64>() / frames[i].data.len() as f64
    };
    let mean = |of: Vec<f64>| of.iter().sum::<f64>() / of.len() as f64;
    let across = mean((1..FRAMES).filter(|i| borders.contains(i)).map(step).collect());
    let inside = mean((1..FRAMES).filter(|i| !borders.contains(i)).map(step).collect());
    let (count, jump) = (borders.len(), across / inside);
    println!("{count} borders: {across:.5} across, {inside:.5} inside, jump {jump:.3}");
    jump
}

#[test]
fn windows_that_are_mixed_do_not_jump_and_others_do() {
    let windows = Windows::new(Windows::FRAMES).unwrap();
    let mixed = jump(windows);
    assert!(mixed <= 1.2, "{mixed}");
    // 25 latents are five windows of 5 that share nothing: borders enough for a mean.
    let short = Windows::new(17).unwrap();
    let (mixed, apart) = (jump(short), jump(short.apart()));
    assert!(apart > 1.2, "windows side by side do not jump either ({apart}): this test shows nothing");
    assert!(mixed - 1.0 < 0.5 * (apart - 1.0), "{mixed} against {apart}");
}
