//! Which tokens attend to each other.

use std::ops::Range;

use remaster_compute::Window;

/// Tokens of a 720p frame, whose windows are the model's: their size is fixed, their number grows with the frame.
const TOKENS_720P: f64 = 45.0 * 80.0;
/// Windows of such a frame, down and across.
const ACROSS: usize = 3;
/// Windows of a clip of up to `LONGEST` steps, in time.
const IN_TIME: usize = 4;
const LONGEST: usize = 30;

/// The windows of a grid of `[t, h, w]` tokens, time fastest, then rows. Of two consecutive blocks, one has them
/// shifted by half a window; those at the border are cut, and every token is in one.
/// <https://github.com/ByteDance-Seed/SeedVR/blob/673b563/models/dit_v2/window.py>
pub fn windows(size: [usize; 3], shifted: bool) -> Vec<Window> {
    let [frames, rows, columns] = window_size(size).map(|win| win.max(1));
    let [t, h, w] = size;
    let cuts = |size, win| if shifted { shifted_cuts(size, win) } else { regular_cuts(size, win) };
    let (frames, rows, columns) = (cuts(t, frames), cuts(h, rows), cuts(w, columns));
    let mut windows = Vec::with_capacity(frames.len() * rows.len() * columns.len());
    for column in &columns {
        for row in &rows {
            let window = |frames: &Range<usize>| Window {
                frames: frames.clone(),
                rows: row.clone(),
                columns: column.clone(),
            };
            windows.extend(frames.iter().map(window));
        }
    }
    windows
}

/// Tokens of a whole window.
fn window_size([t, h, w]: [usize; 3]) -> [usize; 3] {
    let scale = (TOKENS_720P / (h * w).max(1) as f64).sqrt();
    let side = |n: usize| ((n as f64 * scale).round_ties_even() as usize).div_ceil(ACROSS);
    [t.min(LONGEST).div_ceil(IN_TIME), side(h), side(w)]
}

fn regular_cuts(size: usize, win: usize) -> Vec<Range<usize>> {
    (0..size).step_by(win).map(|start| start..(start + win).min(size)).collect()
}

fn shifted_cuts(size: usize, win: usize) -> Vec<Range<usize>> {
    if win >= size {
        return (0..1).map(|_| 0..size).collect();
    }
    // Half a window, cut towards zero.
    let edge = |i: usize| ((i as f64 - 0.5) * win as f64).max(0.0) as usize;
    let count = ((size as f64 - 0.5) / win as f64).ceil() as usize + 1;
    let cuts = (0..count).map(|i| edge(i)..edge(i + 1).min(size));
    cuts.filter(|cut| cut.start < cut.end).collect()
}
