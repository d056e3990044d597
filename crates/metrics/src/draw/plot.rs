//! The measures over time as SVG: small panels one below the other with one axis of frames.

use std::fmt::Write;

use crate::report::{FrameScores, Metric, Report, Stat};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const PANEL: f64 = 96.0;
/// From the top of a panel to that of the next.
const PITCH: f64 = 142.0;
const TOP: f64 = 74.0;
const BOTTOM: f64 = 26.0;
/// Points a line has at most. Of longer clips a point is several frames: their mean, with a band of their range.
const POINTS: usize = 800;

/// dB from which on a line runs along the top: an error of a quarter of an 8-bit level.
const CEILING: f64 = 60.0;

/// There is no ground, so the colours must be readable on white and on black: all have 3 to 1 or more on both,
/// text 4 to 1.
const TEXT: &str = "#737b85";
const LINES: [&str; 2] = ["#2f86d1", "#d9822b"];
const WORST: &str = "#e5484d";

struct Panel {
    title: &'static str,
    /// The first is the one whose worst frame is marked.
    series: &'static [(Metric, &'static str)],
    digits: usize,
}

const PANELS: [Panel; 5] = [
    Panel { title: "PSNR, dB", series: &[(Metric::Psnr, "RGB"), (Metric::PsnrLuma, "luma")], digits: 2 },
    Panel { title: "SSIM", series: &[(Metric::Ssim, "")], digits: 4 },
    Panel { title: "SSIMULACRA2", series: &[(Metric::Ssimulacra2, "")], digits: 1 },
    Panel {
        title: "delta E 2000",
        series: &[(Metric::DeltaE, "mean"), (Metric::DeltaEP95, "95th percentile")],
        digits: 2,
    },
    Panel { title: "flicker, 8-bit levels", series: &[(Metric::Flicker, "")], digits: 2 },
];

/// PSNR, SSIM, SSIMULACRA2, delta E and flicker of every frame. Measures that were not taken have no panel;
/// frames without a value leave a gap. `title` is a line above.
pub fn plot(report: &Report, title: &str) -> String {
    // Without a difference PSNR has no value, which is worth a panel that says so.
    let shown = |p: &&Panel| report.summary.contains_key(&p.series[0].0) || p.series[0].0 == Metric::Psnr;
    let panels: Vec<&Panel> = PANELS.iter().filter(shown).collect();
    let height = TOP + PITCH * panels.len() as f64 + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"12\" \
         fill=\"{TEXT}\">\n"
    );
    text(&mut svg, LEFT, 24.0, "start", "font-size=\"15\" font-weight=\"600\"", title);
    text(&mut svg, LEFT, 44.0, "start", "", &subtitle(report));
    let last = report.frames.saturating_sub(1).max(1) as f64;
    let at_x = |frame: f64| LEFT + frame / last * (WIDTH - LEFT - RIGHT);
    let bottom = TOP + PITCH * panels.len() as f64 - (PITCH - PANEL - 20.0);
    let every = step(last, 10.0).max(1.0);
    for i in 0..=(last / every) as usize {
        let (frame, x) = (i as f64 * every, at_x(i as f64 * every));
        if frame > report.frames.saturating_sub(1) as f64 {
            break;
        }
        for n in 0..panels.len() {
            let top = TOP + 20.0 + PITCH * n as f64;
            rule(&mut svg, (x, top), (x, top + PANEL), "0.15");
        }
        text(&mut svg, x, bottom + 16.0, "middle", "", &frame.to_string());
    }
    text(&mut svg, (LEFT + WIDTH - RIGHT) / 2.0, bottom + 34.0, "middle", "", "frame");
    for (n, panel) in panels.iter().enumerate() {
        draw(&mut svg, panel, report, TOP + PITCH * n as f64 + 20.0, &at_x);
    }
    svg + "</svg>\n"
}

fn subtitle(report: &Report) -> String {
    let frames = super::frames_of(report);
    match report.pooled.psnr {
        Some(psnr) => format!("{frames}, PSNR of the whole clip {psnr:.2} dB"),
        None if report.identical => format!("{frames}, identical"),
        None => frames,
    }
}

/// A panel whose plot begins at `top`.
fn draw(svg: &mut String, panel: &Panel, report: &Report, top: f64, at_x: &dyn Fn(f64) -> f64) {
    let stats = panel.series.iter().filter_map(|(metric, _)| report.summary.get(metric));
    let (low, high) = stats.fold((f64::INFINITY, f64::NEG_INFINITY), |r, s| (r.0.min(s.min), r.1.max(s.max)));
    // Frames that are all but equal would press the others into a flat line.
    let high = if panel.series[0].0 == Metric::Psnr { high.min((low + 10.0).max(CEILING)) } else { high };
    text(svg, LEFT, top - 8.0, "start", "font-weight=\"600\"", panel.title);
    let (main, _) = panel.series[0];
    let Some(stat) = report.summary.get(&main).filter(|_| low <= high) else {
        let words = if report.frames == 0 { "no frames" } else { "infinite: nothing differs" };
        rule(svg, (LEFT, top + PANEL), (WIDTH - RIGHT, top + PANEL), "0.5");
        text(svg, (LEFT + WIDTH - RIGHT) / 2.0, top + PANEL / 2.0, "middle", "", words);
        return;
    };
    // Differences start at zero.
    let (low, high, every) = axis(low, high, !main.more_is_better());
    let at_y = |value: f64| top + PANEL - (value.min(high) - low) / (high - low) * PANEL;
    let places = (-every.log10().floor()).clamp(0.0, 9.0) as usize;
    for i in 0..=((high - low) / every).round() as usize {
        let value = low + i as f64 * every;
        rule(svg, (LEFT, at_y(value)), (WIDTH - RIGHT, at_y(value)), if i == 0 { "0.5" } else { "0.25" });
        text(svg, LEFT - 8.0, at_y(value) + 4.0, "end", "", &format!("{value:.places$}"));
    }
    // The first series lies on top.
    for (i, (metric, _)) in panel.series.iter().enumerate().rev() {
        line(svg, *metric, &report.per_frame, LINES[i % LINES.len()], at_x, &at_y);
    }
    mark(svg, main, stat, panel, (at_x(stat.worst_frame as f64), at_y(stat.worst(main))), top);
    names(svg, panel, top);
}

