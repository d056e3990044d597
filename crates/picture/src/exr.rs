//! OpenEXR files: scene-linear floats.
//!
//! The first layer is read, its R, G, B and A channels or its Y, at full resolution. The picture is the display
//! window; where the layer does not reach it is black. Values are handed over as they are: linear, without a
//! limit, and with alpha multiplied in if the file follows the custom.

use std::io::{Cursor, Read, Seek};

use exr::error::Error;
use exr::image::{AnyChannel, AnyChannels, Encoding, FlatSamples, Image, Layer};
use exr::math::Vec2;
use exr::meta::MetaData;
use exr::meta::attribute::{Chromaticities, IntegerBounds};
use exr::meta::header::{ImageAttributes, LayerAttributes};
use exr::prelude::{ReadChannels, ReadLayers, WritableImage, f16};

use crate::error::PictureError;
use crate::file::{admit, check_size};
use crate::frame::Frame;

const FORMAT: &str = "EXR";

const INSTEAD: &str = "a plain one with R, G, B and perhaps A of 16 or 32-bit floats";

/// Most bytes of samples that a byte of file can stand for: deflate reaches 1032, and the filters in front of it
/// widen that a little. Twice as much is safe.
const MAX_RATIO: u64 = 2 * 1032;

/// What an EXR says about itself besides its pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExrInfo {
    /// Bits of a value: 16 or 32.
    pub depth: u32,
    /// Width of a pixel, divided by its height.
    pub aspect: f32,
    /// x and y of red, green, blue and white. Without them the colours are those of BT.709.
    pub chromaticities: Option<[f32; 8]>,
}

impl Default for ExrInfo {
    /// 16 bits, square pixels, BT.709.
    fn default() -> Self {
        ExrInfo { depth: 16, aspect: 1.0, chromaticities: None }
    }
}

type Flat = Image<Layer<AnyChannels<FlatSamples>>>;

pub(crate) fn decode_from(
    mut reader: impl Read + Seek,
    stored: u64,
    most: u64,
) -> Result<(Frame, ExrInfo), PictureError> {
    let meta = MetaData::read_from_buffered(&mut reader, false).map_err(damaged)?;
    for header in &meta.headers {
        if header.deep {
            return Err(unsupported("deep pixels".into()));
        }
        let Vec2(width, height) = header.shared_attributes.display_window.size;
        let window = [width as u64, height as u64];
        let Vec2(width, height) = header.layer_size;
        let layer = [width as u64, height as u64];
        check_size(window, 0, stored, MAX_RATIO)?;
        let pixel = header.channels.bytes_per_pixel as u64;
        let samples = layer[0].saturating_mul(layer[1]).saturating_mul(pixel);
        check_size(layer, samples, stored, MAX_RATIO)?;
        admit(window, 4, most)?;
        // The samples of all channels are read before the picture is made of some.
        let needs = samples.saturating_add(4 * 4 * window[0] * window[1]);
        if needs > most {
            let [width, height] = layer;
            return Err(PictureError::OverBudget { width, height, needs, most });
        }
    }
    reader.rewind().map_err(|e| damaged(e.into()))?;
    let read = exr::image::read::read().no_deep_data().largest_resolution_level().all_channels();
    let read = read.first_valid_layer().all_attributes().non_parallel();
    let image: Flat = read.from_buffered(reader).map_err(damaged)?;
    assemble(&image)
}

