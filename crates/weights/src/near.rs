//! Which of the left-over names is most like a missing one.

/// Longest name compared. The longest of the networks has 63 bytes.
const MAX_NAME: usize = 128;

/// Most names compared with a missing one.
const MAX_CANDIDATES: usize = 2048;

/// Up to `count` of `candidates` that differ from `name` in at most a quarter of its bytes, best first.
/// Cost is bounded by `MAX_CANDIDATES * MAX_NAME * MAX_NAME * 5 / 4` steps.
pub(crate) fn near_names<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
    count: usize,
) -> Vec<&'a str> {
    if name.len() > MAX_NAME {
        return Vec::new();
    }
    let limit = name.len() / 4;
    let mut found: Vec<(usize, &str)> = candidates
        .take(MAX_CANDIDATES)
        .filter_map(|candidate| Some((distance(name.as_bytes(), candidate.as_bytes(), limit)?, candidate)))
        .collect();
    found.sort_unstable();
    found.truncate(count);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Insertions, deletions and replacements that turn `a` into `b`, if at most `limit`.
fn distance(a: &[u8], b: &[u8], limit: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    // One row of the usual table. No cell is less than the least of the row before it.
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &left) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
        if row.iter().all(|&steps| steps > limit) {
            return None;
        }
    }
    (row[b.len()] <= limit).then_some(row[b.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The whole table, for comparison.
    fn plain(a: &[u8], b: &[u8]) -> usize {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..=a.len() {
            for j in 0..=b.len() {
                table[i][j] = if i == 0 || j == 0 {
                    i + j
                } else {
                    let replaced = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    replaced.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1)
                };
            }
        }
        table[a.len()][b.len()]
    }

    proptest! {
        #[test]
        fn one_row_finds_what_the_whole_table_finds(a in "[ab]{0,12}", b in "[ab]{0,12}", limit in 0usize..8) {
            let expected = plain(a.as_bytes(), b.as_bytes());
            let expected = (expected <= limit).then_some(expected);
            prop_assert_eq!(distance(a.as_bytes(), b.as_bytes(), limit), expected);
        }
    }

    #[test]
    fn the_nearest_name_comes_first_and_far_ones_not_at_all() {
        let names = ["encoder.conv_out.weight", "encoder.conv_in.weights", "decoder.x"];
        let expected = ["encoder.conv_in.weights", "encoder.conv_out.weight"];
        assert_eq!(near_names("encoder.conv_in.weight", names.into_iter(), 2), expected);
        assert!(near_names("a", names.into_iter(), 2).is_empty());
    }
}
