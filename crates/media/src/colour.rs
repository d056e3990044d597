//! What the numbers of a picture mean, as tags say it or as a rule guesses it.

use remaster_picture::{Coding, Kind, Layout, Matrix, Range, Siting};
use serde::{Deserialize, Serialize};

use crate::words::Words;

/// Those that [`Colour::coding`] can compute. Here and below, the words of ffprobe for a tag; behind `=`, the one that
/// ffmpeg takes as an option where it is another.
const MATRICES: Words = Words("gbr=rgb rgb bt709 bt470bg smpte170m fcc smpte240m bt2020nc");

const RANGES: Words = Words("tv pc");

const PRIMARIES: Words = Words(
    "bt709 bt470m bt470bg smpte170m smpte240m film bt2020 smpte428 smpte431 smpte432 ebu3213 \
    jedec-p22=ebu3213",
);

const TRANSFERS: Words = Words(
    "bt709 bt470m=gamma22 bt470bg=gamma28 smpte170m smpte240m linear log100 log316 iec61966-2-4 bt1361e \
    iec61966-2-1 bt2020-10 bt2020-12 smpte2084 smpte428 arib-std-b67",
);

const SITINGS: Words = Words("left center topleft top bottomleft bottom");

/// Each word of ffprobe with that of ffmpeg.
fn pairs(words: Words) -> impl Iterator<Item = (&'static str, &'static str)> {
    words.all().map(|word| word.split_once('=').unwrap_or((word, word)))
}

/// Colour as tags say it, in the words of ffmpeg.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
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

/// Tags of a file of ours, which may say anything.
#[derive(Deserialize)]
struct Unchecked {
    matrix: Tag,
    range: Tag,
    primaries: Tag,
    transfer: Tag,
    siting: Tag,
}

impl TryFrom<Unchecked> for Colour {
    type Error = String;

    fn try_from(tags: Unchecked) -> Result<Self, String> {
        let Unchecked { matrix, range, primaries, transfer, siting } = tags;
        let colour = Colour { matrix, range, primaries, transfer, siting };
        colour.options().map(|_| colour.clone())
    }
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

    /// ffmpeg's options for these tags. Only words of the tables above get there: a tag that is not among them is
    /// returned with its name.
    pub(crate) fn options(&self) -> Result<[(&'static str, &'static str); 5], String> {
        let option = |flag, what: &str, words: Words, tag: &Tag| {
            let known = pairs(words).find(|(word, _)| *word == tag.value);
            known.map(|(_, word)| (flag, word)).ok_or_else(|| format!("the {what} {:?}", tag.value))
        };
        Ok([
            option("-color_range", "colour range", RANGES, &self.range)?,
            option("-colorspace", "colour matrix", MATRICES, &self.matrix)?,
            option("-color_primaries", "colour primaries", PRIMARIES, &self.primaries)?,
            option("-color_trc", "transfer curve", TRANSFERS, &self.transfer)?,
            option("-chroma_sample_location", "chroma location", SITINGS, &self.siting)?,
        ])
    }

    /// The arithmetic behind the tags; a tag that is not known is returned with its name.
    pub fn coding(&self) -> Result<Coding, String> {
        self.options()?;
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
        let (primaries, transfer) = (Some(&*self.primaries.value), Some(&*self.transfer.value));
        let said = Said { primaries, transfer, ..Said::default() };
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
        (!guessed.is_empty()).then(|| format!("untagged colour, assuming {}", guessed.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_that_can_reach_ffmpeg_is_one_that_it_takes() {
        let tag = |words: Words, i: usize| {
            let (word, _) = pairs(words).nth(i % pairs(words).count()).unwrap();
            Tag { value: word.into(), guessed: false }
        };
        let lists = [MATRICES, RANGES, PRIMARIES, TRANSFERS, SITINGS];
        let most = lists.map(|words| pairs(words).count()).into_iter().max();
        for i in 0..most.unwrap() {
            let colour = Colour {
                matrix: tag(MATRICES, i),
                range: tag(RANGES, i),
                primaries: tag(PRIMARIES, i),
                transfer: tag(TRANSFERS, i),
                siting: tag(SITINGS, i),
            };
            let options = colour.options().unwrap();
            let words = options.iter().flat_map(|(flag, word)| [*flag, *word]);
            let out = std::process::Command::new("ffmpeg")
                .args(["-v", "error", "-nostdin", "-f", "lavfi", "-i", "color=s=16x16", "-frames:v", "1"])
                .args(words)
                .args(["-f", "null", "-"])
                .output()
                .unwrap();
            assert!(out.status.success(), "{options:?}: {}", String::from_utf8_lossy(&out.stderr));
            assert!(colour.coding().is_ok(), "{colour:?}");
        }
    }

    #[test]
    fn tags_of_a_file_that_are_no_words_of_ours_are_refused() {
        let yuv = Layout::from_name("yuv420p").unwrap();
        let good = serde_json::to_string(&Colour::new(Said::default(), &yuv, [720, 480])).unwrap();
        assert!(serde_json::from_str::<Colour>(&good).is_ok());
        for word in ["", "bt709 -y /tmp/victim", "-y", "1", "BT709", "unknown", "\\u001b[2J"] {
            let bad = good.replacen("smpte170m", word, 1);
            let error = serde_json::from_str::<Colour>(&bad).unwrap_err().to_string();
            assert!(error.contains("colour matrix") && !error.contains('\x1b'), "{error}");
        }
        let said = Said { transfer: Some("x"), ..Said::default() };
        assert!(Colour::new(said, &yuv, [720, 480]).coding().is_err());
    }

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
