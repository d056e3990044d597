//! Where a picture has edges: Sobel on an 8-bit grey, as the original has it, because its thresholds were set on that.

use remaster_picture::Frame;

use crate::batch::unit;

/// The strength of the edge at every pixel, in 255ths of the strongest of the picture.
pub(super) fn edges(rgb: &Frame) -> Vec<f32> {
    let (width, height) = (rgb.width, rgb.height);
    // Cut, not rounded, to 8 bits; then 0.299, 0.587 and 0.114 in fixed point.
    let byte = |v: f32| (unit(v) * 255.0) as i32;
    let grey = |p: &[f32; 3]| (9798 * byte(p[0]) + 19235 * byte(p[1]) + 3735 * byte(p[2]) + 16384) >> 15;
    let grey: Vec<u8> = rgb.data.as_chunks::<3>().0.iter().map(|pixel| grey(pixel) as u8).collect();
    let mut squares = vec![0u32; width * height];
    let mut strongest = 0;
    for y in 0..height {
        let rows =
            [reflect(y, -1, height), y, reflect(y, 1, height)].map(|y| &grey[y * width..(y + 1) * width]);
        for x in 0..width {
            let columns = [reflect(x, -1, width), x, reflect(x, 1, width)];
            let at = |j: usize, i: usize| i32::from(rows[j][columns[i]]);
            let dx = at(0, 2) + 2 * at(1, 2) + at(2, 2) - at(0, 0) - 2 * at(1, 0) - at(2, 0);
            let dy = at(2, 0) + 2 * at(2, 1) + at(2, 2) - at(0, 0) - 2 * at(0, 1) - at(0, 2);
            let square = (dx * dx + dy * dy) as u32;
            squares[y * width + x] = square;
            strongest = strongest.max(square);
        }
    }
    // A picture without edges has none anywhere.
    let strongest = f64::from(strongest.max(1)).sqrt();
    squares
        .iter()
        .map(|square| (f64::from(*square).sqrt() / strongest * 255.0).floor() as f32 / 255.0)
        .collect()
}

/// The neighbour of `i` in a row of `n`; beyond the border it comes back without repeating the last one.
fn reflect(i: usize, step: isize, n: usize) -> usize {
    match i.checked_add_signed(step) {
        Some(j) if j < n => j,
        Some(_) => n.saturating_sub(2),
        None => 1.min(n - 1),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn a_step_is_an_edge_and_a_flat_picture_has_none() {
        let mut rgb = Frame::new(6, 4, 3);
        assert!(edges(&rgb).iter().all(|v| *v == 0.0));
        for y in 0..4 {
            rgb.row_mut(y)[9..].fill(0.8);
        }
        for y in 0..4 {
            assert_eq!(edges(&rgb)[y * 6..y * 6 + 6], [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
        }
    }
}
