//! One moment of a run: as a bar, as a line, and as the fields of a JSON line.

use remaster::numbers::clock;
use remaster_plan::bytes;
use serde::Serialize;

use super::tally::Trust;

/// What is known at one moment. The names are those of the JSON line.
#[derive(Clone, Debug, Serialize)]
pub(super) struct View {
    pub(super) event: &'static str,
    pub(super) phase: &'static str,
    pub(super) unit: &'static str,
    pub(super) done: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<usize>,
    /// The total may be wrong.
    pub(super) estimated: bool,
    /// Units per second of the phase's own time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<f64>,
    /// Of all phases, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) share: Option<f64>,
    pub(super) elapsed_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) eta_seconds: Option<f64>,
    /// What the estimate rests on: `measured`, `estimated` or `at_least`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) eta: Option<Trust>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peak_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) planned_bytes: Option<u64>,
    /// Frames that a stop would not lose, as work of all phases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) saved: Option<usize>,
    /// How long these are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) saved_seconds: Option<f64>,
    /// A person makes it wait.
    pub(super) paused: bool,
}

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// Memory is shown.
    pub(super) memory: bool,
    pub(super) columns: usize,
    pub(super) colour: bool,
    /// Characters outside ASCII.
    pub(super) blocks: bool,
}

/// Columns of the bar itself: less says nothing, more pushes out the numbers.
const BAR: std::ops::RangeInclusive<usize> = 8..=24;

impl View {
    /// A line for logs.
    pub(super) fn line(&self, style: Style) -> String {
        let mut parts = vec![self.head()];
        parts.extend(self.percent());
        parts.extend(self.speed());
        parts.push(self.time());
        parts.extend(self.saved());
        parts.extend(self.memory().filter(|_| style.memory));
        parts.join(", ")
    }

    /// The bar, and the columns it takes: never more than there are. The least useful parts go first.
    pub(super) fn bar(&self, style: Style) -> (String, usize) {
        // The last column stays empty: some terminals go to the next line when it is filled.
        let room = style.columns.saturating_sub(1);
        let head = self.head();
        let lean = head.strip_suffix(&format!(" {}", self.unit)).unwrap_or(&head);
        let [percent, speed, time] = [self.percent(), self.speed(), Some(self.time())];
        let parts = |saved, memory: Option<String>| {
            vec![percent.clone(), speed.clone(), time.clone(), saved, memory.filter(|_| style.memory)]
        };
        let (saved, short, now) = (self.saved(), self.memory_in_short(), self.memory_bytes.map(bytes));
        let layouts: [(&str, bool, Vec<Option<String>>); 10] = [
            (&head, true, parts(saved.clone(), self.memory())),
            (&head, true, parts(saved.clone(), short.clone())),
            (lean, true, parts(saved, short.clone())),
            (lean, true, parts(None, short)),
            (lean, true, parts(None, now.clone())),
            (lean, false, parts(None, now)),
            (lean, false, parts(None, None)),
            (lean, false, vec![percent.clone(), time.clone()]),
            (lean, false, vec![percent.clone()]),
            (lean, false, vec![]),
        ];
        for (head, bar, parts) in layouts {
            let tail: String = parts.into_iter().flatten().map(|p| format!("  {p}")).collect();
            let used = head.chars().count() + tail.chars().count();
            let bar = self.share.filter(|_| bar && self.has_frames());
            let least = if bar.is_some() { *BAR.start() + 4 } else { 0 };
            if used + least > room {
                continue;
            }
            let Some(share) = bar else { return (format!("{head}{tail}"), used) };
            let cells = (room - used - 4).min(*BAR.end());
            return (format!("{head}  {}{tail}", strip(share, cells, style)), used + cells + 4);
        }
        let head: String = head.chars().take(room).collect();
        let columns = head.chars().count();
        (head, columns)
    }

    /// Whether the phase has frames to count: the last one writes the file, and has none.
    fn has_frames(&self) -> bool {
        self.estimated || self.total != Some(0)
    }

    fn head(&self) -> String {
        match self.has_frames() {
            true => format!("{} {}", self.phase, self.count()),
            false => self.phase.to_owned(),
        }
    }

