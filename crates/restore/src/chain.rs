//! Ranges that were saved one by one and may overlap, put together from some place on.

use std::collections::BinaryHeap;
use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

/// Ranges in order of their starts, each of which is given once.
pub struct Chain {
    /// Those that begin later than what was asked for.
    later: Peekable<IntoIter<Range<usize>>>,
    /// Ends and starts of the others.
    near: BinaryHeap<(usize, usize)>,
}

impl Chain {
    /// Of ranges in any order.
    pub fn new(mut ranges: Vec<Range<usize>>) -> Self {
        ranges.sort_unstable_by_key(|range| range.start);
        Chain { later: ranges.into_iter().peekable(), near: BinaryHeap::new() }
    }

    /// The range with `place` in it that reaches farthest; `None` if there is none. Places are asked for in order.
    pub fn at(&mut self, place: usize) -> Option<Range<usize>> {
        while let Some(range) = self.later.next_if(|range| range.start <= place) {
            self.near.push((range.end, range.start));
        }
        self.near.pop().filter(|(end, _)| *end > place).map(|(end, start)| start..end)
    }
}
