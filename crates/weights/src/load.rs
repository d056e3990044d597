//! The values of a checkpoint for a network.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use remaster_compute::SourceError;
use remaster_model::dit::DitConfig;
use remaster_model::vae::{VaeConfig, params};
use remaster_model::{Param, Params, Values, Wanted};

use crate::checkpoint::Checkpoint;
use crate::dit::check_dit;
use crate::error::{CheckpointError, LoadError, ReadError};
use crate::header::TensorInfo;
use crate::identify::{Kind, identify};
use crate::names::{Names, same_shape};
use crate::report::{LoadReport, check};
use crate::upscaler::{Upscaler, check_upscaler};

/// Gives a network the values of a checkpoint. Every piece is read from the file when it is asked for.
#[derive(Clone, Debug)]
pub struct CheckpointParams {
    checkpoint: Arc<Checkpoint>,
    /// The tensors by our names, sorted.
    tensors: Arc<[(String, TensorInfo)]>,
}

impl CheckpointParams {
    /// The values of `checkpoint`.
    pub fn new(checkpoint: Arc<Checkpoint>) -> Self {
        let tensors = Names::of(&checkpoint).into_sorted();
        CheckpointParams { checkpoint, tensors: tensors.into() }
    }

    /// The checkpoint behind it.
    pub fn checkpoint(&self) -> &Arc<Checkpoint> {
        &self.checkpoint
    }

    fn find(&self, Param { name, shape }: &Param) -> Result<TensorInfo, String> {
        let at = self.tensors.binary_search_by(|(ours, _)| ours.as_str().cmp(name));
        let (_, tensor) = &self.tensors[at.map_err(|_| format!("the checkpoint has no tensor `{name}`"))?];
        if !same_shape(tensor.shape(), shape) {
            return Err(format!("tensor `{name}` is {:?}, expected {shape:?}", tensor.shape()));
        }
        Ok(tensor.clone())
    }
}

impl Params for CheckpointParams {
    fn values(&mut self, wanted: &Wanted) -> Arc<dyn Values> {
        let tensor = self.find(&wanted.param);
        let tensor = tensor.and_then(|tensor| Ok((tensor, wanted.span().map_err(|error| error.0)?)));
        Arc::new(Found { checkpoint: Arc::clone(&self.checkpoint), tensor })
    }
}

struct Found {
    checkpoint: Arc<Checkpoint>,
    /// The tensor and which of its values, or why there are none.
    tensor: Result<(TensorInfo, Range<usize>), String>,
}

impl Values for Found {
    fn read(&self, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        let (tensor, span) = self.tensor.as_ref().map_err(|why| SourceError(why.clone()))?;
        let (count, elements) = (out.len(), span.len());
        if start.checked_add(count).is_none_or(|end| end > elements) {
            // Of a tensor whose other rows belong to another weight, those are not there.
            let name = tensor.name().to_owned();
            return Err(SourceError(ReadError::Range { name, start, count, elements }.to_string()));
        }
        let read = self.checkpoint.read_f32(tensor, span.start + start, out);
        read.map_err(|error| SourceError(error.to_string()))
    }
}

/// Sizes of a network, its values, and what was found for each tensor.
type Loaded<C> = Result<(C, CheckpointParams, LoadReport), LoadError>;

/// Opens the checkpoint of a video VAE. Its sizes come from its tensors; anything missing, left over or
/// of another shape is an error that lists it.
pub fn open_vae(path: &Path) -> Loaded<VaeConfig> {
    vae(Checkpoint::open(path), path)
}

/// As [`open_vae`], of a file that lies in memory. Errors call it `name`.
pub fn vae_from_bytes(name: &str, bytes: impl Into<Cow<'static, [u8]>>) -> Loaded<VaeConfig> {
    vae(Checkpoint::from_bytes(bytes), Path::new(name))
}

fn vae(opened: Result<Checkpoint, CheckpointError>, path: &Path) -> Loaded<VaeConfig> {
    load(opened, path, |checkpoint, path| match identify(checkpoint).kind {
        Kind::Vae { config } => {
            let report = check(checkpoint, &params(&config));
            Ok((config, report))
        }
        Kind::UnclearVae { doubt } => Err(LoadError::Doubt { path, doubt }),
        kind => Err(LoadError::NotAVae { path, kind }),
    })
}

/// Opens the checkpoint of a diffusion transformer, as [`open_vae`] does. Look at the report's warnings. Its
/// [`Checkpoint::latent_scale`] has been checked.
pub fn open_dit(path: &Path) -> Loaded<DitConfig> {
    dit(Checkpoint::open(path), path)
}

/// As [`open_dit`], of a file that lies in memory. Errors call it `name`.
pub fn dit_from_bytes(name: &str, bytes: impl Into<Cow<'static, [u8]>>) -> Loaded<DitConfig> {
    dit(Checkpoint::from_bytes(bytes), Path::new(name))
}

fn dit(opened: Result<Checkpoint, CheckpointError>, path: &Path) -> Loaded<DitConfig> {
    load(opened, path, |checkpoint, path| match identify(checkpoint).kind {
        Kind::Dit { config } => {
            checkpoint.latent_scale().map_err(|source| LoadError::LatentScale { path, source })?;
            let report = check_dit(checkpoint, &config);
            Ok((config, report))
        }
        Kind::UnclearDit { doubt } => Err(LoadError::DitDoubt { path, doubt }),
        kind => Err(LoadError::NotADit { path, kind }),
    })
}

/// Opens the checkpoint of one of Real-ESRGAN's networks, as [`open_vae`] does.
pub fn open_upscaler(path: &Path) -> Loaded<Upscaler> {
    upscaler(Checkpoint::open(path), path)
}

/// As [`open_upscaler`], of a file that lies in memory. Errors call it `name`.
pub fn upscaler_from_bytes(name: &str, bytes: impl Into<Cow<'static, [u8]>>) -> Loaded<Upscaler> {
    upscaler(Checkpoint::from_bytes(bytes), Path::new(name))
}

fn upscaler(opened: Result<Checkpoint, CheckpointError>, path: &Path) -> Loaded<Upscaler> {
    load(opened, path, |checkpoint, path| {
        let found = match identify(checkpoint).kind {
            Kind::Compact { config } => Upscaler::Compact(config),
            Kind::Rrdb { config } => Upscaler::Rrdb(config),
            Kind::UnclearUpscaler { doubt } => return Err(LoadError::UpscalerDoubt { path, doubt }),
            kind => return Err(LoadError::NotAnUpscaler { path, kind }),
        };
        Ok((found, check_upscaler(checkpoint, &found)))
    })
}

/// The network that `judge` finds in a checkpoint, if every tensor is there and fits, and its checksums are right.
fn load<C>(
    opened: Result<Checkpoint, CheckpointError>,
    path: &Path,
    judge: impl FnOnce(&Checkpoint, PathBuf) -> Result<(C, LoadReport), LoadError>,
) -> Loaded<C> {
    let path = || path.to_owned();
    let checkpoint = opened.map_err(|source| LoadError::Checkpoint { path: path(), source })?;
    let (config, report) = judge(&checkpoint, path())?;
    if !report.is_complete() {
        return Err(LoadError::Incomplete { path: path(), report: Box::new(report) });
    }
    checkpoint.verify().map_err(|source| LoadError::Checkpoint { path: path(), source })?;
    Ok((config, CheckpointParams::new(Arc::new(checkpoint)), report))
}
