/// The largest of some distances; infinite if one is not a number, which `f32::max` would pass over.
pub fn largest(distances: impl IntoIterator<Item = f32>) -> f32 {
    distances.into_iter().fold(0.0, |most, d| if d.is_nan() { f32::INFINITY } else { most.max(d) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_is_far_away() {
        assert_eq!(largest([1.0, 3.0, 2.0]), 3.0);
        assert_eq!(largest([1.0, f32::NAN, 2.0]), f32::INFINITY);
        assert_eq!(largest([]), 0.0);
    }
}
