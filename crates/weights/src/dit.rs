//! What a checkpoint of a diffusion transformer is and what it must hold.

use remaster_model::dit::{self, DitConfig, Family};
use thiserror::Error;

use crate::checkpoint::Checkpoint;
use crate::identify::MAX_LATENT;
use crate::names::{Names, ours};
use crate::report::{LoadReport, Warning, check_except};
use crate::size_doubt::{SizeDoubt, shown, within};
use crate::stored::StoredDtype;

/// The tensor with the text embedding in ComfyUI's files.
pub const POSITIVE: &str = "positive_conditioning";
const NEGATIVE: &str = "negative_conditioning";

/// Why the sizes of a diffusion transformer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DitDoubt {
    /// A single size.
    #[error(transparent)]
    Size(#[from] SizeDoubt),
    /// Heads that do not fill the width.
    #[error("its heads have {head} channels, but must be even and divide its width {width}")]
    Heads {
        /// Channels of a head.
        head: usize,
        /// Channels of a token.
        width: usize,
    },
}

/// Largest sizes accepted. The public networks have 3072, 36, 12288 and 5120; these leave room and keep every number
/// computed from them far from overflow.
const MAX_WIDTH: usize = 16384;
const MAX_LAYERS: usize = 256;
const MAX_HIDDEN: usize = 1 << 17;
const MAX_TEXT: usize = 1 << 16;

/// Block number and the rest of a name, `blocks.N.rest`.
fn block(name: &str) -> Option<(usize, &str)> {
    let (number, rest) = name.strip_prefix("blocks.")?.split_once('.')?;
    Some((number.parse().ok()?, rest))
}

/// `None` if the tensors are not those of a diffusion transformer.
pub(crate) fn sizes(checkpoint: &Checkpoint, names: &Names<'_>) -> Option<Result<DitConfig, DitDoubt>> {
    // Neither a missing nor a reshaped tensor makes it another network: the report is to say which.
    let heads = ["vid_in.proj.weight", "txt_in.weight", "emb_in.proj_in.weight", "vid_out.proj.weight"];
    if !heads.iter().any(|name| names.get(name).is_some()) {
        return None;
    }
    let (mut last, mut attention, mut gate, mut shared) = (0, false, false, None::<usize>);
    for tensor in checkpoint.tensors().filter(|t| !t.is_companion()) {
        let name = ours(tensor.name());
        let Some((number, rest)) = block(&name) else { continue };
        last = last.max(number);
        attention |= rest.starts_with("attn.proj_qkv.");
        gate |= rest.contains(".proj_in_gate.");
        if rest.split('.').any(|part| part == "all") {
            shared = Some(shared.map_or(number, |first| first.min(number)));
        }
    }
    attention.then(|| {
        let layers = last.saturating_add(1);
        let family = if gate || shared.is_some() { Family::Shared } else { Family::Separate };
        let separate = shared.unwrap_or(layers).min(layers);
        accepted(names, family, layers, separate)
    })
}

fn accepted(
    names: &Names<'_>,
    family: Family,
    layers: usize,
    separate: usize,
) -> Result<DitConfig, DitDoubt> {
    let axis = |name: &str, axis: usize| names.get(name)?.shape().get(axis).copied();
    within("number of blocks", layers, 1, MAX_LAYERS)?;

    let width = axis("vid_in.proj.weight", 0)
        .or(axis("txt_in.weight", 0))
        .or(axis("emb_in.proj_in.weight", 0))
        .or(axis("vid_out.proj.weight", 1));
    let width = within("width", shown("width", width)?, 1, MAX_WIDTH)?;
    // Any block may show these: the report is to name what one of them lacks.
    let any = |part: &str, at: usize| {
        let in_block = |n| {
            let stream = |s: &&str| axis(&format!("blocks.{n}.{}", part.replace('*', s)), at);
            ["vid", "all", "txt"].iter().find_map(stream)
        };
        (0..layers).find_map(in_block)
    };
    let head = any("attn.norm_q.*.weight", 0).or_else(|| any("attn.norm_k.*.weight", 0));
    let head = shown("number of channels of a head", head)?;
    let hidden = any("mlp.*.proj_in.weight", 0).or_else(|| any("mlp.*.proj_out.weight", 1));
    let hidden = within("MLP width", shown("MLP width", hidden)?, 1, MAX_HIDDEN)?;
    let text = axis("txt_in.weight", 1).or(axis(POSITIVE, 1)).unwrap_or(DitConfig::dit_3b().text);
    let text = within("text width", text, 1, MAX_TEXT)?;

    // Fewer channels leave nothing to rotate.
    let least = if family == Family::Shared { 6 } else { 12 };
    within("number of channels of a head", head, least, width.max(least))?;
    if !head.is_multiple_of(2) || !width.is_multiple_of(head) {
        return Err(DitDoubt::Heads { head, width });
    }
    // Each cell of a patch is noise, latent and a one on its way in, and a velocity on its way out.
    let patch = DitConfig::PATCH * DitConfig::PATCH;
    let out = axis("vid_out.proj.weight", 0).map(|n| n / patch);
    let latent = out.or(axis("vid_in.proj.weight", 1).map(|n| (n / patch).saturating_sub(1) / 2));
    let latent = within("number of latent channels", latent.unwrap_or(16), 1, MAX_LATENT)?;
    Ok(DitConfig { family, width, head, layers, separate, hidden, text, latent })
}

/// Tensors that files of these networks carry and the network does not read: tables of the rotation, which are always
/// computed because files hold them rounded, and text embeddings.
fn known(name: &str) -> bool {
    let name = ours(name);
    name == POSITIVE
        || name == NEGATIVE
        || block(&name).is_some_and(|(_, rest)| rest == "attn.rope.rope.freqs")
}

/// Holds `checkpoint` against the tensors of a diffusion transformer.
pub fn check_dit(checkpoint: &Checkpoint, config: &DitConfig) -> LoadReport {
    let mut report = check_except(checkpoint, &dit::params(config), known);
    if *config == DitConfig::dit_7b() && plain_fp8(&report, config.layers - 1) {
        report.warnings.push(Warning::PlainFp8);
    }
    report
}

/// Whether every tensor of block `last` is a cast to E4M3.
fn plain_fp8(report: &LoadReport, last: usize) -> bool {
    let mut block =
        report.applied.iter().filter(|t| t.name.starts_with(&format!("blocks.{last}."))).peekable();
    block.peek().is_some() && block.all(|t| t.dtype == StoredDtype::F8E4M3)
}
