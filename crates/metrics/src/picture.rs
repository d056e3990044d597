//! A frame to measure: borrowed, RGB, f32.

use crate::error::{MetricsError, Side};

/// Longest side. Three channels of its square stay far below what an address can count.
const MAX_SIDE: usize = 1 << 16;

/// Largest value either way. It is above what half floats hold, and its fourth power still fits f32, so
/// that no measure can overflow.
const MAX_VALUE: f32 = 65536.0;

/// Levels of an 8-bit picture between 0 and 1; what people count differences in.
pub(crate) const LEVELS: f64 = 255.0;

/// Interleaved RGB, row by row, nominally 0 to 1, in the coding that is shown (gamma, not linear light).
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// Pixels across.
    pub width: usize,
    /// Pixels down.
    pub height: usize,
    /// `width * height * 3` values.
    pub data: &'a [f32],
}

impl<'a> Picture<'a> {
    /// A picture whose values fill it.
    pub fn new(width: usize, height: usize, data: &'a [f32]) -> Result<Self, MetricsError> {
        let picture = Picture { width, height, data };
        picture.check_size()?;
        Ok(picture)
    }

    /// The fields are public, so every door asks again.
    fn check_size(&self) -> Result<(), MetricsError> {
        let Picture { width, height, data } = *self;
        check_sides(width, height)?;
        let expected = width * height * 3;
        if data.len() != expected {
            return Err(MetricsError::Values { width, height, values: data.len(), expected });
        }
        Ok(())
    }

    /// Refuses what would make any measure something else than a number.
    pub(crate) fn check(&self, frame: usize, side: Side) -> Result<(), MetricsError> {
        self.check_size()?;
        let good = |v: &f32| v.abs() <= MAX_VALUE;
        if self.data.iter().fold(true, |all, v| all & good(v)) {
            return Ok(());
        }
        let at = self.data.iter().position(|v| !good(v)).unwrap_or(0);
        let (pixel, channel) = (at / 3, at % 3);
        let (x, y) = (pixel % self.width, pixel / self.width);
        Err(MetricsError::Value { frame, side, value: self.data[at], x, y, channel })
    }

    /// Luma of BT.709 of the values as they are coded.
    pub(crate) fn luma(&self) -> Vec<f32> {
        self.data.chunks_exact(3).map(|p| 0.2126 * p[0] + 0.7152 * p[1] + 0.0722 * p[2]).collect()
    }

    /// The values of one row.
    pub(crate) fn row(&self, y: usize) -> &'a [f32] {
        &self.data[y * self.width * 3..(y + 1) * self.width * 3]
    }
}

pub(crate) fn check_sides(width: usize, height: usize) -> Result<(), MetricsError> {
    let allowed = 1..=MAX_SIDE;
    if !allowed.contains(&width) || !allowed.contains(&height) {
        return Err(MetricsError::Size { width, height, max: MAX_SIDE });
    }
    Ok(())
}

/// Both pictures can be measured, and against each other.
pub(crate) fn check_pair(a: Picture<'_>, b: Picture<'_>) -> Result<(), MetricsError> {
    check_frame(a, Side::A, 0, (a.width, a.height))?;
    check_frame(b, Side::B, 0, (a.width, a.height))
}

/// The picture is of the `expected` width and height and can be measured.
pub(crate) fn check_frame(
    picture: Picture<'_>,
    side: Side,
    frame: usize,
    expected: (usize, usize),
) -> Result<(), MetricsError> {
    let Picture { width, height, .. } = picture;
    if (width, height) != expected {
        let (expected_width, expected_height) = expected;
        return Err(MetricsError::Mismatch { frame, side, width, height, expected_width, expected_height });
    }
    picture.check(frame, side)
}
