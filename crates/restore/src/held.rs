//! What a film takes of memory beside what the plans of its networks count.

use remaster_colour::{Mode, working_bytes};
use remaster_plan::{SPACE, Windows};

use crate::film::Recipe;
use crate::finish::Pool;
use crate::geometry::Geometry;
use crate::reader::{IN_FLIGHT, in_flight};
use crate::unit::CHUNK;
use crate::upscale::Upscale;

/// Buffers of pipes and files: a few of 1 MiB.
const BUFFERS: u64 = 8 << 20;

/// Bytes of host memory that frames and latents of a film take on their way, at most, with latents of
/// `channels` channels and slices of `slice` frames: the most of any phase, and what all of them have.
pub fn in_flight_bytes(recipe: &Recipe, channels: usize, slice: usize) -> u64 {
    held(recipe, channels, slice, [0; 2])
}

/// As [`in_flight_bytes`], of a unit whose finished latents are kept: in chunks and windows, whose bytes are made in memory.
pub fn unit_in_flight_bytes(recipe: &Recipe, channels: usize, slice: usize) -> u64 {
    let latents = |count: usize| latent_bytes(recipe.geometry.padded, channels as u64, count);
    let (chunk, window) = (CHUNK.max(latents(1)), latents(recipe.sampling.windows.length()));
    // As they are in the store, as bytes there, and as bytes where they are kept. While the encoder runs, what a
    // window shares waits; while the transformer runs, a window is loaded or kept.
    let encode = chunk.saturating_mul(3).saturating_add(window);
    held(recipe, channels, slice, [encode, window.saturating_mul(3)])
}

/// As [`in_flight_bytes`], of a film that goes through an upscaler frame by frame.
pub fn upscaled_in_flight_bytes(recipe: &Recipe, upscale: &Upscale) -> u64 {
    let Geometry { source, shown, alpha, .. } = recipe.geometry;
    let area = |[w, h]: [usize; 2]| (w as u64).saturating_mul(h as u64);
    let each = |pixels: u64, bytes: u64| pixels.saturating_mul(bytes);
    let sum = |parts: &[u64]| parts.iter().copied().fold(0, u64::saturating_add);
    let (made, whole) = (upscale.made(), upscale.fitted.map(|n| n * upscale.scale));
    // Samples of up to 16 bytes a pixel, the frame that is made of them, and two more while it is turned.
    let reading = each(area(source), 4 * 16);
    let count = 1 + IN_FLIGHT as u64;
    let waiting = each(area(upscale.taken()), 12 * count);
    let waiting =
        waiting.saturating_add(if recipe.needs_input() { each(area(source), 16 * count) } else { 0 });
    // The frame that is finished. The plan counts the one that is made meanwhile.
    let slices = each(area(made), 12);
    let resizing = if whole == shown { 0 } else { each(area(shown), 12) };
    // What a frame is compared with, and what colours take beside both.
    let compared = match recipe.finish.is_plain() {
        true => 0,
        false => sum(&[each(area([shown[0], source[1]]), 16), each(area(shown), 12 * 3)]),
    };
    let colour = match recipe.finish.colour {
        Mode::None => 0,
        mode => working_bytes(mode, 1, shown[0], shown[1]),
    };
    let alpha = if alpha { sum(&[each(area(source), 16), each(area(shown), 4 * 12)]) } else { 0 };
    // Samples of up to 8 bytes a pixel; or of 4, and chroma before it is halved.
    let writing = each(area(shown), 9);
    sum(&[reading, waiting, slices, resizing, compared, colour, alpha, writing, BUFFERS])
}

