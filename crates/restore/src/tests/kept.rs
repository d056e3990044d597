//! Latents that are kept, and films that are made of them again.

use std::path::Path;
use std::sync::Arc;

use remaster_colour::Mode as Colour;
use remaster_picture::Frame;

use super::invariance::{FRAMES, Way, film, recipe, run, run_and_keep, shots, whole};
use super::{Kept, Machines, source};
use crate::error::RestoreError;
use crate::film::{Recipe, Room};
use crate::finish::Pool;
use crate::latent_file::{About, LatentFile, LatentWriter, NetworkId, Restored};
use crate::redecode::redecode;

fn writer(path: &Path, frames: &[Frame], recipe: &Recipe) -> LatentWriter {
    let network = NetworkId { kind: "vae".into(), name: "formula:tiny".into(), sha256: None };
    let source = source(&Arc::new(frames.to_vec()));
    let mut about = About::new(source.format(), recipe.geometry, network, None);
    let (model, shown, read) = ("formula:tiny-3b".into(), recipe.shown, String::new());
    about.restored = Some(Restored { model, seed: 42, window: 17, shown, read });
    LatentWriter::create(path, true, &about, 16).unwrap()
}

fn again(path: &Path, input: &[Frame], recipe: &Recipe) -> Result<Vec<Frame>, RestoreError> {
    let file = LatentFile::open(path).unwrap();
    let (machines, kept) = (Machines::new(recipe, &whole()), Kept::default());
    let (input, sink) = (source(&Arc::new(input.to_vec())), Box::new(kept.clone()));
    let done = redecode(&file, input, sink, recipe, machines.networks().decode, &mut |_| ())?;
    assert_eq!((done.frames, done.shots), (FRAMES, vec![0, 40, 64]));
    Ok(kept.frames_from(0))
}

#[test]
fn a_film_made_again_is_the_film_and_another_input_is_refused() {
    let (film, folder) = (film(), tempfile::tempdir().unwrap());
    let path = folder.path().join("film.latents");
    let first = recipe(shots(), Pool::Frame);
    // Kept out of several groups.
    let room = Room { folder: Some(super::folder()), bytes: 11 * 4 * 4 * 6 * 16 };
    let way = Way { room, ..whole() };
    let (expected, done) = run_and_keep(&film, &first, &way, Some(writer(&path, &film, &first)));
    assert!(done.groups > 1);
    assert!(again(&path, &film, &first).unwrap() == expected);
    // Other colours, strength and rounding are those of a whole run.
    let cases = [(Colour::Wavelet, Pool::Frame), (Colour::Lab, Pool::Window), (Colour::Hsv, Pool::Shot)];
    for (colour, pool) in cases {
        let mut other = recipe(shots(), pool);
        (other.finish.colour, other.finish.strength, other.finish.dither) = (colour, 1.0, None);
        assert!(again(&path, &film, &other).unwrap() == run(&film, &other, &whole()).0, "{colour:?}");
    }
    // Fewer frames, and more.
    let error = again(&path, &film[..FRAMES - 1], &first).unwrap_err();
    assert!(matches!(error, RestoreError::Length { frames: FRAMES, longer: false }), "{error}");
    let longer: Vec<Frame> = film.iter().chain(&film[..1]).cloned().collect();
    let error = again(&path, &longer, &first).unwrap_err();
    assert!(matches!(error, RestoreError::Length { frames: FRAMES, longer: true }), "{error}");
}

#[test]
fn an_input_with_other_times_is_refused_at_its_first_frame() {
    let (film, folder) = (film(), tempfile::tempdir().unwrap());
    let path = folder.path().join("film.latents");
    let recipe = recipe(shots(), Pool::Frame);
    let mut keep = writer(&path, &film, &recipe);
    // One shot of five frames at other times than 0, 1, 2, ...
    for _ in 0..2 {
        keep.latent((0..4 * 6 * 16).map(|i| i as f32 / 384.0)).unwrap();
    }
    [0, 1, 2, 4, 5].into_iter().for_each(|pts| keep.time(pts).unwrap());
    keep.shot(5, 0);
    keep.complete().unwrap();
    let error = again(&path, &film[..5], &recipe).unwrap_err();
    assert!(matches!(error, RestoreError::Other { frame: 3, pts: 3, expected: 4 }), "{error}");
}
