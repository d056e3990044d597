//! Assembly texts of AMD's and NVIDIA's compilers as blocks of instructions, and the loops among them.

use std::collections::{BTreeMap, BTreeSet};

/// Instructions between two labels.
#[derive(Debug, Default)]
pub(crate) struct Block {
    label: String,
    pub(crate) instructions: Vec<Instruction>,
    /// Blocks that may follow, by label (AMD) or number (NVIDIA).
    next: Vec<String>,
}

/// One instruction.
#[derive(Debug)]
pub(crate) struct Instruction {
    /// Its name.
    pub(crate) word: String,
    /// Two operations that go together (AMD).
    pub(crate) dual: bool,
    /// Cycles until the next one can start, where the compiler says so (NVIDIA).
    pub(crate) delay: u32,
}

/// What an instruction occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Matrix,
    Vector,
    SharedLoad,
    Other,
}

/// Beginnings of words that are neither matrix nor vector instructions.
const AMD_OTHER: [&str; 5] = ["s_", "ds_", "buffer_", "global_", "scratch_"];
const NVIDIA_OTHER: [&str; 12] =
    ["bra", "ld", "st", "bar", "exit", "bsync", "bssy", "bclear", "bmov", "nop", "depbar", "warpsync"];

impl Instruction {
    /// AMD names its units in front of a word. What NVIDIA has is all vector instructions but for jumps, memory and barriers.
    pub(crate) fn kind(&self) -> Kind {
        let starts = |all: &[&str]| all.iter().any(|s| self.word.starts_with(s));
        if starts(&["v_wmma", "v_swmma", "hmma"]) {
            Kind::Matrix
        } else if starts(&["ds_load", "lds", "ldsm"]) {
            Kind::SharedLoad
        } else if starts(&AMD_OTHER) || starts(&NVIDIA_OTHER) {
            Kind::Other
        } else {
            Kind::Vector
        }
    }

    /// Multiply-adds of a matrix instruction, from the sizes in its name: `16x16x16` or `m16n8k16`.
    pub(crate) fn matrix_macs(&self) -> u32 {
        let part = |part: &str| {
            let sizes = part.split(['x', 'm', 'n', 'k']).filter(|s| !s.is_empty());
            let sizes: Option<Vec<u32>> = sizes.map(|s| s.parse().ok()).collect();
            sizes.filter(|s| s.len() == 3).map(|s| s.iter().product())
        };
        self.word.split(['_', '.']).find_map(part).unwrap_or(0)
    }

    /// Multiply-adds of each thread in a vector instruction.
    pub(crate) fn vector_macs(&self) -> u32 {
        let starts = |all: &[&str]| all.iter().any(|s| self.word.starts_with(s));
        let each = if starts(&["v_pk_fma", "v_dot2", "hfma2"]) {
            2
        } else {
            u32::from(starts(&["v_fma", "v_dual_fma", "ffma"]))
        };
        each * if self.dual { 2 } else { 1 }
    }
}

/// The blocks of an assembly text: `BB7:` and words first (AMD), or `block 7 L7 [] -> {` and words behind `=` (NVIDIA).
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = vec![Block::default()];
    // On AMD, a block goes on with the next one unless it ends with a jump.
    let mut falls = true;
    for whole in text.lines() {
        let mut parts = whole.splitn(2, "//");
        let line = parts.next().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let delay = parts.next().and_then(|notes| notes.split("delay=").nth(1));
        let delay = delay.and_then(|d| d.split_whitespace().next()).and_then(|d| d.parse().ok()).unwrap_or(0);
        if let Some(rest) = line.strip_prefix("block") {
            let number = rest.split_whitespace().nth(usize::from(rest.starts_with('.')));
            blocks.push(Block { label: number.unwrap_or_default().to_owned(), ..Block::default() });
            continue;
        }
        if let Some(label) = line.strip_suffix(':').filter(|label| label.starts_with("BB")) {
            if let Some(before) = blocks.last_mut().filter(|_| falls) {
                before.next.push(label.to_owned());
            }
            blocks.push(Block { label: label.to_owned(), ..Block::default() });
            falls = true;
            continue;
        }
        let Some(block) = blocks.last_mut() else { continue };
        if let Some(followers) = line.strip_prefix("} -> [") {
            let numbers = followers.trim_end_matches(']').split(',');
            block.next.extend(numbers.map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()));
            continue;
        }
        let instruction = line.rsplit(" = ").next().unwrap_or_default();
        let mut words = instruction.split_whitespace().filter(|word| !word.starts_with('@'));
        let Some(word) = words.next() else { continue };
        if !word.starts_with(|c: char| c.is_ascii_lowercase()) {
            continue;
        }
        if word.starts_with("s_branch") || word.starts_with("s_cbranch") {
            block.next.extend(words.next_back().map(ToOwned::to_owned));
        }
        falls = !["s_branch", "s_endpgm", "s_setpc"].iter().any(|end| word.starts_with(end));
        let dual = line.contains("::");
        block.instructions.push(Instruction { word: word.to_owned(), dual, delay });
    }
    blocks
}

