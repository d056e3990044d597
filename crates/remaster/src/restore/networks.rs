//! The networks that restore, by their names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use remaster_engine::Task;
use remaster_model::dit::DitConfig;
use remaster_model::{NullDit, Values, computed};
use remaster_restore::{Geometry, Upscale};
use remaster_weights::{LATENT_SCALE, TextEmbedding, uniform};

use crate::error::Error;
use crate::machine::host::Machine;
use crate::machine::rates::Key;
use crate::models;
use crate::network::Network;
use crate::request::Models;
use crate::site::Site;
use crate::transformer::{Size, Transformer};
use crate::upscaler::{Upscaler, built_in};

/// Rows of a generated text embedding.
const FORMULA_ROWS: usize = 11;

/// The networks of a run.
pub(crate) struct Networks {
    pub(crate) kind: NetworksKind,
    /// Files, or words: transformer and VAE, or upscaler and nothing.
    pub(crate) names: [String; 2],
    /// Display name of the model, such as `SeedVR2 3B`.
    pub(crate) title: String,
    /// The file of the text embedding, if that is not inside the transformer's.
    pub(crate) text: Option<PathBuf>,
    /// What a user should know of them.
    pub(crate) notes: Vec<String>,
}

/// What restores.
pub(crate) enum NetworksKind {
    /// Latents are restored.
    Diffusion(Box<Diffusion>),
    /// Frames become larger ones.
    Upscaler(Upscaler),
    /// Nothing: frames are resized and finished.
    None,
}

/// VAE and transformer.
pub(crate) struct Diffusion {
    pub(crate) vae: Network,
    transformer: Restorer,
    /// Latents of the VAE times this are those of the transformer.
    pub(crate) scale: f32,
}

enum Restorer {
    /// Leaves latents as they are.
    Null,
    Of(Transformer, Text),
}

/// Rows and values of a text embedding.
type Text = (usize, Arc<dyn Values>);

impl Networks {
    /// Looks the networks up and checks their files.
    pub(crate) fn open(args: &Models, site: &Site) -> Result<Self, Error> {
        Self::named(args, site, |_, missing| Err(missing))
    }

    /// As `open`, but published networks need not be there: sizes follow from their shapes.
    pub(crate) fn imagined(args: &Models, site: &Site) -> Result<Self, Error> {
        Self::named(args, site, |word, missing| {
            let word = match word {
                "3b" | "3b-first" => "formula:3b",
                "7b" | "7b-sharp" => "formula:7b",
                "vae" => "formula:full",
                _ => return Err(missing),
            };
            Ok(word.to_owned())
        })
    }

    /// `otherwise` says what stands for a word whose file is not installed.
    fn named(
        args: &Models,
        site: &Site,
        otherwise: impl Fn(&str, Error) -> Result<String, Error>,
    ) -> Result<Self, Error> {
        if let Some(upscaler) = Upscaler::open(&args.model)? {
            let name = built_in(&args.model).unwrap_or(&args.model).to_owned();
            let title = title(&name, &name);
            let kind = NetworksKind::Upscaler(upscaler);
            return Ok(Networks { kind, names: [name, String::new()], title, text: None, notes: Vec::new() });
        }
        if args.has_no_network() {
            let [name, _] = names(args, &site.machine)?;
            let title = name.clone();
            let (kind, names) = (NetworksKind::None, [name, String::new()]);
            return Ok(Networks { kind, names, title, text: None, notes: Vec::new() });
        }
        let model = named_model(args, &site.machine, &otherwise)?;
        let lower = args.model.to_ascii_lowercase();
        let mut notes = Vec::new();
        let (transformer, scale, text) = restorer(args, &model, &site.machine, &mut notes)?;
        let vae = named_vae(args, &model, &site.machine, &otherwise)?;
        let network = Network::of(&vae, site)?;
        if let Restorer::Of(transformer, _) = &transformer {
            let (given, wants) = (network.latent(), transformer.config.latent);
            if given != wants {
                return Err(Error::OtherVae { vae, given, wants });
            }
        }
        let title = title(&lower, &model);
        let names = [model, vae];
        let kind = NetworksKind::Diffusion(Box::new(Diffusion { vae: network, transformer, scale }));
        Ok(Networks { kind, names, title, text, notes })
    }

