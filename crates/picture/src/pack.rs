//! A frame to raw samples.

use crate::chroma::{AxisSiting, axes, down_row, down_rows};
use crate::coding::{Coding, Mix, Scale};
use crate::error::PictureError;
use crate::frame::Frame;
use crate::layout::{Kind, Layout, halved};
use crate::samples::{Plane, alpha, light, save};

impl Layout {
    /// Values to the nearest samples, cut only at the ends of what the depth can hold, so that limited range keeps
    /// its foot and head room. `bytes` is replaced. A frame without alpha becomes opaque where samples have it;
    /// one with alpha is refused where they have none.
    pub fn pack(&self, frame: &Frame, coding: &Coding, bytes: &mut Vec<u8>) -> Result<(), PictureError> {
        let needed = self.check_pair(coding, frame)?;
        if frame.channels == 4 && !self.alpha {
            return Err(PictureError::Alpha { what: "the frame".into() });
        }
        bytes.resize(needed, 0);
        match frame.channels {
            3 => put::<3>(self, frame, coding, bytes),
            _ => put::<4>(self, frame, coding, bytes),
        }
        Ok(())
    }
}

fn put<const C: usize>(layout: &Layout, frame: &Frame, coding: &Coding, bytes: &mut [u8]) {
    let size = [frame.width, frame.height];
    let scale = light(layout, coding.range);
    let (data, _) = frame.data.as_chunks::<C>();
    if layout.kind == Kind::Packed {
        return packed(layout, scale, data, bytes);
    }
    let [first, second, third, fourth] = split(bytes, layout.plane_bytes(size[0], size[1]));
    let plane = |bytes| Plane { bytes, width: size[0], depth: layout.depth, scale };
    let mix = Mix::new(coding.matrix);
    match layout.kind {
        Kind::Gbr => {
            channel(data, plane(first), |p| p[1]);
            channel(data, plane(second), |p| p[2]);
            channel(data, plane(third), |p| p[0]);
        }
        Kind::Gray | Kind::Packed => channel(data, plane(first), |p| brightness(mix, p)),
        Kind::Yuv { across, down } => {
            let scale = Scale::difference(coding.range, layout.depth);
            let chroma = |bytes| {
                let plane = Plane { bytes, width: halved(size[0], across), depth: layout.depth, scale };
                Chroma::new(plane, size, [across, down], axes(coding.siting))
            };
            yuv(data, plane(first), [chroma(second), chroma(third)], mix);
        }
    }
    if layout.alpha {
        let plane = Plane { scale: alpha(layout), ..plane(fourth) };
        channel(data, plane, |p| if C == 4 { p[C - 1] } else { 1.0 });
    }
}

/// `bytes` cut into planes.
fn split(bytes: &mut [u8], sizes: [usize; 4]) -> [&mut [u8]; 4] {
    let mut rest = bytes;
    sizes.map(|size| {
        let (plane, after) = std::mem::take(&mut rest).split_at_mut(size);
        rest = after;
        plane
    })
}

#[inline(always)]
fn brightness<const C: usize>(mix: Mix, p: &[f32; C]) -> f32 {
    let [kr, kg, kb] = mix.weights;
    kr * p[0] + kg * p[1] + kb * p[2]
}

/// One value of each pixel.
fn channel<const C: usize>(data: &[[f32; C]], mut plane: Plane<&mut [u8]>, value: impl Fn(&[f32; C]) -> f32) {
    let mut row = vec![0.0; plane.width];
    for (y, pixels) in data.chunks_exact(plane.width).enumerate() {
        for (v, pixel) in row.iter_mut().zip(pixels) {
            *v = value(pixel);
        }
        plane.put(y, &row);
    }
}

/// Alpha lies between the colours and has a scale of its own.
fn packed<const C: usize>(layout: &Layout, scale: Scale, data: &[[f32; C]], bytes: &mut [u8]) {
    if !layout.alpha {
        return save(layout.depth, scale, data.as_flattened(), bytes);
    }
    let all = alpha(layout);
    // A piece that stays in the cache.
    const PIECE: usize = 1024;
    let mut codes = [0.0; PIECE * 4];
    let exact = Scale { unit: 1.0, zero: 0.0, ..scale };
    for (pixels, bytes) in data.chunks(PIECE).zip(bytes.chunks_mut(PIECE * 4 * layout.sample_bytes())) {
        for (code, pixel) in codes.as_chunks_mut::<4>().0.iter_mut().zip(pixels) {
            for c in 0..3 {
                code[c] = pixel[c] * scale.unit + scale.zero;
            }
            code[3] = if C == 4 { pixel[C - 1] * all.unit } else { all.unit };
        }
        save(layout.depth, exact, &codes, bytes);
    }
}

fn yuv<const C: usize>(data: &[[f32; C]], mut plane: Plane<&mut [u8]>, chroma: [Chroma<'_>; 2], mix: Mix) {
    let [mut blue, mut red] = chroma;
    let [mut light, mut cb, mut cr] = [(); 3].map(|()| vec![0.0; plane.width]);
    let mut scratch = vec![0.0; plane.width];
    for (y, pixels) in data.chunks_exact(plane.width).enumerate() {
        for (((pixel, light), cb), cr) in pixels.iter().zip(&mut light).zip(&mut cb).zip(&mut cr) {
            let y = brightness(mix, pixel);
            *light = y;
            *cb = (pixel[2] - y) * mix.blue_unit;
            *cr = (pixel[0] - y) * mix.red_unit;
        }
        plane.put(y, &light);
        blue.put(y, &cb, &mut scratch);
        red.put(y, &cr, &mut scratch);
    }
    blue.finish();
    red.finish();
}

/// A chroma plane that is narrowed row by row and lowered at the end.
struct Chroma<'a> {
    plane: Plane<&'a mut [u8]>,
    /// Values at stored width and full height; nothing when rows go straight into the plane.
    rows: Vec<f32>,
    half: usize,
    halvings: [u32; 2],
    axes: [AxisSiting; 2],
}

impl<'a> Chroma<'a> {
    fn new(plane: Plane<&'a mut [u8]>, size: [usize; 2], halvings: [u32; 2], axes: [AxisSiting; 2]) -> Self {
        let rows = if halvings == [0, 0] { Vec::new() } else { vec![0.0; plane.width * size[1]] };
        Chroma { plane, rows, half: halved(size[0], 1), halvings, axes }
    }

    /// Takes row `y` in full width. `scratch` is as long as `values`.
    fn put(&mut self, y: usize, values: &[f32], scratch: &mut [f32]) {
        if self.rows.is_empty() {
            return self.plane.put(y, values);
        }
        let out = &mut self.rows[y * self.plane.width..][..self.plane.width];
        match self.halvings[0] {
            0 => out.copy_from_slice(values),
            1 => down_row(self.axes[0], values, out),
            _ => {
                down_row(self.axes[0], values, &mut scratch[..self.half]);
                down_row(self.axes[0], &scratch[..self.half], out);
            }
        }
    }

    fn finish(self) {
        let Chroma { plane, mut rows, halvings, axes, .. } = self;
        for _ in 0..halvings[1] {
            rows = down_rows(axes[1], &rows, plane.width);
        }
        if !rows.is_empty() {
            // Rows lie one after the other, so the plane is one long row.
            save(plane.depth, plane.scale, &rows, plane.bytes);
        }
    }
}
