//! Which frame stands where after the end of a clip.

/// The frame at index `i` of a clip of `frames` that is padded to 4n + 1.
///
/// Past the end come the frames before the last one, backwards: T - 2, T - 3 and so on. A clip of two frames has
/// too few of them for the three it needs; then, as in the original, the last frame is repeated. So it is for
/// indices past what the mirror reaches.
pub fn mirror_index(i: usize, frames: usize) -> usize {
    let last = frames.saturating_sub(1);
    if i < frames {
        i
    } else if frames == 2 {
        last
    } else {
        // i = T is frame T - 2.
        last.saturating_mul(2).checked_sub(i).unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::mirror_index;

    /// The rule in the words of the specification, on a list.
    fn padded(frames: usize) -> Vec<usize> {
        let mut list: Vec<usize> = (0..frames).collect();
        if frames % 4 == 1 {
            return list;
        }
        let count = ((frames - 1) / 4 + 1) * 4 + 1 - frames;
        if count >= frames {
            list.extend((1..frames).rev());
            list.extend(std::iter::repeat_n(frames - 1, count - frames + 1));
        } else {
            list.extend((frames - 1 - count..frames - 1).rev());
        }
        list
    }

    #[test]
    fn every_clip_is_padded_by_the_rule() {
        for frames in 1..200 {
            let expected = padded(frames);
            assert_eq!(expected.len() % 4, 1);
            let got: Vec<usize> = (0..expected.len()).map(|i| mirror_index(i, frames)).collect();
            assert_eq!(got, expected, "{frames} frames");
        }
        assert_eq!([4, 5, 6].map(|i| mirror_index(i, 4)), [2, 1, 0]);
    }

    #[test]
    fn any_index_is_a_frame() {
        for frames in 1..9 {
            for i in [0, 1, 7, 15, 16, 17, 1000, usize::MAX] {
                assert!(mirror_index(i, frames) < frames);
            }
        }
        assert_eq!(mirror_index(3, 0), 0);
    }
}
