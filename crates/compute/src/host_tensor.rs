//! Values on the host, on their way to or from a backend.

use crate::tensor::Shape;

/// f32 values in `[t, h, w, c]` order.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Frames, rows, columns, channels.
    pub shape: Shape,
    /// As many values as the shape says.
    pub data: Vec<f32>,
}

/// How far two tensors are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Largest absolute difference; infinite if one side is not a number.
    pub max_abs: f64,
    /// Mean of the squared differences.
    pub mean_square: f64,
}

impl Difference {
    /// Between two slices of one length.
    pub fn between(a: &[f32], b: &[f32]) -> Self {
        let (mut max_abs, mut squares) = (0.0f64, 0.0f64);
        for (a, b) in a.iter().zip(b) {
            let d = (f64::from(*a) - f64::from(*b)).abs();
            let d = if d.is_nan() { f64::INFINITY } else { d };
            max_abs = max_abs.max(d);
            squares += d * d;
        }
        if a.len() != b.len() {
            max_abs = f64::INFINITY;
        }
        Difference { max_abs, mean_square: squares / a.len().max(1) as f64 }
    }

    /// Peak signal to noise ratio in dB for values that span `range`; infinite if equal.
    pub fn psnr(&self, range: f64) -> f64 {
        10.0 * (range * range / self.mean_square).log10()
    }
}

impl HostTensor {
    /// All zero.
    pub fn zeros(shape: Shape) -> Self {
        HostTensor { shape, data: vec![0.0; shape.len()] }
    }

    /// Some frames.
    pub fn frames(&self, range: std::ops::Range<usize>) -> &[f32] {
        let frame = self.shape.h * self.shape.w * self.shape.c;
        &self.data[range.start * frame..range.end * frame]
    }

    /// From `[c, t, h, w]` order, as PyTorch stores video.
    pub fn from_channels_first([c, t, h, w]: [usize; 4], data: &[f32]) -> Self {
        let mut out = HostTensor::zeros(Shape::new(t, h, w, c));
        for (channel, plane) in data.chunks_exact((t * h * w).max(1)).enumerate() {
            for (pixel, value) in out.data.chunks_exact_mut(c).zip(plane) {
                pixel[channel] = *value;
            }
        }
        out
    }

    /// To `[c, t, h, w]` order.
    pub fn to_channels_first(&self) -> Vec<f32> {
        let c = self.shape.c;
        (0..c).flat_map(|channel| self.data.iter().skip(channel).step_by(c).copied()).collect()
    }

    /// How far `other` is away.
    pub fn difference(&self, other: &HostTensor) -> Difference {
        let mut d = Difference::between(&self.data, &other.data);
        if self.shape != other.shape {
            d.max_abs = f64::INFINITY;
        }
        d
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_first_and_back_is_the_identity() {
        let data: Vec<f32> = (0..2 * 3 * 4 * 5).map(|i| i as f32).collect();
        let tensor = HostTensor::from_channels_first([2, 3, 4, 5], &data);
        assert_eq!(tensor.shape, Shape::new(3, 4, 5, 2));
        assert_eq!(tensor.data[1], 60.0);
        assert_eq!(tensor.to_channels_first(), data);
    }

    #[test]
    fn a_value_that_is_not_a_number_is_infinitely_far_away() {
        assert_eq!(Difference::between(&[f32::NAN], &[0.0]).max_abs, f64::INFINITY);
        assert_eq!(Difference::between(&[1.0], &[1.0]).psnr(2.0), f64::INFINITY);
        assert!((Difference::between(&[1.0, 1.0], &[0.0, 2.0]).psnr(2.0) - 6.02).abs() < 0.01);
    }
}