/// The loops, each as the blocks in it. Loops with the same start are one.
pub(crate) fn loops(blocks: &[Block]) -> Vec<BTreeSet<usize>> {
    let place: BTreeMap<&str, usize> =
        blocks.iter().enumerate().map(|(i, b)| (b.label.as_str(), i)).collect();
    let first = usize::from(blocks.len() > 1 && blocks.first().is_some_and(|b| b.next.is_empty()));
    let next: Vec<Vec<usize>> = blocks
        .iter()
        .map(|b| b.next.iter().filter_map(|l| place.get(l.as_str()).copied()).collect())
        .collect();
    let mut found: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (from, start) in back_edges(&next, first) {
        let body = found.entry(start).or_default();
        body.insert(start);
        let mut open = vec![from];
        while let Some(block) = open.pop() {
            if body.insert(block) {
                let before = next.iter().enumerate().filter(|(_, followers)| followers.contains(&block));
                open.extend(before.map(|(from, _)| from));
            }
        }
    }
    found.into_values().collect()
}

/// Jumps to a block that is being walked through: from the end of a loop to its start.
fn back_edges(next: &[Vec<usize>], first: usize) -> Vec<(usize, usize)> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Never,
        Open,
        Done,
    }
    let mut seen = vec![Seen::Never; next.len()];
    let mut edges = Vec::new();
    let mut stack = vec![(first, 0)];
    while let Some((block, at)) = stack.pop() {
        if let Some(state) = seen.get_mut(block) {
            *state = Seen::Open;
        }
        match next.get(block).and_then(|all| all.get(at)) {
            Some(&to) => {
                stack.push((block, at + 1));
                match seen.get(to) {
                    Some(Seen::Open) => edges.push((block, to)),
                    Some(Seen::Never) => stack.push((to, 0)),
                    _ => {}
                }
            }
            None => seen.iter_mut().skip(block).take(1).for_each(|state| *state = Seen::Done),
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_found_although_other_blocks_lie_between_its_blocks() {
        // Block 1 starts an outer loop, 2 an inner one whose body is 4; 3 is outside of the inner one.
        let text = "block 0 L0 [] -> {\n} -> [1]\nblock 1 L1 [0, 3] -> {\n} -> [2]\nblock 2 L2 [1, 4] -> {\n} -> [3, 4]\n\
                    block 3 L3 [2] -> {\n} -> [1, 5]\nblock 4 L4 [2] -> {\n} -> [2]\nblock 5 L5 [3] -> {\n}\n";
        let found: Vec<Vec<usize>> =
            loops(&blocks(text)).into_iter().map(|l| l.into_iter().collect()).collect();
        // One more than the numbers: what stands before the first label is a block.
        assert_eq!(found, [vec![2, 3, 4, 5], vec![3, 5]]);
    }

    #[test]
    fn multiply_adds_are_in_the_name() {
        let of = |word: &str| Instruction { word: word.into(), dual: false, delay: 0 }.matrix_macs();
        assert_eq!(of("v_wmma_f32_16x16x16_f16"), 4096);
        assert_eq!(of("hmma.m16n8k16.f32"), 2048);
        assert_eq!(of("hmma.m16n8k8.f32"), 1024);
    }
}
