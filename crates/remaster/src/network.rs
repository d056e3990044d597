//! A VAE by its name or file, and where it is to run.

use std::cell::RefCell;
use std::path::Path;

use remaster_engine::Task;
use remaster_model::vae::{Direction, VaeConfig};
use remaster_model::{Network as _, NullVae, Params};
use remaster_plan::{Clip, LookBack};
use remaster_restore::NetworkId;
use remaster_weights::{FormulaParams, open_vae};

use crate::error::Error;
use crate::machine::hashes;
use crate::machine::rates::Key;
use crate::models::{is_built_in, refuse_removed};
use crate::site::Site;

/// Weights of the VAE and device of a run.
pub(crate) struct Network {
    /// The weights as they were named.
    word: String,
    pub(crate) site: Site,
    weights: Weights,
}

enum Weights {
    Identity,
    Of(VaeConfig, RefCell<Box<dyn Params>>),
}

impl Weights {
    fn open(word: &str) -> Result<Self, Error> {
        let formula = |config| Weights::Of(config, RefCell::new(Box::new(FormulaParams)));
        Ok(match word {
            "identity" => Weights::Identity,
            "formula:tiny" => formula(VaeConfig::tiny()),
            "formula:full" => formula(VaeConfig::full()),
            word if word.starts_with("formula:") => return Err(Error::Weights { word: word.to_owned() }),
            word => {
                refuse_removed(word)?;
                let (config, params, _) = open_vae(Path::new(word))?;
                Weights::Of(config, RefCell::new(Box::new(params)))
            }
        })
    }
}

/// The shape of a VAE by its name or file.
pub(crate) fn config(word: &str) -> Result<VaeConfig, Error> {
    match Weights::open(word)? {
        Weights::Of(config, _) => Ok(config),
        Weights::Identity => Err(Error::Weights { word: word.to_owned() }),
    }
}

impl Network {
    /// The weights called `word` on a device that was chosen.
    pub(crate) fn of(word: &str, site: &Site) -> Result<Self, Error> {
        Ok(Network { word: word.to_owned(), site: site.clone(), weights: Weights::open(word)? })
    }

    /// Whether frames only pass through.
    pub(crate) fn is_identity(&self) -> bool {
        matches!(self.weights, Weights::Identity)
    }

    /// Whether it is as wide as the published one.
    pub(crate) fn is_full(&self) -> bool {
        matches!(&self.weights, Weights::Of(config, _) if *config == VaeConfig::full())
    }

    /// What latents of this network are marked with. The whole file is hashed: a sample could be the same for two networks.
    pub(crate) fn identity(&self) -> Result<NetworkId, Error> {
        let word = &self.word;
        let path = Path::new(word);
        let is_file = !is_built_in(word);
        let sha256 = match is_file {
            true => Some(hashes::sha256(path, &self.site.machine, &self.site.control)?),
            false => None,
        };
        let name = path.file_name().filter(|_| is_file).map(|n| n.to_string_lossy().into_owned());
        Ok(NetworkId { kind: "vae".into(), name: name.unwrap_or_else(|| word.clone()), sha256 })
    }

    /// What the speed of this network depends on; nothing where frames only pass through.
    pub(crate) fn rate_key(&self) -> Option<Key> {
        match &self.weights {
            Weights::Identity => None,
            Weights::Of(config, _) => Some(Key::of(&self.site.backend, self.site.build.dtype, config)),
        }
    }

    /// How far back encoder and decoder see.
    pub(crate) fn look_back(&self) -> LookBack {
        match &self.weights {
            // A latent is four frames, but the first of a clip is one.
            Weights::Identity => LookBack { encode: 4, decode: 1 },
            Weights::Of(config, _) => LookBack {
                encode: Direction::Encode.look_back(config),
                decode: Direction::Decode.look_back(config),
            },
        }
    }

    /// Channels of a latent.
    pub(crate) fn latent(&self) -> usize {
        match &self.weights {
            Weights::Identity => NullVae::Decoder.channels()[0],
            Weights::Of(config, _) => config.latent,
        }
    }

    /// Channels of a frame.
    pub(crate) fn colours(&self) -> usize {
        match &self.weights {
            Weights::Identity => NullVae::Encoder.channels()[0],
            Weights::Of(config, _) => config.colours,
        }
    }

    /// Encoder or decoder over a clip.
    pub(crate) fn task(&self, direction: Direction, clip: Clip, open_ended: bool) -> Task {
        let Site { backend, build, spill, control, .. } = &self.site;
        let network = match &self.weights {
            Weights::Identity => Box::new(NullVae::from(direction)),
            Weights::Of(config, params) => direction.network(config, params.borrow_mut().as_mut(), *build),
        };
        let mut task = Task::new(network, clip.cells(), *backend, build.dtype);
        task.job.open_ended = open_ended;
        task.settings.spill = Some(spill.folder.clone());
        task.settings.cancel = control.token().clone();
        task
    }
}
