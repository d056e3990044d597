//! What was asked for, as values. A plan comes from a file that a stranger may have written: numbers have ranges, words are from
//! closed lists, and nothing in it is an option, a filter or a path that this program would use as it is.

use remaster_colour::Mode;
use remaster_media::{Deinterlace, Encoding, Filters, ListedEncoding, ListedFilters, TimeBase};
use remaster_picture::{Edges, Layout};
use remaster_plan::Windows;
use remaster_restore::Pool;
use remaster_store::Hash;
use serde::{Deserialize, Serialize};

use crate::error::UnitsError;

/// The largest side of a frame that can be asked for.
const LARGEST: u32 = 16384;

/// The longest time that can be asked for, in nanoseconds: more than three years.
const LONGEST: u64 = 100_000_000 * 1_000_000_000;

/// Threads of an encoder: the number decides its bytes.
pub const ENCODER_THREADS: std::ops::RangeInclusive<u32> = 1..=64;

/// Something that ffmpeg is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Asked<T> {
    /// From the closed lists: whoever has the plan can use it.
    Listed(T),
    /// Anything else that a person typed, by its hash: whoever uses the plan has to type it, too.
    Typed(Hash),
}

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f32")]
pub struct Share(f32);

// It is never NaN.
impl Eq for Share {}

impl Share {
    /// The number.
    pub fn get(self) -> f32 {
        self.0
    }
}

impl TryFrom<f32> for Share {
    type Error = String;

    fn try_from(value: f32) -> Result<Self, String> {
        match (0.0..=1.0).contains(&value) {
            true => Ok(Share(value)),
            false => Err(format!("{value} is not a number from 0 to 1")),
        }
    }
}

/// The size that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Resolution {
    /// Of the short side, in pixels.
    Short(u32),
    /// Columns and rows.
    Exactly([u32; 2]),
    /// Times the size of the input, in hundredths.
    Percent(u32),
}

/// How frames are cut, where that changes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Tiles {
    /// In bands with shared statistics.
    SharedStats,
    /// In tiles with an overlap, in pixels.
    Blend([u32; 2]),
}

/// How the film is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedSource {
    /// Where it starts, in nanoseconds.
    pub start: Option<u64>,
    /// Where it ends.
    pub end: Option<u64>,
    /// Filters of ffmpeg.
    pub filters: Option<Asked<ListedFilters>>,
    /// Frames per second of a folder of images.
    pub rate: Option<TimeBase>,
    /// Fields.
    pub deinterlace: Deinterlace,
    /// PQ and HLG are passed through.
    pub keep_hdr: bool,
    /// What can be decoded of a damaged film is used.
    pub keep_damaged: bool,
    /// OpenEXR is read.
    pub exr: bool,
}

/// How the film is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedTarget {
    /// The encoder and its options.
    pub video: Option<Asked<ListedEncoding>>,
    /// Constant quality, for encoders that have it.
    pub crf: Option<u8>,
    /// Samples, by ffmpeg's name for them.
    pub pixel_format: Option<String>,
    /// FFV1.
    pub lossless: bool,
    /// Sound is left out.
    pub silent: bool,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Of the noise.
    pub seed: u64,
    /// How much the input is softened.
    pub softness: Share,
    /// Frames that the transformer sees at once.
    pub window: usize,
    /// Noise on the input.
    pub input_noise: Share,
    /// Noise on the latents.
    pub latent_noise: Share,
    /// Of the restored picture.
    pub strength: Share,
    /// How colours are corrected.
    pub color: Mode,
    /// Which frames share a correction.
    pub color_pool: Pool,
    /// Dithered instead of rounded.
    pub dither: bool,
    /// The size that is made.
    pub resolution: Option<Resolution>,
    /// What lies beyond the edges.
    pub edges: Edges,
    /// Pixels keep their shape.
    pub keep_sar: bool,
    /// How frames are cut, where that changes them.
    pub tiles: Option<Tiles>,
    /// How the film is read.
    pub reading: AskedSource,
    /// How the film is written.
    pub writing: AskedTarget,
}

