//! What vspipe says of a clip.

use std::path::Path;

use remaster_picture::Layout;
use serde::Deserialize;
use serde_json::Value;

use crate::colour::{Colour, Said};
use crate::error::MediaError;
use crate::nut::TimeBase;
use crate::probe::{MAX_AREA, MAX_FRAMES, MAX_SIDE, frame_rate};
use crate::y4m;

/// The clip of output 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Info {
    pub(super) size: [usize; 2],
    pub(super) frames: usize,
    /// `None` if frames are not shown evenly.
    pub(super) rate: Option<TimeBase>,
    pub(super) layout: Layout,
}

/// What a script would say to give samples that y4m holds, with all of their depth.
const AS_YUV: &str = "clip = core.resize.Bicubic(clip, format=vs.YUV444P16)";
const FROM_RGB: &str = "clip = core.resize.Bicubic(clip, format=vs.YUV444P16, matrix_s=\"709\")";
const ONE_SIZE: &str = "clip = core.resize.Bicubic(clip, width=1920, height=1080, format=vs.YUV444P16)";

impl Info {
    /// Reads what `vspipe --info` prints: a line for each value, below a line with the number of the output. A script may print
    /// lines of its own before.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, MediaError> {
        let broken = |reason: String| MediaError::Script { path: path.to_owned(), reason };
        let refused = |what: String, line: &str| {
            Err(MediaError::ScriptFormat { path: path.to_owned(), what, line: line.to_owned() })
        };
        let is_head = |line: &&str| line.starts_with("Output Index:");
        let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "Output Index: 0");
        if lines.next().is_none() {
            return Err(broken("it has no output 0; end it with clip.set_output()".into()));
        }
        let lines: Vec<&str> = lines.take_while(|line| !is_head(line)).collect();
        let value = |key: &str| {
            let mut found = lines.iter().filter_map(|line| line.split_once(": "));
            found.find(|(name, _)| *name == key).map(|(_, value)| value.trim())
        };
        let known = |key: &'static str| {
            value(key).ok_or_else(|| broken(format!("vspipe --info does not say its {key}")))
        };
        if known("Type")? != "Video" {
            return Err(broken("its output 0 is sound; the video must be clip.set_output(0)".into()));
        }
        let (width, height, name) = (known("Width")?, known("Height")?, known("Format Name")?);
        if [width, height, name].contains(&"Variable") {
            return refused("frames of several sizes or formats".into(), ONE_SIZE);
        }
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).take(32).collect();
        match (known("Color Family")?, value("Sample Type"), value("Alpha")) {
            (_, _, Some("Yes")) => {
                return refused(format!("{name} with alpha"), "clip.set_output()  # without alpha=");
            }
            ("RGB", ..) => return refused(name, FROM_RGB),
            ("YUV" | "Gray", Some("Integer"), _) => {}
            _ => return refused(name, AS_YUV),
        }
        let number = |key| known(key)?.parse::<u64>().map_err(|_| broken(format!("its {key} is no number")));
        let (wide, high, frames) = (number("Width")?, number("Height")?, number("Frames")?);
        let sides = 1..=MAX_SIDE;
        if !sides.contains(&wide) || !sides.contains(&high) || wide * high > MAX_AREA {
            let (path, limit, area) = (path.to_owned(), MAX_SIDE, MAX_AREA);
            return Err(MediaError::TooLarge { path, width: wide, height: high, limit, area });
        }
        let chroma = match (value("Color Family"), number("SubSampling W")?, number("SubSampling H")?) {
            (Some("Gray"), ..) => "mono",
            (_, 1, 1) => "420",
            (_, 1, 0) => "422",
            (_, 0, 0) => "444",
            (_, 2, 0) => "411",
            (_, 0, 1) => "440",
            _ => return refused(name, AS_YUV),
        };
        let tag = match (chroma, number("Bits")?) {
            (_, 8) => chroma.to_owned(),
            ("mono", bits) => format!("mono{bits}"),
            (_, bits) => format!("{chroma}p{bits}"),
        };
        let Some((layout, _)) = y4m::samples(&tag) else { return refused(name, AS_YUV) };
        let rate = match known("FPS")? {
            "Variable" => None,
            text => {
                let rate = frame_rate(text.split(' ').next().unwrap_or_default());
                Some(rate.ok_or_else(|| broken("its frame rate cannot be meant".into()))?)
            }
        };
        let frames = usize::try_from(frames).ok().filter(|n| (1..=MAX_FRAMES).contains(n));
        let frames = frames.ok_or_else(|| broken("its number of frames cannot be meant".into()))?;
        Ok(Info { size: [wide as usize, high as usize], frames, rate, layout })
    }
}

