//! The input of a job, from names and values to what the library restores.

use std::str::FromStr;

use remaster::{Color, Deinterlace, Restoration, Target, words};
use serde_json::{Map, Value};

use crate::problem::Problem;

/// What a job names that wants no network.
pub(crate) const NO_NETWORK: &str = "identity";

/// Models that a job can name. Files cannot: a client does not choose what the server reads.
pub(crate) const MODELS: [(&str, &str); 6] = [
    ("3b", "SeedVR2 3B, for every kind of video"),
    ("7b", "SeedVR2 7B, more detail, more than twice the memory"),
    ("7b-sharp", "SeedVR2 7B, trained for more detail"),
    ("3b-first", "SeedVR2 3B with its first weights, which a later set replaced"),
    ("anime", "Real-ESRGAN for drawn films, inside the program"),
    (NO_NETWORK, "No network: changes size, format or part of a film"),
];

/// Formats of results, which are endings of files.
pub(crate) const FORMATS: [&str; 8] = ["mkv", "mp4", "webm", "mov", "png", "jpg", "webp", "tiff"];

/// Formats of single pictures.
const PICTURES: [&str; 4] = ["png", "jpg", "webp", "tiff"];

/// Names of an input. Other names are refused.
pub(crate) const NAMES: [&str; 18] = [
    "media",
    "model_variant",
    "resolution",
    "seed",
    "strength",
    "softness",
    "color",
    "window",
    "deinterlace",
    "start",
    "end",
    "fps",
    "hdr",
    "damaged",
    "output_format",
    "output_quality",
    "lossless",
    "audio",
];

/// The least and the most of the whole numbers of an input.
pub(crate) const SEEDS: [u64; 2] = [0, u64::MAX];
pub(crate) const WINDOWS: [u64; 2] = [1, 10_000];
pub(crate) const QUALITIES: [u64; 2] = [0, 100];

/// What a client asks for, checked.
pub(crate) struct Asked {
    pub(crate) model: String,
    /// Where the film is, as it was written.
    pub(crate) media: String,
    pub(crate) how: Restoration,
    pub(crate) target: Target,
    /// The format that was asked for.
    pub(crate) format: Option<String>,
}

/// Reads the input of a job. `how` is what every job of this server begins with.
pub(crate) fn read(
    model: Option<&str>,
    input: &Map<String, Value>,
    how: &Restoration,
) -> Result<Asked, Problem> {
    if let Some(unknown) = input.keys().find(|name| !NAMES.contains(&name.as_str())) {
        let shown: String = unknown.chars().take(60).collect();
        return Err(Problem::value(format!("input has no `{shown}`; use {}", NAMES.join(", "))));
    }
    let fields = Fields(input);
    let variant = fields.text("model_variant")?;
    let model = chosen(variant.as_deref().or(model))?;
    let media = fields.text("media")?;
    let media = media.filter(|media| !media.is_empty()).ok_or_else(|| {
        Problem::value("input has no `media`; upload a file to /v1/files and put its urls.get there")
    })?;
    let mut how = how.clone();
    how.models.model = model.clone();
    how.size.resolution = fields.parsed("resolution", words::resolution)?;
    if let Some(seed) = fields.whole("seed", SEEDS)? {
        how.look.seed = seed;
    }
    if let Some(window) = fields.whole("window", WINDOWS)? {
        how.look.window = window as usize;
    }
    if let Some(share) = fields.share("strength")? {
        how.look.finish.strength = share;
    }
    if let Some(share) = fields.share("softness")? {
        how.look.softness = share;
    }
    how.look.finish.color = fields.of("color", &Color::ALL.map(|color| (color.name(), color)))?;
    if let Some(mode) = fields.of("deinterlace", &DEINTERLACE)? {
        how.source.deinterlace = mode;
    }
    how.source.start = fields.parsed("start", words::time)?;
    how.source.end = fields.parsed("end", words::time)?;
    how.source.rate = fields.parsed("fps", words::rate)?;
    how.source.keep_hdr = fields.of("hdr", &KEEP)?.unwrap_or_default();
    how.source.keep_damaged = fields.of("damaged", &KEEP)?.unwrap_or_default();
    let format = fields.of("output_format", &FORMATS.map(|format| (format, format)))?.map(str::to_owned);
    let target = Target {
        crf: fields.whole("output_quality", QUALITIES)?.map(crf),
        lossless: fields.flag("lossless")?,
        no_audio: fields.of("audio", &[("copy", false), ("none", true)])?.unwrap_or_default(),
        ..Target::default()
    };
    Ok(Asked { model, media, how, target, format })
}

