//! What a [`Request`](crate::Request) can be asked for, for programs that build one out of names and values.

use remaster_plan::Windows;
use serde::Serialize;

/// What the value of an option is, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OptionType {
    /// Any words, or one of the choices.
    Text,
    /// A file or a folder.
    Path,
    /// With a fraction.
    Number,
    /// Without one.
    Integer,
    /// Said or not; it has no value.
    Bool,
}

/// An option of a restoration.
#[derive(Clone, Copy, Debug)]
pub struct RequestOption {
    /// Its name: the option of the command line with `_` for `-`.
    pub name: &'static str,
    /// Where it is in the JSON of a request.
    pub field: &'static str,
    /// What its value is.
    pub kind: OptionType,
    /// Least and most of a number.
    pub range: Option<[f64; 2]>,
    /// The words that are allowed; empty if they cannot be listed.
    pub choices: &'static [&'static str],
}

impl RequestOption {
    const fn new(name: &'static str, field: &'static str, kind: OptionType) -> Self {
        RequestOption { name, field, kind, range: None, choices: &[] }
    }

    const fn within(self, least: f64, most: f64) -> Self {
        RequestOption { range: Some([least, most]), ..self }
    }

    const fn of(self, choices: &'static [&'static str]) -> Self {
        RequestOption { choices, ..self }
    }
}

const fn text(name: &'static str, field: &'static str) -> RequestOption {
    RequestOption::new(name, field, OptionType::Text)
}

const fn path(name: &'static str, field: &'static str) -> RequestOption {
    RequestOption::new(name, field, OptionType::Path)
}

const fn flag(name: &'static str, field: &'static str) -> RequestOption {
    RequestOption::new(name, field, OptionType::Bool)
}

const fn integer(name: &'static str, field: &'static str) -> RequestOption {
    RequestOption::new(name, field, OptionType::Integer)
}

/// From 0 to 1.
const fn share(name: &'static str, field: &'static str) -> RequestOption {
    RequestOption::new(name, field, OptionType::Number).within(0.0, 1.0)
}

const KEEP: &[&str] = &["refuse", "keep"];

