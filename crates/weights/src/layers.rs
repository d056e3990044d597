//! Quantised layers of ComfyUI's safetensors files: a weight of few bits, scales beside it, and a marker that says how.
//!
//! Layouts and formulas: Comfy-Org/comfy-kitchen at 7d86acf and Comfy-Org/ComfyUI at 0271a46. Values are widened in f32,
//! so a layer reads like any other tensor.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::{CheckpointError, LayerFault, ReadError, clip};
use crate::float8::{E2M1, E4M3, e8m0};
use crate::header::{Header, TensorInfo};
use crate::storage::Storage;
use crate::stored::{Block, StoredDtype};

/// Longest marker accepted. Honest ones have about a hundred bytes.
const MAX_MARKER: usize = 4096;

/// Columns that a rotation mixes, unless the marker says otherwise.
const GROUP: u64 = 256;

const MARKER: &str = ".comfy_quant";
const METADATA: &str = "_quantization_metadata";

/// How the weight of a layer is widened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    columns: usize,
    scales: Scales,
}

/// Where the scales are, in bytes of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scales {
    /// One f32 for a row, or for all; columns were rotated in groups of this size, 1 if they were not.
    Rows { at: Range<usize>, each: bool, group: usize, dtype: StoredDtype },
    /// A byte for each block of columns, in tiles of 128 rows and 4 blocks, and for nvfp4 an f32 for all.
    Tiles { at: usize, tiles: usize, all: Option<usize> },
}

/// Values of one row, and their bytes.
struct Piece<'a> {
    row: usize,
    column: usize,
    from: &'a [u8],
    to: &'a mut [f32],
}

/// The fields of a marker that matter here.
#[derive(Deserialize)]
struct Marker {
    format: String,
    convrot: Option<bool>,
    convrot_groupsize: Option<u64>,
    params: Option<Params>,
}

#[derive(Deserialize)]
struct Params {
    convrot: Option<bool>,
    convrot_groupsize: Option<u64>,
}

#[derive(Deserialize)]
struct Listed {
    layers: BTreeMap<String, Marker>,
}

/// Finds the quantised layers of a safetensors file.
pub(crate) fn find(header: &mut Header, storage: &Storage) -> Result<(), CheckpointError> {
    let mut found: Vec<(String, Marker)> = Vec::new();
    let mut buffer = Vec::new();
    for t in &header.tensors {
        let Some(layer) = t.name.strip_suffix(MARKER) else { continue };
        let bad = |reason: String| fault(layer, LayerFault::Marker(reason));
        if t.dtype != StoredDtype::U8 || t.bytes.len() > MAX_MARKER {
            return Err(bad(format!(
                "{} bytes of {}, at most {MAX_MARKER} of U8 expected",
                t.bytes.len(),
                t.dtype
            )));
        }
        let json = storage.header(t.bytes.start as u64, t.bytes.len(), &mut buffer)?;
        let marker = serde_json::from_slice(json).map_err(|error| bad(clip(&error.to_string())))?;
        found.push((layer.to_owned(), marker));
    }
    if let Some(json) = header.metadata.get(METADATA) {
        let bad = |error: serde_json::Error| fault(METADATA, LayerFault::Marker(clip(&error.to_string())));
        let listed: Listed = serde_json::from_str(json).map_err(bad)?;
        // A layer with a marker of its own has said it.
        let unmarked = |layer: &str| header.index(&[layer, MARKER].concat()).is_none();
        found.extend(listed.layers.into_iter().filter(|(layer, _)| unmarked(layer)));
    }
    for (layer, marker) in found {
        apply(header, &layer, &marker).map_err(|wrong| fault(&layer, wrong))?;
    }
    legacy(header)
}

fn fault(layer: &str, fault: LayerFault) -> CheckpointError {
    CheckpointError::Layer { layer: clip(layer), fault }
}

/// The older files of ComfyUI: a weight in E4M3 with `scale_weight` beside it.
fn legacy(header: &mut Header) -> Result<(), CheckpointError> {
    let layer = |t: &TensorInfo| t.name.strip_suffix(".scale_weight").map(str::to_owned);
    let scaled: Vec<String> = header.tensors.iter().filter_map(layer).collect();
    for layer in &scaled {
        one_scale(header, layer, ".scale_weight").map_err(|wrong| fault(layer, wrong))?;
        for extra in [".scale_weight", ".scale_input"] {
            hide(header, layer, extra);
        }
    }
    if !scaled.is_empty() {
        hide(header, "scaled_fp8", "");
    }
    Ok(())
}