/// With `beside` bytes more while encoder and transformer run.
fn held(recipe: &Recipe, channels: usize, slice: usize, beside: [u64; 2]) -> u64 {
    let Geometry { source, shown, padded, alpha, .. } = recipe.geometry;
    let area = |[w, h]: [usize; 2]| (w as u64).saturating_mul(h as u64);
    let (source_area, shown_area, padded_area) = (area(source), area(shown), area(padded));
    let each = |pixels: u64, bytes: u64| pixels.saturating_mul(bytes);
    let slice = (slice.max(4) as u64).saturating_add(1);
    let sum = |parts: &[u64]| parts.iter().copied().fold(0, u64::saturating_add);
    // Samples of up to 16 bytes a pixel, the frame that is made of them, and two more while it is turned; twice, as the
    // input is decoded for the encoder and for colours.
    let reading = each(source_area, 2 * 4 * 16);
    // The picture between the passes over columns and rows, and the one after them.
    let resizing = sum(&[each(area([shown[0], source[1]]), 16), each(shown_area, 16)]);
    let preparing = sum(&[resizing, each(shown_area, 12), each(padded_area, 12)]);
    let waiting = each(padded_area, 12 * in_flight(recipe.cuts.overlap()) as u64);
    let slices = each(padded_area, 12 * slice * 2);
    // Moments, means and latents of a slice: 4 bytes for each channel of a cell of 64 pixels in 4 frames.
    let moments = each(padded_area, slice.saturating_mul(4 * channels as u64).div_ceil(64));
    let window = window_bytes(padded, channels as u64, &recipe.sampling.windows);
    // Frames of a pool with their references, and what colours take beside them.
    let pool = match recipe.finish.pool {
        Pool::Frame | Pool::Shot => 1,
        Pool::Window => recipe.sampling.windows.frames() as u64,
    } + recipe.cuts.overlap() as u64;
    let alpha = if alpha { sum(&[each(source_area, 16), each(shown_area, 4 * 12)]) } else { 0 };
    let kept = each(sum(&[each(shown_area, 12 * 2), alpha]), pool.saturating_add(2));
    let colour = match recipe.finish.colour {
        Mode::None => 0,
        mode => working_bytes(mode, usize::try_from(pool).unwrap_or(usize::MAX), shown[0], shown[1]),
    };
    // The finished frame, its samples, and what packing them takes.
    let writing = sum(&[each(shown_area, 4 * 16), resizing]);
    let [encode, transform] = beside;
    let phase = sum(&[waiting, moments, encode]).max(sum(&[window, transform])).max(sum(&[kept, colour]));
    sum(&[reading, preparing, slices, phase, writing, BUFFERS])
}

/// Bytes of so many latents.
fn latent_bytes([width, height]: [usize; 2], channels: u64, count: usize) -> u64 {
    let cells = (width / SPACE) as u64 * (height / SPACE) as u64;
    cells.saturating_mul(count as u64).saturating_mul(4 * channels)
}

/// Bytes that a window of the transformer takes on its way in and out.
fn window_bytes([width, height]: [usize; 2], channels: u64, windows: &Windows) -> u64 {
    let cells = (width / SPACE) as u64 * (height / SPACE) as u64 * windows.length() as u64;
    // Latents as they are read and as bytes, noise, the condition, cells and tokens, velocity and its cells, what is
    // restored and what is shared: 14 times the channels of a latent, and the ones.
    cells.saturating_mul(4 * (14 * channels + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuts::Cuts;
    use crate::geometry::Resize;
    use crate::tests::recipe;
    use remaster_picture::Edges;

    #[test]
    fn what_a_unit_keeps_is_counted() {
        let mut recipe = recipe(Cuts::None, Pool::Frame);
        for size in [[40, 24], [1920, 1080], [7680, 4320]] {
            recipe.geometry = Geometry::new(size, Resize::Keep, Edges::Black);
            let latent = latent_bytes(recipe.geometry.padded, 16, 1);
            let (film, unit) = (in_flight_bytes(&recipe, 16, 8), unit_in_flight_bytes(&recipe, 16, 8));
            let most = 3 * CHUNK.max(latent) + 5 * latent;
            assert!(unit >= film && unit <= film + most, "{size:?}: {film} {unit}");
            // Beside frames that wait for the encoder there is a chunk.
            let waiting = 12 * in_flight(0) as u64 * (size[0] * size[1]) as u64;
            assert!(unit >= waiting + 3 * CHUNK.max(latent), "{size:?}");
        }
    }
}
