//! Times of day, as clients read them.

#[cfg(test)]
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// The last moment of the year 9999, in milliseconds: the forms below have four digits for a year.
const LAST: u64 = 253_402_300_799_999;

/// A time in the form of RFC 3339: `2026-01-31T12:00:00.000Z`. All times behind the year 9999 are its end.
pub(crate) fn written(milliseconds: u64) -> String {
    moment(milliseconds.min(LAST)).to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn moment(milliseconds: u64) -> DateTime<Utc> {
    i64::try_from(milliseconds).ok().and_then(DateTime::from_timestamp_millis).unwrap_or_default()
}

/// This moment as answers carry it: `Sun, 06 Nov 1994 08:49:37 GMT`. `None` if the clock shows none that can be written.
pub(crate) fn date() -> Option<String> {
    dated(SystemTime::now())
}

fn dated(time: SystemTime) -> Option<String> {
    let since = time.duration_since(UNIX_EPOCH).ok()?.as_millis();
    let since = u64::try_from(since).ok().filter(|since| *since <= LAST)?;
    Some(moment(since).format("%a, %d %b %Y %H:%M:%S GMT").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_a_calendar() {
        assert_eq!(written(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(written(1_769_860_800_123), "2026-01-31T12:00:00.123Z");
        for milliseconds in [LAST, LAST + 1, u64::MAX] {
            assert_eq!(written(milliseconds), "9999-12-31T23:59:59.999Z");
        }
    }

    #[test]
    fn a_date_is_one_of_http_or_none() {
        let at = |seconds: u64| dated(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(784_111_777).unwrap(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(0).unwrap(), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(at(LAST / 1000).unwrap(), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!((at(LAST / 1000 + 1), at(1 << 40)), (None, None));
        assert_eq!(dated(UNIX_EPOCH - Duration::from_secs(4_000_000_000)), None);
    }
}