fn hide(header: &mut Header, layer: &str, suffix: &str) {
    if let Some(i) = header.index(&[layer, suffix].concat()) {
        header.tensors[i].companion = true;
    }
}

fn apply(header: &mut Header, layer: &str, marker: &Marker) -> Result<(), LayerFault> {
    let params = marker.params.as_ref();
    let rotated = marker.convrot.or(params.and_then(|p| p.convrot)).unwrap_or(false);
    let group = marker.convrot_groupsize.or(params.and_then(|p| p.convrot_groupsize)).unwrap_or(GROUP);
    match marker.format.as_str() {
        "int8_tensorwise" => int8(header, layer, if rotated { group } else { 1 })?,
        // A rotation that is not known for a format would be left out in silence.
        other if rotated => return Err(LayerFault::UnknownFormat(clip(&format!("{other} with convrot")))),
        "nvfp4" => tiles(header, layer, StoredDtype::Nvfp4)?,
        "mxfp8" => tiles(header, layer, StoredDtype::Mxfp8)?,
        "float8_e4m3fn" => one_scale(header, layer, ".weight_scale")?,
        other => return Err(LayerFault::UnknownFormat(clip(other))),
    }
    for extra in [MARKER, ".weight_scale", ".weight_scale_2", ".input_scale"] {
        hide(header, layer, extra);
    }
    Ok(())
}

/// A tensor of the layer in the format it must have.
fn part<'a>(
    header: &'a Header,
    layer: &str,
    suffix: &str,
    expected: StoredDtype,
) -> Result<&'a TensorInfo, LayerFault> {
    let name = || clip(&format!("{layer}{suffix}"));
    let found = header.index(&[layer, suffix].concat()).ok_or_else(|| LayerFault::Missing(name()))?;
    let found = &header.tensors[found];
    if found.layer.is_some() {
        return Err(LayerFault::Marker("the layer is marked twice".to_owned()));
    }
    if found.dtype != expected {
        return Err(LayerFault::Dtype { name: name(), dtype: found.dtype, expected });
    }
    Ok(found)
}

fn shape_fault(t: &TensorInfo, expected: String) -> LayerFault {
    LayerFault::Shape { name: clip(&t.name), shape: t.shape.clone(), expected }
}

fn matrix(t: &TensorInfo) -> Result<[usize; 2], LayerFault> {
    match t.shape[..] {
        [rows, columns] if rows > 0 && columns > 0 => Ok([rows, columns]),
        _ => Err(shape_fault(t, "a matrix".to_owned())),
    }
}

/// Gives the weight of `layer` its meaning.
fn set(header: &mut Header, layer: &str, dtype: StoredDtype, shape: [usize; 2], scales: Scales) {
    if let Some(i) = header.index(&[layer, ".weight"].concat()) {
        let t = &mut header.tensors[i];
        // No overflow: at most two values for each byte of a file.
        (t.dtype, t.elements, t.shape) = (dtype, shape[0] * shape[1], shape.to_vec());
        t.layer = Some(Arc::new(Layer { columns: shape[1], scales }));
    }
}

fn int8(header: &mut Header, layer: &str, group: u64) -> Result<(), LayerFault> {
    let [rows, columns] = matrix(part(header, layer, ".weight", StoredDtype::I8)?)?;
    let fits = |g: usize| [1, 4, 16, 64, 256].contains(&g) && columns.is_multiple_of(g);
    let wrong = LayerFault::Group { group, columns };
    let group = usize::try_from(group).ok().filter(|&g| fits(g)).ok_or(wrong)?;
    let scale = part(header, layer, ".weight_scale", StoredDtype::F32)?;
    let each = scale.elements == rows && scale.shape.first() == Some(&rows);
    if !each && scale.elements != 1 {
        return Err(shape_fault(scale, format!("[{rows}, 1]")));
    }
    let scales = Scales::Rows { at: scale.bytes.clone(), each, group, dtype: StoredDtype::I8 };
    set(header, layer, StoredDtype::Int8, [rows, columns], scales);
    Ok(())
}

/// Where the one value of a tensor of the layer is.
fn one_value(header: &Header, layer: &str, suffix: &str) -> Result<Range<usize>, LayerFault> {
    let scale = part(header, layer, suffix, StoredDtype::F32)?;
    match scale.elements {
        1 => Ok(scale.bytes.clone()),
        _ => Err(shape_fault(scale, "one value".to_owned())),
    }
}

