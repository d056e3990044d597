//! The drift map as a picture: a panel per channel.

use super::colour::signed;
use super::image::{Anchor, Image};
use super::{FAINT, GROUND, INK, LEGEND, LINE, MARK, brief, joined, legend, round_up};
use crate::drift::{Drift, Largest};
use crate::report::Report;
use crate::seams::Axis;

const MARGIN: usize = 24;
/// Room for the numbers of rows.
const LEFT: usize = 62;
const GAP: usize = 56;
const CHANNELS: [&str; 3] = ["red", "green", "blue"];
/// Cells a panel has at most, across or down: of larger maps a cell is several blocks.
const CELLS: usize = 400;

/// The mean difference of blocks over the clip, per channel, with pixel numbers at the sides. Blue blocks lost
/// light, orange ones gained; the block that is off most has a frame.
pub fn drift_map(report: &Report) -> Image {
    let drift = &report.drift;
    let most = drift.map.iter().flatten().fold(0.0f32, |most, v| most.max(v.abs()));
    let scale = round_up(most);
    let group = drift.columns.max(drift.rows).div_ceil(CELLS).max(1);
    let (columns, rows) = (drift.columns.div_ceil(group), drift.rows.div_ceil(group));
    let side = (400 / columns.max(rows).max(1)).clamp(2, 40);
    let panel = (columns * side, rows * side);
    // A narrow map still needs room for its title.
    let pitch = panel.0.max(190) + GAP;
    // The last number stands half outside of its panel.
    let width = (2 * MARGIN + LEFT + 3 * pitch - GAP + 16).max(900);
    let top = MARGIN + 4 * LINE + 26;
    let height = top + panel.1 + 40 + LEGEND + MARGIN;
    let mut image = Image::new(width, height, GROUND);
    let words = "mean of B - A over the clip, in 8-bit levels";
    image.text(MARGIN, MARGIN, Anchor::Left, INK, words);
    for (i, words) in notes(report).iter().enumerate() {
        image.text(MARGIN, MARGIN + LINE * (i + 1), Anchor::Left, FAINT, words);
    }
    for (channel, name) in CHANNELS.iter().enumerate() {
        let left = MARGIN + LEFT + channel * pitch;
        let title = format!("{name}, mean {:+.2}", drift.mean[channel]);
        image.text(left, top - LINE - 2, Anchor::Left, INK, &title);
        // Cells leave a line between them where there is room for one.
        let line = usize::from(side >= 6);
        image.fill(left, top, panel.0, panel.1, [44, 49, 56]);
        for row in 0..rows {
            for column in 0..columns {
                let value = strongest(drift, channel, column * group, row * group, group);
                let (x, y) = (left + column * side, top + row * side);
                image.fill(x, y, side - line, side - line, signed(value / scale));
            }
        }
        ticks(&mut image, drift.block * group, (left, top), (columns, rows), side, channel == 0);
        if let Some(l) = drift.largest.filter(|l| l.channel == channel && l.levels != 0.0) {
            let cell = |at: usize| at / drift.block / group * side;
            let (x, y) = (left + cell(l.x), top + cell(l.y));
            image.outline(x, y, side - line, side - line, 2, MARK);
        }
    }
    let bar = (width - 2 * MARGIN - LEFT).min(520);
    let y = top + panel.1 + 40;
    legend(&mut image, MARGIN + LEFT, y, bar, (-scale, scale), signed, |v| match v {
        0.0 => "0".to_owned(),
        v if v > 0.0 => format!("+{}", brief(v)),
        v => brief(v),
    });
    image
}

/// What the map shows, in words.
fn notes(report: &Report) -> [String; 2] {
    let drift = &report.drift;
    let largest = match drift.largest {
        None => "nothing was compared".to_owned(),
        Some(Largest { x, y, channel, levels }) => {
            let (name, Drift { spread, block, .. }) = (CHANNELS[channel.min(2)], drift);
            format!(
                "largest: {name} {levels:+.2} at column {x}, row {y}   spread {spread:.2}   blocks of {block} pixels"
            )
        }
    };
    let score = report.seams.score.map(|s| format!("seam score {s:.1}"));
    let line = report.seams.strongest.first().map(|l| {
        let axis = match l.axis {
            Axis::Column => "column",
            Axis::Row => "row",
        };
        format!("strongest line: {axis} {}, {:.2} levels, {:.1} times the usual", l.at, l.jump, l.ratio)
    });
    [largest, joined([score, line])]
}

/// The strongest value among the blocks of a cell.
fn strongest(drift: &Drift, channel: usize, column: usize, row: usize, group: usize) -> f32 {
    let rows = row..(row + group).min(drift.rows);
    let blocks = rows.flat_map(|r| (column..(column + group).min(drift.columns)).map(move |c| (r, c)));
    let values = blocks.filter_map(|(r, c)| drift.map.get(r * drift.columns + c)).map(|b| b[channel]);
    values.fold(0.0, |most, v| if v.abs() > most.abs() { v } else { most })
}

/// Pixel numbers below a panel, and left of the first one.
fn ticks(
    image: &mut Image,
    pixels: usize,
    (left, top): (usize, usize),
    (columns, rows): (usize, usize),
    side: usize,
    numbers_left: bool,
) {
    let step = |room: usize| [1, 2, 4, 8, 16, 32, 64, 128, 256].into_iter().find(|s| s * side >= room);
    let across = step(76).unwrap_or(512);
    for column in (0..=columns).step_by(across) {
        let x = left + column * side;
        image.fill(x, top + rows * side, 1, 5, FAINT);
        image.text(x, top + rows * side + 9, Anchor::Middle, FAINT, &(column * pixels).to_string());
    }
    let down = step(40).unwrap_or(512);
    for row in (0..=rows).step_by(down) {
        let y = top + row * side;
        image.fill(left - 6, y, 5, 1, FAINT);
        if numbers_left {
            let text = (row * pixels).to_string();
            image.text(left - 10, y.saturating_sub(7), Anchor::Right, FAINT, &text);
        }
    }
}
