//! However a film is cut for memory and devices: the same bits.

use remaster_colour::Mode as Colour;
use remaster_colour::alpha::Border;
use remaster_compute::Backend;
use remaster_engine::Event;
use remaster_model::dit::{DitConfig, Family};
use remaster_model::vae::{Direction, VaeConfig};
use remaster_picture::{Edges, Frame};
use remaster_plan::{Candidate, LookBack, Mode, Windows};
use remaster_scenes::Shots;
use remaster_testkit::Rng;
use remaster_weights::{FormulaParams, LATENT_SCALE, uniform};

use super::{Machines, dit, folder, plenty, vae};
use crate::cuts::Cuts;
use crate::film::{Done, Recipe, Room};
use crate::finish::{Finish, Pool};
use crate::geometry::{Geometry, Resize};
use crate::latent_file::LatentWriter;
use crate::sample::{Sampling, Start};

const SIZE: [usize; 2] = [40, 24];
/// First frames of the shots of a film of 97 frames.
const STARTS: [u64; 3] = [0, 40, 64];
pub(super) const FRAMES: usize = 97;

/// A film whose shots have nothing in common.
pub(super) fn film() -> Vec<Frame> {
    let frame = |i: usize| {
        let shot = STARTS.iter().rposition(|start| *start <= i as u64).unwrap();
        let mut rng = Rng::new(i as u64);
        let noise = rng.values(SIZE[0] * SIZE[1] * 3);
        let value = |(k, noise): (usize, f32)| {
            let (x, y) = (k / 3 % SIZE[0], k / 3 / SIZE[0]);
            let wave = ((x as f32 + i as f32 * 0.3) * 0.2 * (shot + 1) as f32).sin() + (y as f32 * 0.3).cos();
            (0.2 + 0.25 * shot as f32 + 0.15 * wave + 0.02 * noise).clamp(0.0, 1.0)
        };
        let data = noise.into_iter().enumerate().map(value).collect();
        Frame { width: SIZE[0], height: SIZE[1], channels: 3, data }
    };
    (0..FRAMES).map(frame).collect()
}

pub(crate) fn recipe(cuts: Cuts, pool: Pool) -> Recipe {
    let geometry = Geometry::new(SIZE, Resize::Keep, Edges::Black);
    let (windows, scale) = (Windows::new(17).unwrap(), LATENT_SCALE);
    let sampling = Sampling { start: Start::Seed(42), windows, scale, latent_noise: 0.2 };
    let (colour, border, folder) = (Colour::Lab, Border::Inside, folder());
    let finish = Finish { colour, pool, strength: 0.8, dither: Some(8), border, folder, room: 1 << 30 };
    Recipe {
        geometry,
        shown: geometry.shown,
        upscale: None,
        cuts,
        softness: 0.0,
        input_noise: 0.5,
        sampling,
        finish,
    }
}

/// Nothing is added: no noise, nothing of the input, no dithering.
pub(super) fn plain(
    geometry: Geometry,
    cuts: Cuts,
    sampling: Sampling,
    pool: Pool,
    colour: Colour,
) -> Recipe {
    let usual = recipe(cuts, pool);
    let finish = Finish { colour, strength: 1.0, dither: None, ..usual.finish };
    Recipe { geometry, shown: geometry.shown, input_noise: 0.0, sampling, finish, ..usual }
}

/// How the networks run.
pub(super) struct Way {
    pub(super) config: VaeConfig,
    pub(super) threads: usize,
    pub(super) vae: [Candidate; 2],
    pub(super) dit: Candidate,
    pub(super) room: Room,
}

pub(super) fn whole() -> Way {
    let vae = Candidate { slice: 8, ..Candidate::WHOLE };
    Way { config: VaeConfig::tiny(), threads: 1, vae: [vae; 2], dit: Candidate::WHOLE, room: plenty() }
}

/// Narrower networks, for tests of many runs.
pub(super) fn narrow() -> Way {
    let config = VaeConfig { channels: [8, 8, 16, 16], resnets: 1, groups: 4, ..VaeConfig::tiny() };
    Way { config, ..whole() }
}

impl Machines {
    pub(super) fn new(recipe: &Recipe, way: &Way) -> Self {
        let [width, height] = recipe.geometry.padded;
        let backend = Backend::cpu_with(way.threads);
        let [encode, decode] = vae(&way.config, &mut FormulaParams, recipe.geometry.padded, backend);
        let text = (9, |i: usize| uniform("text", i as u64));
        let tokens = [recipe.sampling.windows.length(), height / 16, width / 16];
        let dit = dit(&DitConfig::tiny(Family::Shared), &mut FormulaParams, text, tokens, backend);
        Machines::of([encode, dit, decode], [way.vae[0], way.dit, way.vae[1]])
    }
}

/// How far back networks see.
pub(super) fn back(way: &Way) -> LookBack {
    let [encode, decode] = [Direction::Encode, Direction::Decode].map(|d| d.look_back(&way.config));
    LookBack { encode, decode }
}

