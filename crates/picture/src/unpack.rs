//! Raw samples to a frame.

use crate::chroma::{AxisSiting, axes, up_row, up_rows};
use crate::coding::{Coding, Matrix, Mix, Scale};
use crate::error::PictureError;
use crate::frame::Frame;
use crate::layout::{Kind, Layout, halved};
use crate::samples::{Plane, alpha, light, load};

impl Layout {
    /// Samples to values, with chroma brought to the size of the picture. `frame` says the size; it must have
    /// alpha if the samples have, and becomes opaque if they have none.
    pub fn unpack(&self, bytes: &[u8], coding: &Coding, frame: &mut Frame) -> Result<(), PictureError> {
        let needed = self.check_pair(coding, frame)?;
        let (width, height, given) = (frame.width, frame.height, bytes.len());
        if needed != given {
            return Err(PictureError::Bytes { layout: self.name(), width, height, needed, given });
        }
        if self.alpha && frame.channels != 4 {
            return Err(PictureError::Alpha { what: format!("a raw {self} frame") });
        }
        match frame.channels {
            3 => fill::<3>(self, bytes, coding, frame),
            _ => fill::<4>(self, bytes, coding, frame),
        }
        Ok(())
    }

    /// What packing and unpacking refuse alike. Returns the bytes of the raw frame.
    pub(crate) fn check_pair(&self, coding: &Coding, frame: &Frame) -> Result<usize, PictureError> {
        self.check()?;
        frame.check()?;
        if matches!(self.kind, Kind::Yuv { .. }) && coding.matrix == Matrix::Rgb {
            return Err(PictureError::Matrix { layout: self.name() });
        }
        let Frame { width, height, channels, .. } = *frame;
        let values = frame.data.len();
        self.bytes(width, height).ok_or(PictureError::Frame { width, height, channels, values })
    }
}

fn fill<const C: usize>(layout: &Layout, bytes: &[u8], coding: &Coding, frame: &mut Frame) {
    let size = [frame.width, frame.height];
    let [first, second, third, fourth] = split(bytes, layout.plane_bytes(size[0], size[1]));
    let scale = light(layout, coding.range);
    let plane = |bytes| Plane { bytes, width: size[0], depth: layout.depth, scale };
    let (data, _) = frame.data.as_chunks_mut::<C>();
    match layout.kind {
        Kind::Gray => gray(plane(first), data),
        Kind::Gbr => gbr([first, second, third].map(plane), data),
        Kind::Packed => return packed(layout, scale, bytes, data),
        Kind::Yuv { across, down } => {
            let scale = Scale::difference(coding.range, layout.depth);
            let chroma = |bytes| {
                let plane = Plane { bytes, width: halved(size[0], across), depth: layout.depth, scale };
                Chroma::new(plane, size, [across, down], axes(coding.siting))
            };
            yuv(plane(first), [chroma(second), chroma(third)], Mix::new(coding.matrix), data);
        }
    }
    if layout.alpha {
        let plane = Plane { scale: alpha(layout), ..plane(fourth) };
        let mut row = vec![0.0; plane.width];
        for (y, out) in data.chunks_exact_mut(plane.width).enumerate() {
            plane.row(y, &mut row);
            for (pixel, a) in out.iter_mut().zip(&row) {
                pixel[C - 1] = *a;
            }
        }
    } else if C == 4 {
        for pixel in data {
            pixel[C - 1] = 1.0;
        }
    }
}

/// `bytes` cut into planes.
fn split(bytes: &[u8], sizes: [usize; 4]) -> [&[u8]; 4] {
    let mut rest = bytes;
    sizes.map(|size| {
        let (plane, after) = rest.split_at(size.min(rest.len()));
        rest = after;
        plane
    })
}

fn gray<const C: usize>(plane: Plane<&[u8]>, data: &mut [[f32; C]]) {
    let mut row = vec![0.0; plane.width];
    for (y, out) in data.chunks_exact_mut(plane.width).enumerate() {
        plane.row(y, &mut row);
        for (pixel, v) in out.iter_mut().zip(&row) {
            (pixel[0], pixel[1], pixel[2]) = (*v, *v, *v);
        }
    }
}

