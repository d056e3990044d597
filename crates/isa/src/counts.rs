//! What the assembly of a kernel is made of.

use std::collections::{BTreeMap, BTreeSet};

use crate::assembly::{Block, Kind, blocks, loops};
use crate::driver::Compiled;

/// Instructions of some part of a kernel, as a subgroup runs them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Mix {
    /// Products of matrices.
    pub(crate) matrix: u32,
    /// Their multiply-adds.
    pub(crate) matrix_macs: u32,
    /// Other vector instructions.
    pub(crate) vector: u32,
    /// Their multiply-adds, of each thread.
    pub(crate) vector_macs: u32,
    /// Cycles of NVIDIA's instructions, as its compiler plans them.
    pub(crate) cycles: u32,
    /// Loads from workgroup memory, by their names.
    pub(crate) shared_loads: BTreeMap<String, u32>,
}

impl Mix {
    fn of<'a>(blocks: impl Iterator<Item = &'a Block>) -> Self {
        let mut mix = Mix::default();
        for instruction in blocks.flat_map(|b| &b.instructions) {
            mix.cycles += instruction.delay;
            match instruction.kind() {
                Kind::Matrix => {
                    mix.matrix += 1;
                    mix.matrix_macs += instruction.matrix_macs();
                }
                Kind::Vector => {
                    mix.vector += 1;
                    mix.vector_macs += instruction.vector_macs();
                }
                Kind::SharedLoad => *mix.shared_loads.entry(instruction.word.clone()).or_default() += 1,
                Kind::Other => {}
            }
        }
        mix
    }

    /// Other vector instructions for each product of matrices.
    pub(crate) fn ratio(&self) -> Option<f64> {
        (self.matrix > 0).then(|| f64::from(self.vector) / f64::from(self.matrix))
    }

    /// Cycles that NVIDIA's compiler plans for 2048 multiply-adds, one matrix instruction of its newer cards.
    pub(crate) fn planned(&self) -> Option<f64> {
        let products = f64::from(self.matrix_macs) / 2048.0;
        (self.cycles > 0 && self.matrix_macs > 0).then(|| f64::from(self.cycles) / products)
    }
}

/// Numbers of one kernel on one card.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// The innermost loop that multiplies matrices: a step along the channels. Without matrices, or where several loops
    /// multiply them, all loops; without loops, everything.
    pub(crate) inner: Mix,
    /// The loop around it, without it: once a tap.
    pub(crate) outer: Mix,
    /// The loop of a shortcut.
    pub(crate) short: Mix,
    /// The rest: once a workgroup.
    pub(crate) rest: Mix,
    /// Threads of a subgroup.
    pub(crate) subgroup: u32,
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
    /// From what a driver says.
    pub(crate) fn of(compiled: &Compiled) -> Self {
        let text = compiled.texts.last().map(|(_, text)| text.as_str()).unwrap_or_default();
        Self::new(text, &compiled.statistics, compiled.subgroup)
    }

    /// From an assembly text and numbers by their names.
    pub(crate) fn new(text: &str, statistics: &[(String, f64)], subgroup: u32) -> Self {
        let number = |names: &[&str]| {
            let found = |name: &&str| statistics.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
            names.iter().filter_map(found).sum::<f64>()
        };
        let blocks = blocks(text);
        let mix = |part: BTreeSet<usize>| Mix::of(part.iter().filter_map(|i| blocks.get(*i)));
        let [inner, outer, short, rest] = parts(&blocks).map(mix);
        Counts {
            inner,
            outer,
            short,
            rest,
            subgroup,
            registers: number(&["VGPRs", "Number of GPRs", "Num GPRs"]) as u32,
            occupancy: number(&["Subgroups per SIMD", "Max warps/SM"]) as u32,
            spills: number(&[
                "Spilled SGPRs",
                "Spilled VGPRs",
                "Spills to memory",
                "Spills to mem",
                "Spills to reg",
            ]) as u32,
            estimate: number(&["Inverse Throughput", "Static cycle count"]),
        }
    }
}

