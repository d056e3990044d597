//! Sheets, maps and plots. They are values: the caller writes them as PNG and SVG.

mod colour;
mod drift_map;
mod font;
mod image;
mod plot;
mod preview;
mod sheet;

pub use drift_map::drift_map;
pub use font::LETTERS_NOTICE;
pub use image::Image;
pub use plot::plot;
pub use preview::{BeforeAfter, preview};
pub use sheet::sheet;

use crate::report::Report;
use image::{Rgb, text_width};

/// Dark ground: pictures are judged beside it, and "no difference" is dark in both colour maps.
const GROUND: Rgb = [20, 23, 28];
const INK: Rgb = [226, 230, 235];
const FAINT: Rgb = [139, 148, 158];
/// What the eye should go to.
const MARK: Rgb = [255, 255, 255];

/// Pixels of a line of text.
const LINE: usize = 24;

/// A text of at most `width` pixels: the end is what tells files apart, so the beginning goes.
fn shortened(words: &str, width: usize) -> String {
    if text_width(words) <= width {
        return words.to_owned();
    }
    let mut room = width.saturating_sub(text_width("…"));
    let end: Vec<char> = words
        .chars()
        .rev()
        .take_while(|c| {
            let fits = font::advance(*c) <= room;
            room = room.saturating_sub(font::advance(*c));
            fits
        })
        .collect();
    std::iter::once('…').chain(end.into_iter().rev()).collect()
}

/// How many frames of which size were compared.
fn frames_of(report: &Report) -> String {
    let frames = if report.frames == 1 { "frame" } else { "frames" };
    format!("{} {frames} of {} x {}", report.frames, report.width, report.height)
}

/// The parts that are there, in one line.
fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join("   ")
}

/// The least of round numbers that is not below `value`.
fn round_up(value: f32) -> f32 {
    const ROUND: [f32; 11] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 255.0];
    // A hair of rounding must not double the scale.
    ROUND.into_iter().find(|r| *r * 1.02 >= value).unwrap_or(255.0)
}

/// A bar with a colour per pixel and a number under each of five ticks.
fn legend(
    image: &mut Image,
    x: usize,
    y: usize,
    width: usize,
    (low, high): (f32, f32),
    colour: fn(f32) -> Rgb,
    number: impl Fn(f32) -> String,
) {
    const BAR: usize = 14;
    for column in 0..width {
        let part = column as f32 / (width.max(2) - 1) as f32;
        // The maps take amounts up to 1.
        image.fill(x + column, y, 1, BAR, colour((low + (high - low) * part) / high));
    }
    image.outline(x, y, width, BAR, 1, FAINT);
    for tick in 0..5 {
        let part = tick as f32 / 4.0;
        let at = x + (part * (width - 1) as f32).round() as usize;
        image.fill(at, y + BAR, 1, 5, FAINT);
        let words = number(low + (high - low) * part);
        image.text(at, y + BAR + 9, image::Anchor::Middle, INK, &words);
    }
}

/// Pixels down of a legend.
const LEGEND: usize = 14 + 9 + 20;

/// A number without zeros at its end.
fn brief(value: f32) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