/// All options of a request, in the order of its fields.
pub const REQUEST_OPTIONS: &[RequestOption] = &[
    path("input", "input"),
    path("output", "output"),
    flag("yes", "overwrite"),
    path("keep_latents", "keep_latents"),
    text("model", "how.models.model"),
    text("vae", "how.models.vae"),
    path("text", "how.models.text"),
    path("model_dir", "how.models.folder"),
    integer("seed", "how.look.seed"),
    share("softness", "how.look.softness"),
    text("scenes", "how.look.shots"),
    integer("window", "how.look.window").within(1.0, Windows::MOST_FRAMES as f64),
    share("input_noise", "how.look.input_noise"),
    share("latent_noise", "how.look.latent_noise"),
    share("strength", "how.look.finish.strength"),
    text("color", "how.look.finish.color").of(&[
        "lab",
        "wavelet",
        "wavelet_adaptive",
        "hsv",
        "adain",
        "none",
    ]),
    text("color_pool", "how.look.finish.color_pool").of(&["frame", "window", "shot"]),
    flag("dither", "how.look.finish.dither"),
    text("ss", "how.source.start"),
    text("to", "how.source.end"),
    text("vf", "how.source.filters"),
    text("fps", "how.source.rate"),
    text("deinterlace", "how.source.deinterlace").of(&["auto", "on", "double", "ivtc", "off"]),
    text("hdr", "how.source.keep_hdr").of(KEEP),
    text("damaged", "how.source.keep_damaged").of(KEEP),
    flag("exr", "how.source.exr"),
    text("frames", "how.source.frames").of(&["rgb16", "rgbf32", "rgba16"]),
    path("ffmpeg", "how.source.programs.ffmpeg"),
    path("ffprobe", "how.source.programs.ffprobe"),
    path("vspipe", "how.source.programs.vspipe"),
    text("resolution", "how.size.resolution"),
    text("edges", "how.size.edges").of(&["mirror-black", "mirror", "black"]),
    flag("keep_sar", "how.keep_sar"),
    text("ram", "how.limits.ram"),
    text("vram", "how.limits.vram"),
    text("disk", "how.limits.disk"),
    path("spill", "how.limits.spill"),
    text("mode", "how.limits.mode").of(&["auto", "whole", "exact", "shared-stats", "blend"]),
    integer("stripes", "how.limits.stripes").within(1.0, 256.0),
    integer("tile", "how.limits.tile"),
    integer("overlap", "how.limits.overlap"),
    integer("slice", "how.limits.slice"),
    text("device", "how.device.name"),
    text("dtype", "how.device.dtype").of(&["f32", "bf16", "f16"]),
    integer("threads", "how.device.threads").within(1.0, 1024.0),
    text("cpu_path", "how.device.cpu_path"),
    flag("no_tune", "how.device.tune"),
    flag("no_collapse", "how.device.collapse"),
    text("video", "target.encoder"),
    integer("crf", "target.crf").within(0.0, 63.0),
    integer("encoder_threads", "target.encoder_threads").within(1.0, 64.0),
    text("pixel_format", "target.pixel_format"),
    flag("lossless", "target.lossless"),
    text("audio", "target.no_audio").of(&["copy", "none"]),
    integer("unit_frames", "units.cut.unit_frames").within(1.0, 1_000_000.0),
    flag("mix_devices", "units.cut.mix_devices"),
    flag("lossless_units", "units.cut.lossless_units"),
    text("devices", "units.devices"),
    path("temp", "units.temp"),
    flag("keep", "units.keep"),
    flag("restart", "units.restart"),
    flag("keep_going", "units.keep_going"),
    text("wait_disk", "units.wait_disk"),
    text("checkpoint", "units.checkpoint"),
    flag("no_manifest", "units.manifest"),
    flag("embed_manifest", "units.embed_manifest"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use remaster_colour::Mode as Colour;
    use remaster_compute::DType;
    use remaster_media::RawFrames;
    use remaster_picture::Edges;
    use serde_json::Value;

    use super::*;
    use crate::request::{Compat, Request};

    /// Fields without an option, with the reason.
    const WITHOUT: &[(&str, &str)] = &[
        ("skip_done", "of batches, which skip what is there"),
        ("how.source.programs.stall_seconds", "for tests"),
        ("how.compat.overlap", "for comparisons with another tool"),
        ("target.frames", "the option `frames` sets it, too"),
        ("target.newest", "for frontends that show it, such as the page of `remaster serve`"),
        ("target.streams", "of latents that are decoded; a restoration refuses it"),
        ("units.cut.piece_frames", "for tests"),
    ];

    fn leaves(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        let Value::Object(map) = value else {
            found.insert(path.to_owned());
            return;
        };
        for (name, value) in map {
            let dot = if path.is_empty() { "" } else { "." };
            leaves(value, &format!("{path}{dot}{name}"), found);
        }
    }

    #[test]
    fn every_field_of_a_request_has_an_option_or_a_reason() {
        let mut request = Request::restore("film.mkv");
        // Nothing else has fields of its own only when it is there.
        request.how.compat = Some(Compat::default());
        let mut found = BTreeSet::new();
        leaves(&serde_json::to_value(&request).unwrap(), "", &mut found);
        let options = REQUEST_OPTIONS.iter().map(|option| option.field);
        let known: Vec<&str> = options.chain(WITHOUT.iter().map(|(field, _)| *field)).collect();
        let unique: BTreeSet<String> = known.iter().map(|field| (*field).to_owned()).collect();
        assert_eq!(unique.len(), known.len(), "a field is there twice");
        let missing: Vec<_> = found.difference(&unique).collect();
        assert!(missing.is_empty(), "give these fields an option or a reason: {missing:?}");
        let gone: Vec<_> = unique.difference(&found).collect();
        assert!(gone.is_empty(), "a request has no such fields: {gone:?}");
    }

    #[test]
    fn choices_are_all_there_are() {
        let choices = |name: &str| {
            let option = REQUEST_OPTIONS.iter().find(|option| option.name == name);
            option.unwrap().choices.to_vec()
        };
        assert_eq!(choices("color"), Colour::ALL.map(Colour::name));
        assert_eq!(choices("edges"), Edges::ALL.map(Edges::name));
        assert_eq!(choices("frames"), RawFrames::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert!(choices("dtype").iter().all(|word| word.parse::<DType>().is_ok()));
    }
}
