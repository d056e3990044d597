//! Every layout against a slow twin, and the same bytes after a round trip.

use proptest::prelude::*;
use remaster_picture::{Coding, Frame, Kind, Layout, Matrix, PictureError, Range, Siting};

const NAMES: &str = "gray gray9le gray10le gray12le gray14le gray16le yuv420p yuv422p yuv444p yuv440p yuv411p \
    yuv410p yuv420p9le yuv420p10le yuv420p12le yuv420p14le yuv420p16le yuv422p9le yuv422p10le yuv422p12le \
    yuv422p14le yuv422p16le yuv444p9le yuv444p10le yuv444p12le yuv444p14le yuv444p16le yuv440p10le yuv440p12le \
    yuva420p yuva422p yuva444p yuva420p9le yuva420p10le yuva420p16le yuva422p9le yuva422p10le yuva422p12le \
    yuva422p16le yuva444p9le yuva444p10le yuva444p12le yuva444p16le gbrp gbrp9le gbrp10le gbrp12le gbrp14le \
    gbrp16le gbrap gbrap10le gbrap12le gbrap14le gbrap16le rgb24 rgba rgb48le rgba64le";

fn layouts() -> Vec<Layout> {
    NAMES.split_whitespace().map(|name| Layout::from_name(name).unwrap()).collect()
}

const MATRICES: [Matrix; 5] = [Matrix::Bt601, Matrix::Bt709, Matrix::Fcc, Matrix::Smpte240, Matrix::Bt2020];

fn codings() -> impl Iterator<Item = Coding> {
    MATRICES.into_iter().flat_map(|matrix| {
        [Range::Limited, Range::Full].into_iter().flat_map(move |range| {
            [Siting::Left, Siting::Centre, Siting::TopLeft].map(|siting| Coding { matrix, range, siting })
        })
    })
}

/// Any code of the depth, from a seed.
fn raw(layout: Layout, width: usize, height: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 40) as u16
    };
    let bytes = layout.bytes(width, height).unwrap();
    match layout.depth {
        8 => (0..bytes).map(|_| next() as u8).collect(),
        depth => (0..bytes / 2).flat_map(|_| (next() & ((1u32 << depth) - 1) as u16).to_le_bytes()).collect(),
    }
}

fn channels(layout: Layout) -> usize {
    3 + usize::from(layout.alpha)
}

/// One plane of the twin: f64, anywhere.
#[derive(Clone)]
struct Plane {
    width: usize,
    height: usize,
    data: Vec<f64>,
}

impl Plane {
    fn at(&self, x: isize, y: isize) -> f64 {
        let x = x.clamp(0, self.width as isize - 1) as usize;
        let y = y.clamp(0, self.height as isize - 1) as usize;
        self.data[y * self.width + x]
    }

    fn make(width: usize, height: usize, value: impl Fn(isize, isize) -> f64) -> Plane {
        let at = |i: usize| value((i % width) as isize, (i / width) as isize);
        Plane { width, height, data: (0..width * height).map(at).collect() }
    }

    /// Axes swapped.
    fn flip(&self) -> Plane {
        Plane::make(self.height, self.width, |x, y| self.at(y, x))
    }

    fn up(&self, width: usize, sited: bool) -> Plane {
        // Where a pixel lies among samples; linear between the two around it.
        let place = |x: isize| if sited { x as f64 / 2.0 } else { (x as f64 - 0.5) / 2.0 };
        Plane::make(width, self.height, |x, y| {
            let (low, share) = (place(x).floor(), place(x) - place(x).floor());
            self.at(low as isize, y) * (1.0 - share) + self.at(low as isize + 1, y) * share
        })
    }

    fn down(&self, sited: bool) -> Plane {
        let last = self.width as isize - 1;
        let mirror = |x: isize| {
            if x < 0 {
                -1 - x
            } else if x > last {
                2 * last + 1 - x
            } else {
                x
            }
        };
        Plane::make(self.width.div_ceil(2), self.height, |x, y| {
            if sited {
                let u = |d: isize| self.at(2 * x + d, y);
                (-u(-2) + 2.0 * u(-1) + 6.0 * u(0) + 2.0 * u(1) - u(2)) / 8.0
            } else {
                let u = |d: isize| self.at(mirror(2 * x + d), y);
                (-u(-1) + 3.0 * u(0) + 3.0 * u(1) - u(2)) / 4.0
            }
        })
    }
}