    /// VAE and transformer, if these restore.
    pub(crate) fn diffusion(&self) -> Option<&Diffusion> {
        match &self.kind {
            NetworksKind::Diffusion(diffusion) => Some(diffusion),
            NetworksKind::Upscaler(_) | NetworksKind::None => None,
        }
    }

    /// The upscaler, if one restores.
    pub(crate) fn upscaler(&self) -> Option<&Upscaler> {
        match &self.kind {
            NetworksKind::Upscaler(upscaler) => Some(upscaler),
            NetworksKind::Diffusion(_) | NetworksKind::None => None,
        }
    }

    /// Whether frames are taken one by one: there are no latents, windows or groups.
    pub(crate) fn by_frame(&self) -> bool {
        self.diffusion().is_none()
    }

    /// How frames that are taken one by one go through.
    pub(crate) fn upscale(&self, geometry: &Geometry) -> Option<Upscale> {
        match &self.kind {
            NetworksKind::Upscaler(upscaler) => Some(upscaler.upscale(geometry)),
            NetworksKind::None => Some(Upscale::none(geometry.shown)),
            NetworksKind::Diffusion(_) => None,
        }
    }

    /// What the speed of the VAE depends on, and that of the network between its halves or of an upscaler.
    pub(crate) fn rate_keys(&self, site: &Site) -> [Option<Key>; 2] {
        match &self.kind {
            NetworksKind::None => [None, None],
            NetworksKind::Upscaler(upscaler) => [None, Some(upscaler.rate_key(site))],
            NetworksKind::Diffusion(diffusion) => {
                let transformer = match &diffusion.transformer {
                    Restorer::Null => None,
                    Restorer::Of(transformer, _) => {
                        Some(Key::of_transformer(&site.backend, site.build.dtype, &transformer.config))
                    }
                };
                [diffusion.vae.rate_key(), transformer]
            }
        }
    }
}

impl Diffusion {
    /// Whether the transformer is as wide and deep as the published one of 3B.
    pub(crate) fn is_3b(&self) -> bool {
        matches!(&self.transformer, Restorer::Of(transformer, _) if transformer.config == DitConfig::dit_3b())
    }

    /// The transformer over windows of this size.
    pub(crate) fn transformer(&mut self, size: &Size, site: &Site) -> Task {
        let mut task = match &mut self.transformer {
            Restorer::Null => Task::new(Box::new(NullDit), size.cells(), site.backend, site.build.dtype),
            Restorer::Of(transformer, text) => {
                transformer.task_of(size, site.backend, site.build, text.clone())
            }
        };
        task.settings.spill = Some(site.spill.folder.clone());
        task.settings.cancel = site.control.token().clone();
        task
    }
}

/// `SeedVR2 3B` with its file, or whatever else was named as a model.
fn title(word: &str, model: &str) -> String {
    let name = match word {
        "3b" => "SeedVR2 3B",
        "3b-first" => "SeedVR2 3B, first weights",
        "7b" => "SeedVR2 7B",
        "7b-sharp" => "SeedVR2 7B sharp",
        remaster_anime::NAME => return format!("{} ({word})", remaster_anime::PUBLIC_NAME),
        _ => return model.to_owned(),
    };
    match Path::new(model).file_name() {
        Some(file) if !model.starts_with("formula:") => format!("{name} ({})", file.to_string_lossy()),
        _ => format!("{name}, not installed; get it with `remaster models pull {word}`"),
    }
}

/// Refuses a word that is neither a model nor looks like a file.
fn refuse_unknown(word: &str) -> Result<(), Error> {
    let is_file = word.contains(['.', '/', '\\']) || Path::new(word).exists();
    if is_file || word.starts_with("formula:") {
        return Ok(());
    }
    models::refuse_removed(word)?;
    let words = "3b, 7b, 7b-sharp, anime or a file".to_owned();
    Err(Error::UnknownModel { word: word.to_owned(), words })
}

/// Files or words of the transformer and the VAE, which are not opened.
pub(crate) fn names(args: &Models, machine: &Machine) -> Result<[String; 2], Error> {
    let missing = |_: &str, missing| Err(missing);
    if args.is_upscaler() {
        return Ok([built_in(&args.model).unwrap_or(&args.model).to_owned(), String::new()]);
    }
    let model = named_model(args, machine, &missing)?;
    if args.has_no_network() {
        return Ok([model, String::new()]);
    }
    let vae = named_vae(args, &model, machine, &missing)?;
    Ok([model, vae])
}

