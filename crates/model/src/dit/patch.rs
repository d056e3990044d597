//! Cells to tokens and back.

use super::DitConfig;

/// Cells `[t, h, w, c]` to tokens `[t, h/2 * w/2, 4 c]`: the rows of a patch one behind the other. `h` and `w` are even.
pub fn patches(cells: &[f32], [t, h, w]: [usize; 3], c: usize) -> Vec<f32> {
    let mut tokens = Vec::with_capacity(cells.len());
    for_patches([t, h, w], c, |at| tokens.extend(cells.get(at..at + c).unwrap_or_default()));
    tokens
}

/// Tokens `[t, h/2 * w/2, 4 c]` to cells `[t, h, w, c]`.
pub fn unpatched(tokens: &[f32], [t, h, w]: [usize; 3], c: usize) -> Vec<f32> {
    let mut cells = vec![0.0; tokens.len()];
    let mut parts = tokens.chunks_exact(c.max(1));
    for_patches([t, h, w], c, |at| {
        if let (Some(to), Some(part)) = (cells.get_mut(at..at + c), parts.next()) {
            to.copy_from_slice(part);
        }
    });
    cells
}

/// Calls `f` with the place of every cell, in the order of the tokens.
fn for_patches([t, h, w]: [usize; 3], c: usize, mut f: impl FnMut(usize)) {
    const P: usize = DitConfig::PATCH;
    for (frame, row, column) in
        (0..t).flat_map(|f| (0..h / P).flat_map(move |y| (0..w / P).map(move |x| (f, y, x))))
    {
        for (dy, dx) in (0..P).flat_map(|dy| (0..P).map(move |dx| (dy, dx))) {
            f(((frame * h + P * row + dy) * w + P * column + dx) * c);
        }
    }
}
