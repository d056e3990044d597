//! Line plots as SVG, without a library: a frame, a grid, lines and a legend.

/// A line.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A plot whose y axis starts at zero, and on whose x axis equal steps are equal factors.
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) series: Vec<Series>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 20.0;
const BOTTOM: f64 = 50.0;
/// Readable for the colour-blind, and on light and dark ground.
const COLOURS: [&str; 6] = ["#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#cc79a7"];

/// A round step that cuts `range` into about five.
fn step(range: f64) -> f64 {
    let power = 10f64.powf((range / 5.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|s| range / s <= 6.0).unwrap_or(range)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

impl Plot {
    pub(crate) fn svg(&self) -> String {
        let points = || {
            self.series.iter().flat_map(|s| s.points.iter()).filter(|p| p.0.is_finite() && p.1.is_finite())
        };
        let place = |x: f64| x.max(f64::MIN_POSITIVE).log2();
        let (mut low, mut high, mut top) = (f64::INFINITY, f64::NEG_INFINITY, 0.0f64);
        for (x, y) in points() {
            (low, high, top) = (low.min(place(*x)), high.max(place(*x)), top.max(*y));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let (wide, top) = ((high - low).max(1e-9), if top > 0.0 { top * 1.05 } else { 1.0 });
        let at_x = |x: f64| LEFT + (place(x) - low) / wide * (WIDTH - LEFT - RIGHT);
        let at_y = |y: f64| HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
        );
        let text = |x: f64, y: f64, anchor: &str, size: u32, words: &str| {
            format!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"#222222\">{}</text>\n",
                escape(words)
            )
        };
        svg += &text(WIDTH / 2.0, 22.0, "middle", 15, &self.title);
        svg += &text(WIDTH / 2.0, HEIGHT - 12.0, "middle", 12, &self.x);
        svg += &text(8.0, TOP - 12.0, "start", 12, &self.y);
        let dy = step(top);
        for i in 0..=(top / dy) as usize {
            let (value, y) = (i as f64 * dy, at_y(i as f64 * dy));
            svg += &format!(
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>\n",
                WIDTH - RIGHT
            );
            svg += &text(LEFT - 6.0, y + 4.0, "end", 12, &format!("{value}"));
        }
        let mut marks: Vec<f64> = points().map(|p| p.0).collect();
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        for x in marks {
            svg += &text(at_x(x), HEIGHT - BOTTOM + 16.0, "middle", 12, &format!("{x}"));
        }
        for (i, series) in self.series.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let line: Vec<String> =
                series.points.iter().map(|(x, y)| format!("{:.1},{:.1}", at_x(*x), at_y(*y))).collect();
            svg += &format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
                line.join(" ")
            );
            for (x, y) in series.points.iter().filter(|_| series.points.len() <= 50) {
                let (x, y) = (at_x(*x), at_y(*y));
                svg += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n");
            }
            let y = HEIGHT - BOTTOM - 12.0 - 16.0 * (self.series.len() - 1 - i) as f64;
            let (x, top) = (LEFT + 12.0, y - 5.0);
            svg +=
                &format!("<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>\n");
            svg += &text(LEFT + 32.0, y, "start", 12, &series.name);
        }
        svg + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_every_line_and_no_number_that_is_none() {
        let series = |name: &str, points| Series { name: name.into(), points };
        let plot = Plot {
            title: "a < b".into(),
            x: "x".into(),
            y: "y".into(),
            series: vec![series("one", vec![(128.0, 3.0), (256.0, 4.0)]), series("none", vec![])],
        };
        let svg = plot.svg();
        assert!(svg.contains("a &lt; b") && svg.matches("<polyline").count() == 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        let empty = Plot { series: vec![], ..plot };
        assert!(!empty.svg().contains("NaN"));
    }
}
