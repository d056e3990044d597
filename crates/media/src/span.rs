//! A part of a clip: which frames are in it, and when they are shown once the rest is gone.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::MediaError;
use crate::nut::TimeBase;

/// The longest time that is meant, in seconds: 30 years.
const MAX_SECONDS: u64 = 1_000_000_000;

/// A part of a clip in nanoseconds from its first frame. The frame at `start` is in it, the one at `end` is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Nanoseconds", into = "Nanoseconds")]
pub struct Span {
    start: u64,
    end: Option<u64>,
}

/// A span as files have it.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Nanoseconds {
    start_ns: u64,
    end_ns: Option<u64>,
}

impl From<Span> for Nanoseconds {
    fn from(Span { start, end }: Span) -> Self {
        Nanoseconds { start_ns: start, end_ns: end }
    }
}

impl TryFrom<Nanoseconds> for Span {
    type Error = String;

    fn try_from(Nanoseconds { start_ns, end_ns }: Nanoseconds) -> Result<Self, String> {
        let most = MAX_SECONDS * 1_000_000_000;
        match start_ns <= most && end_ns.is_none_or(|end| end <= most) {
            true => Ok(Span { start: start_ns, end: end_ns }),
            false => Err(format!("a part of a clip up to {start_ns} ns; times are at most {most} ns")),
        }
    }
}

impl Span {
    /// From `start` on, up to `end`; the ends of the clip where they are not given. Times past 30 years are cut to that.
    pub fn new(start: Option<Duration>, end: Option<Duration>) -> Self {
        let whole = |time: Duration| time.min(Duration::from_secs(MAX_SECONDS)).as_nanos() as u64;
        Span { start: start.map_or(0, whole), end: end.map(whole) }
    }

    /// All frames are in it.
    pub fn is_whole(&self) -> bool {
        *self == Span::default()
    }

    /// Seconds before it.
    pub(crate) fn start_seconds(&self) -> f64 {
        self.start as f64 / 1e9
    }

    /// Where it ends in a clip of `length` seconds; `None` if neither has an end.
    pub(crate) fn end_in(&self, length: Option<f64>) -> Option<f64> {
        match (self.end.map(|end| end as f64 / 1e9), length) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// All of the clip from some seconds before it on.
    pub(crate) fn sooner(&self, seconds: f64) -> Span {
        Span { start: self.start.saturating_sub((seconds * 1e9) as u64), end: None }
    }

    /// The seconds that it lasts by itself.
    pub(crate) fn seconds(&self) -> Option<f64> {
        self.end.map(|end| end.saturating_sub(self.start) as f64 / 1e9)
    }

    /// Refuses a part that cannot hold a frame of the clip at `path`, which lasts `length` seconds.
    pub(crate) fn check(&self, path: &Path, length: Option<f64>) -> Result<(), MediaError> {
        let backwards = self.end.is_some_and(|end| end <= self.start);
        let behind = length.is_some_and(|length| self.start > 0 && self.start_seconds() >= length);
        if backwards || behind { Err(self.empty(path, length)) } else { Ok(()) }
    }

    /// There is no frame in it.
    pub(crate) fn empty(&self, path: &Path, length: Option<f64>) -> MediaError {
        MediaError::EmptySpan {
            path: path.to_owned(),
            span: *self,
            length: length.map_or_else(String::new, |length| format!(" of its {}", time(length))),
        }
    }

    /// Where it lies on a clock whose clip starts at `origin`, which has a clock of its own.
    pub(crate) fn on(&self, clock: TimeBase, origin: (i64, TimeBase)) -> Ticks {
        let at = |ns: u64| ticks(origin, ns, clock);
        let (shift, first) = at(self.start);
        // Filters round times: without a start nothing is before it.
        let first = if self.start == 0 { i64::MIN } else { first };
        Ticks { first, end: self.end.map(|end| at(end).1), shift }
    }

    /// The same for frames that are counted from 0.
    pub(crate) fn counted(&self, clock: TimeBase) -> Ticks {
        self.on(clock, (0, clock))
    }
}

/// For people: `12.5 s to 20 s`.
impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |ns: u64| ns as f64 / 1e9;
        match self.end {
            Some(end) => write!(f, "from {} s to {} s", shown(self.start), shown(end)),
            None => write!(f, "from {} s on", shown(self.start)),
        }
    }
}

fn time(seconds: f64) -> String {
    format!("{} s", (seconds * 1e3).round() / 1e3)
}

/// A span in units of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    /// The first time in it.
    pub(crate) first: i64,
    /// The first time behind it.
    pub(crate) end: Option<i64>,
    /// What is taken from times, so that the part starts at 0.
    pub(crate) shift: i64,
}

