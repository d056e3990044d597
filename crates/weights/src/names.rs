//! The one table of names. The names of the public checkpoint are ours; every accepted difference is here.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::checkpoint::Checkpoint;
use crate::header::TensorInfo;

/// What files put before our names, nested or not: `vae.` pipelines in one file, the next two latent diffusion, the last
/// one wrapped modules.
const PREFIXES: [&str; 4] = ["vae.", "first_stage_model.", "model.diffusion_model.", "model."];

/// What the attention of legacy diffusers files is called there and here. A part is replaced once.
const PARTS: [(&str, &str); 4] = [
    (".attentions.0.query.", ".attentions.0.to_q."),
    (".attentions.0.key.", ".attentions.0.to_k."),
    (".attentions.0.value.", ".attentions.0.to_v."),
    (".attentions.0.proj_attn.", ".attentions.0.to_out.0."),
];

/// Our name for the tensor a file calls `stored`.
pub(crate) fn ours(stored: &str) -> Cow<'_, str> {
    let mut rest = stored;
    while let Some(shorter) = PREFIXES.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = shorter;
    }
    match PARTS.iter().find(|(part, _)| rest.contains(part)) {
        Some((part, ours)) => Cow::Owned(rest.replacen(part, ours, 1)),
        None => Cow::Borrowed(rest),
    }
}

/// Whether `stored` is the shape `expected`. A matrix may be stored as the 1x1 convolution it once was:
/// the values are the same in the same order.
pub(crate) fn same_shape(stored: &[usize], expected: &[usize]) -> bool {
    stored == expected || (expected.len() == 2 && stored.strip_prefix(expected) == Some(&[1, 1]))
}

/// The tensors of a checkpoint under our names.
pub(crate) struct Names<'a>(HashMap<Cow<'a, str>, &'a TensorInfo>);

impl<'a> Names<'a> {
    pub(crate) fn of(checkpoint: &'a Checkpoint) -> Self {
        let mut names = HashMap::with_capacity(checkpoint.tensors().len());
        for tensor in checkpoint.tensors() {
            let ours = ours(tensor.name());
            // When two stored names mean the same tensor, the one that needed no rule wins and the other
            // one is left over, for the report to say so.
            if ours == tensor.name() {
                names.insert(ours, tensor);
            } else {
                names.entry(ours).or_insert(tensor);
            }
        }
        Names(names)
    }

    pub(crate) fn get(&self, ours: &str) -> Option<&'a TensorInfo> {
        self.0.get(ours).copied()
    }

    /// Every tensor with our name for it, in the order of these names.
    pub(crate) fn into_sorted(self) -> Vec<(String, TensorInfo)> {
        let mut all: Vec<_> = self.0.into_iter().map(|(ours, t)| (ours.into_owned(), t.clone())).collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_public_checkpoint_are_ours() {
        for name in ["encoder.conv_in.weight", "decoder.mid_block.attentions.0.to_out.0.bias", "", "."] {
            assert_eq!(ours(name), name);
        }
    }

    #[test]
    fn prefixes_are_stripped_and_old_attention_names_replaced() {
        for (stored, expected) in [
            ("vae.encoder.conv_in.weight", "encoder.conv_in.weight"),
            ("first_stage_model.decoder.conv_out.bias", "decoder.conv_out.bias"),
            ("model.vae.encoder.conv_in.bias", "encoder.conv_in.bias"),
            ("model.diffusion_model.vid_in.proj.weight", "vid_in.proj.weight"),
            ("encoder.mid_block.attentions.0.query.weight", "encoder.mid_block.attentions.0.to_q.weight"),
            (
                "vae.decoder.mid_block.attentions.0.proj_attn.bias",
                "decoder.mid_block.attentions.0.to_out.0.bias",
            ),
        ] {
            assert_eq!(ours(stored), expected);
        }
    }

    #[test]
    fn no_rule_gives_a_name_that_another_rule_would_change() {
        for (part, _) in PARTS {
            let once = ours(&format!("x{part}y")).into_owned();
            assert_eq!(ours(&once), once);
        }
    }

    #[test]
    fn only_a_matrix_may_carry_two_axes_of_one_more() {
        assert!(same_shape(&[4, 4], &[4, 4]));
        assert!(same_shape(&[4, 4, 1, 1], &[4, 4]));
        assert!(!same_shape(&[4, 4, 1], &[4, 4]));
        assert!(!same_shape(&[4, 4, 1, 2], &[4, 4]));
        assert!(!same_shape(&[4, 1, 1], &[4]));
    }
}