/// Blocks of the parts of a kernel: inner, outer, short and rest, as in [`Counts`].
fn parts(blocks: &[Block]) -> [BTreeSet<usize>; 4] {
    let multiplies = |part: &BTreeSet<usize>| {
        let mut all = part.iter().filter_map(|i| blocks.get(*i)).flat_map(|b| &b.instructions);
        all.any(|instruction| instruction.kind() == Kind::Matrix)
    };
    let everything: BTreeSet<usize> = (0..blocks.len()).collect();
    let loops = loops(blocks);
    let matrix: Vec<&BTreeSet<usize>> = loops.iter().filter(|part| multiplies(part)).collect();
    let inside = |a: &BTreeSet<usize>, b: &BTreeSet<usize>| a.len() < b.len() && a.is_subset(b);
    let innermost = matrix.iter().filter(|part| !matrix.iter().any(|other| inside(other, part)));
    let around = |part: &BTreeSet<usize>| {
        loops.iter().filter(|other| inside(part, other)).min_by_key(|other| other.len())
    };
    let (nested, alone): (Vec<_>, Vec<_>) = innermost.copied().partition(|part| around(part).is_some());
    let only = |inner: BTreeSet<usize>| [inner, BTreeSet::new(), BTreeSet::new()];
    let [inner, outer, short] = match (nested.as_slice(), alone.as_slice()) {
        ([inner], short) if short.len() < 2 => [
            (*inner).clone(),
            around(inner).into_iter().flatten().copied().filter(|b| !inner.contains(b)).collect(),
            short.iter().copied().flatten().copied().collect(),
        ],
        ([], [inner]) => only((*inner).clone()),
        _ if loops.is_empty() => only(everything.clone()),
        _ => only(loops.iter().flatten().copied().collect()),
    };
    let taken = |b: &usize| inner.contains(b) || outer.contains(b) || short.contains(b);
    let rest = everything.into_iter().filter(|b| !taken(b)).collect();
    [inner, outer, short, rest]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loops_of_an_amd_kernel_are_counted_apart() {
        let text = "BB0:\n  v_mov_b32 v0, 1 ; 7e000281\nBB1:\n v_mov_b32 v1, 2\nBB2:\n  ds_load_b64 v[0:1], v2\n  \
                    v_add_u32 v1, v2, v3\n  v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]\n  \
                    s_add_u32 s0, s1, 1\n  s_cbranch_scc0 BB2\nBB3:\n  v_mov_b32 v0, 2\n v_mov_b32 v0, 3\n \
                    s_cbranch_scc0 BB1\nBB4:\n v_mov_b32 v0, 2\n  s_endpgm\n";
        let found = Counts::new(text, &[], 64);
        assert_eq!((found.inner.matrix, found.inner.vector), (1, 1));
        assert_eq!((found.outer.matrix, found.outer.vector), (0, 3));
        assert_eq!(found.rest.vector, 2);
        assert_eq!(found.inner.shared_loads["ds_load_b64"], 1);
        assert_eq!(found.inner.ratio(), Some(1.0));
    }

    #[test]
    fn the_loop_of_an_nvidia_kernel_is_counted() {
        let text = "block.u 0 L2 [] -> {\n   r0 = mov 1  // delay=1\n} -> [1]\nblock 1 L5 [0] -> {\n   \
                    r0..2 = lds.b64 [r1]  // delay=1\n   r0..4 = hmma.m16n8k16.f32 r1 r2 r3 // delay=15 wt=0\n   \
                    r5 = iadd3 r1 r2 rZ // delay=4\n@!p0   bra pT L5 // delay=1\n} -> [1, 2]\nblock 2 L6 [1] -> {\n exit // delay=1\n} -> []\n";
        let found = Counts::new(text, &[("Max warps/SM".into(), 16.0)], 32);
        assert_eq!((found.inner.matrix, found.inner.vector, found.inner.cycles), (1, 1, 21));
        assert_eq!(found.inner.shared_loads["lds.b64"], 1);
        assert_eq!(found.inner.planned(), Some(21.0));
        assert_eq!((found.rest.vector, found.occupancy), (1, 16));
    }

    #[test]
    fn a_kernel_without_loops_is_counted_whole() {
        let found = Counts::new(
            "BB0:\n v_fma_f32 v0, v1, v2, v3\n v_dual_fmac_f32 v0, v1 :: v_dual_fmac_f32 v2, v3\n s_endpgm\n",
            &[],
            64,
        );
        assert_eq!((found.inner.vector, found.inner.vector_macs), (2, 3));
    }
}
