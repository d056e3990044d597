//! The network a person named, and where it is to run.

use std::cell::RefCell;
use std::path::Path;

use remaster_compute::{Backend, CancelToken};
use remaster_engine::Task;
use remaster_model::Params;
use remaster_model::vae::{NullVae, VaeConfig};
use remaster_plan::{Clip, Direction};
use remaster_weights::{FormulaParams, open_vae};

use crate::args::VaeArgs;
use crate::devices;
use crate::error::CliError;
use crate::output::Output;
use crate::spill::Spill;

/// Weights and device of a run.
pub(crate) struct Network<'a> {
    args: &'a VaeArgs,
    pub(crate) backend: Backend,
    cancel: CancelToken,
    weights: Weights,
    spill: Spill,
}

enum Weights {
    Identity,
    Of(VaeConfig, RefCell<Box<dyn Params>>),
}

impl Weights {
    fn open(word: &str) -> Result<Self, CliError> {
        let formula = |config| Weights::Of(config, RefCell::new(Box::new(FormulaParams)));
        Ok(match word {
            "identity" => Weights::Identity,
            "formula:tiny" => formula(VaeConfig::tiny()),
            "formula:full" => formula(VaeConfig::full()),
            word if word.starts_with("formula:") => return Err(CliError::Weights { word: word.to_owned() }),
            file => {
                let (config, params, _) = open_vae(Path::new(file))?;
                Weights::Of(config, RefCell::new(Box::new(params)))
            }
        })
    }
}

impl<'a> Network<'a> {
    pub(crate) fn open(args: &'a VaeArgs, out: &Output, cancel: &CancelToken) -> Result<Self, CliError> {
        let backend = args.device.tuned_backend(out)?;
        if args.vram.is_some() && !devices::has_memory(&backend) {
            return Err(CliError::Vram { backend: backend.name() });
        }
        let weights = Weights::open(&args.weights)?;
        let spill = args.memory.spill(Some(&args.output))?;
        if let Some(note) = &spill.note {
            out.say(format_args!("note: {note}"));
        }
        Ok(Network { args, backend, cancel: cancel.clone(), weights, spill })
    }

    /// Whether frames only pass through.
    pub(crate) fn is_identity(&self) -> bool {
        matches!(self.weights, Weights::Identity)
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

    /// One half of it over a clip.
    pub(crate) fn task(&self, direction: Direction, clip: Clip, open_ended: bool) -> Task {
        let build = self.args.device.build();
        let mut task = match &self.weights {
            Weights::Identity => {
                let half = if direction == Direction::Encode { NullVae::Encoder } else { NullVae::Decoder };
                Task::with(Box::new(half), half.channels(), direction, clip, self.backend, build)
            }
            Weights::Of(config, params) => {
                Task::new(config, params.borrow_mut().as_mut(), direction, clip, self.backend, build)
            }
        };
        task.job.open_ended = open_ended;
        task.settings.spill.clone_from(&self.spill.folder);
        task.settings.cancel = self.cancel.clone();
        task
    }
}
