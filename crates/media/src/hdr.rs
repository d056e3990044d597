//! Static metadata of HDR10, as numbers: files claim it, and it ends up among the options of an encoder.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Static metadata of HDR10.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hdr {
    /// The display that the material was made on.
    pub master_display: Option<MasterDisplay>,
    /// Most and average light level, nits.
    pub light_level: Option<[u16; 2]>,
}

/// Chromaticities are in units of 1/50000: 1 is the largest.
pub(crate) const POINTS: u32 = 50_000;
/// Luminance is in units of 1/10000 nit: 10,000 nits, the top of PQ, is the largest.
pub(crate) const LUMINANCE: u32 = 100_000_000;

/// The colour volume of a mastering display (SMPTE ST 2086). As text it is what x265 takes:
/// `G(x,y)B(x,y)R(x,y)WP(x,y)L(max,min)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MasterDisplay {
    /// Green, blue, red and white as x and y, in units of 1/50000.
    points: [[u32; 2]; 4],
    /// The most and the least light, in units of 1/10000 nit.
    luminance: [u32; 2],
}

impl MasterDisplay {
    /// `None` if a number is out of its range.
    pub fn new(points: [[u32; 2]; 4], luminance: [u32; 2]) -> Option<Self> {
        let [most, least] = luminance;
        let good = points.iter().flatten().all(|p| *p <= POINTS) && most <= LUMINANCE && least <= most;
        good.then_some(MasterDisplay { points, luminance })
    }
}

impl fmt::Display for MasterDisplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.points.iter().chain([&self.luminance]);
        for (name, [a, b]) in NAMES.iter().zip(pairs) {
            write!(f, "{name}({a},{b})")?;
        }
        Ok(())
    }
}

const NAMES: [&str; 5] = ["G", "B", "R", "WP", "L"];

impl FromStr for MasterDisplay {
    type Err = String;

    /// Takes what `Display` writes and nothing else.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let form = "G(x,y)B(x,y)R(x,y)WP(x,y)L(max,min)";
            format!(
                "the mastering display must be {form}, with x and y up to {POINTS} and max up to {LUMINANCE}"
            )
        };
        let mut rest = text;
        let mut pairs = [[0; 2]; 5];
        for (name, pair) in NAMES.iter().zip(&mut pairs) {
            let inner = rest.strip_prefix(name).and_then(|r| r.strip_prefix('('));
            let (numbers, after) = inner.and_then(|r| r.split_once(')')).ok_or_else(wrong)?;
            let (a, b) = numbers.split_once(',').ok_or_else(wrong)?;
            *pair = [number(a).ok_or_else(wrong)?, number(b).ok_or_else(wrong)?];
            rest = after;
        }
        let [green, blue, red, white, luminance] = pairs;
        let known = MasterDisplay::new([green, blue, red, white], luminance);
        known.filter(|_| rest.is_empty()).ok_or_else(wrong)
    }
}

/// Digits only: `parse` would take a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl TryFrom<String> for MasterDisplay {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<MasterDisplay> for String {
    fn from(display: MasterDisplay) -> Self {
        display.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)";

    #[test]
    fn a_mastering_display_is_ten_numbers_and_nothing_else() {
        assert_eq!(GOOD.parse::<MasterDisplay>().unwrap().to_string(), GOOD);
        for bad in [
            "",
            "G(1,2)",
            &format!("{GOOD}:pass=1:stats=/tmp/victim"),
            &format!(" {GOOD}"),
            &format!("{GOOD}\n"),
            &GOOD.replace("13250", "+13250"),
            &GOOD.replace("13250", "-1"),
            &GOOD.replace("13250", ""),
            &GOOD.replace("13250", "50001"),
            &GOOD.replace("13250", "99999999999999999999"),
            &GOOD.replace("10000000,1", "1,10000000"),
            &GOOD.replace("10000000,1", "100000001,1"),
            &GOOD.replace("10000000,1", "10000000,1,2"),
            &GOOD.replace("WP", "wp"),
        ] {
            assert!(bad.parse::<MasterDisplay>().is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_of_a_file_are_checked_as_they_are_read() {
        let read = |text: &str| serde_json::from_str::<Hdr>(text);
        let good = format!("{{\"master_display\":\"{GOOD}\",\"light_level\":[1000,65535]}}");
        assert_eq!(serde_json::to_string(&read(&good).unwrap()).unwrap(), good);
        assert!(read(&good.replace("65535", "65536")).is_err());
        assert!(read(&good.replace("[1000", "[-1")).is_err());
        assert!(read(&good.replace("L(1", ":stats=/x:L(1")).is_err());
    }
}