/// A weight in E4M3 with one scale for all of it.
fn one_scale(header: &mut Header, layer: &str, suffix: &str) -> Result<(), LayerFault> {
    let shape = matrix(part(header, layer, ".weight", StoredDtype::F8E4M3)?)?;
    let at = one_value(header, layer, suffix)?;
    let scales = Scales::Rows { at, each: false, group: 1, dtype: StoredDtype::F8E4M3 };
    set(header, layer, StoredDtype::ScaledF8, shape, scales);
    Ok(())
}

/// Columns of a block.
const fn block_columns(dtype: StoredDtype) -> usize {
    if matches!(dtype, StoredDtype::Nvfp4) { 16 } else { 32 }
}

fn tiles(header: &mut Header, layer: &str, dtype: StoredDtype) -> Result<(), LayerFault> {
    let packed = dtype == StoredDtype::Nvfp4;
    let stored = if packed { StoredDtype::U8 } else { StoredDtype::F8E4M3 };
    let weight = part(header, layer, ".weight", stored)?;
    let [rows, bytes] = matrix(weight)?;
    let columns = bytes * if packed { 2 } else { 1 };
    let block = block_columns(dtype);
    if !columns.is_multiple_of(block) {
        return Err(shape_fault(weight, format!("a multiple of {block} columns")));
    }
    let scale_dtype = if packed { StoredDtype::F8E4M3 } else { StoredDtype::U8 };
    let scale = part(header, layer, ".weight_scale", scale_dtype)?;
    let tiles = (columns / block).div_ceil(4);
    let expected = [rows.div_ceil(128).saturating_mul(128), tiles * 4];
    if scale.shape != expected {
        return Err(shape_fault(scale, format!("{expected:?}")));
    }
    let at = scale.bytes.start;
    let all = match packed {
        true => Some(one_value(header, layer, ".weight_scale_2")?.start),
        false => None,
    };
    set(header, layer, dtype, [rows, columns], Scales::Tiles { at, tiles, all });
    Ok(())
}

impl Layer {
    /// The smallest run of values that can be widened.
    pub(crate) fn block(&self, dtype: StoredDtype) -> Block {
        match &self.scales {
            Scales::Rows { group, .. } => Block { values: *group, bytes: *group },
            Scales::Tiles { .. } => {
                let values = block_columns(dtype);
                let Block { values: each, bytes } = dtype.block();
                Block { values, bytes: values / each * bytes }
            }
        }
    }