/// What a frame says of itself. Values of filters can be anything.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Properties {
    #[serde(rename = "_Matrix")]
    matrix: Value,
    #[serde(rename = "_Transfer")]
    transfer: Value,
    #[serde(rename = "_Primaries")]
    primaries: Value,
    #[serde(rename = "_Range")]
    range: Value,
    /// What it was called before.
    #[serde(rename = "_ColorRange")]
    color_range: Value,
    #[serde(rename = "_ChromaLocation")]
    siting: Value,
    #[serde(rename = "_FieldBased")]
    fields: Value,
    #[serde(rename = "_SARNum")]
    aspect_num: Value,
    #[serde(rename = "_SARDen")]
    aspect_den: Value,
}

/// A number, or the last of several.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Array(all) => all.last()?.as_u64(),
        value => value.as_u64(),
    }
}

impl Properties {
    /// Reads what `vspipe --json` writes: a list with an object for each frame.
    pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Self, MediaError> {
        let failed = |reason: String| MediaError::Script { path: path.to_owned(), reason };
        let frames: Vec<Properties> = serde_json::from_slice(text)
            .map_err(|error| failed(format!("vspipe --json gives something else: {error}")))?;
        frames
            .into_iter()
            .next()
            .ok_or_else(|| failed("vspipe --json says nothing of its first frame".into()))
    }

    /// Colours by their numbers in H.273, in ffmpeg's words; guessed where there is no number.
    pub(super) fn colour(&self, info: &Info) -> Colour {
        let word = |value: &Value, words: &[(u64, &'static str)]| {
            let n = number(value).filter(|n| *n != 2)?;
            Some(words.iter().find(|(number, _)| *number == n).map_or("unknown to y4m", |(_, word)| *word))
        };
        let range = match (number(&self.range), number(&self.color_range)) {
            (Some(1), _) | (None, Some(0)) => Some("pc"),
            (Some(0), _) | (None, Some(1)) => Some("tv"),
            _ => None,
        };
        let said = Said {
            matrix: word(&self.matrix, MATRICES),
            range,
            primaries: word(&self.primaries, PRIMARIES),
            transfer: word(&self.transfer, TRANSFERS),
            siting: number(&self.siting).and_then(|n| SITINGS.get(n as usize).copied()),
        };
        Colour::new(said, &info.layout, info.size)
    }

    /// The shape of a pixel, width by height.
    pub(super) fn aspect(&self) -> [u32; 2] {
        let part = |value| number(value).and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
        match (part(&self.aspect_num), part(&self.aspect_den)) {
            (Some(num), Some(den)) => [num, den],
            _ => [1, 1],
        }
    }

    /// Which field comes first, of a frame that has fields.
    pub(super) fn fields(&self) -> Option<&'static str> {
        match number(&self.fields) {
            Some(1) => Some("bottom"),
            Some(2) => Some("top"),
            _ => None,
        }
    }
}

const MATRICES: &[(u64, &str)] = &[
    (0, "gbr"),
    (1, "bt709"),
    (4, "fcc"),
    (5, "bt470bg"),
    (6, "smpte170m"),
    (7, "smpte240m"),
    (9, "bt2020nc"),
];

const PRIMARIES: &[(u64, &str)] = &[
    (1, "bt709"),
    (4, "bt470m"),
    (5, "bt470bg"),
    (6, "smpte170m"),
    (7, "smpte240m"),
    (8, "film"),
    (9, "bt2020"),
    (10, "smpte428"),
    (11, "smpte431"),
    (12, "smpte432"),
    (22, "ebu3213"),
];

const TRANSFERS: &[(u64, &str)] = &[
    (1, "bt709"),
    (4, "bt470m"),
    (5, "bt470bg"),
    (6, "smpte170m"),
    (7, "smpte240m"),
    (8, "linear"),
    (9, "log100"),
    (10, "log316"),
    (11, "iec61966-2-4"),
    (12, "bt1361e"),
    (13, "iec61966-2-1"),
    (14, "bt2020-10"),
    (15, "bt2020-12"),
    (16, "smpte2084"),
    (17, "smpte428"),
    (18, "arib-std-b67"),
];

const SITINGS: [&str; 6] = ["left", "center", "topleft", "top", "bottomleft", "bottom"];

#[cfg(test)]
mod tests {
    use super::*;

    /// As vspipe of R81 prints it.
    const PLAIN: &str = "Output Index: 0\nType: Video\nWidth: 64\nHeight: 48\nFrames: 500\nFPS: 24000/1001 (23.976 fps)\n\
        Format Name: YUV420P8\nColor Family: YUV\nAlpha: No\nSample Type: Integer\nBits: 8\nSubSampling W: 1\nSubSampling H: 1\n";