impl Models {
    /// Files or words of the networks, which are found and not read.
    pub fn find(&self, machine: &Machine) -> Result<Vec<String>, Error> {
        let names = names(self, machine)?;
        Ok(names.into_iter().filter(|name| !name.is_empty()).collect())
    }
}

/// What stands for a word whose file is not installed.
type Otherwise<'a> = &'a dyn Fn(&str, Error) -> Result<String, Error>;

fn named_model(args: &Models, machine: &Machine, otherwise: Otherwise<'_>) -> Result<String, Error> {
    match args.model.to_ascii_lowercase().as_str() {
        word @ ("3b" | "3b-first" | "7b" | "7b-sharp") => {
            named_file(word, models::installed(word, args.folder.as_deref(), machine), otherwise)
        }
        word @ "identity" => Ok(word.to_owned()),
        _ => {
            refuse_unknown(&args.model)?;
            Ok(args.model.clone())
        }
    }
}

fn named_vae(
    args: &Models,
    model: &str,
    machine: &Machine,
    otherwise: Otherwise<'_>,
) -> Result<String, Error> {
    match (&args.vae, model) {
        (Some(vae), _) => Ok(vae.clone()),
        (None, "formula:tiny-3b" | "formula:tiny-7b") => Ok("formula:tiny".into()),
        (None, word) if word.starts_with("formula:") => Ok("formula:full".into()),
        (None, _) => named_file("vae", models::installed_vae(args.folder.as_deref(), machine), otherwise),
    }
}

fn named_file(word: &str, found: Result<PathBuf, Error>, otherwise: Otherwise<'_>) -> Result<String, Error> {
    found.map(|path| path.display().to_string()).or_else(|missing| otherwise(word, missing))
}

/// The transformer, what latents are scaled by, and the file of its text.
fn restorer(
    args: &Models,
    model: &str,
    machine: &Machine,
    notes: &mut Vec<String>,
) -> Result<(Restorer, f32, Option<PathBuf>), Error> {
    if model == "identity" {
        return Ok((Restorer::Null, 1.0, None));
    }
    let transformer = Transformer::open(model)?;
    notes.extend(transformer.warnings.iter().cloned());
    let width = transformer.config.text;
    if model.starts_with("formula:") && args.text.is_none() {
        let text = (FORMULA_ROWS, computed(|i| uniform("input/text", i as u64)));
        return Ok((Restorer::Of(transformer, text), LATENT_SCALE, None));
    }
    let scale = transformer.scale;
    let (text, file) = match (&args.text, &transformer.text) {
        (None, Some(text)) => (text.clone(), None),
        (given, _) => {
            let file = match given {
                Some(path) => path.clone(),
                None => models::installed_text(args.folder.as_deref(), Path::new(model), machine)?,
            };
            (TextEmbedding::open(&file, width)?, Some(file))
        }
    };
    let (rows, values) = (text.rows, Arc::new(text.values));
    let values = computed(move |i| values.get(i).copied().unwrap_or_default());
    Ok((Restorer::Of(transformer, (rows, values)), scale, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_the_names_that_people_know() {
        for (word, model, expected) in [
            ("3b", "/models/seedvr2_ema_3b_fp16.safetensors", "SeedVR2 3B (seedvr2_ema_3b_fp16.safetensors)"),
            ("3b", "formula:3b", "SeedVR2 3B, not installed; get it with `remaster models pull 3b`"),
            (
                "7b-sharp",
                "formula:7b",
                "SeedVR2 7B sharp, not installed; get it with `remaster models pull 7b-sharp`",
            ),
            ("identity", "identity", "identity"),
            ("my.gguf", "my.gguf", "my.gguf"),
        ] {
            assert_eq!(title(word, model), expected);
        }
    }

    #[test]
    fn a_word_that_is_no_model_is_not_taken_for_a_file() {
        for word in ["nao", "4b", "", "seedvr2"] {
            assert!(matches!(refuse_unknown(word), Err(Error::UnknownModel { .. })), "{word}");
        }
        for word in ["a.safetensors", "models/nao", "C:\\models\\nao", "formula:nonsense"] {
            assert!(refuse_unknown(word).is_ok(), "{word}");
        }
    }
}