/// Unit and zero of a code by its formula.
fn scale(depth: u32, range: Range, what: char) -> (f64, f64) {
    let (full, step) = (((1u64 << depth) - 1) as f64, (1u64 << (depth - 8)) as f64);
    match (what, range) {
        ('a', _) | ('y', Range::Full) => (full, 0.0),
        ('y', Range::Limited) => (219.0 * step, 16.0 * step),
        (_, Range::Limited) => (224.0 * step, 128.0 * step),
        (_, Range::Full) => (full, 128.0 * step),
    }
}

fn sited(siting: Siting) -> (bool, bool) {
    (siting != Siting::Centre, siting == Siting::TopLeft)
}

/// What the planes of a layout are.
fn roles(layout: Layout) -> Vec<char> {
    let mut roles = match layout.kind {
        Kind::Gray => vec!['y'],
        Kind::Yuv { .. } => vec!['y', 'u', 'v'],
        Kind::Gbr | Kind::Packed => vec!['y'; 3],
    };
    roles.extend(layout.alpha.then_some('a'));
    roles
}

fn size(layout: Layout, role: char, width: usize, height: usize) -> (usize, usize) {
    match (layout.kind, role) {
        (Kind::Yuv { across, down }, 'u' | 'v') => (width.div_ceil(1 << across), height.div_ceil(1 << down)),
        _ => (width, height),
    }
}

/// Where in the bytes the sample at `x`, `y` of a plane lies.
fn place(layout: Layout, plane: usize, x: usize, y: usize, width: usize, height: usize) -> usize {
    let bytes = if layout.depth == 8 { 1 } else { 2 };
    let roles = roles(layout);
    if layout.kind == Kind::Packed {
        return ((y * width + x) * roles.len() + plane) * bytes;
    }
    let area = |p: usize| {
        let (w, h) = size(layout, roles[p], width, height);
        w * h
    };
    let before: usize = (0..plane).map(area).sum();
    (before + y * size(layout, roles[plane], width, height).0 + x) * bytes
}

/// Weights of red, green and blue, out of the standards.
fn weights(matrix: Matrix) -> [f64; 3] {
    let (r, b) = match matrix {
        Matrix::Bt601 => (0.299, 0.114),
        Matrix::Fcc => (0.3, 0.11),
        Matrix::Smpte240 => (0.212, 0.087),
        Matrix::Bt2020 => (0.2627, 0.0593),
        _ => (0.2126, 0.0722),
    };
    [r, 1.0 - r - b, b]
}

fn slow_unpack(layout: Layout, bytes: &[u8], coding: &Coding, width: usize, height: usize) -> Vec<f64> {
    let roles = roles(layout);
    let planes: Vec<Plane> = (0..roles.len())
        .map(|p| {
            let (w, h) = size(layout, roles[p], width, height);
            let (unit, zero) = scale(layout.depth, coding.range, roles[p]);
            let plane = Plane::make(w, h, |x, y| {
                let at = place(layout, p, x as usize, y as usize, width, height);
                let code = match layout.depth {
                    8 => u16::from(bytes[at]),
                    _ => u16::from_le_bytes([bytes[at], bytes[at + 1]]),
                };
                (f64::from(code) - zero) / unit
            });
            let (mut full, (h_sited, v_sited)) = (plane, sited(coding.siting));
            let next = |now: usize, last: usize| {
                let half = last.div_ceil(2);
                if now == last.div_ceil(4) && half != now { half } else { last }
            };
            while full.width < width {
                full = full.up(next(full.width, width), h_sited);
            }
            while full.height < height {
                full = full.flip().up(next(full.height, height), v_sited).flip();
            }
            full
        })
        .collect();
    let [kr, kg, kb] = weights(coding.matrix);
    let mut out = Vec::new();
    for i in 0..width * height {
        let v = |p: usize| planes[p].data[i];
        out.extend(match layout.kind {
            Kind::Gray => [v(0); 3],
            Kind::Gbr => [v(2), v(0), v(1)],
            Kind::Packed => [v(0), v(1), v(2)],
            Kind::Yuv { .. } => {
                let (r, b) = (v(0) + 2.0 * (1.0 - kr) * v(2), v(0) + 2.0 * (1.0 - kb) * v(1));
                [r, (v(0) - kr * r - kb * b) / kg, b]
            }
        });
        out.extend(layout.alpha.then(|| v(3)));
    }
    out
}

