//! Cutting the rows of a frame.

use std::ops::Range;

/// Rows `whole` in `count` parts that differ by at most one row; empty parts are left out.
pub(super) fn stripes(whole: Range<usize>, count: usize) -> impl Iterator<Item = Range<usize>> {
    let (start, rows, count) = (whole.start, whole.len(), count.max(1));
    (0..count)
        .map(move |i| start + rows * i / count..start + rows * (i + 1) / count)
        .filter(|r| !r.is_empty())
}

/// What one stripe of an op takes from its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Output rows.
    pub(super) rows: Range<usize>,
    /// Input rows to hold: what the output rows reach, and `tail`.
    pub(super) held: Range<usize>,
    /// Input rows whose tail this stripe leaves behind. All stripes together: every row once.
    pub(super) tail: Range<usize>,
}

/// Shares of an op over `height` input rows, where `reach` says which input rows some output rows need.
pub(super) fn shares(
    rows: Range<usize>,
    count: usize,
    height: usize,
    reach: impl Fn(Range<usize>) -> Range<usize>,
) -> Vec<Share> {
    let parts: Vec<Range<usize>> = stripes(rows, count).collect();
    let mut shares = Vec::with_capacity(parts.len());
    let mut first = 0;
    for (i, rows) in parts.iter().enumerate() {
        let need = reach(rows.clone());
        // The tail is cut where the next stripe starts to reach; the last one takes what is left.
        let last = parts.get(i + 1).map_or(height, |next| reach(next.clone()).start.max(first));
        let tail = first..last;
        let held = match tail.is_empty() {
            true => need,
            false => need.start.min(tail.start)..need.end.max(tail.end),
        };
        shares.push(Share { rows: rows.clone(), held, tail });
        first = last;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_row_is_in_one_stripe_and_every_tail_row_in_one_share(
            height in 1usize..60, count in 1usize..80, stride in 1usize..3, window in 0usize..4,
        ) {
            let out = height.div_ceil(stride);
            let reach = |r: Range<usize>| {
                (r.start * stride).saturating_sub(1)..((r.end - 1) * stride + window + 1).min(height)
            };
            let shares = shares(0..out, count, height, reach);
            let rows: Vec<usize> = shares.iter().flat_map(|s| s.rows.clone()).collect();
            prop_assert_eq!(rows, (0..out).collect::<Vec<_>>());
            let tail: Vec<usize> = shares.iter().flat_map(|s| s.tail.clone()).collect();
            prop_assert_eq!(tail, (0..height).collect::<Vec<_>>());
            for s in &shares {
                let need = reach(s.rows.clone());
                prop_assert!(s.held.start <= need.start && s.held.end >= need.end && s.held.end <= height);
                prop_assert!(s.tail.is_empty() || (s.held.start <= s.tail.start && s.held.end >= s.tail.end));
            }
        }
    }
}
