//! Whether the two fields of a frame show one moment or two, by how well lines fit together.
//!
//! The filter `idet` compares the lines of a frame with those of the frames before and behind it: fields of two moments are
//! nearer to one of the two. Fine patterns of progressive video that move by a few lines look like that, too: moving test
//! charts, and text that rolls two lines a frame. But their lines fit those of their own frame best, whatever the others
//! do, and lines of two fields do not.

use std::ffi::OsString;
use std::io::Read;

use crate::child::Tools;
use crate::error::MediaError;
use crate::probe::Probe;

/// Frames that are looked at in a row: two seconds.
const FRAMES: usize = 50;

/// Columns of a frame that are looked at.
const MAX_WIDTH: usize = 1920;

/// How much nearer the lines of one neighbour are than those of the other where fields are of two moments, as `idet` has it.
const NEARER: f64 = 1.04;

/// Lines of two fields fit those of the nearer neighbour about as well as those of their own frame: the difference is up to
/// 0.9 of that between both neighbours on average, and in progressive charts and texts it is 2.5 and more.
const WOVEN: f64 = 1.5;

/// How long a frame may take, in seconds.
const PATIENCE: u64 = 30;

/// Frames of which one neighbour is nearer, by what their own lines say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weave {
    /// Two fields of different moments.
    pub(crate) woven: usize,
    /// One moment.
    pub(crate) whole: usize,
}

impl Weave {
    /// Looks at frames of `probe` that follow `args`, which open the file at a place.
    pub(crate) fn add(
        &mut self,
        tools: &Tools,
        probe: &Probe,
        mut args: Vec<OsString>,
    ) -> Result<(), MediaError> {
        let [width, height] = [probe.video.width.min(MAX_WIDTH), probe.video.height];
        // Only columns are left out: a scaler would mix lines.
        let crop = if width < probe.video.width { format!("crop={width}:{height},") } else { String::new() };
        let (frames, filter) = (FRAMES.to_string(), format!("{crop}format=gray"));
        let rest = ["-frames:v", &frames, "-fps_mode", "passthrough", "-vf", &filter];
        args.extend(rest.iter().map(Into::into));
        args.extend(["-pix_fmt", "gray", "-f", "rawvideo", "-"].map(Into::into));
        let mut child = tools.spawn("ffmpeg", &args, PATIENCE, false)?;
        let Some(mut stdout) = child.stdout.take() else { return Ok(()) };
        let mut frames = [const { Vec::new() }; 3];
        for number in 0..FRAMES {
            frames.rotate_left(1);
            frames[2].resize(width * height, 0);
            if child.waiting(|| stdout.read_exact(&mut frames[2])).is_err() {
                break;
            }
            if number >= 2 {
                let [before, frame, after] = &frames;
                self.judge(width, [before, frame, after]);
            }
        }
        match child.trouble() {
            Some(MediaError::Cancelled) => Err(MediaError::Cancelled),
            _ => Ok(()),
        }
    }

    fn judge(&mut self, width: usize, frames: [&[u8]; 3]) {
        let Fit { own, odd, even } = Fit::of(width, frames);
        let (near, far) = (odd.min(even), odd.max(even));
        if far <= NEARER * near {
            return;
        }
        if near - own < WOVEN * (far - near) {
            self.woven += 1;
        } else {
            self.whole += 1;
        }
    }
}

/// How badly the lines of a frame fit between those above and below them.
struct Fit {
    /// All lines, where they are.
    own: f64,
    /// Odd lines of the frame before and even ones of the frame behind, in their place.
    odd: f64,
    /// Even lines of the frame before and odd ones of the frame behind.
    even: f64,
}

impl Fit {
    fn of(width: usize, [before, frame, after]: [&[u8]; 3]) -> Self {
        let (mut own, mut neighbours) = (0u64, [0u64; 2]);
        let lines = |of| -> std::slice::ChunksExact<'_, u8> { <[u8]>::chunks_exact(of, width.max(1)) };
        let around = lines(frame).zip(lines(frame).skip(1)).zip(lines(frame).skip(2));
        let others = lines(before).skip(1).zip(lines(after).skip(1));
        for (number, (((above, line), below), (before, after))) in around.zip(others).enumerate() {
            let misfit = |line: &[u8]| -> u64 {
                let pixels = above.iter().zip(line).zip(below);
                let off = |((a, x), b): ((&u8, &u8), &u8)| i32::from(*a) - 2 * i32::from(*x) + i32::from(*b);
                pixels.map(|pixel| u64::from(off(pixel).unsigned_abs())).sum()
            };
            own += misfit(line);
            neighbours[number % 2] += misfit(before);
            neighbours[1 - number % 2] += misfit(after);
        }
        Fit { own: own as f64, odd: neighbours[0] as f64, even: neighbours[1] as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 16;
    const HEIGHT: usize = 64;

    /// A soft pattern of a few lines that is `at` lines further down.
    fn pattern(x: usize, y: usize, at: f64) -> u8 {
        let wave = ((y as f64 - at) * 0.5 + x as f64 * 0.3).sin() + ((y as f64 - at) * 0.21).sin();
        (128.0 + 50.0 * wave) as u8
    }

    /// Frames of a clip whose even lines are shown at one moment, and odd ones `later` frames after them.
    fn clip(speed: f64, later: f64) -> Vec<Vec<u8>> {
        let line = |frame: usize, y: usize| {
            let at = speed * (frame as f64 + if y % 2 == 1 { later } else { 0.0 });
            (0..WIDTH).map(move |x| pattern(x, y, at))
        };
        (0..12).map(|frame| (0..HEIGHT).flat_map(|y| line(frame, y)).collect()).collect()
    }

    fn judged(frames: &[Vec<u8>]) -> Weave {
        let mut weave = Weave::default();
        for three in frames.windows(3) {
            weave.judge(WIDTH, [&three[0], &three[1], &three[2]]);
        }
        weave
    }

    #[test]
    fn lines_of_two_moments_are_told_from_lines_of_one() {
        for speed in [1.0, 2.0, 3.3, 5.0] {
            for later in [0.5, -0.5] {
                let found = judged(&clip(speed, later));
                assert!(found.woven > 3 * found.whole.max(1), "{speed} {later}: {found:?}");
            }
            let found = judged(&clip(speed, 0.0));
            assert_eq!(found.woven, 0, "{speed}: {found:?}");
        }
    }

    #[test]
    fn frames_without_lines_say_nothing() {
        assert_eq!(judged(&vec![Vec::new(); 3]), Weave::default());
        assert_eq!(judged(&vec![vec![7; WIDTH]; 5]), Weave::default());
    }
}