/// Codes before rounding, in the order of the bytes.
fn slow_pack(layout: Layout, frame: &Frame, coding: &Coding) -> Vec<f64> {
    let (width, height) = (frame.width, frame.height);
    let [kr, kg, kb] = weights(coding.matrix);
    let roles = roles(layout);
    let mut out = vec![0.0; roles.len() * width * height];
    let mut end = 0;
    for (p, &role) in roles.iter().enumerate() {
        let mut plane = Plane::make(width, height, |x, y| {
            let c: Vec<f64> = frame.pixel(x as usize, y as usize).iter().map(|v| f64::from(*v)).collect();
            let y = kr * c[0] + kg * c[1] + kb * c[2];
            match (layout.kind, role) {
                (_, 'a') => *c.get(3).unwrap_or(&1.0),
                (_, 'u') => (c[2] - y) / 2.0 / (1.0 - kb),
                (_, 'v') => (c[0] - y) / 2.0 / (1.0 - kr),
                (Kind::Gbr, _) => c[(p + 1) % 3],
                (Kind::Packed, _) => c[p],
                _ => y,
            }
        });
        let (w, h) = size(layout, role, width, height);
        if let (Kind::Yuv { across, down }, 'u' | 'v') = (layout.kind, role) {
            (0..across).for_each(|_| plane = plane.down(sited(coding.siting).0));
            (0..down).for_each(|_| plane = plane.flip().down(sited(coding.siting).1).flip());
        }
        assert_eq!((plane.width, plane.height), (w, h));
        let (unit, zero) = scale(layout.depth, coding.range, role);
        let bytes = if layout.depth == 8 { 1 } else { 2 };
        for y in 0..h {
            for x in 0..w {
                let at = place(layout, p, x, y, width, height) / bytes;
                end = end.max(at + 1);
                let top = ((1u64 << layout.depth) - 1) as f64;
                out[at] = (plane.at(x as isize, y as isize) * unit + zero).clamp(0.0, top);
            }
        }
    }
    out.truncate(end);
    out
}

fn codes(layout: Layout, bytes: &[u8]) -> Vec<u16> {
    match layout.depth {
        8 => bytes.iter().map(|b| u16::from(*b)).collect(),
        _ => bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect(),
    }
}

#[test]
fn unpacking_equals_the_slow_twin() {
    for layout in layouts() {
        for (i, coding) in codings().enumerate() {
            let (width, height) = [(1, 1), (2, 3), (7, 5), (9, 10), (16, 6), (5, 13)][i % 6];
            let bytes = raw(layout, width, height, i as u64);
            let mut frame = Frame::new(width, height, channels(layout));
            layout.unpack(&bytes, &coding, &mut frame).unwrap();
            let expected = slow_unpack(layout, &bytes, &coding, width, height);
            assert_eq!(frame.data.len(), expected.len());
            for (a, b) in frame.data.iter().zip(&expected) {
                assert!((f64::from(*a) - b).abs() < 2e-6, "{layout} {coding:?}: {a} {b}");
            }
        }
    }
}

#[test]
fn packing_equals_the_slow_twin() {
    for layout in layouts() {
        for (i, coding) in codings().enumerate() {
            let (width, height) = [(1, 1), (3, 2), (7, 5), (10, 9), (6, 16), (13, 5)][i % 6];
            let mut frame = Frame::new(width, height, channels(layout));
            for (k, v) in frame.data.iter_mut().enumerate() {
                *v = ((k * 7919 + i) % 1013) as f32 / 1013.0 * 1.2 - 0.1;
            }
            let mut bytes = vec![7; 3];
            layout.pack(&frame, &coding, &mut bytes).unwrap();
            let expected = slow_pack(layout, &frame, &coding);
            let got = codes(layout, &bytes);
            assert_eq!(got.len(), expected.len(), "{layout}");
            for (a, b) in got.iter().zip(&expected) {
                // Half a code of rounding, and what f32 loses at 16 bits.
                assert!((f64::from(*a) - b).abs() < 0.55, "{layout} {coding:?}: {a} {b}");
            }
        }
    }
}