/// The display window, filled from the channels that count.
fn assemble(image: &Flat) -> Result<(Frame, ExrInfo), PictureError> {
    let layer = &image.layer_data;
    let channel = |name: &str| layer.channel_data.list.iter().find(|c| c.name.eq(name));
    let mut sources = match (channel("R"), channel("G"), channel("B"), channel("Y")) {
        (Some(r), Some(g), Some(b), _) => vec![r, g, b],
        (None, None, None, Some(y)) => vec![y, y, y],
        _ => {
            let names: Vec<String> =
                layer.channel_data.list.iter().take(8).map(|c| c.name.to_string()).collect();
            return Err(unsupported(format!("the channels {}", names.join(", "))));
        }
    };
    sources.extend(channel("A"));
    if sources.iter().any(|c| c.sampling != Vec2(1, 1) || matches!(c.sample_data, FlatSamples::U32(_))) {
        return Err(unsupported("subsampled or whole-number channels".into()));
    }
    let window = image.attributes.display_window;
    if window.size.0 == 0 || window.size.1 == 0 {
        return Err(unsupported("a display window without pixels".into()));
    }
    let mut frame = Frame::new(window.size.0, window.size.1, sources.len());
    // Where the layer starts inside the window, maybe before it.
    let at = [
        i64::from(layer.attributes.layer_position.0) - i64::from(window.position.0),
        i64::from(layer.attributes.layer_position.1) - i64::from(window.position.1),
    ];
    let (columns, skip_x) = overlap(at[0], layer.size.0, frame.width);
    let (rows, skip_y) = overlap(at[1], layer.size.1, frame.height);
    let channels = frame.channels;
    for (c, source) in sources.iter().enumerate() {
        for y in rows.clone() {
            let start = (y - rows.start + skip_y) * layer.size.0 + skip_x;
            let row = &mut frame.row_mut(y)[columns.start * channels..];
            let out = row.iter_mut().skip(c).step_by(channels).take(columns.len());
            match &source.sample_data {
                FlatSamples::F16(values) => {
                    out.zip(values.get(start..).unwrap_or_default()).for_each(|(o, v)| *o = v.to_f32());
                }
                FlatSamples::F32(values) => {
                    out.zip(values.get(start..).unwrap_or_default()).for_each(|(o, v)| *o = *v);
                }
                FlatSamples::U32(_) => {}
            }
        }
    }
    let wide = sources.iter().any(|c| matches!(c.sample_data, FlatSamples::F32(_)));
    let chromaticities = image.attributes.chromaticities.map(|c| {
        let [r, g, b, w] = [c.red, c.green, c.blue, c.white];
        [r.0, r.1, g.0, g.1, b.0, b.1, w.0, w.1]
    });
    let depth = if wide { 32 } else { 16 };
    Ok((frame, ExrInfo { depth, aspect: image.attributes.pixel_aspect, chromaticities }))
}

/// Which pixels of a window of `window` a layer of `size` at `at` covers, and how many of its own come before.
fn overlap(at: i64, size: usize, window: usize) -> (std::ops::Range<usize>, usize) {
    let (size, window) = (size as i64, window as i64);
    let (start, end) = (at.clamp(0, window), at.saturating_add(size).clamp(0, window));
    if start >= end { (0..0, 0) } else { (start as usize..end as usize, (start - at) as usize) }
}

/// `frame` as the bytes of a file, in floats of the depth of `info`, compressed without loss.
pub fn encode(frame: &Frame, info: &ExrInfo) -> Result<Vec<u8>, PictureError> {
    frame.check()?;
    if info.depth != 16 && info.depth != 32 {
        let allowed = "floats of 16 or 32 bits";
        return Err(PictureError::Depth { format: FORMAT, depth: info.depth, allowed });
    }
    let channel = |(c, name): (usize, &str)| {
        let values = frame.data.iter().skip(c).step_by(frame.channels).copied();
        let samples = match info.depth {
            16 => FlatSamples::F16(values.map(f16::from_f32).collect()),
            _ => FlatSamples::F32(values.collect()),
        };
        AnyChannel::new(name, samples)
    };
    let list = ["R", "G", "B", "A"].into_iter().take(frame.channels).enumerate().map(channel).collect();
    let size = Vec2(frame.width, frame.height);
    let mut attributes = ImageAttributes::new(IntegerBounds::from_dimensions(size));
    attributes.pixel_aspect = info.aspect;
    attributes.chromaticities = info.chromaticities.map(|[rx, ry, gx, gy, bx, by, wx, wy]| Chromaticities {
        red: Vec2(rx, ry),
        green: Vec2(gx, gy),
        blue: Vec2(bx, by),
        white: Vec2(wx, wy),
    });
    let layer =
        Layer::new(size, LayerAttributes::default(), Encoding::SMALL_LOSSLESS, AnyChannels::sort(list));
    let image = Image::empty(attributes).with_layer(layer);
    let mut out = Cursor::new(Vec::new());
    image.write().non_parallel().to_buffered(&mut out).map_err(damaged)?;
    Ok(out.into_inner())
}

fn unsupported(what: String) -> PictureError {
    PictureError::Unsupported { format: FORMAT, what, instead: INSTEAD }
}

fn damaged(error: Error) -> PictureError {
    match error {
        Error::NotSupported(what) => unsupported(what.into_owned()),
        other => PictureError::Damaged { format: FORMAT, reason: other.to_string() },
    }
}
