//! Times of day and lengths of time as people type them.

use std::time::{Duration, Instant};

use chrono::{Local, NaiveTime, TimeDelta};

/// The longest wait that is meant: 30 days.
const MOST: u64 = 30 * 24 * 3600;

/// `07:00` or `07:00:30`: the next time that the clock on the wall shows it.
pub(super) fn until(text: &str) -> Result<Instant, String> {
    let wrong = || format!("`{text}` is not a time of day; write HH:MM, for example 07:00");
    let read = |format| NaiveTime::parse_from_str(text, format);
    let at = read("%H:%M").or_else(|_| read("%H:%M:%S")).map_err(|_| wrong())?;
    let wait = wait(Local::now().time(), at);
    Instant::now().checked_add(wait).ok_or_else(wrong)
}

/// From now to a time of day.
fn wait(now: NaiveTime, at: NaiveTime) -> Duration {
    let mut wait = at.signed_duration_since(now);
    if wait <= TimeDelta::zero() {
        wait += TimeDelta::days(1);
    }
    wait.to_std().unwrap_or_default()
}

/// `90s`, `30m`, `2h`, `7d`.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a length of time up to 30 days; write 90s, 30m, 2h or 7d");
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text.get(..text.len() - 1).unwrap_or_default().parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(unit).filter(|seconds| *seconds <= MOST).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(span("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(span("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "h", "1", "-1s", "1.5h", "1000h", "99999999999999999999s", "1 m", "é"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        let time = |h, m| NaiveTime::from_hms_opt(h, m, 0).unwrap();
        assert_eq!(wait(time(6, 0), time(7, 0)), Duration::from_secs(3600));
        assert_eq!(wait(time(23, 0), time(7, 0)), Duration::from_secs(8 * 3600));
        assert_eq!(wait(time(7, 0), time(7, 0)), Duration::from_secs(86_400), "tomorrow");
        assert!(until("25:00").is_err() && until("7").is_err() && until("").is_err());
        assert!(until("07:00").unwrap() > Instant::now());
    }
}
