//! Values of filters and encoders that a plan may hold.

use remaster_picture::Layout;

use crate::words::Words;

/// What a value may be. Every number has a range: what a plan holds is done on any machine that shares its folder, and some
/// of these are threads, frames in memory or buffers of an encoder.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// A decimal number from one to another, with k, M or G behind it.
    Number(i64, i64),
    /// A whole number from 0 to this one: of frames that a filter holds, or of pixels around one.
    Most(u32),
    /// Frames per second, as a number or a quotient of two, up to 240.
    Rate,
    /// The number of a constant, or one of these words.
    Or(&'static str),
    /// Up to eight numbers from one to another, with `x`, `,`, `/` or `|` between them.
    Numbers(i64, i64),
    /// Pixels: a number up to 8192, or a sum, product or quotient of numbers and names of sizes.
    Pixels,
    /// Words, each behind a sign.
    Flags(&'static str),
    /// Names of pixel formats with `|` between them.
    Samples,
    /// `key=number:key=word` with these keys, and the least and the largest number of each.
    Params(&'static [(&'static str, i64, i64)]),
}

/// Numbers of constants that an option has words for, too: of profiles and levels the largest.
const CONSTANTS: (i64, i64) = (-100, 1000);

/// Numbers in a list at most.
const LISTED: usize = 8;

/// Names that sizes have in filters.
const SIZES: Words =
    Words("iw ih ow oh in_w in_h out_w out_h w h x y a sar dar hsub vsub trunc ceil floor round abs");

/// Words that values of parameters can be, beside numbers.
const WORDS: Words = Words(
    "dia hex umh esa tesa star sea full none auto spatial temporal strict normal flat jvt true false main \
    main10 high vbr cbr limited",
);

/// The largest number of pixels of a side, and the largest factor of one: a frame in the midst of filters is not planned.
const LARGEST: f64 = 8192.0;
const LARGEST_FACTOR: f64 = 16.0;

impl Value {
    /// Whether `text` is such a value.
    pub(super) fn takes(self, text: &str) -> bool {
        match self {
            Value::Number(least, most) => is_between(text, least, most),
            Value::Most(most) => text.parse::<u32>().is_ok_and(|n| n <= most),
            Value::Rate => is_rate(text),
            Value::Or(words) => is_between(text, CONSTANTS.0, CONSTANTS.1) || Words(words).has(text),
            Value::Numbers(least, most) => are_between(text, &['x', ',', '/', '|'], least, most),
            Value::Pixels => is_expression(text),
            Value::Flags(words) => is_flags(text, Words(words)),
            Value::Samples => text.split('|').all(|name| Layout::from_name(name).is_some()),
            Value::Params(keys) => text.split(':').all(|pair| is_pair(pair, keys)),
        }
    }
}

/// A decimal number with nine digits before and behind its point at most.
fn number(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let plain = digits.strip_suffix(['k', 'K', 'M', 'G']);
    let times = match digits.as_bytes().last() {
        Some(b'k' | b'K') => 1e3,
        Some(b'M') => 1e6,
        Some(b'G') => 1e9,
        _ => 1.0,
    };
    let digits = plain.unwrap_or(digits);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let all = |text: &str| !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    let size = digits.parse::<f64>().ok().filter(|_| all(whole) && all(part))? * times;
    Some(if text.starts_with('-') { -size } else { size })
}

fn is_between(text: &str, least: i64, most: i64) -> bool {
    number(text).is_some_and(|number| (least as f64..=most as f64).contains(&number))
}

fn are_between(text: &str, signs: &[char], least: i64, most: i64) -> bool {
    let all = || text.split(signs);
    all().count() <= LISTED && all().all(|number| is_between(number, least, most))
}

fn is_rate(text: &str) -> bool {
    let (over, by) = text.split_once('/').unwrap_or((text, "1"));
    let plain = |text: &str| {
        text.parse::<f64>().ok().filter(|_| number(text).is_some() && !text.starts_with(['-', '+']))
    };
    plain(over).zip(plain(by)).is_some_and(|(number, by)| number > 0.0 && by > 0.0 && number / by <= 240.0)
}

fn is_flags(text: &str, words: Words) -> bool {
    let text = if text.starts_with(['+', '-']) { text.to_owned() } else { format!("+{text}") };
    let mut rest = text.as_str();
    while let Some(behind) = rest.strip_prefix(['+', '-']) {
        let end = behind.find(['+', '-']).unwrap_or(behind.len());
        let Some((word, next)) = behind.split_at_checked(end) else { return false };
        if !words.has(word) {
            return false;
        }
        rest = next;
    }
    rest.is_empty()
}