    fn parse(text: &str) -> Result<Info, MediaError> {
        Info::parse(Path::new("a.vpy"), text)
    }

    #[test]
    fn a_clip_is_read_as_vspipe_describes_it() {
        let info = parse(PLAIN).unwrap();
        assert_eq!((info.size, info.frames), ([64, 48], 500));
        assert_eq!(info.rate, Some(TimeBase { num: 24000, den: 1001 }));
        assert_eq!(info.layout.name(), "yuv420p");
        // Lines of the script before, another output behind.
        let among = format!("hello\nWidth: 7\n{PLAIN}\n{}", PLAIN.replace("Index: 0", "Index: 1"));
        assert_eq!(parse(&among).unwrap(), info);
        assert_eq!(parse(&PLAIN.replace("24000/1001 (23.976 fps)", "Variable")).unwrap().rate, None);
        let deep = PLAIN
            .replace("Bits: 8", "Bits: 16")
            .replace("SubSampling W: 1\nSubSampling H: 1", "SubSampling W: 0\nSubSampling H: 0");
        assert_eq!(parse(&deep).unwrap().layout.name(), "yuv444p16le");
        let gray = PLAIN.replace("Family: YUV", "Family: Gray").replace("Bits: 8", "Bits: 16");
        assert_eq!(parse(&gray).unwrap().layout.name(), "gray16le");
    }

    #[test]
    fn what_y4m_cannot_hold_is_refused_with_the_line_to_add() {
        for (from, to, line) in [
            ("Family: YUV", "Family: RGB", "matrix_s"),
            ("Type: Integer", "Type: Float", "YUV444P16"),
            ("Alpha: No", "Alpha: Yes", "set_output"),
            ("Width: 64", "Width: Variable", "width="),
            ("Name: YUV420P8", "Name: Variable", "format="),
            ("SubSampling W: 1", "SubSampling W: 2", "YUV444P16"),
        ] {
            let error = parse(&PLAIN.replace(from, to)).unwrap_err();
            assert!(matches!(error, MediaError::ScriptFormat { .. }), "{error}");
            assert!(error.to_string().contains(line), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (from, to) in [
            ("Index: 0", "Index: 1"),
            ("Type: Video", "Type: Audio"),
            ("Width: 64", "Width: 99999999999"),
            ("Width: 64", "Width: -1"),
            ("Width: 64", "Width: 0"),
            ("Frames: 500", "Frames: 0"),
            ("Frames: 500", "Frames: 9999999999999999"),
            ("Frames: 500\n", ""),
            ("24000/1001", "0/0"),
            ("24000/1001", "1/99999999"),
            ("Bits: 8", "Bits: 0"),
        ] {
            assert!(parse(&PLAIN.replace(from, to)).is_err(), "{from} -> {to}");
        }
        assert!(parse("").is_err() && parse(&"x".repeat(1 << 20)).is_err());
    }

    #[test]
    fn properties_of_a_frame_say_what_its_numbers_mean() {
        let info = parse(PLAIN).unwrap();
        let of = |text: &str| Properties::parse(Path::new("a.vpy"), text.as_bytes());
        let tagged = of(
            r#"[{"_Matrix": 1, "_Range": [0, 1], "_Transfer": 16, "_Primaries": 9, "_SARNum": 16, "_SARDen": 15, "Other": "x"}, {}]"#,
        );
        let tagged = tagged.unwrap();
        let colour = tagged.colour(&info);
        let values =
            [&colour.matrix, &colour.range, &colour.transfer, &colour.primaries].map(|t| t.value.as_str());
        assert_eq!(values, ["bt709", "pc", "smpte2084", "bt2020"]);
        assert_eq!((tagged.aspect(), tagged.fields()), ([16, 15], None));
        let old = of(r#"[{"_ColorRange": 1, "_FieldBased": 2, "_Matrix": 2}]"#).unwrap();
        assert_eq!((old.colour(&info).range.value.as_str(), old.fields()), ("tv", Some("top")));
        assert!(old.colour(&info).matrix.guessed && !old.colour(&info).range.guessed);
        // Numbers without a word of ours, and values that are no numbers.
        assert!(of(r#"[{"_Matrix": 77}]"#).unwrap().colour(&info).coding().is_err());
        let odd = of(r#"[{"_Matrix": "x", "_SARNum": -3, "_SARDen": 0, "_ChromaLocation": 99}]"#).unwrap();
        assert!(odd.colour(&info).coding().is_ok() && odd.aspect() == [1, 1]);
        assert!(of("").is_err() && of("[]").is_err() && of("{}").is_err());
    }
}
