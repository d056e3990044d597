//! How the samples of a raw frame lie in memory.

use std::fmt;

use crate::error::PictureError;

/// The samples of a raw frame: little endian, no padding between rows or planes, in the order of ffmpeg's
/// `rawvideo`. Depths from 9 to 16 bits take two bytes and sit in the low bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Planes and what is in them.
    pub kind: Kind,
    /// Bits of a sample: 8, 9, 10, 12, 14, 16, or 32 for floats.
    pub depth: u32,
    /// Whether alpha comes along, as the last plane or the last value of a pixel.
    pub alpha: bool,
}

/// The planes of a raw frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Brightness only.
    Gray,
    /// Brightness, blue difference, red difference.
    Yuv {
        /// How often the width of chroma is halved: 1 for 4:2:0 and 4:2:2.
        across: u32,
        /// How often its height is halved: 1 for 4:2:0.
        down: u32,
    },
    /// Green, blue, red.
    Gbr,
    /// One plane of red, green, blue, pixel by pixel.
    Packed,
}

const fn yuv(across: u32, down: u32) -> Kind {
    Kind::Yuv { across, down }
}

/// A float instead of a code.
pub(crate) const FLOAT: u32 = 32;

/// ffmpeg's families of names with the depths that exist in each. A name is the family's, then nothing for 8
/// bits, `f32le` for floats, and the bits with `le` for the others; packed RGB is named by bits of a pixel.
const FAMILIES: [(&str, Kind, bool, &[u32]); 14] = [
    ("gray", Kind::Gray, false, &[8, 9, 10, 12, 14, 16]),
    ("yuv420p", yuv(1, 1), false, &[8, 9, 10, 12, 14, 16]),
    ("yuv422p", yuv(1, 0), false, &[8, 9, 10, 12, 14, 16]),
    ("yuv444p", yuv(0, 0), false, &[8, 9, 10, 12, 14, 16]),
    ("yuv440p", yuv(0, 1), false, &[8, 10, 12]),
    ("yuv411p", yuv(2, 0), false, &[8]),
    ("yuv410p", yuv(2, 2), false, &[8]),
    ("yuva420p", yuv(1, 1), true, &[8, 9, 10, 16]),
    ("yuva422p", yuv(1, 0), true, &[8, 9, 10, 12, 16]),
    ("yuva444p", yuv(0, 0), true, &[8, 9, 10, 12, 16]),
    ("gbrp", Kind::Gbr, false, &[8, 9, 10, 12, 14, 16, FLOAT]),
    ("gbrap", Kind::Gbr, true, &[8, 10, 12, 14, 16, FLOAT]),
    ("rgb", Kind::Packed, false, &[8, 16]),
    ("rgba", Kind::Packed, true, &[8, 16]),
];

impl Layout {
    /// The layout that ffmpeg calls so; nothing for the ones that are not known here. The `yuvj` names are those
    /// of `yuv`: what they add is the range, which is in [`crate::Coding`].
    pub fn from_name(ffmpeg_pix_fmt: &str) -> Option<Layout> {
        let layouts = FAMILIES.iter().flat_map(|&(_, kind, alpha, depths)| {
            depths.iter().map(move |&depth| Layout { kind, depth, alpha })
        });
        let mut layouts = layouts.filter(|layout| match ffmpeg_pix_fmt.strip_prefix("yuvj") {
            Some(rest) => {
                !layout.alpha && layout.depth == 8 && layout.name().strip_prefix("yuv") == Some(rest)
            }
            None => layout.name() == ffmpeg_pix_fmt,
        });
        layouts.next()
    }

    /// What ffmpeg calls it. A layout that ffmpeg does not have gets a name by the same rule.
    pub fn name(&self) -> String {
        let alike = |&&(_, kind, alpha, _): &&(_, Kind, bool, _)| kind == self.kind && alpha == self.alpha;
        let family = FAMILIES.iter().find(alike).map_or("unknown", |f| f.0);
        match (self.kind, self.depth, self.alpha) {
            (Kind::Packed, 8, false) => "rgb24".into(),
            (Kind::Packed, 8, true) => "rgba".into(),
            (Kind::Packed, depth, alpha) => format!("{family}{}le", depth * if alpha { 4 } else { 3 }),
            (_, 8, _) => family.into(),
            (_, FLOAT, _) => format!("{family}f32le"),
            (_, depth, _) => format!("{family}{depth}le"),
        }
    }

    /// Bytes of a frame; nothing when there is no such number. Chroma planes are rounded up.
    pub fn bytes(&self, width: usize, height: usize) -> Option<usize> {
        let mut samples = 0usize;
        for plane in 0..self.planes() {
            let (across, down) = self.halvings(plane);
            let values = halved(width, across).checked_mul(halved(height, down))?;
            samples = samples.checked_add(values)?;
        }
        let of_pixel = if self.kind == Kind::Packed { 3 + usize::from(self.alpha) } else { 1 };
        samples.checked_mul(of_pixel)?.checked_mul(self.sample_bytes())
    }

    /// Bytes of a sample.
    pub(crate) fn sample_bytes(&self) -> usize {
        Layout::bytes_of(self.depth)
    }

    /// Bytes of a sample of `depth` bits.
    pub(crate) fn bytes_of(depth: u32) -> usize {
        match depth {
            ..=8 => 1,
            FLOAT => 4,
            _ => 2,
        }
    }