impl Request {
    /// Refuses values out of their ranges.
    pub(crate) fn check(&self) -> Result<(), UnitsError> {
        let wrong = |reason: String| Err(UnitsError::Plan { reason });
        let (window, most) = (self.window, Windows::MOST_FRAMES);
        if Windows::new(window).is_err() {
            return wrong(format!("its window of {window} frames is not from 1 to {most}"));
        }
        let side = |n: u32| (16..=LARGEST).contains(&n);
        let fits = match self.resolution {
            None => true,
            Some(Resolution::Short(n)) => side(n),
            Some(Resolution::Exactly([width, height])) => side(width) && side(height),
            Some(Resolution::Percent(n)) => (10..=1600).contains(&n),
        };
        if !fits {
            return wrong(format!("its resolution is not from 16 to {LARGEST} pixels"));
        }
        if let Some(Tiles::Blend([tile, overlap])) = self.tiles
            && (!side(tile) || overlap >= tile)
        {
            return wrong(format!("its tiles of {tile} pixels with an overlap of {overlap} are none"));
        }
        let AskedSource { start, end, rate, .. } = &self.reading;
        if [start, end].into_iter().flatten().any(|time| *time > LONGEST) {
            return wrong("it starts or ends later than any film".into());
        }
        if rate.is_some_and(|r| {
            let fits = |n: u64| (1..=i32::MAX as u64).contains(&n);
            !fits(r.num) || !fits(r.den) || r.num > 1000 * r.den || r.den > 1000 * r.num
        }) {
            return wrong("its frame rate is not from 0.001 to 1000".into());
        }
        if self.writing.crf.is_some_and(|crf| crf > 63) {
            return wrong("its quality is not from 0 to 63".into());
        }
        match &self.writing.pixel_format {
            Some(name) if Layout::from_name(name).is_none() && !PACKED.contains(&name.as_str()) => wrong(
                format!("its pixel format {:?} is not known", name.chars().take(40).collect::<String>()),
            ),
            _ => Ok(()),
        }
    }
}

/// Names for samples that encoders have beside those of [`Layout`].
const PACKED: [&str; 4] = ["bgr0", "rgb0", "bgr24", "bgra"];

impl Asked<ListedFilters> {
    /// As a plan holds what a person typed.
    pub fn filters(typed: &Filters) -> Self {
        ListedFilters::try_from(typed)
            .map_or_else(|_| Asked::Typed(Hash::of(typed.text().as_bytes())), Asked::Listed)
    }

    /// The filters that are meant: those of the plan, or the same ones that a person typed here.
    pub fn with(&self, typed: Option<&Filters>) -> Result<Filters, UnitsError> {
        let same = typed.is_none_or(|typed| Asked::filters(typed) == *self);
        match (self, typed) {
            (Asked::Listed(listed), _) if same => Ok(listed.filters()),
            (Asked::Typed(_), Some(typed)) if same => Ok(typed.clone()),
            _ => Err(UnitsError::Repeat { option: "--vf", what: "filters", other: typed.is_some() }),
        }
    }
}

impl Asked<ListedEncoding> {
    /// As a plan holds what a person typed.
    pub fn encoding(typed: &Encoding) -> Self {
        ListedEncoding::try_from(typed)
            .map_or_else(|_| Asked::Typed(Hash::of(typed.text().as_bytes())), Asked::Listed)
    }