/// A parameter of a library. Without a value it is a switch.
fn is_pair(pair: &str, keys: &[(&str, i64, i64)]) -> bool {
    let (key, value) = pair.split_once('=').unwrap_or((pair, "1"));
    let key = key.strip_prefix("no-").unwrap_or(key);
    let known = keys.iter().find(|(names, ..)| names.split_ascii_whitespace().any(|name| name == key));
    known.is_some_and(|(_, least, most)| are_between(value, &[',', 'x'], *least, *most) || WORDS.has(value))
}

/// Numbers and names of sizes with signs between them. There is nothing in it that reads, writes, keeps or repeats.
fn is_expression(text: &str) -> bool {
    if text.is_empty() || text.len() > 200 {
        return false;
    }
    // One factor is enough for an aspect ratio, and a divisor in brackets could be any number.
    if text.matches('*').count() > 1 || text.contains("/(") {
        return false;
    }
    let mut rest = text;
    let mut before = '+';
    while let Some(first) = rest.chars().next() {
        let word = |is: fn(char) -> bool| rest.find(|c| !is(c)).unwrap_or(rest.len());
        let end = match first {
            '+' | '-' | '*' | '/' | '(' | ')' => 1,
            '0'..='9' | '.' => {
                let end = word(|c| c.is_ascii_digit() || c == '.');
                let number = rest.get(..end).and_then(|digits| digits.parse::<f64>().ok());
                let is_factor = before == '*' || rest.get(end..).is_some_and(|rest| rest.starts_with('*'));
                let largest = if is_factor { LARGEST_FACTOR } else { LARGEST };
                // A small divisor is a large factor.
                if !number.is_some_and(|n| n <= largest && (before != '/' || n >= 1.0)) {
                    return false;
                }
                end
            }
            'a'..='z' => {
                let end = word(|c| c.is_ascii_lowercase() || c == '_');
                if !rest.get(..end).is_some_and(|name| SIZES.has(name)) {
                    return false;
                }
                end
            }
            _ => return false,
        };
        before = first;
        rest = rest.get(end..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sizes_and_flags_are_taken_and_nothing_else() {
        let number = Value::Number(-1, 8_000_000);
        for good in ["0", "-1", "+12", "1.5", "8M", "0.25", "128k", "-0.5"] {
            assert!(number.takes(good), "{good}");
        }
        for bad in ["", "-", "1e3", "nan", "inf", "0x10", "1.", ".5", "1 2", "9999999999", "1/2", "M"] {
            assert!(!number.takes(bad), "{bad}");
        }
        for beyond in ["-2", "-1.5", "8000001", "9M", "1G", "-1k"] {
            assert!(!number.takes(beyond), "{beyond}");
        }
        for good in ["iw/2", "(in_w-1280)/2", "-2", "704", "trunc(iw/2)*2", "ih*4/3"] {
            assert!(Value::Pixels.takes(good), "{good}");
        }
        let bad = "99999 16384 iw*17 100*iw iw*9*9 iw/0.01 iw/(1-0.99) st(0) print(1) random(0) w;h ld(0) \
            iw' %{pts} while(1)";
        for bad in bad.split(' ').chain([""]) {
            assert!(!Value::Pixels.takes(bad), "{bad}");
        }
        assert!(Value::Most(9).takes("9") && !Value::Most(9).takes("10") && !Value::Most(9).takes("-1"));
        assert!(Value::Rate.takes("25") && Value::Rate.takes("30000/1001") && Value::Rate.takes("23.976"));
        for bad in ["", "0", "-25", "1/0", "241", "1000000", "25/0.01", "1/2/3"] {
            assert!(!Value::Rate.takes(bad), "{bad}");
        }
        let flags = Value::Flags("cgop ilme");
        assert!(flags.takes("+cgop-ilme") && flags.takes("cgop"));
        assert!(!flags.takes("") && !flags.takes("+") && !flags.takes("+x") && !flags.takes("+cgop-"));
        let params = Value::Params(&[("aq-mode", 0, 4), ("deblock", -6, 6)]);
        assert!(params.takes("aq-mode=3:no-deblock:deblock=-1,-1"));
        let many = format!("deblock={}", ["1"; 9].join(","));
        for bad in [
            "stats=1",
            "aq-mode=/x",
            "aq-mode=1:log-file=x",
            "",
            "aq-mode=3:",
            "aq-mode=a b",
            "aq-mode=5",
            &many,
        ] {
            assert!(!params.takes(bad), "{bad}");
        }
        assert!(Value::Samples.takes("yuv420p|yuv420p10le") && !Value::Samples.takes("../x"));
        let numbers = Value::Numbers(0, 64);
        assert!(
            numbers.takes("4/3") && numbers.takes("2x2") && !numbers.takes("2xx") && !numbers.takes("2x65")
        );
        let constant = Value::Or("main high");
        assert!(constant.takes("high") && constant.takes("578") && !constant.takes("100000"));
    }
}
