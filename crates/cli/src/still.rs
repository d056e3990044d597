//! PNG stills in and out.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use png::{BitDepth, ColorType, Transformations};
use remaster_compute::{HostTensor, Shape};

use crate::error::CliError;

/// The first bytes of every PNG.
pub(crate) const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Most bytes of picture that a byte of PNG can stand for: deflate reaches 1032, and a palette index of
/// one bit becomes up to 32.
const MAX_RATIO: u64 = 1032 * 32;

/// An 8- or 16-bit PNG as one frame `[1, h, w, 3]` in [-1, 1]. Grey becomes RGB; alpha is refused.
pub(crate) fn read(path: &Path) -> Result<HostTensor, CliError> {
    let unusable = |reason: String| CliError::Picture { path: path.to_owned(), reason };
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let stored = file.metadata().map_err(failed)?.len();
    let mut decoder = png::Decoder::new(BufReader::new(file));
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(|e| unusable(e.to_string()))?;
    let size = reader.output_buffer_size().ok_or_else(|| unusable("it is too large".into()))?;
    // A few bytes may claim any size; memory is only asked for what they can really hold.
    if size as u64 / MAX_RATIO > stored {
        let (width, height) = (reader.info().width, reader.info().height);
        return Err(unusable(format!("it claims {width} x {height} pixels in {stored} bytes")));
    }
    let mut bytes = vec![0; size];
    let info = reader.next_frame(&mut bytes).map_err(|e| unusable(e.to_string()))?;
    let colours = match info.color_type {
        ColorType::Rgb => 3,
        ColorType::Grayscale => 1,
        other => {
            return Err(unusable(format!("{other:?} is not RGB or grey; flatten the alpha channel first")));
        }
    };
    let values: Vec<f32> = match info.bit_depth {
        BitDepth::Sixteen => bytes[..info.buffer_size()]
            .chunks_exact(2)
            .map(|b| f32::from(u16::from_be_bytes([b[0], b[1]])) / 65535.0 * 2.0 - 1.0)
            .collect(),
        _ => bytes[..info.buffer_size()].iter().map(|b| f32::from(*b) / 255.0 * 2.0 - 1.0).collect(),
    };
    let repeat = 3 / colours;
    let data = values.iter().flat_map(|v| std::iter::repeat_n(*v, repeat)).collect();
    Ok(HostTensor { shape: Shape::new(1, info.height as usize, info.width as usize, 3), data })
}

/// One frame `[1, h, w, 3]` as a 16-bit PNG; values are cut to [-1, 1].
pub(crate) fn write(path: &Path, frame: &HostTensor) -> Result<(), CliError> {
    if frame.shape.t != 1 {
        return Err(CliError::Frames { frames: frame.shape.t });
    }
    let failed = |source| CliError::Write { path: path.to_owned(), source };
    let temporary = path.with_extension("png.partial");
    let file = File::create(&temporary).map_err(failed)?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), frame.shape.w as u32, frame.shape.h as u32);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Sixteen);
    let level = |v: &f32| (((v.clamp(-1.0, 1.0) + 1.0) / 2.0 * 65535.0).round() as u16).to_be_bytes();
    let bytes: Vec<u8> = frame.data.iter().flat_map(level).collect();
    let written = encoder.write_header().and_then(|mut w| {
        w.write_image_data(&bytes)?;
        w.finish()
    });
    let renamed = written.map_err(std::io::Error::other).and_then(|()| std::fs::rename(&temporary, path));
    renamed.map_err(|e| {
        let _ = std::fs::remove_file(&temporary);
        failed(e)
    })
}
