//! The one table of names. The names of the public checkpoint are ours; every accepted difference is here.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

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

/// An RRDB network as older files spell it: `model.0` and so on, by the place in the program that made it. These names
/// start like the prefix of wrapped modules, so only files with dense blocks of this spelling are read in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OldRrdb {
    blocks: usize,
    /// How often the picture is doubled.
    pub(crate) steps: usize,
}

impl OldRrdb {
    /// Most doublings that are told apart. More than two are not read.
    const MAX_STEPS: usize = 3;

    /// `None` for files of any other spelling.
    pub(crate) fn of(checkpoint: &Checkpoint) -> Option<Self> {
        let names = || checkpoint.tensors().map(|t| t.name());
        let last = names().filter_map(|name| Some(old_dense(name)?.0)).max()?;
        // The places of the convolutions behind the blocks tell the doublings, also when one of them is missing.
        let places: BTreeSet<usize> = names().filter_map(|name| Some(old_place(name)?.0)).collect();
        let known = |steps: usize| {
            places.iter().filter(|&&place| Self { blocks: 0, steps }.behind(place).is_some()).count()
        };
        let steps = (0..=Self::MAX_STEPS).rev().max_by_key(|&steps| known(steps))?;
        Some(OldRrdb { blocks: last.saturating_add(1), steps })
    }

    /// The convolution at this place behind the blocks. Each doubling takes three places, and an activation one.
    fn behind(&self, place: usize) -> Option<Cow<'static, str>> {
        let hr = 3 * self.steps + 2;
        match place {
            _ if place == hr => Some("conv_hr".into()),
            _ if place == hr + 2 => Some("conv_last".into()),
            _ if place < hr && place > 0 && place.is_multiple_of(3) => {
                Some(format!("conv_up{}", place / 3).into())
            }
            _ => None,
        }
    }

    /// Our name for the tensor that such a file calls `stored`.
    fn ours<'a>(&self, stored: &'a str) -> Cow<'a, str> {
        let renamed = || {
            if let Some((block, [dense, conv, part])) = old_dense(stored) {
                return Some(format!("body.{block}.rdb{dense}.conv{conv}.{part}"));
            }
            if let Some((place, part)) = old_place(stored) {
                let name = if place == 0 { "conv_first".into() } else { self.behind(place)? };
                return Some(format!("{name}.{part}"));
            }
            let (number, part) = stored.strip_prefix("model.1.sub.")?.split_once('.')?;
            (number.parse() == Ok(self.blocks) && is_part(part)).then(|| format!("conv_body.{part}"))
        };
        renamed().map_or(Cow::Borrowed(stored), Cow::Owned)
    }
}

fn is_part(part: &str) -> bool {
    matches!(part, "weight" | "bias")
}

/// Block, and dense block, convolution and part, of `model.1.sub.I.RDBR.convK.0.weight` or its bias.
fn old_dense(name: &str) -> Option<(usize, [&str; 3])> {
    let (block, rest) = name.strip_prefix("model.1.sub.")?.split_once('.')?;
    let (dense, rest) = rest.strip_prefix("RDB")?.split_once(".conv")?;
    let (conv, part) = rest.split_once(".0.")?;
    let known = matches!(dense, "1" | "2" | "3") && matches!(conv, "1" | "2" | "3" | "4" | "5");
    (known && is_part(part)).then_some((block.parse().ok()?, [dense, conv, part]))
}

/// Place and part of `model.N.weight` or its bias.
fn old_place(name: &str) -> Option<(usize, &str)> {
    let (place, part) = name.strip_prefix("model.")?.split_once('.')?;
    is_part(part).then_some((place.parse().ok()?, part))
}

/// Whether `stored` is the shape `expected`. A matrix may be stored as the 1x1 convolution it once was:
/// the values are the same in the same order.
pub(crate) fn same_shape(stored: &[usize], expected: &[usize]) -> bool {
    stored == expected || (expected.len() == 2 && stored.strip_prefix(expected) == Some(&[1, 1]))
}

/// The tensors of a checkpoint under our names.
pub(crate) struct Names<'a> {
    tensors: HashMap<Cow<'a, str>, &'a TensorInfo>,
    old: Option<OldRrdb>,
}

impl<'a> Names<'a> {
    pub(crate) fn of(checkpoint: &'a Checkpoint) -> Self {
        let mut names = HashMap::with_capacity(checkpoint.tensors().len());
        let old = OldRrdb::of(checkpoint);
        for tensor in checkpoint.tensors() {
            let ours = old.map_or_else(|| ours(tensor.name()), |old| old.ours(tensor.name()));
            // When two stored names mean the same tensor, the one that needed no rule wins and the other
            // one is left over, for the report to say so.
            if ours == tensor.name() {
                names.insert(ours, tensor);
            } else {
                names.entry(ours).or_insert(tensor);
            }
        }
        Names { tensors: names, old }
    }

    /// The spelling of the file, if it is that of older RRDB files.
    pub(crate) fn old(&self) -> Option<OldRrdb> {
        self.old
    }

    /// Every name of ours, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(|name| &**name)
    }

    pub(crate) fn get(&self, ours: &str) -> Option<&'a TensorInfo> {
        self.tensors.get(ours).copied()
    }

    /// Every tensor with our name for it, in the order of these names.
    pub(crate) fn into_sorted(self) -> Vec<(String, TensorInfo)> {
        let mut all: Vec<_> =
            self.tensors.into_iter().map(|(ours, t)| (ours.into_owned(), t.clone())).collect();
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
    fn places_of_older_rrdb_files_are_names() {
        for (steps, places) in [
            (0, &[(2, "conv_hr"), (4, "conv_last")][..]),
            (1, &[(3, "conv_up1"), (5, "conv_hr"), (7, "conv_last")]),
            (2, &[(3, "conv_up1"), (6, "conv_up2"), (8, "conv_hr"), (10, "conv_last")]),
        ] {
            let old = OldRrdb { blocks: 2, steps };
            let named = |place| places.iter().find(|known| known.0 == place).map(|known| known.1);
            for place in 0..20 {
                assert_eq!(old.behind(place).as_deref(), named(place), "{steps} {place}");
            }
            for (stored, expected) in [
                ("model.0.weight", "conv_first.weight"),
                ("model.1.sub.1.RDB3.conv5.0.bias", "body.1.rdb3.conv5.bias"),
                ("model.1.sub.2.weight", "conv_body.weight"),
                ("model.1.sub.1.weight", "model.1.sub.1.weight"),
                ("model.1.sub.0.RDB4.conv1.0.weight", "model.1.sub.0.RDB4.conv1.0.weight"),
                ("model.1.sub.0.RDB1.conv1x1.weight", "model.1.sub.0.RDB1.conv1x1.weight"),
                ("model.19.weight", "model.19.weight"),
            ] {
                assert_eq!(old.ours(stored), expected);
            }
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
