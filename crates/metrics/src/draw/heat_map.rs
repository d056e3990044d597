//! Where two frames differ, and by how much.

use super::colour::heat;
use super::image::{Anchor, Image, Rgb};
use super::{FAINT, GROUND, INK, LEGEND, LINE, brief, legend, round_up};
use crate::error::MetricsError;
use crate::picture::{Picture, check_pair};
use crate::sample::most;

/// A map of a frame at full size with its scale: per pixel the difference of the channel that differs most, in
/// 8-bit levels. `scale` is the level of the brightest colour; without it a round number that 99 of 100 pixels
/// stay below is taken. To compare maps, give them all the same.
pub fn heat_map(a: Picture<'_>, b: Picture<'_>, scale: Option<f32>) -> Result<Image, MetricsError> {
    check_pair(a, b)?;
    let levels: Vec<f32> =
        a.data.chunks_exact(3).zip(b.data.chunks_exact(3)).map(|(a, b)| most(a, b)).collect();
    let scale = match scale {
        Some(scale) if scale.is_finite() && scale > 0.0 => scale,
        _ => usual_scale([levels.as_slice()]),
    };
    const MARGIN: usize = 24;
    const LEAST: usize = 480;
    // A small picture is drawn with larger pixels, or nobody would see them.
    let zoom = (LEAST / a.width.max(a.height)).max(1);
    let (wide, high) = (a.width * zoom, a.height * zoom);
    let width = wide.max(LEAST);
    let mut image = Image::new(width + 2 * MARGIN, high + 3 * MARGIN + LINE + LEGEND, GROUND);
    let left = MARGIN + (width - wide) / 2;
    image.paste(left, MARGIN, a.width, zoom, &pixels(&levels, scale));
    image.outline(left, MARGIN, wide, high, 1, [60, 66, 74]);
    let below = MARGIN * 2 + high;
    image.text(MARGIN, below, Anchor::Left, INK, "difference in 8-bit levels");
    if width >= 760 {
        let words = "of the channel that differs most";
        image.text(MARGIN + width, below, Anchor::Right, FAINT, words);
    }
    // Room for half a number beyond either end.
    let bar = (width - 2 * MARGIN).min(900);
    legend(&mut image, MARGIN + 12, below + LINE, bar, (0.0, scale), heat, brief);
    Ok(image)
}

/// The colours of differences, RGB8. From a table: a colour takes 13 trials to find.
pub(super) fn pixels(levels: &[f32], scale: f32) -> Vec<u8> {
    const STEPS: usize = 1024;
    let table: Vec<Rgb> = (0..=STEPS).map(|i| heat(i as f32 / STEPS as f32)).collect();
    let colour = |level: &f32| table[((level / scale).clamp(0.0, 1.0) * STEPS as f32).round() as usize];
    levels.iter().flat_map(colour).collect()
}

/// A round number of levels that 99 of 100 values stay below.
pub(super) fn usual_scale<'a>(levels: impl IntoIterator<Item = &'a [f32]>) -> f32 {
    let mut all: Vec<f32> = levels.into_iter().flatten().copied().collect();
    if all.is_empty() {
        return round_up(0.0);
    }
    let rank = all.len() * 99 / 100;
    let high = *all.select_nth_unstable_by(rank, f32::total_cmp).1;
    // Below two levels rounding to 8 bits is all there is to see.
    round_up(high).max(2.0)
}
