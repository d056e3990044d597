//! Sizes of frames on their way through a network that takes them one by one, and what it takes and makes of each.

use remaster_colour::alpha::{AlphaCount, AlphaKind};
use remaster_picture::{Edges, Frame, crop, pad, resize};

/// Sizes of frames on their way through an upscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upscale {
    /// Columns and rows of the picture that goes in: those of the source, or more.
    pub fitted: [usize; 2],
    /// Pixels each way of which the network takes whole multiples.
    pub cell: usize,
    /// How many times larger it makes them, each way.
    pub scale: usize,
    /// A network makes the pixels: their values may be beyond the range of pictures, and edges elsewhere than in the input.
    pub by_network: bool,
}

impl Upscale {
    /// A network takes frames as they come. Only if more is wanted than it makes of them, they are enlarged first.
    pub fn new(source: [usize; 2], shown: [usize; 2], scale: usize, cell: usize) -> Self {
        let larger = (0..2).any(|i| shown[i] > scale.saturating_mul(source[i]));
        let fitted = if larger { shown.map(|n| n.div_ceil(scale.max(1))) } else { source };
        Upscale { fitted, cell: cell.max(1), scale, by_network: true }
    }

    /// Frames that are resized and go through no network. Those that keep their size keep values beyond the range, too.
    pub fn none(shown: [usize; 2]) -> Self {
        Upscale { fitted: shown, cell: 1, scale: 1, by_network: false }
    }

    /// Columns and rows of what the network takes.
    pub fn taken(&self) -> [usize; 2] {
        self.fitted.map(|n| n.next_multiple_of(self.cell))
    }

    /// Columns and rows of what the network makes.
    pub fn made(&self) -> [usize; 2] {
        self.taken().map(|n| n * self.scale)
    }

    /// What the network gets of a picture: its values in 0 to 1, row by row.
    pub(crate) fn input(&self, colours: &Frame) -> Vec<f32> {
        let resized;
        let mut picture = colours;
        if [colours.width, colours.height] != self.fitted {
            resized = within_range(resize(colours, self.fitted[0], self.fitted[1]));
            picture = &resized;
        }
        pad(picture, self.cell, Edges::Mirror).data
    }

    /// A frame of the network, brought to the size that is shown and into the range of pictures.
    pub(crate) fn output(&self, data: Vec<f32>, size: [usize; 2]) -> Frame {
        let [width, height] = self.made();
        let mut frame = Frame { width, height, channels: 3, data };
        let whole = self.fitted.map(|n| n * self.scale);
        if whole != [width, height] {
            frame = crop(&frame, whole[0], whole[1]);
        }
        if whole != size {
            frame = resize(&frame, size[0], size[1]);
        }
        if self.by_network { within_range(frame) } else { frame }
    }
}

fn within_range(mut frame: Frame) -> Frame {
    frame.data.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
    frame
}

/// The kind of a frame's own alpha.
pub(crate) fn kind_of(plane: &Frame) -> AlphaKind {
    let mut count = AlphaCount::default();
    count.add(plane);
    count.kind()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_enlarged_first_only_if_the_network_does_not_make_enough() {
        for (source, shown, taken) in [
            ([480, 270], [1920, 1080], [480, 270]),
            ([480, 270], [960, 540], [480, 270]),
            ([480, 270], [1921, 1080], [481, 270]),
            ([1, 1], [9, 3], [3, 1]),
        ] {
            let upscale = Upscale::new(source, shown, 4, 1);
            assert_eq!(upscale.taken(), taken, "{source:?} to {shown:?}");
            assert!((0..2).all(|i| upscale.made()[i] >= shown[i]));
        }
        assert_eq!(Upscale::new([5, 7], [10, 14], 2, 2).taken(), [6, 8]);
    }
}
