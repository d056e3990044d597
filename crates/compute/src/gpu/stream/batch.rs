//! A batch: commands that go to the device together, and what proves that the device carried them out.
//!
//! Drivers drop work without an error, after they reset a card for example. So every workgroup that finishes leaves the stamp
//! of its batch, and what travels is summed at both ends.

use std::ops::Range;

use super::record::Command;
use crate::gpu::kernels::SHARE;

/// What a slot counts, beside the marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Words that came to the device.
    Up,
    /// Words that go into this staging buffer.
    Down(usize),
    /// Words that stay, and were read to see how fast that is.
    Look,
}

/// Bytes of the arena that a command reads or writes.
#[derive(Clone, Debug)]
pub(super) struct Touch {
    pub(super) range: Range<u64>,
    pub(super) kind: Touched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    Read,
    /// Some of the bytes are written.
    Some,
    /// All of them are.
    All,
}

/// See above.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) commands: Vec<Command>,
    /// Seconds it should take.
    pub(super) seconds: f64,
    /// Its number: no other batch under way has the same.
    pub(super) stamp: u32,
    /// Workgroups that leave a mark.
    pub(super) marks: u32,
    pub(super) slots: Vec<Slot>,
    /// Sum of the words that go to the device.
    pub(super) sent: u32,
    pub(super) touched: Vec<Touch>,
    /// Set once it was submitted.
    pub(super) index: Option<wgpu::SubmissionIndex>,
}

impl Batch {
    /// Makes it empty. The lists keep their capacity: no allocation per batch.
    pub(super) fn clear(&mut self) {
        self.commands.clear();
        self.slots.clear();
        self.touched.clear();
        (self.seconds, self.marks, self.sent, self.index) = (0.0, 0, 0, None);
    }

    /// Slots behind the others that count marks.
    pub(super) fn mark_slots(&self) -> u32 {
        self.marks.div_ceil(SHARE)
    }
}

/// Sum of words as the device makes it; the first one is number `first`. Weights are odd, so one other word is another sum.
pub(super) fn checksum(first: u64, bytes: &[u8]) -> u32 {
    let (words, _) = bytes.as_chunks::<4>();
    let sum = |sum: u32, (i, word): (u32, &[u8; 4])| {
        sum.wrapping_add(u32::from_le_bytes(*word).wrapping_mul(i.wrapping_mul(2).wrapping_add(1)))
    };
    (first as u32..).zip(words).fold(0, sum)
}

/// What the counts of a batch say: what is missing, or the sums of words that went into each staging buffer.
pub(super) fn judge(batch: &Batch, counts: &[[u32; 2]]) -> Result<Vec<(usize, u32)>, String> {
    let late = counts.iter().filter(|[stamp, _]| *stamp != batch.stamp).count();
    if late > 0 {
        return Err(format!("{late} of {} counts of a batch did not arrive", counts.len()));
    }
    let (travelled, marks) = counts.split_at(batch.slots.len().min(counts.len()));
    let finished = marks.iter().fold(0u32, |sum, [_, count]| sum.wrapping_add(*count));
    if finished != batch.marks {
        return Err(format!("{finished} of {} workgroups of a batch finished", batch.marks));
    }
    let mut came = 0u32;
    let mut went: Vec<(usize, u32)> = Vec::new();
    for (slot, [_, sum]) in batch.slots.iter().zip(travelled) {
        match slot {
            Slot::Look => {}
            Slot::Up => came = came.wrapping_add(*sum),
            Slot::Down(stage) => match went.iter_mut().find(|(s, _)| s == stage) {
                Some((_, all)) => *all = all.wrapping_add(*sum),
                None => went.push((*stage, *sum)),
            },
        }
    }
    if came != batch.sent {
        return Err("bytes sent to it are not the bytes that arrived".into());
    }
    Ok(went)
}

/// Whether these commands give the same once more: none of them writes what one of them read before that none of them had
/// made.
pub(super) fn is_repeatable<'a>(touched: impl Iterator<Item = &'a Touch>) -> bool {
    let (mut given, mut made): (Vec<Range<u64>>, Vec<Range<u64>>) = (Vec::new(), Vec::new());
    for Touch { range, kind } in touched {
        let inside = |m: &Range<u64>| m.start <= range.start && range.end <= m.end;
        match kind {
            Touched::Read if made.iter().any(inside) => {}
            Touched::Read => given.push(range.clone()),
            Touched::Some | Touched::All => {
                if given.iter().any(|g| g.start < range.end && range.start < g.end) {
                    return false;
                }
                if *kind == Touched::All {
                    made.push(range.clone());
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        Batch {
            stamp: 7,
            marks: SHARE + 5,
            slots: vec![Slot::Up, Slot::Down(1), Slot::Down(1)],
            sent: 40,
            ..Batch::default()
        }
    }

    #[test]
    fn a_batch_is_believed_only_if_all_of_it_is_there() {
        let good = [[7, 40], [7, 3], [7, u32::MAX], [7, SHARE], [7, 5]];
        assert_eq!(batch().mark_slots(), 2);
        assert_eq!(judge(&batch(), &good), Ok(vec![(1, 2)]));
        for (i, wrong) in [(0, "arrived"), (3, "workgroups"), (4, "workgroups")] {
            let mut counts = good;
            counts[i][1] -= 1;
            assert!(judge(&batch(), &counts).unwrap_err().contains(wrong), "{i}");
        }
        for i in 0..good.len() {
            let mut counts = good;
            counts[i][0] = 6;
            assert!(judge(&batch(), &counts).unwrap_err().contains("1 of 5 counts"), "{i}");
        }
    }

    #[test]
    fn another_word_is_another_sum() {
        let bytes: Vec<u8> = (0..64u8).collect();
        let sum = checksum(9, &bytes);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0x40;
            assert_ne!(checksum(9, &other), sum, "{at}");
        }
        let (a, b) = bytes.split_at(20);
        assert_eq!(checksum(9, a).wrapping_add(checksum(14, b)), sum);
        assert_ne!(checksum(8, &bytes), sum);
    }

    /// Runs commands that copy ranges of a small memory, once and twice.
    #[test]
    fn what_counts_as_repeatable_gives_the_same_twice() {
        let mut seed = 3u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        let mut repeatable = 0;
        for _ in 0..20_000 {
            let commands: Vec<[u64; 3]> =
                (0..1 + below(6)).map(|_| [below(12), below(12), 1 + below(4)]).collect();
            let touched: Vec<Touch> = commands
                .iter()
                .flat_map(|[from, to, n]| {
                    let touch = |start: u64, kind| Touch { range: start..start + n, kind };
                    [touch(*from, Touched::Read), touch(*to, Touched::All)]
                })
                .collect();
            let run = |memory: &mut [u32; 16]| {
                for [from, to, n] in &commands {
                    let (from, to, n) = (*from as usize, *to as usize, *n as usize);
                    let made: Vec<u32> = memory[from..from + n].iter().map(|v| 3 * v + 1).collect();
                    memory[to..to + n].copy_from_slice(&made);
                }
            };
            let mut once = std::array::from_fn(|i| i as u32);
            run(&mut once);
            let mut twice = once;
            run(&mut twice);
            if is_repeatable(touched.iter()) {
                repeatable += 1;
                assert_eq!(once, twice, "{commands:?}");
            }
        }
        assert!(repeatable > 2000, "{repeatable}");
    }
}
