//! What the assembly of a kernel is made of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::driver::Compiled;

/// Numbers of one kernel on one card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Instructions of the innermost loop that multiplies matrices, or of the whole kernel if there is none.
    pub(crate) all: u32,
    /// Products of matrices in it.
    pub(crate) matrix: u32,
    /// Other vector instructions in it.
    pub(crate) vector: u32,
    /// Loads from workgroup memory in it, by their names.
    pub(crate) shared_loads: BTreeMap<String, u32>,
    /// Registers of a thread.
    pub(crate) registers: u32,
    /// Subgroups at a time: on a SIMD of AMD, on a multiprocessor of NVIDIA.
    pub(crate) occupancy: u32,
    /// Registers that went to memory.
    pub(crate) spills: u32,
    /// The compiler's own estimate: inverse throughput of AMD's, cycles of NVIDIA's.
    pub(crate) estimate: f64,
}

impl Counts {
    /// Other vector instructions for each product of matrices.
    pub(crate) fn ratio(&self) -> Option<f64> {
        (self.matrix > 0).then(|| f64::from(self.vector) / f64::from(self.matrix))
    }

    /// From what a driver says.
    pub(crate) fn of(compiled: &Compiled) -> Self {
        let number = |names: &[&str]| {
            let found = |name: &&str| compiled.statistics.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
            names.iter().filter_map(found).sum::<f64>()
        };
        let text = compiled.texts.last().map(|(_, text)| text.as_str()).unwrap_or_default();
        let blocks = blocks(text);
        let range = inner_loop(&blocks).unwrap_or(0..blocks.len());
        let mut counts = Counts {
            registers: number(&["VGPRs", "Number of GPRs"]) as u32,
            occupancy: number(&["Subgroups per SIMD", "Max warps/SM"]) as u32,
            spills: number(&["Spilled SGPRs", "Spilled VGPRs", "Spills to memory", "Spills to reg"]) as u32,
            estimate: number(&["Inverse Throughput", "Static cycle count"]),
            ..Counts::default()
        };
        for word in blocks.get(range).unwrap_or_default().iter().flat_map(|b| &b.words) {
            counts.all += 1;
            match kind(word) {
                Kind::Matrix => counts.matrix += 1,
                Kind::Vector => counts.vector += 1,
                Kind::SharedLoad => *counts.shared_loads.entry(word.clone()).or_default() += 1,
                Kind::Other => {}
            }
        }
        counts
    }
}

/// Instructions between two labels.
#[derive(Debug, Default)]
struct Block {
    label: String,
    words: Vec<String>,
    /// Labels that it can jump to.
    jumps: Vec<String>,
}

enum Kind {
    Matrix,
    Vector,
    SharedLoad,
    Other,
}

/// AMD names its units in front of a word. What NVIDIA has is all vector instructions but for jumps, memory and barriers.
fn kind(word: &str) -> Kind {
    let starts = |all: &[&str]| all.iter().any(|s| word.starts_with(s));
    match word {
        _ if starts(&["v_wmma", "v_swmma", "hmma"]) => Kind::Matrix,
        _ if starts(&["ds_load", "lds", "ldsm"]) => Kind::SharedLoad,
        _ if starts(&["v_"]) => Kind::Vector,
        _ if starts(&["s_", "ds_", "buffer_", "global_", "scratch_"]) => Kind::Other,
        _ if starts(&[
            "bra", "ld", "st", "bar", "exit", "bsync", "bssy", "bclear", "bmov", "nop", "depbar",
        ]) =>
        {
            Kind::Other
        }
        _ => Kind::Vector,
    }
}

/// The blocks of an assembly text: `BB7:` and words first (AMD), or `block 7 L7 [] -> {` and words behind `=` (NVIDIA).
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = vec![Block::default()];
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let nvidia = line
            .strip_prefix("block")
            .and_then(|rest| rest.split_whitespace().nth(1 + usize::from(rest.starts_with('.'))));
        let amd = line.strip_suffix(':').filter(|label| label.starts_with("BB"));
        if let Some(label) = amd.or(nvidia) {
            blocks.push(Block { label: label.to_owned(), ..Block::default() });
            continue;
        }
        let instruction = line.rsplit(" = ").next().unwrap_or_default();
        let mut words = instruction.split_whitespace().filter(|word| !word.starts_with('@'));
        let (Some(word), Some(block)) = (words.next(), blocks.last_mut()) else { continue };
        if word.starts_with(['}', '{', '/']) || !word.starts_with(|c: char| c.is_ascii_lowercase()) {
            continue;
        }
        if word.starts_with("s_branch") || word.starts_with("s_cbranch") || word.starts_with("bra") {
            block.jumps.extend(words.next_back().map(ToOwned::to_owned));
        }
        block.words.push(word.to_owned());
    }
    blocks
}

/// The shortest run of blocks that jumps back to its start and multiplies matrices.
fn inner_loop(blocks: &[Block]) -> Option<std::ops::Range<usize>> {
    let has_matrix = |b: &Block| b.words.iter().any(|word| matches!(kind(word), Kind::Matrix));
    let mut best: Option<std::ops::Range<usize>> = None;
    for (end, block) in blocks.iter().enumerate() {
        for jump in &block.jumps {
            let start = blocks.iter().take(end + 1).position(|b| b.label == *jump);
            let Some(range) = start.map(|start| start..end + 1) else { continue };
            let multiplies = blocks.get(range.clone()).is_some_and(|run| run.iter().any(has_matrix));
            if multiplies && best.as_ref().is_none_or(|best| range.len() < best.len()) {
                best = Some(range);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Counts {
        Counts::of(&Compiled { texts: vec![("assembly".into(), text.into())], ..Compiled::default() })
    }

    #[test]
    fn the_inner_loop_of_an_amd_kernel_is_counted() {
        let text = "BB0:\n  v_mov_b32 v0, 1 ; 7e000281\nBB1:\n  ds_load_b64 v[0:1], v2\n  v_add_u32 v1, v2, v3\n  \
                    v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]\n  s_add_u32 s0, s1, 1\n  \
                    s_cbranch_scc0 BB1\nBB2:\n  v_mov_b32 v0, 2\n  s_endpgm\n";
        let found = counts(text);
        assert_eq!((found.all, found.matrix, found.vector), (5, 1, 1));
        assert_eq!(found.shared_loads["ds_load_b64"], 1);
        assert_eq!(found.ratio(), Some(1.0));
    }

    #[test]
    fn the_inner_loop_of_an_nvidia_kernel_is_counted() {
        let text = "block.u 0 L2 [] -> {\n   r0 = mov 1  // delay=1\n} -> [1]\nblock 1 L5 [0] -> {\n   \
                    r0..2 = lds.b64 [r1]  // delay=1\n   r0..4 = hmma.m16n8k16.f32 r1 r2 r3 // delay=15\n   \
                    r5 = iadd3 r1 r2 rZ\n@!p0   bra pT L5 // delay=1\n} -> [1]\n";
        let found = counts(text);
        assert_eq!((found.all, found.matrix, found.vector), (4, 1, 1));
        assert_eq!(found.shared_loads["lds.b64"], 1);
    }
}
