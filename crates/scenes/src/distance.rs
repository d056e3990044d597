//! How unlike two thumbnails are, where motion does not count.

use crate::thumb::{HEIGHT, LEN, ROW, Thumb, WIDTH};

/// Side of a block in spots. Each block looks for itself in the other thumbnail.
const BLOCK: usize = 4;
/// How far it looks, in spots: 90 pixels of 1080p. Two whip pans of the test clips have less than twice the distance of
/// their neighbours like this.
const REACH: usize = 3;
/// Rows and values of a row with a border of repeated spots.
const TALL: usize = HEIGHT + 2 * REACH;
const LONG: usize = ROW + 6 * REACH;
const BLOCKS: usize = WIDTH / BLOCK;

/// From 0 (each block is found again) to 1 (black and white). The mean of both directions: a title that appears on black
/// is found nowhere in the black, though all of the black is found around the title.
pub(crate) fn distance(a: &Thumb, b: &Thumb) -> f64 {
    (search(a.bytes(), b.bytes()) + search(b.bytes(), a.bytes())) as f64 / (2 * LEN * 255) as f64
}

/// Sum over the blocks of `b` of the least sum of differences to `a` within reach.
fn search(a: &[u8], b: &[u8]) -> u64 {
    let a = bordered(a);
    let mut total = 0;
    for (i, band) in b.chunks_exact(ROW * BLOCK).enumerate() {
        let mut least = [u16::MAX; BLOCKS];
        for dy in 0..=2 * REACH {
            let from = &a[(i * BLOCK + dy) * LONG..];
            for dx in 0..=2 * REACH {
                let mut sums = [0u16; ROW];
                for (row, other) in band.chunks_exact(ROW).zip(from.chunks_exact(LONG)) {
                    let other = &other[dx * 3..dx * 3 + ROW];
                    for x in 0..ROW {
                        sums[x] += u16::from(row[x].abs_diff(other[x]));
                    }
                }
                // 48 values of at most 255: no overflow.
                for (least, sums) in least.iter_mut().zip(sums.chunks_exact(BLOCK * 3)) {
                    *least = (*least).min(sums.iter().sum());
                }
            }
        }
        total += least.iter().map(|v| u64::from(*v)).sum::<u64>();
    }
    total
}

/// The spots with their outermost ones repeated on all sides.
fn bordered(spots: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(TALL * LONG);
    for y in 0..TALL {
        let row = y.saturating_sub(REACH).min(HEIGHT - 1) * ROW;
        let row = &spots[row..row + ROW];
        (0..REACH).for_each(|_| out.extend_from_slice(&row[..3]));
        out.extend_from_slice(row);
        (0..REACH).for_each(|_| out.extend_from_slice(&row[ROW - 3..]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cell by spot, with coordinates that stop at the border.
    fn naive(a: &[u8], b: &[u8]) -> u64 {
        let at = |spots: &[u8], x: isize, y: isize, c: usize| {
            let (x, y) = (x.clamp(0, WIDTH as isize - 1), y.clamp(0, HEIGHT as isize - 1));
            i64::from(spots[y as usize * ROW + x as usize * 3 + c])
        };
        let (reach, block) = (REACH as isize, BLOCK as isize);
        let mut total = 0;
        for by in 0..HEIGHT as isize / block {
            for bx in 0..WIDTH as isize / block {
                let mut least = i64::MAX;
                for (dy, dx) in (-reach..=reach).flat_map(|dy| (-reach..=reach).map(move |dx| (dy, dx))) {
                    let mut sum = 0;
                    for (y, x) in
                        (0..block).flat_map(|y| (0..block).map(move |x| (by * block + y, bx * block + x)))
                    {
                        sum += (0..3).map(|c| (at(b, x, y, c) - at(a, x + dx, y + dy, c)).abs()).sum::<i64>();
                    }
                    least = least.min(sum);
                }
                total += least as u64;
            }
        }
        total
    }

    fn noise(mut seed: u32) -> Thumb {
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        };
        let bytes: Vec<u8> = (0..LEN).map(|_| next()).collect();
        Thumb::from_bytes(&bytes).unwrap()
    }

    #[test]
    fn the_search_is_the_naive_one() {
        for seed in 0..4 {
            let (a, b) = (noise(seed), noise(seed + 100));
            assert_eq!(search(a.bytes(), b.bytes()), naive(a.bytes(), b.bytes()));
        }
        let white = Thumb::from_bytes(&[255; LEN]).unwrap();
        let black = Thumb::from_bytes(&[0; LEN]).unwrap();
        assert_eq!(distance(&white, &black), 1.0);
    }

    #[test]
    fn what_moved_within_reach_is_found() {
        let a = noise(1);
        let mut moved = a.bytes().to_vec();
        // Two spots to the right; the border cannot be found.
        for (to, from) in moved.chunks_exact_mut(ROW).zip(a.bytes().chunks_exact(ROW)) {
            to[6..].copy_from_slice(&from[..ROW - 6]);
        }
        let moved = Thumb::from_bytes(&moved).unwrap();
        assert!(distance(&a, &moved) < 0.1 * distance(&a, &noise(2)));
        assert_eq!(distance(&a, &a), 0.0);
    }
}