    /// Widens whole blocks: `bytes` holds the values of `out`, which start at flat index `first` of the weight.
    pub(crate) fn widen(
        &self,
        storage: &Storage,
        name: &str,
        first: usize,
        bytes: &[u8],
        out: &mut [f32],
    ) -> Result<(), ReadError> {
        match &self.scales {
            Scales::Rows { at, each, group, dtype } => {
                let (row, last) = (first / self.columns, (first + out.len()).div_ceil(self.columns));
                let mut buffer = Vec::new();
                let wanted = if *each { row * 4..last * 4 } else { 0..4 };
                let scales = storage.read(name, at.start + wanted.start, wanted.len(), &mut buffer)?;
                for Piece { row: at, from, to, .. } in self.rows(first, bytes, out, 1) {
                    let scale = f32_at(scales, if *each { (at - row) * 4 } else { 0 });
                    match dtype {
                        StoredDtype::I8 if *group > 1 => unrotate(from, *group, scale, to),
                        StoredDtype::I8 => {
                            to.iter_mut().zip(from).for_each(|(v, q)| *v = f32::from(*q as i8) * scale);
                        }
                        _ => to.iter_mut().zip(from).for_each(|(v, q)| *v = E4M3[usize::from(*q)] * scale),
                    }
                }
            }
            Scales::Tiles { at, tiles, all } => {
                let mut buffer = Vec::new();
                let scale_2 = match all {
                    None => None,
                    Some(at) => Some(f32_at(storage.read(name, *at, 4, &mut buffer)?, 0)),
                };
                let (block, packed) = if all.is_some() { (16, 2) } else { (32, 1) };
                // Tiles are shared by 128 rows; they are read once for those that follow one another.
                let mut held: Option<(usize, Range<usize>)> = None;
                let (mut window, mut fresh) = (Vec::new(), Vec::new());
                for Piece { row, column, from, to } in self.rows(first, bytes, out, packed) {
                    let blocks = column / block..(column + to.len()) / block;
                    let wanted = blocks.start / 4..blocks.end.div_ceil(4);
                    let covers = held.as_ref().is_some_and(|(r, t)| {
                        *r == row / 128 && t.start <= wanted.start && t.end >= wanted.end
                    });
                    if !covers {
                        let start = at + (row / 128 * tiles + wanted.start) * 512;
                        let read = storage.read(name, start, wanted.len() * 512, &mut fresh)?;
                        window.clear();
                        window.extend_from_slice(read);
                        held = Some((row / 128, wanted.clone()));
                    }
                    let origin = held.as_ref().map_or(0, |(_, t)| t.start);
                    let parts = from.chunks_exact(block / packed).zip(to.chunks_exact_mut(block));
                    for (c, (from, to)) in blocks.zip(parts) {
                        let place = (c / 4 - origin) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + c % 4;
                        match scale_2 {
                            Some(all) => nvfp4(from, E4M3[usize::from(window[place])], all, to),
                            None => {
                                let scale = e8m0(window[place]);
                                to.iter_mut().zip(from).for_each(|(v, q)| *v = E4M3[usize::from(*q)] * scale);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Cuts a run of values at the ends of rows.
    fn rows<'a>(
        &self,
        first: usize,
        bytes: &'a [u8],
        out: &'a mut [f32],
        packed: usize,
    ) -> impl Iterator<Item = Piece<'a>> {
        let columns = self.columns;
        let (mut at, mut bytes, mut out) = (first, bytes, out);
        std::iter::from_fn(move || {
            if out.is_empty() {
                return None;
            }
            let (row, column) = (at / columns, at % columns);
            let length = (columns - column).min(out.len());
            let (from, rest) = bytes.split_at_checked(length / packed)?;
            let (to, more) = std::mem::take(&mut out).split_at_mut(length);
            (at, bytes, out) = (at + length, rest, more);
            Some(Piece { row, column, from, to })
        })
    }
}

fn f32_at(bytes: &[u8], at: usize) -> f32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(f32::NAN, |b| f32::from_le_bytes(*b))
}

/// The even column is in the high nibble. A product of the first two is exact, so there is one rounding.
fn nvfp4(from: &[u8], scale: f32, scale_2: f32, out: &mut [f32]) {
    for (pair, byte) in out.chunks_exact_mut(2).zip(from) {
        pair[0] = E2M1[usize::from(byte >> 4)] * scale * scale_2;
        pair[1] = E2M1[usize::from(byte & 15)] * scale * scale_2;
    }
}

/// Undoes the rotation of each group: `out = scale * (q H)`, where H is the product of matrices H4 = [[1,1,1,-1],
/// [1,1,-1,1], [1,-1,1,1], [-1,1,1,1]], divided by the root of its size. Sums are whole numbers below 2^15 and the
/// division is by a power of two, so only the last product is rounded.
fn unrotate(from: &[u8], group: usize, scale: f32, out: &mut [f32]) {
    let root = 1.0 / f32::from(group.isqrt() as u8);
    let mut sums = [0i32; 256];
    for (from, to) in from.chunks_exact(group).zip(out.chunks_exact_mut(group)) {
        let sums = &mut sums[..group];
        sums.iter_mut().zip(from).for_each(|(sum, q)| *sum = i32::from(*q as i8));
        let mut stride = 1;
        while stride < group {
            for start in (0..group).step_by(stride * 4) {
                for i in start..start + stride {
                    let [a, b, c, d] = [0, 1, 2, 3].map(|n| sums[i + n * stride]);
                    sums[i] = a + b + c - d;
                    sums[i + stride] = a + b - c + d;
                    sums[i + 2 * stride] = a - b + c + d;
                    sums[i + 3 * stride] = b + c + d - a;
                }
            }
            stride *= 4;
        }
        to.iter_mut().zip(sums).for_each(|(v, sum)| *v = *sum as f32 * root * scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sign of an entry of H, from the bits of its place.
    fn sign(i: usize, j: usize) -> f64 {
        let x = i ^ j;
        if (x & (x >> 1) & 0x55).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
    }

    #[test]
    fn the_fast_rotation_is_the_sum_over_the_matrix() {
        for group in [4usize, 16, 64, 256] {
            let q: Vec<u8> = (0..2 * group).map(|i| (i * 37 + i / 7) as u8).collect();
            let mut fast = vec![0.0; q.len()];
            unrotate(&q, group, 0.37, &mut fast);
            for (at, value) in fast.iter().enumerate() {
                let (start, j) = (at / group * group, at % group);
                let sum: f64 = (0..group).map(|i| f64::from(q[start + i] as i8) * sign(i, j)).sum();
                let expected = (sum / (group as f64).sqrt()) as f32 * 0.37;
                assert_eq!(value.to_bits(), expected.to_bits(), "{group} {at}");
            }
        }
    }
}
