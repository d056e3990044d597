//! `remaster models`: what a file is and whether it is sound.

mod choice;
mod list;
mod pull;
mod search;
mod verify;

use std::collections::BTreeMap;

use remaster_model::dit::{DitConfig, Family};
use remaster_weights::{Checkpoint, Kind, LoadReport, POSITIVE, identify, sha256_hex};
use serde::Serialize;

use crate::args::InspectArgs;
use crate::error::CliError;
use crate::output::Output;

pub(crate) use choice::{installed, installed_text, installed_vae, of_plan, ready};
pub(crate) use list::{ListArgs, run as list};
pub(crate) use pull::{PullArgs, run as pull};
pub(crate) use search::ModelDirArgs;
pub(crate) use verify::{VerifyArgs, run as verify};

#[derive(Serialize)]
struct Report {
    file: String,
    bytes: u64,
    sha256: String,
    /// One of `vae`, `dit_3b`, `dit_7b`, `dit`, `unknown`.
    kind: &'static str,
    /// The same for people.
    description: String,
    /// `safetensors` or `gguf`.
    format: &'static str,
    /// Sizes of a diffusion transformer.
    #[serde(skip_serializing_if = "Option::is_none")]
    sizes: Option<Sizes>,
    /// Whether a diffusion transformer's file has the text embedding too.
    #[serde(skip_serializing_if = "Option::is_none")]
    text_embedding: Option<bool>,
    tensors: usize,
    parameters: u64,
    /// Tensors per number format.
    dtypes: BTreeMap<String, usize>,
    metadata: BTreeMap<String, String>,
    /// How the file fits the network it is for; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    fit: Option<LoadReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    list: Vec<Entry>,
    usable: bool,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    dtype: String,
    shape: Vec<usize>,
}

#[derive(Serialize)]
struct Sizes {
    width: usize,
    head: usize,
    blocks: usize,
    /// Blocks whose weights for video and text differ.
    separate: usize,
    hidden: usize,
    text: usize,
}

impl Sizes {
    fn of(kind: &Kind) -> Option<Self> {
        let Kind::Dit { config } = kind else { return None };
        let DitConfig { width, head, layers: blocks, separate, hidden, text, .. } = *config;
        Some(Sizes { width, head, blocks, separate, hidden, text })
    }
}

pub(crate) fn inspect(args: &InspectArgs, out: &Output) -> Result<(), CliError> {
    let path = &args.file;
    let checkpoint =
        Checkpoint::open(path).map_err(|source| CliError::Checkpoint { path: path.clone(), source })?;
    let identity = identify(&checkpoint);
    let fit = list::fit(&checkpoint, &identity.kind);
    let sizes = Sizes::of(&identity.kind);
    let mut dtypes = BTreeMap::new();
    for tensor in checkpoint.tensors() {
        *dtypes.entry(tensor.dtype().to_string()).or_insert(0) += 1;
    }
    let entry = |t: &remaster_weights::TensorInfo| Entry {
        name: t.name().to_owned(),
        dtype: t.dtype().to_string(),
        shape: t.shape().to_vec(),
    };
    let report = Report {
        file: path.display().to_string(),
        bytes: checkpoint.len_bytes(),
        sha256: sha256_hex(path).map_err(|source| CliError::Read { path: path.clone(), source })?,
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
        list: if args.tensors { checkpoint.tensors().map(entry).collect() } else { Vec::new() },
    };
    out.result(&report, || describe(&report));
    match (&identity.kind, &report.fit) {
        (_, Some(fit)) if !fit.is_complete() => {
            Err(CliError::Unusable { path: path.clone(), reason: fit.to_string() })
        }
        (Kind::UnclearVae { doubt }, _) => {
            Err(CliError::Unusable { path: path.clone(), reason: doubt.to_string() })
        }
        (Kind::UnclearDit { doubt }, _) => {
            Err(CliError::Unusable { path: path.clone(), reason: doubt.to_string() })
        }
        _ => Ok(()),
    }
}

fn word(kind: &Kind) -> &'static str {
    match kind {
        Kind::Vae { .. } | Kind::UnclearVae { .. } => "vae",
        Kind::Dit { config } if config.family == Family::Shared => "dit_3b",
        Kind::Dit { .. } => "dit_7b",
        Kind::UnclearDit { .. } => "dit",
        Kind::Unknown => "unknown",
    }
}

fn describe(report: &Report) -> String {
    let formats: Vec<String> = report.dtypes.iter().map(|(d, n)| format!("{d} x {n}")).collect();
    let mut text = format!(
        "file        {}\nformat      {}\nbytes       {}\nsha256      {}\nkind        {}\ntensors     {} ({})\nparameters  {}\n",
        report.file,
        report.format,
        report.bytes,
        report.sha256,
        report.description,
        report.tensors,
        formats.join(", "),
        report.parameters
    );
    if let Some(Sizes { width, head, blocks, hidden, text: columns, .. }) = report.sizes {
        text += &format!(
            "sizes       width {width}, {blocks} blocks, heads of {head}, MLP {hidden}, text {columns}\n"
        );
    }
    if let Some(inside) = report.text_embedding {
        let inside = if inside { "in the file" } else { "not in the file; pos_emb.pt has it" };
        text += &format!("embedding   {inside}\n");
    }
    for (key, value) in report.metadata.iter().take(16) {
        let short: String = value.chars().take(100).collect();
        text += &format!("metadata    {key} = {short}\n");
    }
    if let Some(fit) = &report.fit {
        text += &format!("fit         {fit}\n");
    }
    for e in &report.list {
        text += &format!("{:5} {:?} {}\n", e.dtype, e.shape, e.name);
    }
    text
}
