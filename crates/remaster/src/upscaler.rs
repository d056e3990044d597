//! A network that takes frame by frame, by its name or file, and where it is to run.

use std::cell::RefCell;
use std::path::Path;

use remaster_anime::{NAME, PUBLIC_NAME, WEIGHTS};
use remaster_compute::Backend;
use remaster_engine::Task;
use remaster_model::compact::Compact;
use remaster_model::rrdb::Rrdb;
use remaster_model::{Build, Network, Params};
use remaster_plan::Cells;
use remaster_restore::{Geometry, Upscale};
use remaster_weights::{Checkpoint, Kind, Upscaler as Sizes, identify, open_upscaler, upscaler_from_bytes};

use crate::error::Error;
use crate::machine::rates::Key;
use crate::site::Site;

/// Weights of an upscaler.
pub struct Upscaler {
    sizes: Sizes,
    params: RefCell<Box<dyn Params>>,
}

/// The name of the upscaler inside the program, if a word is one of its names.
pub(crate) fn built_in(word: &str) -> Option<&'static str> {
    [NAME, PUBLIC_NAME].iter().any(|name| name.eq_ignore_ascii_case(word)).then_some(NAME)
}

/// Whether a word names an upscaler: the one inside the program, or a file with one.
pub(crate) fn is_upscaler(word: &str) -> bool {
    let in_file = |checkpoint: Checkpoint| {
        matches!(
            identify(&checkpoint).kind,
            Kind::Compact { .. } | Kind::Rrdb { .. } | Kind::UnclearUpscaler { .. }
        )
    };
    built_in(word).is_some() || Checkpoint::open(Path::new(word)).is_ok_and(in_file)
}

impl Upscaler {
    /// The upscaler that a word names; `None` for other networks.
    pub(crate) fn open(word: &str) -> Result<Option<Self>, Error> {
        let (sizes, params, _) = match built_in(word) {
            Some(name) => upscaler_from_bytes(name, WEIGHTS)?,
            None if is_upscaler(word) => open_upscaler(Path::new(word))?,
            None => return Ok(None),
        };
        Ok(Some(Upscaler { sizes, params: RefCell::new(Box::new(params)) }))
    }

    /// The upscaler that a word names; other networks are refused.
    pub fn named(word: &str) -> Result<Self, Error> {
        Self::open(word)?.ok_or_else(|| Error::NoUpscaler { model: word.to_owned() })
    }

    /// How frames go through it.
    pub(crate) fn upscale(&self, geometry: &Geometry) -> Upscale {
        let [scale, cell] = self.scale_and_cell();
        Upscale::new(geometry.source, geometry.shown, scale, cell)
    }

    /// How many times larger frames get each way, and of how many pixels it takes whole multiples.
    fn scale_and_cell(&self) -> [usize; 2] {
        match &self.sizes {
            Sizes::Compact(config) => [config.scale, 1],
            Sizes::Rrdb(config) => [config.scale, config.unshuffle],
        }
    }

    /// What its speed depends on.
    pub(crate) fn rate_key(&self, site: &Site) -> Key {
        let width = match &self.sizes {
            Sizes::Compact(config) => config.width,
            // A dense block takes its inputs one by one, which is slower.
            Sizes::Rrdb(config) => config.width + config.growth,
        };
        Key::of_upscaler(&site.backend, site.build.dtype, width)
    }

    /// The network over so many frames of a film.
    pub(crate) fn film_task(&self, upscale: &Upscale, frames: usize, open_ended: bool, site: &Site) -> Task {
        let mut task = self.task(frames, upscale.taken(), site.backend, site.build);
        task.job.open_ended = open_ended;
        task.settings.spill = Some(site.spill.folder.clone());
        task.settings.cancel = site.control.token().clone();
        task
    }

    /// The network over so many frames of so many columns and rows, whole multiples of what it takes.
    pub fn task(&self, frames: usize, size: [usize; 2], backend: Backend, build: Build) -> Task {
        let mut params = self.params.borrow_mut();
        let network: Box<dyn Network> = match &self.sizes {
            Sizes::Compact(config) => Box::new(Compact::new(config, params.as_mut(), build)),
            Sizes::Rrdb(config) => Box::new(Rrdb::new(config, params.as_mut(), build)),
        };
        let [columns, rows] = size.map(|n| (n / self.scale_and_cell()[1]).max(1));
        let cells = Cells { steps: frames.max(1), rows, columns };
        Task::new(network, cells, backend, build.dtype)
    }
}