    /// Where a stop would go on from: `saved 0:31`.
    fn saved(&self) -> Option<String> {
        match (self.saved?, self.saved_seconds) {
            (0, _) => None,
            (_, Some(seconds)) => Some(format!("saved {}", clock(seconds))),
            (frames, None) => Some(format!("saved {frames} {}", self.unit)),
        }
    }

    fn count(&self) -> String {
        let mark = if self.estimated { "~" } else { "" };
        match self.total {
            Some(total) => format!("{}/{mark}{total} {}", self.done, self.unit),
            None => format!("{} {}", self.done, self.unit),
        }
    }

    fn percent(&self) -> Option<String> {
        // Rounded down: 100 % means all.
        self.share.filter(|_| self.has_frames()).map(|s| format!("{:.0}%", (s * 100.0).floor()))
    }

    fn speed(&self) -> Option<String> {
        self.rate.map(|rate| speed(rate, self.unit))
    }

    fn time(&self) -> String {
        let mark = match self.eta {
            Some(Trust::Estimated) => "~",
            Some(Trust::AtLeast) => ">",
            _ => "",
        };
        let paused = if self.paused { "paused, " } else { "" };
        match self.eta_seconds {
            Some(left) => format!("{paused}ETA {mark}{}", clock(left.ceil())),
            None => format!("{paused}{} so far", clock(self.elapsed_seconds)),
        }
    }

    fn memory(&self) -> Option<String> {
        let (now, peak) = (self.memory_bytes?, self.peak_bytes?);
        let planned = self.planned_bytes.map(|p| format!(" of {} planned", bytes(p))).unwrap_or_default();
        Some(format!("{}, peak {}{planned}", bytes(now), bytes(peak)))
    }

    /// `1.50 peak 1.75/2.00 GiB`: all in the unit of the largest.
    fn memory_in_short(&self) -> Option<String> {
        let (now, peak) = (self.memory_bytes?, self.peak_bytes?);
        let most = now.max(peak).max(self.planned_bytes.unwrap_or(0));
        let (unit, size) = if most >= 1 << 30 { ("GiB", 1u64 << 30) } else { ("MiB", 1 << 20) };
        let digits = if most >= 100 * size { 0 } else { 2 };
        let number = |bytes: u64| format!("{:.digits$}", bytes as f64 / size as f64);
        let planned = self.planned_bytes.map(|p| format!("/{}", number(p))).unwrap_or_default();
        Some(format!("{} peak {}{planned} {unit}", number(now), number(peak)))
    }
}

/// `3.21 fps`; below one in ten seconds the other way round, which is easier to read.
pub(super) fn speed(rate: f64, unit: &str) -> String {
    let digits = |x: f64| if x >= 99.5 { 0 } else { usize::from(x < 9.95) + 1 };
    match unit {
        "frames" if rate < 0.1 && rate > 0.0 => format!("{:.1} s/frame", 1.0 / rate),
        "frames" => format!("{rate:.*} fps", digits(rate)),
        _ => format!("{rate:.*} {unit}/s", digits(rate)),
    }
}

