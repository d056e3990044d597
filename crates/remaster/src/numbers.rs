//! Formats numbers: plurals, thousands separators, times.

/// `1 frame`, `1,140 frames`: a number and what it counts, by its singular.
pub fn count(n: usize, what: &str) -> String {
    let ending = if n == 1 { "" } else { "s" };
    format!("{} {what}{ending}", grouped(n))
}

/// `1,140`.
pub fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `0:07`, `12:34` or `1:02:03`.
pub fn clock(seconds: f64) -> String {
    let whole = std::time::Duration::try_from_secs_f64(seconds.max(0.0))
        .unwrap_or(std::time::Duration::MAX)
        .as_secs();
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Bytes as they are written behind a flag, never less than `n`: 431M, 12.3G.
pub(crate) fn as_flag(n: u64) -> String {
    let mib = n.div_ceil(1 << 20);
    if mib < 10_000 {
        return format!("{mib}M");
    }
    let tenths = (u128::from(n) * 10).div_ceil(1 << 30);
    // The last digit may be rounded down when it is read back.
    let tenths = tenths + u128::from(tenths % 10 != 0);
    format!("{}.{}G", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural_and_thousands_are_apart() {
        assert_eq!((count(1, "frame").as_str(), count(0, "unit").as_str()), ("1 frame", "0 units"));
        for (n, text) in [(999, "999"), (1000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(n), text);
        }
    }
}
