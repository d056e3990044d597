//! Model files: which are installed, what they are, whether they are whole, and where to get them.

mod choice;
mod list;
mod pull;
mod search;
mod verify;

use std::collections::BTreeMap;
use std::path::Path;

use remaster_model::dit::{DitConfig, Family};
use remaster_weights::{Kind, LoadReport, POSITIVE, sha256_hex};
use serde::Serialize;

use crate::error::Error;

pub(crate) use choice::{
    installed, installed_text, installed_vae, is_built_in, of_plan, ready, refuse_removed,
};
pub use list::{BuiltInModel, InstalledModel, InstalledModels, ListRequest, SearchedFolder, shown};
pub use pull::{PullRequest, Pulled, PulledFile};
pub use verify::{FileVerdict, Origin, Verdict, VerifiedModels, VerifyRequest};

/// What a model file is.
#[derive(Serialize)]
#[non_exhaustive]
pub struct Inspected {
    /// Its path.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Of all of it.
    pub sha256: String,
    /// One of `vae`, `dit_3b`, `dit_7b`, `dit`, `compact`, `rrdb`, `upscaler`, `unknown`.
    pub kind: &'static str,
    /// The same in words.
    pub description: String,
    /// `safetensors`, `gguf` or `pytorch`.
    pub format: &'static str,
    /// Sizes of a diffusion transformer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// True if a diffusion transformer's file has the text embedding too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_embedding: Option<bool>,
    /// All of them.
    pub tensors: usize,
    /// Values of all tensors.
    pub parameters: u64,
    /// Tensors per number format.
    pub dtypes: BTreeMap<String, usize>,
    /// As the file has it.
    pub metadata: BTreeMap<String, String>,
    /// How the file fits the network it is for; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<LoadReport>,
    /// Every tensor, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<TensorEntry>,
    /// It can be used.
    pub usable: bool,
    /// Why it cannot, if it is for a network that is known.
    #[serde(skip)]
    pub unusable: Option<String>,
}

/// A tensor of a file.
#[derive(Serialize)]
#[non_exhaustive]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// Its number format.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<usize>,
}

/// Sizes of a diffusion transformer.
#[derive(Serialize)]
#[non_exhaustive]
pub struct Sizes {
    /// Channels of a token.
    pub width: usize,
    /// Channels of a head.
    pub head: usize,
    /// All of them.
    pub blocks: usize,
    /// Blocks whose weights for video and text differ.
    pub separate: usize,
    /// Channels inside the MLP.
    pub hidden: usize,
    /// Channels of the text embedding.
    pub text: usize,
}

impl Sizes {
    fn of(kind: &Kind) -> Option<Self> {
        let Kind::Dit { config } = kind else { return None };
        let DitConfig { width, head, layers: blocks, separate, hidden, text, .. } = *config;
        Some(Sizes { width, head, blocks, separate, hidden, text })
    }
}

/// Looks into a model file; `tensors` asks for a list of all of them.
pub fn inspect(path: &Path, tensors: bool) -> Result<Inspected, Error> {
    let failed = |source| Error::Checkpoint { path: path.to_owned(), source };
    let (checkpoint, identity) = search::open(path).map_err(failed)?;
    let fit = search::fit(&checkpoint, &identity.kind);
    let sizes = Sizes::of(&identity.kind);
    let mut dtypes = BTreeMap::new();
    for tensor in checkpoint.tensors() {
        *dtypes.entry(tensor.dtype().to_string()).or_insert(0) += 1;
    }
    let entry = |t: &remaster_weights::TensorInfo| TensorEntry {
        name: t.name().to_owned(),
        dtype: t.dtype().to_string(),
        shape: t.shape().to_vec(),
    };
    let unusable = match &fit {
        Some(fit) if !fit.is_complete() => Some(fit.to_string()),
        _ => doubt(&identity.kind),
    };
    Ok(Inspected {
        file: path.display().to_string(),
        bytes: checkpoint.len_bytes(),
        sha256: sha256_hex(path).map_err(Error::reading(path))?,
        kind: word(&identity.kind),
        description: match &identity.kind {
            Kind::Unknown => "unknown".to_owned(),
            kind => kind.to_string(),
        },
        format: checkpoint.format().name(),
        text_embedding: sizes.as_ref().map(|_| checkpoint.get(POSITIVE).is_some()),
        sizes,
        tensors: identity.tensors,
        parameters: identity.parameters,
        dtypes,
        metadata: checkpoint.metadata().clone(),
        usable: fit.as_ref().is_some_and(LoadReport::is_complete),
        fit,
        list: if tensors { checkpoint.tensors().map(entry).collect() } else { Vec::new() },
        unusable,
    })
}

/// Why a network is not clear.
fn doubt(kind: &Kind) -> Option<String> {
    match kind {
        Kind::UnclearVae { doubt } => Some(doubt.to_string()),
        Kind::UnclearDit { doubt } => Some(doubt.to_string()),
        Kind::UnclearUpscaler { doubt } => Some(doubt.to_string()),
        _ => None,
    }
}

fn word(kind: &Kind) -> &'static str {
    match kind {
        Kind::Vae { .. } | Kind::UnclearVae { .. } => "vae",
        Kind::Dit { config } if config.family == Family::Shared => "dit_3b",
        Kind::Dit { .. } => "dit_7b",
        Kind::UnclearDit { .. } => "dit",
        Kind::Compact { .. } => "compact",
        Kind::Rrdb { .. } => "rrdb",
        Kind::UnclearUpscaler { .. } => "upscaler",
        Kind::Unknown => "unknown",
    }
}