impl Ticks {
    /// Whether a frame is shown after the end.
    pub(crate) fn is_over(&self, pts: i64) -> bool {
        self.end.is_some_and(|end| pts >= end)
    }

    /// When a frame is shown in the part.
    pub(crate) fn shown(&self, pts: i64) -> i64 {
        pts.saturating_sub(self.shift).max(0)
    }
}

/// `ns` after the origin, as ticks of `clock` rounded down and up. Times that no clock has saturate.
fn ticks((start, base): (i64, TimeBase), ns: u64, clock: TimeBase) -> (i64, i64) {
    const SECOND: i128 = 1_000_000_000;
    let (num, den) = (i128::from(base.num), i128::from(base.den));
    let (tick, per) = (i128::from(clock.num), i128::from(clock.den));
    let exact = || {
        let origin = i128::from(start).checked_mul(num)?.checked_mul(SECOND)?.checked_mul(per)?;
        let after = i128::from(ns).checked_mul(den)?.checked_mul(per)?;
        let unit = den.checked_mul(tick)?.checked_mul(SECOND)?;
        let all = origin.checked_add(after)?;
        let down = all.div_euclid(unit);
        Some((down, down + i128::from(all.rem_euclid(unit) != 0)))
    };
    let (down, up) = exact().unwrap_or((i128::MAX, i128::MAX));
    let fits = |n: i128| n.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    (fits(down), fits(up))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NTSC: TimeBase = TimeBase { num: 1001, den: 24000 };

    fn span(start: f64, end: f64) -> Span {
        Span::new(Some(Duration::from_secs_f64(start)), Some(Duration::from_secs_f64(end)))
    }

    #[test]
    fn the_frame_at_the_start_is_in_and_the_one_at_the_end_is_not() {
        // Frame 24 is shown at 1.001 s, frame 48 at 2.002 s.
        let ticks = span(1.001, 2.002).counted(NTSC);
        assert_eq!(ticks, Ticks { first: 24, end: Some(48), shift: 24 });
        let ticks = span(1.002, 2.003).counted(NTSC);
        assert_eq!(ticks, Ticks { first: 25, end: Some(49), shift: 24 });
        assert_eq!(ticks.shown(25), 1);
        // A clip that starts at 1.48 s, on two clocks.
        let origin = (133_200, TimeBase { num: 1, den: 90_000 });
        let ticks = span(1.0, 2.0).on(TimeBase { num: 1, den: 1000 }, origin);
        assert_eq!(ticks, Ticks { first: 2480, end: Some(3480), shift: 2480 });
        assert_eq!(span(0.0, 1.0).on(NTSC, (0, NTSC)).first, i64::MIN);
    }

    #[test]
    fn empty_parts_are_refused_with_the_length_of_the_clip() {
        let path = Path::new("a.mkv");
        let words = |span: Span, length| span.check(path, length).unwrap_err().to_string();
        assert_eq!(
            words(span(5.0, 3.0), Some(12.5)),
            "a.mkv has no frame from 5 s to 3 s of its 12.5 s; --ss must be before --to and before the end"
        );
        assert!(words(span(13.0, 14.0), Some(12.5)).contains("12.5 s"));
        assert!(words(span(3.0, 3.0), None).contains("from 3 s to 3 s"));
        assert!(span(3.0, 4.0).check(path, None).is_ok());
        assert!(Span::default().check(path, Some(0.0)).is_ok());
    }

    #[test]
    fn a_span_of_a_file_is_checked() {
        let read = |text: &str| serde_json::from_str::<Span>(text);
        let text = serde_json::to_string(&span(1.5, 2.0)).unwrap();
        assert_eq!(read(&text).unwrap(), span(1.5, 2.0));
        assert!(read("{\"start_ns\":18446744073709551615,\"end_ns\":null}").is_err());
        assert!(read("{\"start_ns\":-1,\"end_ns\":null}").is_err());
    }

    proptest! {
        #[test]
        fn ticks_are_what_a_rational_number_says(start in 0u64..1 << 50, after in 0u64..1 << 50, num in 1u64..2000, den in 1u64..100_000) {
            let clock = TimeBase { num, den };
            let (down, up) = ticks((0, clock), start, clock);
            // pts * num / den >= start / 10^9, with nothing rounded.
            let time = |pts: i64| i128::from(pts) * i128::from(num) * 1_000_000_000;
            let bound = i128::from(start) * i128::from(den);
            prop_assert!(time(up) >= bound && time(up - 1) < bound);
            prop_assert!(time(down) <= bound && time(down + 1) > bound);
            let _ = Span { start, end: Some(after) }.on(clock, (i64::MAX, TimeBase { num: u64::MAX, den: 1 }));
        }
    }
}
