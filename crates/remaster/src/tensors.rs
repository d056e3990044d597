//! Frames and latents as plain tensors in safetensors files.

use std::path::{Path, PathBuf};

use remaster_compute::{HostTensor, Shape};
use remaster_media::MediaError;
use remaster_media::place::PartialFile;
use remaster_weights::{Checkpoint, NamedTensor, ReadError, TensorFileError, write_tensors};

use crate::destination::check_file;
use crate::error::Error;

/// Name of frames in a file: `[1, 3, T, H, W]` in [-1, 1].
pub(crate) const FRAMES: &str = "x";
/// Name of latents in a file: `[1, 16, t, h, w]`, the mean without the pipeline's scaling.
pub(crate) const LATENT: &str = "latent";

/// Frames or latents in a file: the header was read, the values were not.
pub(crate) struct Input {
    path: PathBuf,
    file: Checkpoint,
    name: &'static str,
    pub(crate) shape: Shape,
}

/// Looks for frames or latents with `channels` channels. Nothing but the header is read.
pub(crate) fn open(path: &Path, name: &'static str, channels: usize) -> Result<Input, Error> {
    let failed = |source| Error::Input { path: path.to_owned(), source };
    let file = Checkpoint::open(path).map_err(|e| failed(e.into()))?;
    let shape = file.get(name).and_then(|t| match t.shape()[..] {
        [1, c, t, h, w] | [c, t, h, w] if c == channels => Some(Shape::new(t, h, w, c)),
        _ => None,
    });
    let Some(shape) = shape else {
        let list: Vec<String> =
            file.tensors().take(8).map(|t| format!("`{}` {:?}", t.name(), t.shape())).collect();
        return Err(Error::Tensor {
            path: path.to_owned(),
            expected: format!("`{name}` [1, {channels}, t, h, w]"),
            found: if list.is_empty() { "none".into() } else { list.join(", ") },
        });
    };
    Ok(Input { path: path.to_owned(), file, name, shape })
}

impl Input {
    /// The values, channels last. One plane of a channel is read at a time, so little lies beside the result.
    pub(crate) fn read(&self) -> Result<HostTensor, Error> {
        let failed = |source: ReadError| Error::Input { path: self.path.clone(), source: source.into() };
        let mut out = HostTensor::zeros(self.shape);
        let Some(info) = self.file.get(self.name) else { return Ok(out) };
        let Shape { t, h, w, c } = self.shape;
        let mut plane = vec![0.0; h * w];
        for (channel, frame) in (0..c).flat_map(|channel| (0..t).map(move |frame| (channel, frame))) {
            let start = (channel * t + frame) * plane.len();
            self.file.read_f32(info, start, &mut plane).map_err(failed)?;
            let pixels = out.data[frame * plane.len() * c..][..plane.len() * c].chunks_exact_mut(c);
            pixels.zip(&plane).for_each(|(pixel, value)| pixel[channel] = *value);
        }
        Ok(out)
    }
}

/// Refuses a name that nothing can be written to, before the work is done that would be lost.
pub(crate) fn check_output(path: &Path, input: &Path, replace: bool) -> Result<(), Error> {
    check_file(path, "safetensors", &[input], replace)
}

/// Writes frames or latents.
pub(crate) fn write(path: &Path, name: &str, tensor: &HostTensor, replace: bool) -> Result<(), Error> {
    let s = tensor.shape;
    let named = NamedTensor {
        name: name.to_owned(),
        shape: vec![1, s.c, s.t, s.h, s.w],
        data: tensor.to_channels_first(),
    };
    let part = PartialFile::beside(path, replace)?;
    write_tensors(part.path(), &[named], &Default::default()).map_err(|e| match e {
        // The name of the part is internal.
        TensorFileError::Write { source, .. } => MediaError::writing(path, source).into(),
        e => Error::Output(e),
    })?;
    Ok(part.put()?)
}
