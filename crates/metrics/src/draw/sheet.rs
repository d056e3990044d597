//! The sheet: chosen frames of both clips side by side, with their difference.

use super::colour::heat;
use super::image::{Anchor, Image, Rgb, text_width};
use super::{FAINT, GROUND, INK, LEGEND, LINE, brief, frames_of, joined, legend, round_up, shortened};
use crate::report::{FrameScores, Metric, Pick, Report};

const MARGIN: usize = 24;
const GAP: usize = 12;

/// First clip, second clip and difference of every picked frame, one below the other, with captions and one
/// colour scale for all. `a` and `b` name the clips. Without pictures in the report there is only the head.
pub fn sheet(report: &Report, a: &str, b: &str) -> Image {
    let scale = usual_scale(report.picks.iter().map(|p| p.sample.difference.as_slice()));
    // Small clips are drawn with larger pixels, all alike.
    let widest = report.picks.iter().map(|p| p.sample.width.max(p.sample.height)).max().unwrap_or(1);
    let zoom = (480 / widest.max(1)).max(1);
    let cell = report.picks.iter().map(|p| p.sample.width * zoom).max().unwrap_or(0).max(400);
    let tall = |pick: &Pick| LINE + 4 + pick.sample.height * zoom + GAP + 8;
    let width = 3 * cell + 2 * GAP;
    let head = 3 * LINE + 30;
    let height = head + report.picks.iter().map(tall).sum::<usize>() + LEGEND + 2 * MARGIN;
    let mut image = Image::new(width + 2 * MARGIN, height, GROUND);
    let column = |i: usize| MARGIN + i * (cell + GAP);

    let mut y = MARGIN;
    image.text(MARGIN, y, Anchor::Left, INK, &frames_of(report));
    y += LINE;
    image.text(MARGIN, y, Anchor::Left, FAINT, &overall(report));
    y += LINE + 20;
    let name = |side: &str, name: &str| format!("{side}: {}", shortened(name, cell - text_width("A:   ")));
    let heads = [name("A", a), name("B", b), "difference".to_owned()];
    for (i, words) in heads.iter().enumerate() {
        image.text(column(i), y, Anchor::Left, INK, words);
    }
    y += LINE + 10;
    for pick in &report.picks {
        let sample = &pick.sample;
        let caption = caption(pick, report.per_frame.get(pick.frame));
        image.text(MARGIN, y + 4, Anchor::Left, FAINT, &caption);
        y += LINE + 4;
        let difference = pixels(&sample.difference, scale);
        for (i, pixels) in [&sample.a, &sample.b, &difference].into_iter().enumerate() {
            image.paste(column(i), y, sample.width, zoom, pixels);
        }
        y += sample.height * zoom + GAP + 8;
    }
    let words = "difference in 8-bit levels, of the channel that differs most";
    image.text(column(2) - GAP - 12, y + 1, Anchor::Right, FAINT, words);
    legend(&mut image, column(2) + 6, y, cell - 24, (0.0, scale), heat, brief);
    image
}

/// The clip in one line.
fn overall(report: &Report) -> String {
    if report.frames == 0 {
        return "nothing was compared".to_owned();
    }
    if report.identical {
        return "identical: not one value differs".to_owned();
    }
    let mean = |metric: Metric| report.summary.get(&metric).map(|s| s.mean);
    let seam = report.seams.score.map(|s| format!("seams {s:.1}"));
    let drift = report.drift.largest.map(|l| format!("drift {:+.1}", l.levels));
    let parts = [
        report.pooled.psnr.map(|p| format!("PSNR {p:.2} dB")),
        mean(Metric::Ssim).map(|s| format!("SSIM {s:.4}")),
        mean(Metric::Ssimulacra2).map(|s| format!("SSIMULACRA2 {s:.1}")),
        mean(Metric::DeltaE).map(|d| format!("delta E {d:.2}")),
        mean(Metric::Flicker).map(|f| format!("flicker {f:.2}")),
        drift,
        seam,
    ];
    format!("whole clip: {}", joined(parts))
}

fn caption(pick: &Pick, scores: Option<&FrameScores>) -> String {
    if let Some((x, y)) = pick.sample.corner {
        return format!("frame {}, where it differs most, at full size from column {x}, row {y}", pick.frame);
    }
    let Some(scores) = scores else { return format!("{}: frame {}", pick.label, pick.frame) };
    let part = |metric: Metric, name: &str, digits: usize| {
        metric.of(scores).map(|value| format!("{name} {value:.digits$}"))
    };
    let parts = match scores.identical {
        true => vec![Some("identical".to_owned())],
        false => vec![
            part(Metric::Psnr, "PSNR", 2),
            part(Metric::Ssim, "SSIM", 4),
            part(Metric::Ssimulacra2, "SSIMULACRA2", 1),
            part(Metric::DeltaE, "delta E", 2),
            part(Metric::Flicker, "flicker", 2),
        ],
    };
    format!("{}, frame {}: {}", pick.label, pick.frame, joined(parts))
}

/// The colours of differences, RGB8. From a table: a colour takes 13 trials to find.
fn pixels(levels: &[f32], scale: f32) -> Vec<u8> {
    const STEPS: usize = 1024;
    let table: Vec<Rgb> = (0..=STEPS).map(|i| heat(i as f32 / STEPS as f32)).collect();
    let colour = |level: &f32| table[((level / scale).clamp(0.0, 1.0) * STEPS as f32).round() as usize];
    levels.iter().flat_map(colour).collect()
}

/// A round number of levels that 99 of 100 values stay below.
fn usual_scale<'a>(levels: impl IntoIterator<Item = &'a [f32]>) -> f32 {
    let mut all: Vec<f32> = levels.into_iter().flatten().copied().collect();
    if all.is_empty() {
        return round_up(0.0);
    }
    let rank = all.len() * 99 / 100;
    let high = *all.select_nth_unstable_by(rank, f32::total_cmp).1;
    // Below two levels rounding to 8 bits is all there is to see.
    round_up(high).max(2.0)
}