const KEEP: [(&str, bool); 2] = [("refuse", false), ("keep", true)];

const DEINTERLACE: [(&str, Deinterlace); 5] = [
    ("auto", Deinterlace::Auto),
    ("on", Deinterlace::On),
    ("double", Deinterlace::Double),
    ("ivtc", Deinterlace::Ivtc),
    ("off", Deinterlace::Off),
];

/// The constant rate factor for a quality of 0 to 100: 80 is 18, which looks like the original.
fn crf(quality: u64) -> u8 {
    (50 - quality.min(100) * 2 / 5) as u8
}

/// A model by the words that clients use: `anime`, `remaster/anime`, `remaster/anime:0.2.0`.
fn chosen(word: Option<&str>) -> Result<String, Problem> {
    let names = || MODELS.map(|(name, _)| name).join(", ");
    let Some(word) = word else {
        return Err(Problem::value(format!("`version` is missing; name a model: {}", names())));
    };
    let plain = word.strip_prefix("remaster/").unwrap_or(word);
    let (plain, version) = plain.split_once(':').unwrap_or((plain, plain));
    let known = |version: &str| version == plain || version == env!("CARGO_PKG_VERSION");
    match MODELS.iter().find(|(name, _)| *name == plain && known(version)) {
        Some((name, _)) => Ok((*name).to_owned()),
        None => {
            let shown: String = word.chars().take(60).collect();
            Err(Problem::value(format!("there is no model `{shown}`; use {}", names())))
        }
    }
}

/// True of networks that are part of the program.
pub(crate) fn is_inside(model: &str) -> bool {
    matches!(model, "anime" | NO_NETWORK)
}

/// The format of a result: as asked for, or a film for a film and a picture for a picture.
pub(crate) fn ending(asked: Option<&str>, picture: bool) -> Result<&'static str, Problem> {
    let Some(asked) = asked else { return Ok(if picture { "png" } else { "mkv" }) };
    let found = FORMATS.into_iter().find(|format| *format == asked);
    let fits = |format: &&str| PICTURES.contains(format) == picture;
    found.filter(fits).ok_or_else(|| {
        let (what, formats) = match picture {
            true => ("a picture", PICTURES.join(", ")),
            false => (
                "a film",
                FORMATS.into_iter().filter(|f| !PICTURES.contains(f)).collect::<Vec<_>>().join(", "),
            ),
        };
        Problem::value(format!("{what} cannot be written as {asked}; use {formats}"))
    })
}

