//! What surrounds a picture that the network wants larger than it is.

use serde::{Deserialize, Serialize};

use crate::frame::Frame;

/// Rows or columns that are mirrored at least: fewer, and the black behind them shows in the picture.
const MIRRORED: usize = 8;

/// What lies beyond the right and the bottom edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edges {
    /// The picture mirrored, at least 8 rows or columns of it, and then one multiple of black. The mirror keeps the edge
    /// as it is, the black keeps the brightness as it is.
    #[default]
    MirrorBlack,
    /// The picture mirrored, up to the next multiple.
    Mirror,
    /// Black up to the next multiple, as in the original.
    Black,
}

impl Edges {
    /// All of them.
    pub const ALL: [Edges; 3] = [Edges::MirrorBlack, Edges::Mirror, Edges::Black];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Edges::MirrorBlack => "mirror-black",
            Edges::Mirror => "mirror",
            Edges::Black => "black",
        }
    }

    /// The one that is called so.
    pub fn from_name(name: &str) -> Option<Self> {
        Edges::ALL.into_iter().find(|e| e.name() == name)
    }

    /// Where the mirrored part of a side of `n` ends, and where the black does.
    fn ends(self, n: usize, multiple: usize) -> [usize; 2] {
        let multiple = multiple.max(1);
        let up = n.next_multiple_of(multiple);
        match self {
            Edges::Black => [n, up],
            Edges::Mirror => [up, up],
            Edges::MirrorBlack => {
                let mirrored = (n + MIRRORED).next_multiple_of(multiple);
                [mirrored, mirrored + multiple]
            }
        }
    }

    /// Pixels of a side of `n` pixels after [`pad`].
    pub fn padded(self, n: usize, multiple: usize) -> usize {
        if n == 0 { 0 } else { self.ends(n, multiple)[1] }
    }
}

/// `frame` made larger at the right and at the bottom, up to multiples of `multiple`.
pub fn pad(frame: &Frame, multiple: usize, edges: Edges) -> Frame {
    let (w, h, c) = (frame.width, frame.height, frame.channels);
    if w == 0 || h == 0 {
        return frame.clone();
    }
    let ([across, width], [down, height]) = (edges.ends(w, multiple), edges.ends(h, multiple));
    let mut out = Frame::new(width, height, c);
    let length = out.row_len();
    for y in 0..h {
        let (from, row) = (frame.row(y), out.row_mut(y));
        row[..w * c].copy_from_slice(from);
        for x in w..across {
            row.copy_within(reflected(x, w) * c..(reflected(x, w) + 1) * c, x * c);
        }
    }
    for y in h..down {
        let from = reflected(y, h) * length;
        out.data.copy_within(from..from + length, y * length);
    }
    out
}

/// Index `i` of a line of `n` that is mirrored at both ends, as often as needed, without repeating the pixels at its ends.
fn reflected(i: usize, n: usize) -> usize {
    let period = 2 * n.saturating_sub(1);
    match i.checked_rem(period) {
        None => 0,
        Some(i) => i.min(period - i),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::crop;

    fn numbered(width: usize, height: usize, channels: usize) -> Frame {
        let data = (0..width * height * channels).map(|i| 1.0 + i as f32).collect();
        Frame { width, height, channels, data }
    }

    /// The rule in words: walk to and fro along the line.
    fn walk(steps: usize, n: usize) -> usize {
        let (mut at, mut forward) = (0usize, true);
        for _ in 0..steps {
            if n == 1 {
                return 0;
            }
            if at == n - 1 {
                forward = false;
            }
            if at == 0 {
                forward = true;
            }
            at = if forward { at + 1 } else { at - 1 };
        }
        at
    }

    #[test]
    fn every_pixel_is_where_the_rule_puts_it_and_cropping_takes_it_off() {
        let sizes =
            [(1, 1, 3), (2, 1, 3), (16, 16, 3), (17, 31, 4), (5, 40, 3), (8, 9, 3), (24, 7, 4), (3, 33, 3)];
        for ((w, h, c), edges) in sizes.into_iter().flat_map(|s| Edges::ALL.map(|e| (s, e))) {
            let frame = numbered(w, h, c);
            let padded = pad(&frame, 16, edges);
            assert_eq!([padded.width, padded.height], [w, h].map(|n| edges.padded(n, 16)));
            assert_eq!((padded.width % 16, padded.height % 16), (0, 0));
            let mirrored = |n: usize| match edges {
                Edges::Black => n,
                Edges::Mirror => n.next_multiple_of(16),
                Edges::MirrorBlack => (n + 8).next_multiple_of(16),
            };
            for y in 0..padded.height {
                for x in 0..padded.width {
                    let expected = match x < mirrored(w) && y < mirrored(h) {
                        true => frame.pixel(walk(x, w), walk(y, h)).to_vec(),
                        false => vec![0.0; c],
                    };
                    assert_eq!(padded.pixel(x, y), expected, "{edges:?} {w} x {h}: {x}, {y}");
                }
            }
            assert_eq!(crop(&padded, w, h), frame);
        }
    }

    #[test]
    fn sizes_grow_by_as_little_as_each_rule_allows() {
        for n in 1..200 {
            assert_eq!(Edges::Black.padded(n, 16), n.div_ceil(16) * 16);
            assert_eq!(Edges::Mirror.padded(n, 16), n.div_ceil(16) * 16);
            let both = Edges::MirrorBlack.padded(n, 16);
            assert!(both.is_multiple_of(16) && (24..40).contains(&(both - n)), "{n}: {both}");
        }
        assert_eq!(Edges::MirrorBlack.padded(0, 16), 0);
    }
}