    /// The encoder that is meant: that of the plan, or the same one that a person typed here.
    pub fn with(&self, typed: Option<&Encoding>) -> Result<Encoding, UnitsError> {
        let same = typed.is_none_or(|typed| Asked::encoding(typed) == *self);
        match (self, typed) {
            (Asked::Listed(listed), _) if same => Ok(listed.encoding()),
            (Asked::Typed(_), Some(typed)) if same => Ok(typed.clone()),
            _ => {
                Err(UnitsError::Repeat { option: "--video", what: "encoder options", other: typed.is_some() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn plain() -> Request {
        let share = |value: f32| Share::try_from(value).unwrap();
        let video = Some(Asked::encoding(&Encoding::typed("libx264 -crf 16").unwrap()));
        let pixel_format = Some("yuv420p10le".into());
        Request {
            seed: 42,
            softness: share(0.0),
            window: 45,
            input_noise: share(0.0),
            latent_noise: share(0.0),
            strength: share(0.7),
            color: Mode::Lab,
            color_pool: Pool::Frame,
            dither: false,
            resolution: Some(Resolution::Short(1080)),
            edges: Edges::default(),
            keep_sar: false,
            tiles: None,
            reading: AskedSource {
                start: Some(1_500_000_000),
                end: None,
                filters: Some(Asked::filters(&Filters::typed("hqdn3d,crop=704:576:8:0"))),
                rate: None,
                deinterlace: Deinterlace::Auto,
                keep_hdr: false,
                keep_damaged: false,
                exr: false,
            },
            writing: AskedTarget { video, crf: None, pixel_format, lossless: false, silent: false },
        }
    }

    fn read(value: Value) -> Result<Request, String> {
        let request: Request = serde_json::from_value(value).map_err(|error| error.to_string())?;
        request.check().map(|()| request).map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_is_read_back_as_it_was_and_holds_nothing_else() {
        let good = serde_json::to_value(plain()).unwrap();
        assert_eq!(read(good.clone()), Ok(plain()));
        let bad: &[(&str, Value)] = &[
            ("/seed", json!(-1)),
            ("/seed", json!("7")),
            ("/strength", json!(1.5)),
            ("/strength", json!(null)),
            ("/window", json!(0)),
            ("/window", json!(1u64 << 60)),
            ("/color", json!("../lab")),
            ("/color_pool", json!("Frame")),
            ("/edges", json!("/etc/passwd")),
            ("/resolution", json!({"short": 4_000_000})),
            ("/resolution", json!({"exactly": [0, 16]})),
            ("/resolution", json!("--ffmpeg=/bin/sh")),
            ("/tiles", json!({"blend": [64, 64]})),
            ("/tiles", json!({"blend": [u32::MAX, 0]})),
            ("/reading/start", json!(u64::MAX)),
            ("/reading/rate", json!({"num": 0, "den": 1})),
            ("/reading/filters", json!({"listed": "metadata=mode=print:file=/victim"})),
            ("/reading/filters", json!({"listed": "movie=/etc/passwd"})),
            ("/reading/filters", json!("hflip")),
            ("/reading/filters", json!({"typed": "hflip"})),
            ("/writing/video", json!({"listed": "ffv1 -y /victim.mkv -c:v ffv1"})),
            ("/writing/video", json!({"listed": "ffv1 -f matroska tcp://localhost:1"})),
            ("/writing/video", json!({"listed": "libx264 -x264-params stats=/victim"})),
            ("/writing/crf", json!(64)),
            ("/writing/pixel_format", json!("yuv420p -y /victim")),
            ("/writing/ffmpeg", json!("/bin/sh")),
            ("/words", json!(["--vf=metadata=file=/victim"])),
        ];
        for (place, value) in bad {
            let mut changed = good.clone();
            let (parent, key) = place.rsplit_once('/').unwrap();
            changed.pointer_mut(parent).unwrap()[key] = value.clone();
            assert!(read(changed).is_err(), "{place} {value}");
        }
    }

    #[test]
    fn what_is_not_listed_has_to_be_typed_again() {
        let listed = Asked::filters(&"hqdn3d".into());
        assert!(matches!(listed, Asked::Listed(_)));
        assert_eq!(listed.with(None).unwrap().text(), "hqdn3d");
        assert_eq!(listed.with(Some(&"hqdn3d".into())).unwrap().text(), "hqdn3d");
        let error = listed.with(Some(&"hflip".into())).unwrap_err().to_string();
        assert!(error.contains("--vf") && error.contains("other"), "{error}");
        let graph: Filters = "lut3d=file=film.cube".into();
        let hashed = Asked::filters(&graph);
        assert!(matches!(hashed, Asked::Typed(_)));
        let error = hashed.with(None).unwrap_err().to_string();
        assert!(error.contains("--vf") && error.contains("repeat"), "{error}");
        assert_eq!(hashed.with(Some(&graph)).unwrap(), graph);
        assert!(hashed.with(Some(&"lut3d=file=other.cube".into())).is_err());
        let two_pass = Encoding::typed("libx264 -x264-params stats=log").unwrap();
        let hashed = Asked::encoding(&two_pass);
        assert!(hashed.with(None).unwrap_err().to_string().contains("--video"));
        assert_eq!(hashed.with(Some(&two_pass)).unwrap(), two_pass);
    }
}
