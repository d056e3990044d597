//! How overlapping batches are mixed in pixels, as the popular implementation does it.

use std::f64::consts::PI;

/// What counts of the batch before, at frame `i` of `overlap` shared ones: a cosine in the middle third, and the ends as
/// they are. One, two and four frames do not mix at all.
pub fn weight_before(i: usize, overlap: usize) -> f32 {
    if overlap < 3 {
        return if i == 0 { 1.0 } else { 0.0 };
    }
    let t = i as f64 / (overlap - 1) as f64;
    let u = ((t - 1.0 / 3.0) * 3.0).clamp(0.0, 1.0);
    (0.5 + 0.5 * libm::cos(PI * u)) as f32
}
