//! Where windows meet: a film that does not move must not jump there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use remaster_colour::Mode;
use remaster_colour::alpha::Border;
use remaster_compute::{Backend, DType};
use remaster_engine::Task;
use remaster_model::Scope;
use remaster_model::dit::{Dit, DitConfig, Text};
use remaster_model::vae::Direction;
use remaster_picture::{Edges, Frame};
use remaster_plan::{Candidate, Cells, Clip, Windows};
use remaster_weights::{TextEmbedding, open_dit, open_vae, read_tensors};

use super::{Kept, folder, source};
use crate::cuts::Cuts;
use crate::decode_thread::Footage;
use crate::film::{Film, Networks, Recipe, Room, restore};
use crate::finish::{Finish, Pool};
use crate::geometry::{Geometry, Resize};
use crate::noise::Noise;
use crate::planned::Planned;
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
    let (vae, mut vae_params, _) = open_vae(&testdata("trained.safetensors")).unwrap();
    let (config, mut params, _) = open_dit(&testdata("trained_dit.safetensors")).unwrap();
    let geometry = Geometry::new(SIZE, Resize::Keep, Edges::Black);
    let [width, height] = geometry.padded;
    let mut task = |direction: Direction| {
        let network = direction.network(&vae, &mut vae_params, DType::F32);
        let mut task =
            Task::new(network, Clip::new(FRAMES, height, width).unwrap().cells(), Backend::cpu(), DType::F32);
        task.job.open_ended = true;
        task
    };
    let (encode, decode) = (task(Direction::Encode), task(Direction::Decode));
    let checkpoint = Arc::clone(params.checkpoint());
    let text = TextEmbedding::of_checkpoint(&checkpoint, config.text).unwrap();
    let scope = &mut Scope::root(&mut params, DType::F32);
    let values = text.values;
    let text = Text::new(&config, scope, text.rows, remaster_model::computed(move |i| values[i]));
    let network = Dit::new(&config, scope, text, [height / 16, width / 16], DitConfig::STEP);
    let cells = Cells { steps: windows.length(), rows: height / 16 * (width / 16), columns: 1 };
    let tasks = [encode, Task::new(Box::new(network), cells, Backend::cpu(), DType::F32), decode];
    let slices = [16, 0, 16];
    let plans =
        [0, 1, 2].map(|i| tasks[i].exactly(Candidate { slice: slices[i], ..Candidate::WHOLE }).unwrap());
    let planned = |i: usize| Planned { task: &tasks[i], plan: &plans[i] };
    let networks = Networks { encode: planned(0), transform: planned(1), decode: planned(2) };
    let recipe = Recipe {
        geometry,
        shown: geometry.shown,
        cuts: Cuts::None,
        softness: 0.0,
        input_noise: 0.0,
        sampling: Sampling {
            start: Start::Seed(42),
            windows,
            scale: checkpoint.latent_scale().unwrap(),
            latent_noise: 0.0,
        },
        finish: Finish {
            colour: Mode::None,
            pool: Pool::Frame,
            strength: 1.0,
            dither: None,
            border: Border::Inside,
            folder: folder(),
            room: 0,
        },
    };
    let frames = Arc::new(still());
    let kept = Kept::default();
    let (footage, room) = (Footage::from(source(&frames)), Room { folder: None, bytes: 1 << 30 });
    let film = Film { footage, input: source(&frames), sink: Box::new(kept.clone()), keep: None };
    restore(film, &recipe, networks, &room, &mut |_| ()).unwrap();
    kept.0.lock().unwrap().clone()
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
    println!(
        "{} borders: {across:.5} across, {inside:.5} inside, jump {:.3}",
        borders.len(),
        across / inside
    );
    across / inside
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