#[test]
fn every_layout_comes_back_to_the_byte_at_every_size() {
    for layout in layouts() {
        for (i, coding) in codings().enumerate() {
            for side in 1..12 {
                let (width, height) = (side, (side * 5 + i) % 11 + 1);
                round_trip(layout, coding, width, height, side as u64);
            }
        }
    }
}

/// What unpacking and packing make of `bytes`.
fn back(layout: Layout, bytes: &[u8], coding: Coding, width: usize, height: usize) -> Vec<u8> {
    let mut frame = Frame::new(width, height, channels(layout));
    layout.unpack(bytes, &coding, &mut frame).unwrap();
    let mut back = Vec::new();
    layout.pack(&frame, &coding, &mut back).unwrap();
    back
}

fn round_trip(layout: Layout, coding: Coding, width: usize, height: usize, seed: u64) {
    let bytes = raw(layout, width, height, seed);
    let back = back(layout, &bytes, coding, width, height);
    assert_eq!(codes(layout, &back), codes(layout, &bytes), "{layout} {coding:?} {width} x {height}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn random_frames_come_back_to_the_byte(
        which in 0usize..1000, coding in 0usize..30, width in 1usize..70, height in 1usize..50, seed: u64,
    ) {
        let layouts = layouts();
        round_trip(layouts[which % layouts.len()], codings().nth(coding).unwrap(), width, height, seed);
    }
}

#[test]
fn every_code_of_every_depth_comes_back() {
    for layout in layouts() {
        let all = 1usize << layout.depth;
        let (width, height) = (all.min(256), all.div_ceil(256));
        let bytes = layout.bytes(width, height).unwrap();
        // Each plane counts through the codes from another start.
        let count = |i: usize| (i + i / (width * height) * 77) % all;
        let raw: Vec<u8> = match layout.depth {
            8 => (0..bytes).map(|i| count(i) as u8).collect(),
            _ => (0..bytes / 2).flat_map(|i| (count(i) as u16).to_le_bytes()).collect(),
        };
        for range in [Range::Limited, Range::Full] {
            let coding = Coding { matrix: Matrix::Bt2020, range, siting: Siting::Left };
            assert!(back(layout, &raw, coding, width, height) == raw, "{layout} {range:?}");
        }
    }
}

#[test]
fn floats_pass_as_they_are() {
    for name in ["gbrpf32le", "gbrapf32le"] {
        let layout = Layout::from_name(name).unwrap();
        let values =
            (0..5 * 3 * channels(layout)).map(|i| (i as f32 - 20.0) * 1.3e3f32.powi(i as i32 % 7 - 3));
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        for coding in codings() {
            assert_eq!(back(layout, &bytes, coding, 5, 3), bytes);
        }
    }
}

#[test]
fn known_colours_have_the_codes_of_the_standard() {
    // 75 % bars of BT.709 at 8 bits, limited: red is 51, 109, 212.
    let coding = Coding { matrix: Matrix::Bt709, range: Range::Limited, siting: Siting::Left };
    let frame = Frame { width: 1, height: 1, channels: 3, data: vec![0.75, 0.0, 0.0] };
    let mut bytes = Vec::new();
    let pack = |name: &str, coding: &Coding, bytes: &mut Vec<u8>| {
        Layout::from_name(name).unwrap().pack(&frame, coding, bytes).unwrap();
    };
    pack("yuv420p", &coding, &mut bytes);
    assert_eq!(bytes, [51, 109, 212]);
    pack("yuv444p10le", &coding, &mut bytes);
    assert_eq!(codes(Layout::from_name("yuv444p10le").unwrap(), &bytes), [204, 435, 848]);
    pack("rgb24", &Coding { range: Range::Full, ..coding }, &mut bytes);
    assert_eq!(bytes, [191, 0, 0]);
}

