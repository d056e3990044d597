//! What frames take on their way, beside what the plans count.

use crate::geometry::Geometry;
use crate::intake::WAITING;
use crate::outlet;
use crate::tail::Tail;

/// Buffers of pipes and files: one of 1 MiB, and a few of 64 KiB.
const BUFFERS: u64 = 2 << 20;

/// Bytes of host memory that frames take on their way through slices of `slice` frames, at most: samples as they are
/// stored, frames that are prepared or wait, slices between engine and encoder, alpha, latents. Tiles of blend mode are
/// not among it: they take up to one more slice.
pub fn held_bytes(geometry: &Geometry, slice: usize) -> u64 {
    let area = |[w, h]: [usize; 2]| (w as u64).saturating_mul(h as u64);
    let (source, shown, padded) = (area(geometry.source), area(geometry.shown), area(geometry.padded));
    let slice = (slice.max(4) as u64).saturating_add(1);
    let bytes = |pixels: u64, each: u64| pixels.saturating_mul(each);
    // Samples of up to 16 bytes a pixel, the frame that is made of them, and two more while it is turned.
    let reading = bytes(source, 4 * 16);
    let resizing = match geometry.source == geometry.shown {
        true => 0,
        // The picture between the passes over columns and rows, and the one after them.
        false => bytes(area([geometry.shown[0], geometry.source[1]]), 16).saturating_add(bytes(shown, 16)),
    };
    // Colours without alpha, and the padded frame; then frames that wait, one at hand, and those kept for the end.
    let preparing = bytes(shown, 12).saturating_add(bytes(padded, 12));
    let waiting = bytes(padded, 12 * (WAITING + 1 + Tail::LENGTH) as u64);
    // One slice is written while the engine makes or takes the next.
    let slices = bytes(padded, 12 * slice.saturating_mul(2 + outlet::WAITING as u64));
    // Moments, their means and latents that wait: 4 bytes for each of 48 channels of a cell of 64 pixels in 4 frames.
    let latents = bytes(padded, slice);
    // Frames between both ends: read ahead, in either half, between them, and being written.
    let alpha = match geometry.alpha {
        true => bytes(shown, 4 * slice.saturating_mul(5).saturating_add(WAITING as u64 + 2)),
        false => 0,
    };
    // The finished frame, its samples, and what packing or compressing them takes.
    let writing = bytes(shown, 4 * 16);
    [reading, resizing, preparing, waiting, slices, latents, alpha, writing, BUFFERS]
        .into_iter()
        .fold(0, u64::saturating_add)
}