fn strip(share: f64, cells: usize, style: Style) -> String {
    let full = ((share.clamp(0.0, 1.0) * cells as f64).floor() as usize).min(cells);
    let (on, off) = if style.blocks { ("█", "░") } else { ("#", ".") };
    let (left, right) = if style.colour { ("\x1b[36m", "\x1b[0m") } else { ("", "") };
    format!("[{left}{}{right}{}]", on.repeat(full), off.repeat(cells - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View {
            event: "progress",
            phase: "encode",
            unit: "frames",
            done: 33,
            total: Some(65),
            estimated: false,
            rate: Some(3.2149),
            share: Some(0.507),
            elapsed_seconds: 10.2,
            eta_seconds: Some(11.2),
            eta: Some(Trust::Measured),
            memory_bytes: Some(3 << 29),
            peak_bytes: Some(7 << 28),
            planned_bytes: Some(2 << 30),
            saved: None,
            saved_seconds: None,
            paused: false,
        }
    }

    fn style(columns: usize) -> Style {
        Style { memory: true, columns, colour: false, blocks: false }
    }

    #[test]
    fn a_line_says_everything() {
        assert_eq!(
            view().line(style(80)),
            "encode 33/65 frames, 50%, 3.21 fps, ETA 0:12, 1.50 GiB, peak 1.75 GiB of 2.00 GiB planned"
        );
        let mut v = view();
        (v.total, v.share, v.eta_seconds, v.planned_bytes) = (None, None, None, None);
        assert_eq!(v.line(style(80)), "encode 33 frames, 3.21 fps, 0:10 so far, 1.50 GiB, peak 1.75 GiB");
        v = view();
        (v.estimated, v.eta, v.rate, v.memory_bytes) = (true, Some(Trust::Estimated), Some(0.04), None);
        assert_eq!(v.line(style(80)), "encode 33/~65 frames, 50%, 25.0 s/frame, ETA ~0:12");
        v.paused = true;
        assert_eq!(v.line(style(80)), "encode 33/~65 frames, 50%, 25.0 s/frame, paused, ETA ~0:12");
    }

    #[test]
    fn the_bar_never_takes_the_last_column_and_gives_up_its_parts_one_by_one() {
        for columns in (0..200).rev() {
            for style in [style(columns), Style { memory: true, colour: true, blocks: true, columns }] {
                let (text, taken) = view().bar(style);
                assert!(taken < columns.max(1), "{columns}: {text}");
                let plain = text.replace("\x1b[36m", "").replace("\x1b[0m", "");
                assert_eq!(plain.chars().count(), taken, "{text}");
            }
        }
        assert_eq!(
            view().bar(style(200)).0,
            "encode 33/65 frames  [############............]  50%  3.21 fps  ETA 0:12  \
             1.50 GiB, peak 1.75 GiB of 2.00 GiB planned"
        );
        let expected = "encode 33/65  [######.......]  50%  3.21 fps  ETA 0:12  1.50 peak 1.75/2.00 GiB";
        assert_eq!(view().bar(style(80)).0, expected);
        assert_eq!(view().bar(style(35)).0, "encode 33/65  50%  ETA 0:12");
        assert_eq!(view().bar(style(8)).0, "encode ");
    }

    #[test]
    fn memory_is_for_those_who_ask_and_what_is_saved_for_everyone() {
        let mut v = view();
        (v.saved, v.saved_seconds) = (Some(31), Some(31.0));
        let plain = |columns| Style { memory: false, ..style(columns) };
        assert_eq!(v.line(plain(80)), "encode 33/65 frames, 50%, 3.21 fps, ETA 0:12, saved 0:31");
        let expected = "encode 33/65 frames  [############............]  50%  3.21 fps  ETA 0:12  saved 0:31";
        assert_eq!(v.bar(plain(100)).0, expected);
        assert!(
            v.bar(style(200))
                .0
                .ends_with("ETA 0:12  saved 0:31  1.50 GiB, peak 1.75 GiB of 2.00 GiB planned")
        );
        v.saved_seconds = None;
        assert!(v.line(plain(80)).ends_with("saved 31 frames"));
        v.saved = Some(0);
        assert!(v.line(plain(80)).ends_with("ETA 0:12"));
    }

    #[test]
    fn a_phase_without_frames_counts_none() {
        let mut v = view();
        (v.phase, v.done, v.total, v.rate, v.share) = ("finish", 0, Some(0), None, Some(1.0));
        (v.eta_seconds, v.eta) = (None, None);
        let plain = Style { memory: false, ..style(80) };
        assert_eq!(
            (v.line(plain).as_str(), v.bar(plain).0.as_str()),
            ("finish, 0:10 so far", "finish  0:10 so far")
        );
    }

    #[test]
    fn numbers_as_people_read_them() {
        for (seconds, text) in [(0.0, "0:00"), (59.9, "0:59"), (60.0, "1:00"), (3723.0, "1:02:03")] {
            assert_eq!(clock(seconds), text);
        }
        assert_eq!((clock(f64::NAN).as_str(), clock(-1.0).as_str()), ("0:00", "0:00"));
        for (rate, unit, text) in [
            (0.05, "frames", "20.0 s/frame"),
            (9.876, "frames", "9.88 fps"),
            (12.34, "frames", "12.3 fps"),
            (123.4, "frames", "123 fps"),
            (1234.5, "MiB", "1234 MiB/s"),
        ] {
            assert_eq!(speed(rate, unit), text);
        }
        let mut v = view();
        v.share = Some(0.9999);
        assert_eq!(v.percent().as_deref(), Some("99%"));
    }
}
