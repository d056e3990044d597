//! What the numbers of a picture mean, as tags say it or as a rule guesses it.

use remaster_picture::{Coding, Kind, Layout, Matrix, Range, Siting};
use serde::{Deserialize, Serialize};

/// Colour as tags say it, in the words of ffmpeg.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Colour {
    /// How RGB becomes luma and chroma.
    pub matrix: Tag,
    /// `tv` or `pc`.
    pub range: Tag,
    /// Which red, green and blue.
    pub primaries: Tag,
    /// The curve from light to numbers.
    pub transfer: Tag,
    /// Where chroma samples lie.
    pub siting: Tag,
}

/// One tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// The word.
    pub value: String,
    /// The file did not say: a rule did.
    pub guessed: bool,
}

impl Tag {
    fn new(said: Option<&str>, guess: &str) -> Self {
        match said.filter(|s| !matches!(*s, "" | "unknown" | "unspecified" | "reserved")) {
            Some(value) => Tag { value: value.into(), guessed: false },
            None => Tag { value: guess.into(), guessed: true },
        }
    }
}

/// Tags of a stream, `None` where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    /// As `color_space`.
    pub matrix: Option<&'a str>,
    /// As `color_range`.
    pub range: Option<&'a str>,
    /// As `color_primaries`.
    pub primaries: Option<&'a str>,
    /// As `color_transfer`.
    pub transfer: Option<&'a str>,
    /// As `chroma_location`.
    pub siting: Option<&'a str>,
}

impl Colour {
    /// Fills in what is missing, like players do: high definition is BT.709, 25 frames or 576 lines and the
    /// like are BT.601 as in Europe, the rest BT.601 as in America; luma and chroma are limited, RGB is full.
    pub fn new(said: Said<'_>, layout: &Layout, size: [usize; 2]) -> Self {
        let rgb = matches!(layout.kind, Kind::Gbr | Kind::Packed);
        let [width, height] = size;
        let high = width >= 1280 || height >= 720;
        let guess = match (rgb, high, height == 576 || height == 288) {
            (true, ..) => ["gbr", "bt709", "iec61966-2-1"],
            (_, true, _) => ["bt709", "bt709", "bt709"],
            (_, _, true) => ["bt470bg", "bt470bg", "smpte170m"],
            _ => ["smpte170m", "smpte170m", "smpte170m"],
        };
        // RGB samples have no matrix, whatever the tag says.
        let matrix = if rgb { Some("gbr") } else { said.matrix.filter(|m| *m != "gbr") };
        Colour {
            matrix: Tag::new(matrix, guess[0]),
            range: Tag::new(said.range, if rgb { "pc" } else { "tv" }),
            primaries: Tag::new(said.primaries, guess[1]),
            transfer: Tag::new(said.transfer, guess[2]),
            siting: Tag::new(said.siting, "left"),
        }
    }

    /// The arithmetic behind the tags; an unknown matrix is returned as its name.
    pub fn coding(&self) -> Result<Coding, String> {
        let matrix = match self.matrix.value.as_str() {
            "gbr" | "rgb" => Matrix::Rgb,
            "bt709" => Matrix::Bt709,
            "bt470bg" | "smpte170m" => Matrix::Bt601,
            "fcc" => Matrix::Fcc,
            "smpte240m" => Matrix::Smpte240,
            "bt2020nc" => Matrix::Bt2020,
            other => return Err(format!("the colour matrix {other}")),
        };
        let range = if self.range.value == "pc" { Range::Full } else { Range::Limited };
        let siting = match self.siting.value.as_str() {
            "center" => Siting::Centre,
            "topleft" => Siting::TopLeft,
            _ => Siting::Left,
        };
        Ok(Coding { matrix, range, siting })
    }

    /// The same for samples with luma and chroma, or for RGB.
    pub(crate) fn for_layout(&self, layout: &Layout, size: [usize; 2]) -> Self {
        let rgb = matches!(layout.kind, Kind::Gbr | Kind::Packed);
        let mut colour = self.clone();
        if rgb == (self.matrix.value == "gbr") {
            return colour;
        }
        let said = Said {
            matrix: None,
            range: None,
            primaries: Some(&self.primaries.value),
            transfer: Some(&self.transfer.value),
            siting: None,
        };
        let other = Colour::new(said, layout, size);
        // Primaries that belong to a matrix decide which it is.
        let matrix = match (rgb, self.primaries.value.as_str()) {
            (true, _) => other.matrix,
            (false, "bt2020") => Tag { value: "bt2020nc".into(), guessed: true },
            (false, "bt709") => Tag { value: "bt709".into(), guessed: true },
            _ => other.matrix,
        };
        (colour.matrix, colour.range, colour.siting) = (matrix, other.range, other.siting);
        colour
    }

    /// PQ or HLG.
    pub fn is_hdr(&self) -> bool {
        matches!(self.transfer.value.as_str(), "smpte2084" | "arib-std-b67")
    }

    /// What a rule had to fill in, in words; `None` if nothing.
    pub fn guesses(&self) -> Option<String> {
        let all = [
            ("matrix", &self.matrix),
            ("range", &self.range),
            ("primaries", &self.primaries),
            ("transfer", &self.transfer),
        ];
        let guessed: Vec<String> =
            all.iter().filter(|(_, t)| t.guessed).map(|(n, t)| format!("{n} {}", t.value)).collect();
        (!guessed.is_empty()).then(|| format!("untagged colour, taken as {}", guessed.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untagged_pictures_are_taken_as_players_take_them() {
        let yuv = Layout::from_name("yuv420p").unwrap();
        let hd = Colour::new(Said::default(), &yuv, [1920, 1080]);
        assert_eq!((hd.matrix.value.as_str(), hd.range.value.as_str()), ("bt709", "tv"));
        assert!(hd.guesses().unwrap().contains("bt709"));
        let pal = Colour::new(Said::default(), &yuv, [720, 576]);
        assert_eq!(pal.matrix.value, "bt470bg");
        let ntsc = Colour::new(Said { matrix: Some("unknown"), ..Said::default() }, &yuv, [720, 480]);
        assert_eq!((ntsc.matrix.value.as_str(), ntsc.matrix.guessed), ("smpte170m", true));
        let rgb = Layout::from_name("gbrp").unwrap();
        let rgb = Colour::new(Said { matrix: Some("bt709"), ..Said::default() }, &rgb, [720, 480]);
        assert_eq!(rgb.coding().unwrap().matrix, Matrix::Rgb);
        assert_eq!(rgb.coding().unwrap().range, Range::Full);
    }
}