fn gbr<const C: usize>(planes: [Plane<&[u8]>; 3], data: &mut [[f32; C]]) {
    let width = planes[0].width;
    let [mut green, mut blue, mut red] = [(); 3].map(|()| vec![0.0; width]);
    for (y, out) in data.chunks_exact_mut(width).enumerate() {
        planes[0].row(y, &mut green);
        planes[1].row(y, &mut blue);
        planes[2].row(y, &mut red);
        for (((pixel, r), g), b) in out.iter_mut().zip(&red).zip(&green).zip(&blue) {
            (pixel[0], pixel[1], pixel[2]) = (*r, *g, *b);
        }
    }
}

/// Alpha lies between the colours and has a scale of its own.
fn packed<const C: usize>(layout: &Layout, scale: Scale, bytes: &[u8], data: &mut [[f32; C]]) {
    let flat = data.as_flattened_mut();
    if !layout.alpha && C == 3 {
        return load(layout.depth, scale, bytes, flat);
    }
    let all = alpha(layout);
    let stored = 3 + usize::from(layout.alpha);
    // A piece that stays in the cache.
    const PIECE: usize = 1024;
    let mut codes = [0.0; PIECE * 4];
    let pieces = bytes.chunks(PIECE * stored * layout.sample_bytes());
    for (bytes, out) in pieces.zip(data.chunks_mut(PIECE)) {
        load(layout.depth, Scale { unit: 1.0, zero: 0.0, ..scale }, bytes, &mut codes);
        for (pixel, code) in out.iter_mut().zip(codes.chunks_exact(stored)) {
            for c in 0..3 {
                pixel[c] = (code[c] - scale.zero) / scale.unit;
            }
            pixel[C - 1] = if layout.alpha { code[stored - 1] / all.unit } else { 1.0 };
        }
    }
}

fn yuv<const C: usize>(plane: Plane<&[u8]>, chroma: [Chroma<'_>; 2], mix: Mix, data: &mut [[f32; C]]) {
    let [blue, red] = chroma;
    let [mut light, mut cb, mut cr] = [(); 3].map(|()| vec![0.0; plane.width]);
    let mut scratch = vec![0.0; plane.width];
    for (y, out) in data.chunks_exact_mut(plane.width).enumerate() {
        plane.row(y, &mut light);
        blue.row(y, &mut scratch, &mut cb);
        red.row(y, &mut scratch, &mut cr);
        for (((pixel, y), cb), cr) in out.iter_mut().zip(&light).zip(&cb).zip(&cr) {
            pixel[0] = y + mix.red * cr;
            pixel[1] = y + mix.green[0] * cb + mix.green[1] * cr;
            pixel[2] = y + mix.blue * cb;
        }
    }
}

/// A chroma plane, brought to full height at once and to full width row by row.
enum Chroma<'a> {
    /// As large as the picture.
    Whole(Plane<&'a [u8]>),
    /// All rows, and the widths from stored to full.
    Halved { rows: Vec<f32>, widths: Vec<usize>, siting: AxisSiting },
}

impl<'a> Chroma<'a> {
    fn new(plane: Plane<&'a [u8]>, size: [usize; 2], halvings: [u32; 2], axes: [AxisSiting; 2]) -> Self {
        let [across, down] = halvings;
        if halvings == [0, 0] {
            return Chroma::Whole(plane);
        }
        let height = halved(size[1], down);
        let mut rows = vec![0.0; plane.width * height];
        // Rows lie one after the other, so the plane is one long row.
        load(plane.depth, plane.scale, plane.bytes, &mut rows);
        for level in (0..down).rev() {
            rows = up_rows(axes[1], &rows, plane.width, halved(size[1], level));
        }
        let widths = (0..=across).rev().map(|level| halved(size[0], level)).collect();
        Chroma::Halved { rows, widths, siting: axes[0] }
    }

    /// Row `y` in full width. `scratch` is as long as `out`.
    fn row(&self, y: usize, scratch: &mut [f32], out: &mut [f32]) {
        match self {
            Chroma::Whole(plane) => plane.row(y, out),
            Chroma::Halved { rows, widths, siting } => {
                let stored = &rows[y * widths[0]..][..widths[0]];
                match widths[1..] {
                    [] => out.copy_from_slice(stored),
                    [_] => up_row(*siting, stored, out),
                    [half, ..] => {
                        up_row(*siting, stored, &mut scratch[..half]);
                        up_row(*siting, &scratch[..half], out);
                    }
                }
            }
        }
    }
}