#[test]
fn white_and_grey_are_exact() {
    for layout in layouts().into_iter().filter(|l| matches!(l.kind, Kind::Yuv { .. })) {
        let step = 1u32 << (layout.depth - 8);
        let coding = Coding { matrix: Matrix::Bt2020, range: Range::Limited, siting: Siting::Left };
        let chroma_from = 4 * 4;
        let samples = layout.bytes(4, 4).unwrap() / if layout.depth == 8 { 1 } else { 2 };
        let code = |i: usize| (if i < chroma_from { 235 * step } else { 128 * step }) as u16;
        let bytes: Vec<u8> = match layout.depth {
            8 => (0..samples).map(|i| code(i) as u8).collect(),
            _ => (0..samples).flat_map(|i| code(i).to_le_bytes()).collect(),
        };
        let mut frame = Frame::new(4, 4, channels(layout));
        layout.unpack(&bytes, &coding, &mut frame).unwrap();
        assert!(frame.data.chunks(frame.channels).all(|p| p[..3] == [1.0; 3]), "{layout}");
    }
}

#[test]
fn alpha_is_filled_in_but_never_dropped() {
    let coding = Coding { matrix: Matrix::Bt709, range: Range::Limited, siting: Siting::Left };
    for layout in layouts() {
        let bytes = raw(layout, 3, 3, 1);
        let (mut rgb, mut rgba) = (Frame::new(3, 3, 3), Frame::new(3, 3, 4));
        let mut out = Vec::new();
        layout.unpack(&bytes, &coding, &mut rgba).unwrap();
        if layout.alpha {
            assert!(matches!(layout.unpack(&bytes, &coding, &mut rgb), Err(PictureError::Alpha { .. })));
            layout.pack(&rgba.without_alpha(), &coding, &mut out).unwrap();
            let mut back = Frame::new(3, 3, 4);
            layout.unpack(&out, &coding, &mut back).unwrap();
            assert!(back.data.iter().skip(3).step_by(4).all(|a| *a == 1.0));
        } else {
            assert!(rgba.data.iter().skip(3).step_by(4).all(|a| *a == 1.0));
            assert!(matches!(layout.pack(&rgba, &coding, &mut out), Err(PictureError::Alpha { .. })));
            layout.unpack(&bytes, &coding, &mut rgb).unwrap();
            assert_eq!(rgba.without_alpha(), rgb);
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let coding = Coding { matrix: Matrix::Bt709, range: Range::Limited, siting: Siting::Left };
    let layout = Layout::from_name("yuv420p").unwrap();
    let mut frame = Frame::new(3, 3, 3);
    for len in [0, 16, 18] {
        let error = layout.unpack(&vec![0; len], &coding, &mut frame).unwrap_err();
        assert!(matches!(error, PictureError::Bytes { needed: 17, .. }), "{error}");
    }
    let rgb = Coding { matrix: Matrix::Rgb, ..coding };
    assert!(matches!(layout.unpack(&[0; 17], &rgb, &mut frame), Err(PictureError::Matrix { .. })));
    let strange = Layout { kind: Kind::Yuv { across: 9, down: 0 }, ..layout };
    assert!(matches!(strange.unpack(&[0; 17], &coding, &mut frame), Err(PictureError::Layout(_))));
    frame.data.pop();
    assert!(matches!(layout.unpack(&[0; 17], &coding, &mut frame), Err(PictureError::Frame { .. })));
    for (width, height, channels) in [(0, 0, 3), (2, 2, 1), (2, 2, 5), (usize::MAX, 2, 3)] {
        let frame = Frame { width, height, channels, data: vec![0.0; 4] };
        assert!(matches!(layout.pack(&frame, &coding, &mut Vec::new()), Err(PictureError::Frame { .. })));
    }
}

#[test]
fn what_is_no_number_is_no_panic() {
    let coding = Coding { matrix: Matrix::Bt709, range: Range::Full, siting: Siting::Centre };
    let data = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].repeat(20);
    let frame = Frame { width: 5, height: 4, channels: 3, data };
    for layout in layouts() {
        layout.pack(&frame, &coding, &mut Vec::new()).unwrap();
    }
}
