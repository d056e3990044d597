//! What the numbers of a raw frame mean.

/// How red, green and blue were mixed into brightness and colour difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Matrix {
    /// Not at all: the samples are red, green and blue.
    Rgb,
    /// BT.601, for standard definition. SMPTE 170M and BT.470 BG have the same numbers.
    Bt601,
    /// BT.709, for high definition.
    Bt709,
    /// FCC 73.682, old American television.
    Fcc,
    /// SMPTE 240M, the first high definition.
    Smpte240,
    /// BT.2020 with non-constant luminance; also what BT.2100 uses for PQ and HLG.
    Bt2020,
}

impl Matrix {
    /// The shares of red, green and blue in brightness. RGB has none of its own; grey made of it uses BT.709.
    pub fn weights(self) -> [f64; 3] {
        let (red, blue) = match self {
            Matrix::Rgb | Matrix::Bt709 => (0.2126, 0.0722),
            Matrix::Bt601 => (0.299, 0.114),
            Matrix::Fcc => (0.30, 0.11),
            Matrix::Smpte240 => (0.212, 0.087),
            Matrix::Bt2020 => (0.2627, 0.0593),
        };
        [red, 1.0 - red - blue, blue]
    }
}

/// Which codes stand for black and white. Alpha is always full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Range {
    /// 16 to 235 of 255, colour difference 16 to 240.
    Limited,
    /// All of them.
    Full,
}

/// Where a chroma sample lies among the pixels it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Siting {
    /// On the left column, between the rows: MPEG-2 and most of what came after.
    Left,
    /// In the middle: MPEG-1, JPEG.
    Centre,
    /// On the left column and the upper row: UHD broadcast.
    TopLeft,
}

/// What the samples of a clip mean. The transfer curve is not here: frames stay in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coding {
    /// The mix of colours. Only YUV and gray samples look at it.
    pub matrix: Matrix,
    /// The codes of black and white. RGB samples obey it too, so give [`Range::Full`] unless they are tagged.
    pub range: Range,
    /// The place of chroma. Only subsampled YUV looks at it.
    pub siting: Siting,
}

/// Code = value * `unit` + `zero`, in codes of one depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) unit: f32,
    pub(crate) zero: f32,
    /// Largest code.
    pub(crate) max: f32,
}

impl Scale {
    /// For brightness, red, green and blue.
    pub(crate) fn light(range: Range, depth: u32) -> Scale {
        match range {
            Range::Limited => Scale { unit: 219.0 * step(depth), zero: 16.0 * step(depth), max: max(depth) },
            Range::Full => Scale { unit: max(depth), zero: 0.0, max: max(depth) },
        }
    }

    /// For colour difference, -0.5 to 0.5.
    pub(crate) fn difference(range: Range, depth: u32) -> Scale {
        let unit = match range {
            Range::Limited => 224.0 * step(depth),
            Range::Full => max(depth),
        };
        Scale { unit, zero: 128.0 * step(depth), max: max(depth) }
    }

    /// For alpha.
    pub(crate) fn alpha(depth: u32) -> Scale {
        Scale::light(Range::Full, depth)
    }
}

/// Codes of this depth for one of 8 bits.
fn step(depth: u32) -> f32 {
    (1u32 << (depth - 8)) as f32
}

fn max(depth: u32) -> f32 {
    ((1u32 << depth) - 1) as f32
}

/// The numbers between YUV and RGB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// Shares of red, green and blue in brightness.
    pub(crate) weights: [f32; 3],
    /// Colour differences per blue and red minus brightness.
    pub(crate) blue_unit: f32,
    pub(crate) red_unit: f32,
    /// Red per red difference, green per blue and per red difference, blue per blue difference.
    pub(crate) red: f32,
    pub(crate) green: [f32; 2],
    pub(crate) blue: f32,
}

impl Mix {
    pub(crate) fn new(matrix: Matrix) -> Mix {
        let weights = matrix.weights();
        let [kr, kg, kb] = weights;
        let (red, blue) = (2.0 * (1.0 - kr), 2.0 * (1.0 - kb));
        Mix {
            weights: weights.map(|k| k as f32),
            blue_unit: (1.0 / blue) as f32,
            red_unit: (1.0 / red) as f32,
            red: red as f32,
            green: [(-blue * kb / kg) as f32, (-red * kr / kg) as f32],
            blue: blue as f32,
        }
    }
}