/// Values by name. Numbers may be written as text, as forms do.
struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &'static str) -> Result<Option<String>, Problem> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(Problem::value(format!("input.{name} has to be text"))),
        }
    }

    fn parsed<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Problem> {
        let text = self.text(name)?.filter(|text| !text.is_empty());
        let short = |text: String| match text.len() {
            0..=64 => Ok(text),
            _ => Err(Problem::value(format!("input.{name} is too long"))),
        };
        let text = text.map(short).transpose()?;
        let wrong = |reason: String| Problem::value(format!("input.{name}: {reason}"));
        text.map(|text| parse(&text).map_err(wrong)).transpose()
    }

    fn number<T: FromStr + PartialOrd>(
        &self,
        name: &'static str,
        least: T,
        most: T,
        range: &str,
    ) -> Result<Option<T>, Problem> {
        let wrong = || Problem::value(format!("input.{name} has to be {range}"));
        let Some(text) = self.text(name).map_err(|_| wrong())? else { return Ok(None) };
        let number = text.parse::<T>().map_err(|_| wrong())?;
        // What is not a number is in no range.
        if number >= least && number <= most { Ok(Some(number)) } else { Err(wrong()) }
    }

    fn whole(&self, name: &'static str, [least, most]: [u64; 2]) -> Result<Option<u64>, Problem> {
        self.number(name, least, most, &format!("a whole number from {least} to {most}"))
    }

    fn share(&self, name: &'static str) -> Result<Option<f32>, Problem> {
        self.number(name, 0.0, 1.0, "a number from 0 to 1")
    }

    fn flag(&self, name: &'static str) -> Result<bool, Problem> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(Problem::value(format!("input.{name} has to be true or false"))),
        }
    }

    fn of<T: Copy>(&self, name: &'static str, choices: &[(&str, T)]) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let words = || choices.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        found.map(Some).ok_or_else(|| Problem::value(format!("input.{name} has to be one of {}", words())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(input: Value) -> Result<Asked, Problem> {
        read(Some("remaster/anime:anime"), input.as_object().unwrap(), &Restoration::default())
    }

    #[test]
    fn an_input_becomes_a_restoration() {
        let asked = of(json!({
            "media": "x", "resolution": 1080, "seed": "7", "strength": 0.5, "color": "wavelet", "start": "1:30",
            "end": 95.5, "deinterlace": "ivtc", "output_quality": 80, "fps": null, "audio": "none", "model_variant": "3b",
        }))
        .unwrap();
        assert_eq!((asked.model.as_str(), asked.how.models.model.as_str()), ("3b", "3b"));
        assert_eq!(asked.how.size.resolution, Some(remaster::Resize::Short(1080)));
        assert_eq!((asked.how.look.seed, asked.how.look.finish.strength), (7, 0.5));
        assert_eq!(asked.how.source.end.unwrap().as_secs_f64(), 95.5);
        assert_eq!((asked.target.crf, asked.target.no_audio), (Some(18), true));
        assert_eq!(of(json!({"media": "x"})).unwrap().model, "anime");
    }

    #[test]
    fn what_cannot_be_used_is_named_with_what_can() {
        for (input, named) in [
            (json!({}), "media"),
            (json!({"media": ""}), "media"),
            (json!({"media": ["a"]}), "text"),
            (json!({"media": "x", "vf": "hqdn3d"}), "`vf`"),
            (json!({"media": "x", "resolution": "5"}), "5x"),
            (json!({"media": "x", "resolution": "9".repeat(100)}), "too long"),
            (json!({"media": "x", "seed": -1}), "whole number"),
            (json!({"media": "x", "seed": 1.5}), "whole number"),
            (json!({"media": "x", "strength": 2}), "0 to 1"),
            (json!({"media": "x", "strength": "nan"}), "0 to 1"),
            (json!({"media": "x", "color": "LAB"}), "lab"),
            (json!({"media": "x", "lossless": "yes"}), "true or false"),
            (json!({"media": "x", "output_format": "exe"}), "mkv"),
            (json!({"media": "x", "model_variant": "../../etc/passwd"}), "3b"),
            (json!({"media": "x", "start": "-1"}), "time"),
        ] {
            let problem = format!("{:?}", of(input.clone()).err().unwrap());
            assert!(problem.contains(named), "{input}: {problem}");
        }
        for model in [None, Some("3b:/etc/passwd"), Some("remaster/"), Some("other/3b"), Some("3b:")] {
            assert!(read(model, &Map::new(), &Restoration::default()).is_err(), "{model:?}");
        }
    }

    #[test]
    fn films_become_films_and_pictures_pictures() {
        assert_eq!((ending(None, true).unwrap(), ending(None, false).unwrap()), ("png", "mkv"));
        assert_eq!(ending(Some("mp4"), false).unwrap(), "mp4");
        assert!(ending(Some("png"), false).is_err() && ending(Some("mp4"), true).is_err());
    }
}