pub(super) fn run(frames: &[Frame], recipe: &Recipe, way: &Way) -> (Vec<Frame>, Done) {
    run_and_keep(frames, recipe, way, None)
}

pub(super) fn run_and_keep(
    frames: &[Frame],
    recipe: &Recipe,
    way: &Way,
    keep: Option<LatentWriter>,
) -> (Vec<Frame>, Done) {
    let mut told = [0; 3];
    let machines = Machines::new(recipe, way);
    let made = machines.restore(frames, recipe, &way.room, keep, &mut |event| {
        if let Event::SliceDone { network, frames, .. } = event {
            told[["encode", "dit", "decode"].iter().position(|name| *name == network).unwrap()] += frames;
        }
    });
    // Every phase tells of every frame of the film, once.
    assert_eq!(told, [frames.len(); 3]);
    made
}

/// What a run that fails says.
fn refusal(frames: &[Frame], recipe: &Recipe, way: &Way) -> String {
    let result = std::panic::catch_unwind(|| run(frames, recipe, way));
    result.err().and_then(|e| e.downcast_ref::<String>().cloned()).unwrap()
}

pub(super) fn shots() -> Cuts {
    Cuts::At(Shots::new(STARTS.to_vec(), None).unwrap())
}

#[test]
fn budgets_slices_stripes_groups_threads_and_room_change_no_bit() {
    let film = film();
    let recipe = recipe(shots(), Pool::Frame);
    let (expected, done) = run(&film, &recipe, &whole());
    assert_eq!((expected.len(), done.groups, done.shots), (FRAMES, 1, vec![0, 40, 64]));
    // A shot of 40 frames has 11 latents of 4 x 6 cells.
    let latent = 4 * 4 * 6 * 16;
    let stripes = |slice, stripes| Candidate { slice, mode: Mode::Exact { stripes }, ..Candidate::WHOLE };
    let streamed = |group| Candidate { group, stream_weights: true, ..Candidate::WHOLE };
    let folder = Some(super::folder());
    let ways = [
        Way { threads: 3, vae: [stripes(4, 4), stripes(16, 2)], dit: streamed(1), ..whole() },
        Way { threads: 2, room: Room { folder: folder.clone(), bytes: 11 * latent }, ..whole() },
        Way {
            vae: [Candidate { slice: 16, stream_weights: true, ..Candidate::WHOLE }, stripes(4, 16)],
            dit: Candidate { group: 3, ..Candidate::WHOLE },
            room: Room { folder, bytes: 1 << 30 },
            ..whole()
        },
        Way { dit: streamed(100), room: Room { folder: None, bytes: 14 * latent }, ..whole() },
    ];
    for (i, way) in ways.iter().enumerate() {
        let (frames, done) = run(&film, &recipe, way);
        assert!(frames == expected, "way {i}: {} groups", done.groups);
        assert!(done.latent_bytes <= way.room.bytes);
        assert_eq!(done.groups > 1, way.room.bytes < 1 << 30, "way {i}");
    }
}

#[test]
fn nothing_crosses_a_cut() {
    let film = film();
    for pool in [Pool::Frame, Pool::Window, Pool::Shot] {
        let mut recipe = recipe(shots(), pool);
        recipe.finish.dither = None;
        let (whole_film, _) = run(&film, &recipe, &whole());
        let rest = Recipe { cuts: Cuts::None, ..recipe };
        let (last_shot, _) = run(&film[64..], &rest, &whole());
        assert!(whole_film[64..] == last_shot, "{pool:?}");
    }
}

#[test]
fn shots_are_found_by_the_picture() {
    let (_, done) = run(&film(), &recipe(Cuts::Auto, Pool::Frame), &whole());
    assert_eq!(done.shots, [0, 40, 64]);
}

#[test]
fn a_shot_that_does_not_fit_is_named() {
    let latent = 4 * 4 * 6 * 16;
    let way = Way { room: Room { folder: None, bytes: 10 * latent }, ..whole() };
    let film = film();
    let recipe = recipe(shots(), Pool::Frame);
    let message = refusal(&film, &recipe, &way);
    assert!(message.contains("Long { start: 0"), "{message}");
}

#[test]
fn a_pool_of_a_shot_keeps_to_its_room() {
    let film = film();
    let mut recipe = recipe(shots(), Pool::Shot);
    // The longest shot has 40 frames, and as many of the input.
    let enough = 2 * 40 * 4 * 3 * (SIZE[0] * SIZE[1]) as u64;
    recipe.finish.room = enough;
    assert_eq!(run(&film, &recipe, &whole()).0.len(), FRAMES);
    recipe.finish.room = enough - 1;
    let message = refusal(&film, &recipe, &whole());
    assert!(message.contains(&format!("Pool {{ room: {} }}", enough - 1)), "{message}");
}

#[test]
fn strength_0_is_the_resized_input() {
    let film = film();
    let mut recipe = recipe(Cuts::None, Pool::Frame);
    (recipe.finish.strength, recipe.finish.dither) = (0.0, None);
    let (frames, _) = run(&film[..9], &recipe, &whole());
    assert!(frames.iter().zip(&film).all(|(a, b)| a == b));
}
