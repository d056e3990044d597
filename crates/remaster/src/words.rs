//! Sizes, frame rates, times and edges, as people write them.

use std::time::Duration;

use remaster_media::TimeBase;
use remaster_picture::Edges;
use remaster_restore::Resize;

/// Frames per second.
pub fn rate(word: &str) -> Result<TimeBase, String> {
    let wrong =
        || format!("`{word}` is not a frame rate between 0.001 and 1000; write 25, 23.976 or 24000/1001");
    let digits = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) && text.len() <= 9 {
        true => text.parse::<u64>().map_err(|_| wrong()),
        false => Err(wrong()),
    };
    let (num, den) = match (word, word.split_once('/'), word.split_once('.')) {
        // Broadcast shorthand for the exact NTSC rates.
        ("23.976" | "23.98", ..) => (24000, 1001),
        ("29.97", ..) => (30000, 1001),
        ("59.94", ..) => (60000, 1001),
        ("119.88", ..) => (120_000, 1001),
        (_, Some((num, den)), _) => (digits(num)?, digits(den)?),
        (_, _, Some((whole, part))) => {
            let scale = 10u64.pow(part.len().min(9) as u32);
            (digits(whole)? * scale + digits(part)?, scale)
        }
        _ => (digits(word)?, 1),
    };
    // Containers and ffmpeg hold both sides in 31 bits.
    let fits = |n: u64| n <= i32::MAX as u64;
    match TimeBase::new(num, den) {
        Some(rate) if fits(rate.num) && fits(rate.den) && num <= 1000 * den && den <= 1000 * num => Ok(rate),
        _ => Err(wrong()),
    }
}

/// The longest time that can be asked for, in seconds: more than a year.
const LONGEST: u64 = 100_000_000;

/// Seconds, or hours, minutes and seconds, as ffmpeg takes them.
pub fn time(word: &str) -> Result<Duration, String> {
    let wrong = || format!("`{word}` is not a time; write seconds (90 or 90.5) or [HH:]MM:SS[.m] (1:30.5)");
    let number = |text: &str| match !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse::<u64>().ok().filter(|n| *n <= LONGEST).ok_or_else(wrong),
        false => Err(wrong()),
    };
    let (whole, part) = match word.split_once('.') {
        Some((whole, part)) if part.len() <= 9 => (whole, number(part)? * 10u64.pow(9 - part.len() as u32)),
        Some(_) => return Err(wrong()),
        None => (word, 0),
    };
    let fields = whole.split(':').map(number).collect::<Result<Vec<u64>, String>>()?;
    // Only the first of several may be 60 or more.
    let seconds = match fields[..] {
        [seconds] => seconds,
        [minutes, seconds @ 0..60] => minutes * 60 + seconds,
        [hours, minutes @ 0..60, seconds @ 0..60] => hours * 3600 + minutes * 60 + seconds,
        _ => return Err(wrong()),
    };
    match seconds <= LONGEST {
        true => Ok(Duration::new(seconds, part as u32)),
        false => Err(wrong()),
    }
}

/// What is beyond the edges of frames, by its name.
pub fn edges(word: &str) -> Result<Edges, String> {
    let names = Edges::ALL.map(Edges::name).join(", ");
    Edges::from_name(word).ok_or_else(|| format!("`{word}` is not valid; use {names}"))
}

/// The largest side that can be asked for.
const LARGEST: usize = 16384;

/// A size: `1080` for the short side, `2x`, `1920x1080`, `720p`, `4k`, `8k`.
pub fn resolution(word: &str) -> Result<Resize, String> {
    let wrong = || {
        format!("`{word}` is not a valid size; write 1080 (short side), 2x, 1920x1080, 720p, 1080p, 4k or 8k")
    };
    let side = |text: &str| {
        let n: usize = text.parse().map_err(|_| wrong())?;
        if (16..=LARGEST).contains(&n) {
            Ok(n)
        } else {
            let factor = if n <= 16 { format!("; for a factor, write {n}x") } else { String::new() };
            Err(format!("{n} is out of range: use 16 to {LARGEST} pixels{factor}"))
        }
    };
    let lower = word.to_ascii_lowercase();
    match lower.as_str() {
        "4k" => return Ok(Resize::Short(2160)),
        "8k" => return Ok(Resize::Short(4320)),
        _ => {}
    }
    if let Some(lines) = lower.strip_suffix('p') {
        return Ok(Resize::Short(side(lines)?));
    }
    if let Some(factor) = lower.strip_suffix('x') {
        let factor: f64 = factor.parse().map_err(|_| wrong())?;
        return if (0.1..=16.0).contains(&factor) {
            Ok(Resize::Times((factor * 100.0).round() as usize))
        } else {
            Err(format!("{factor} is out of range: use 0.1 to 16"))
        };
    }
    match lower.split_once('x') {
        Some((width, height)) => Ok(Resize::Exactly([side(width)?, side(height)?])),
        None => Ok(Resize::Short(side(&lower)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        for (word, milliseconds) in [
            ("0", 0),
            ("90", 90_000),
            ("90.5", 90_500),
            ("1:30.5", 90_500),
            ("01:00:00", 3_600_000),
            ("100:00:00.001", 360_000_001),
            ("75:10", 4_510_000),
        ] {
            assert_eq!(time(word), Ok(Duration::from_millis(milliseconds)), "{word}");
        }
        assert_eq!(time("0.000000001"), Ok(Duration::from_nanos(1)));
        let wrong = [
            "", ".", ".5", "5.", "-1", "+1", "1:60", "1:60:00", "1:2:3:4", "1:", ":1", "1s", "1e3", "nan",
            "1.2.3",
        ];
        for word in wrong.into_iter().chain(["99999999999999999999", "1.0000000001", "9999999:00:00"]) {
            assert!(time(word).is_err(), "{word}");
        }
    }

    #[test]
    fn sizes_and_rates_as_people_write_them() {
        assert_eq!(resolution("720"), Ok(Resize::Short(720)));
        assert_eq!(resolution("1080p"), Ok(Resize::Short(1080)));
        assert_eq!([resolution("4K"), resolution("8k")], [Ok(Resize::Short(2160)), Ok(Resize::Short(4320))]);
        assert_eq!(resolution("1.5x"), Ok(Resize::Times(150)));
        assert_eq!(resolution("640x360"), Ok(Resize::Exactly([640, 360])));
        assert!(resolution("2").unwrap_err().ends_with("for a factor, write 2x"));
        for word in ["", "x", "0", "99999", "17x", "axb", "640x", "-5"] {
            assert!(resolution(word).is_err(), "{word}");
        }
        for (word, num, den) in [
            ("25", 25, 1),
            ("25.0", 25, 1),
            ("50/2", 25, 1),
            ("0.5", 1, 2),
            ("12.5", 25, 2),
            ("23.976", 24000, 1001),
            ("29.97", 30000, 1001),
            ("30000/1001", 30000, 1001),
            ("14.985", 2997, 200),
            ("1000", 1000, 1),
            ("0.001", 1, 1000),
        ] {
            assert_eq!(rate(word), Ok(TimeBase { num, den }), "{word}");
        }
        let wrong = [
            "0", "-3", "1/0", "0/1", "1e9", "1001", "0.0001", "", ".", "25.", "nan", "inf", "+5", "1/", "/",
            "1/2/3", "25fps",
        ];
        for word in wrong.into_iter().chain(["99999999999999999999", "1.99999999999999999999"]) {
            assert!(rate(word).is_err(), "{word}");
        }
    }
}
