//! Frames and latents as plain tensors in safetensors files.

use std::path::Path;

use remaster_compute::HostTensor;
use remaster_media::MediaError;
use remaster_media::place::Part;
use remaster_weights::{NamedTensor, TensorFileError, read_tensors, write_tensors};

use crate::destination::check_file;
use crate::error::CliError;

/// Name of frames in a file: `[1, 3, T, H, W]` in [-1, 1].
pub(crate) const FRAMES: &str = "x";
/// Name of latents in a file: `[1, 16, t, h, w]`, the mean without the pipeline's scaling.
pub(crate) const LATENT: &str = "latent";

/// Frames or latents with `channels` channels.
pub(crate) fn read(path: &Path, name: &str, channels: usize) -> Result<HostTensor, CliError> {
    let tensors = read_tensors(path).map_err(|source| CliError::Input { path: path.to_owned(), source })?;
    let found = tensors.iter().find(|t| t.name == name).and_then(|t| match t.shape[..] {
        [1, c, t_, h, w] | [c, t_, h, w] if c == channels => Some((t, [c, t_, h, w])),
        _ => None,
    });
    let Some((tensor, dims)) = found else {
        let list: Vec<String> =
            tensors.iter().take(8).map(|t| format!("`{}` {:?}", t.name, t.shape)).collect();
        return Err(CliError::Tensor {
            path: path.to_owned(),
            expected: format!("`{name}` [1, {channels}, t, h, w]"),
            found: if list.is_empty() { "none".into() } else { list.join(", ") },
        });
    };
    Ok(HostTensor::from_channels_first(dims, &tensor.data))
}

/// Refuses a name that nothing can be written to, before the work is done that would be lost.
pub(crate) fn check_output(path: &Path, input: &Path, replace: bool) -> Result<(), CliError> {
    check_file(path, "safetensors", &[input], replace)
}

/// Writes frames or latents.
pub(crate) fn write(path: &Path, name: &str, tensor: &HostTensor, replace: bool) -> Result<(), CliError> {
    let s = tensor.shape;
    let named = NamedTensor {
        name: name.to_owned(),
        shape: vec![1, s.c, s.t, s.h, s.w],
        data: tensor.to_channels_first(),
    };
    let part = Part::beside(path, replace)?;
    write_tensors(part.path(), &[named], &Default::default()).map_err(|e| match e {
        // The name of the part means nothing to anybody.
        TensorFileError::Write { source, .. } => MediaError::writing(path, source).into(),
        e => CliError::Output(e),
    })?;
    Ok(part.put()?)
}