    fn planes(&self) -> usize {
        match self.kind {
            Kind::Packed => 1,
            Kind::Gray => 1 + usize::from(self.alpha),
            Kind::Yuv { .. } | Kind::Gbr => 3 + usize::from(self.alpha),
        }
    }

    /// How often width and height of a plane are halved.
    fn halvings(&self, plane: usize) -> (u32, u32) {
        match self.kind {
            Kind::Yuv { across, down } if plane == 1 || plane == 2 => (across, down),
            _ => (0, 0),
        }
    }

    /// Bytes of each plane, and nothing for planes it does not have.
    pub(crate) fn plane_bytes(&self, width: usize, height: usize) -> [usize; 4] {
        std::array::from_fn(|plane| {
            if plane >= self.planes() {
                return 0;
            }
            let (across, down) = self.halvings(plane);
            let of_pixel = if self.kind == Kind::Packed { 3 + usize::from(self.alpha) } else { 1 };
            halved(width, across) * halved(height, down) * of_pixel * self.sample_bytes()
        })
    }

    /// Refuses what no family has.
    pub(crate) fn check(&self) -> Result<(), PictureError> {
        let known = FAMILIES.iter().any(|&(_, kind, _, _)| kind == self.kind);
        let depth = match (self.kind, self.depth) {
            (Kind::Gbr, FLOAT) => true,
            (Kind::Packed, depth) => depth == 8 || depth == 16,
            (_, depth) => (8..=16).contains(&depth),
        };
        let alpha = !(self.alpha && self.kind == Kind::Gray);
        if known && depth && alpha { Ok(()) } else { Err(PictureError::Layout(*self)) }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// `n` halved `times` times, rounded up.
pub(crate) fn halved(n: usize, times: u32) -> usize {
    n.div_ceil(1 << times.min(31))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Out of `ffmpeg -pix_fmts`, 5.1 and 7.0.
    const NAMES: &str = "gray gray9le gray10le gray12le gray14le gray16le yuv420p yuv422p yuv444p yuv440p \
        yuv411p yuv410p yuv420p9le yuv420p10le yuv420p12le yuv420p14le yuv420p16le yuv422p9le yuv422p10le \
        yuv422p12le yuv422p14le yuv422p16le yuv444p9le yuv444p10le yuv444p12le yuv444p14le yuv444p16le \
        yuv440p10le yuv440p12le yuva420p yuva422p yuva444p yuva420p9le yuva420p10le yuva420p16le yuva422p9le \
        yuva422p10le yuva422p12le yuva422p16le yuva444p9le yuva444p10le yuva444p12le yuva444p16le gbrp gbrp9le \
        gbrp10le gbrp12le gbrp14le gbrp16le gbrpf32le gbrap gbrap10le gbrap12le gbrap14le gbrap16le gbrapf32le \
        rgb24 rgba rgb48le rgba64le";

    #[test]
    fn every_name_comes_back() {
        for name in NAMES.split_whitespace() {
            let layout = Layout::from_name(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(layout.name(), name);
            layout.check().unwrap();
        }
    }

    #[test]
    fn full_range_names_are_the_plain_ones() {
        for name in ["420p", "422p", "444p", "440p", "411p"] {
            let plain = Layout::from_name(&format!("yuv{name}"));
            assert!(plain.is_some() && Layout::from_name(&format!("yuvj{name}")) == plain);
        }
    }

    #[test]
    fn other_names_are_unknown() {
        for name in
            ["", "yuv", "yuvj420p10le", "yuv420p10be", "nv12", "rgb", "rgba32le", "bgr24", "yuv411p10le"]
        {
            assert_eq!(Layout::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn bytes_round_chroma_up_and_never_overflow() {
        let bytes = |name: &str, w, h| Layout::from_name(name).unwrap().bytes(w, h);
        assert_eq!(bytes("yuv420p", 5, 3), Some(15 + 2 * 6));
        assert_eq!(bytes("yuva420p10le", 5, 3), Some(2 * (30 + 2 * 6)));
        assert_eq!(bytes("yuv410p", 5, 5), Some(25 + 2 * 4));
        assert_eq!(bytes("gbrapf32le", 2, 3), Some(4 * 4 * 6));
        assert_eq!(bytes("rgba64le", 2, 3), Some(8 * 6));
        assert_eq!(bytes("gray", 0, 3), Some(0));
        for name in ["gray16le", "yuv444p", "rgb24", "gbrp"] {
            assert_eq!(bytes(name, usize::MAX, 2), None);
            let expected = if name == "gray16le" { Some(usize::MAX - 1) } else { None };
            assert_eq!(bytes(name, usize::MAX / 2, 1), expected);
        }
        for name in NAMES.split_whitespace() {
            let layout = Layout::from_name(name).unwrap();
            assert_eq!(layout.bytes(7, 5), Some(layout.plane_bytes(7, 5).iter().sum()), "{name}");
        }
    }

    #[test]
    fn what_nobody_has_is_refused() {
        for (kind, depth, alpha) in [
            (Kind::Gray, 7, false),
            (Kind::Gray, 17, false),
            (Kind::Gray, 8, true),
            (Kind::Gbr, 0, false),
            (Kind::Packed, 10, false),
            (yuv(0, 0), 32, false),
            (yuv(2, 1), 8, false),
            (yuv(99, 0), 8, false),
        ] {
            assert!(Layout { kind, depth, alpha }.check().is_err());
        }
    }
}
