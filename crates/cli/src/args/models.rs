//! Model files, as typed.

use std::path::PathBuf;

use clap::Args;
use remaster_weights::Model;

use super::ProgressArgs;

/// Where to look for model files.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelDirArgs {
    /// Search this folder first
    ///
    /// Then $REMASTER_MODEL_DIR, models/SEEDVR2, ComfyUI/models (here and in the home folder) and the Hugging Face cache.
    #[arg(long, value_name = "DIR", alias = "model_dir")]
    pub(crate) model_dir: Option<PathBuf>,
}

/// `remaster models list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) dirs: ModelDirArgs,
    /// Also list files of other networks
    #[arg(long)]
    pub(crate) all: bool,
}

/// `remaster models pull`.
#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// 3b, 7b, 7b-sharp, vae, 3b-first for the 3B weights before June 2025, or text for the embedding alone
    #[arg(value_name = "MODEL", value_parser = model)]
    pub(crate) model: Model,
    /// Number format: fp16, fp8, q8_0 or q4_k_m [default: fp16]
    ///
    /// Not every model exists in every format; the error lists those that do. fp8 of 7B keeps the last block in fp16.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) quant: Option<String>,
    #[command(flatten)]
    pub(crate) dirs: ModelDirArgs,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// `remaster models verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Files to verify [default: all that `models list` finds]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) dirs: ModelDirArgs,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// `remaster models inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A safetensors file of any name
    pub(crate) file: PathBuf,
    /// List every tensor
    #[arg(long)]
    pub(crate) tensors: bool,
}

fn model(word: &str) -> Result<Model, String> {
    let words = Model::ALL.map(Model::word).join(", ");
    let known = Model::ALL.into_iter().find(|model| model.word() == word);
    known.ok_or_else(|| format!("use one of {words}"))
}