/// Low, high and step of an axis that ends on its steps.
fn axis(low: f64, high: f64, from_zero: bool) -> (f64, f64, f64) {
    let low = if from_zero { 0.0 } else { low };
    // A flat line lies in the middle of its panel.
    let room = if high - low > 1e-9 { 0.0 } else { high.abs().max(1.0) * 0.005 };
    let (low, high) = (if from_zero { low } else { low - room }, high + room);
    let every = step(high - low, 3.0);
    let (low, high) = ((low / every).floor() * every, (high / every).ceil() * every);
    (low, if high > low { high } else { low + every }, every)
}

/// A round step that cuts `range` into about `parts`.
fn step(range: f64, parts: f64) -> f64 {
    let rough = (range / parts).max(1e-9);
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|n| n * power).find(|s| *s >= rough * 0.999).unwrap_or(10.0 * power)
}

/// A line through the values, broken where frames have none.
fn line(
    svg: &mut String,
    metric: Metric,
    frames: &[FrameScores],
    colour: &str,
    at_x: &dyn Fn(f64) -> f64,
    at_y: &dyn Fn(f64) -> f64,
) {
    let size = frames.len().div_ceil(POINTS).max(1);
    let mut runs: Vec<Vec<(f64, [f64; 3])>> = vec![Vec::new()];
    for (i, part) in frames.chunks(size).enumerate() {
        match (Stat::of(metric, part), runs.last_mut()) {
            (Some(stat), Some(run)) => {
                let middle = (i * size) as f64 + (part.len() - 1) as f64 / 2.0;
                run.push((at_x(middle), [stat.mean, stat.min, stat.max].map(at_y)));
            }
            _ => runs.push(Vec::new()),
        }
    }
    for run in runs.iter().filter(|r| !r.is_empty()) {
        let points = |which: usize| -> Vec<String> {
            run.iter().map(|p| format!("{:.1},{:.1}", p.0, p.1[which])).collect()
        };
        if size > 1 {
            let (up, mut down) = (points(2), points(1));
            down.reverse();
            let around = [up, down].concat().join(" ");
            let _ = writeln!(svg, "<polygon points=\"{around}\" fill=\"{colour}\" fill-opacity=\"0.25\"/>");
        }
        let _ = match run.as_slice() {
            [(x, [y, ..])] => {
                writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"{colour}\"/>")
            }
            _ => writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" \
                 stroke-linejoin=\"round\"/>",
                points(0).join(" ")
            ),
        };
    }
}

/// The worst frame: a dot, a line, and its value in the head of the panel.
fn mark(svg: &mut String, metric: Metric, stat: &Stat, panel: &Panel, (x, y): (f64, f64), top: f64) {
    let (right, head, bottom) = (WIDTH - RIGHT, top - 8.0, top + PANEL);
    let _ = writeln!(
        svg,
        "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"{WORST}\" stroke-dasharray=\"3 3\" \
         stroke-opacity=\"0.8\"/>\n<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{WORST}\"/>"
    );
    let digits = panel.digits;
    let mean = format!("mean {:.digits$}", stat.mean);
    let worst = format!("worst {:.digits$} at frame {}", stat.worst(metric), stat.worst_frame);
    let _ = writeln!(
        svg,
        "<text x=\"{right:.1}\" y=\"{head:.1}\" text-anchor=\"end\">{mean}, <tspan fill=\"{WORST}\">{worst}</tspan></text>"
    );
}

/// Which line is which, beside the title, if there are several.
fn names(svg: &mut String, panel: &Panel, top: f64) {
    let mut x = LEFT + 120.0;
    for (i, (_, name)) in panel.series.iter().enumerate().filter(|(_, (_, name))| !name.is_empty()) {
        let (y, colour) = (top - 13.5, LINES[i % LINES.len()]);
        let _ =
            writeln!(svg, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"14\" height=\"3\" fill=\"{colour}\"/>");
        text(svg, x + 20.0, top - 8.0, "start", "", name);
        x += 40.0 + 7.0 * name.len() as f64;
    }
}

fn rule(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), opacity: &str) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{TEXT}\" stroke-opacity=\"{opacity}\"/>"
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, style: &str, words: &str) {
    // Characters that XML has no way to hold would make the whole file unreadable.
    let words: String =
        words.chars().filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect();
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{words}</text>");
}
