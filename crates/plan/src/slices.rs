//! Cutting a clip in time. A slice is a multiple of 4 frames, which is a whole number of latents; the
//! first slice has one frame and one latent more. Cutting changes no bit of the result.

use crate::geometry::{PlanError, TIME};

/// Frames of each slice of a clip of `total` frames (4n + 1), `length` frames at a time; 0 means uncut.
pub fn frames(total: usize, length: usize) -> Result<Vec<usize>, PlanError> {
    if !length.is_multiple_of(TIME) {
        return Err(PlanError::Slice { frames: length, nearest: length.next_multiple_of(TIME) });
    }
    let rest = total.saturating_sub(1);
    if !rest.is_multiple_of(TIME) || total == 0 {
        let below = rest / TIME * TIME + 1;
        return Err(PlanError::Frames { frames: total, below, above: below + TIME });
    }
    Ok(cut(rest, length))
}

/// Latents of each slice, for slices of `length` frames.
pub fn latents(total: usize, length: usize) -> Result<Vec<usize>, PlanError> {
    let frames = frames(total.checked_sub(1).map_or(0, |n| n * TIME + 1), length)?;
    Ok(frames.iter().enumerate().map(|(i, n)| if i == 0 { (n - 1) / TIME + 1 } else { n / TIME }).collect())
}

/// 1 + `length` first, then `length` each, then what is left.
fn cut(rest: usize, length: usize) -> Vec<usize> {
    let length = if length == 0 { rest.max(1) } else { length };
    let mut slices = vec![1 + length.min(rest)];
    let mut left = rest - length.min(rest);
    while left > 0 {
        slices.push(length.min(left));
        left -= length.min(left);
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slices_as_the_public_tool_cuts_them() {
        assert_eq!(frames(17, 4).unwrap(), [5, 4, 4, 4]);
        assert_eq!(latents(5, 4).unwrap(), [2, 1, 1, 1]);
        assert_eq!(frames(17, 0).unwrap(), [17]);
        assert_eq!(frames(1, 4).unwrap(), [1]);
        assert_eq!(frames(21, 12).unwrap(), [13, 8]);
        assert_eq!(frames(17, 6).unwrap_err(), PlanError::Slice { frames: 6, nearest: 8 });
        assert!(frames(0, 4).is_err() && latents(0, 4).is_err());
    }

    proptest! {
        #[test]
        fn every_frame_is_in_one_slice_and_latents_follow(n in 0usize..200, k in 0usize..20) {
            let slices = frames(4 * n + 1, 4 * k).unwrap();
            prop_assert_eq!(slices.iter().sum::<usize>(), 4 * n + 1);
            prop_assert_eq!(slices[0] % 4, 1);
            prop_assert!(slices[1..].iter().all(|s| s % 4 == 0 && *s > 0));
            let latents = latents(n + 1, 4 * k).unwrap();
            prop_assert_eq!(latents.iter().sum::<usize>(), n + 1);
            prop_assert_eq!(latents.len(), slices.len());
        }
    }
}
