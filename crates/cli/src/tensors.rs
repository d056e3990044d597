//! Frames and latents in files: recognised by content when read, by ending when written.

use std::io::Read;
use std::path::Path;

use remaster_compute::HostTensor;
use remaster_weights::{NamedTensor, read_tensors, write_tensors};

use crate::error::CliError;
use crate::still;

/// Name of frames in a file: `[1, 3, T, H, W]` in [-1, 1].
pub(crate) const FRAMES: &str = "x";
/// Name of latents in a file: `[1, 16, t, h, w]`, the mean without the pipeline's scaling.
pub(crate) const LATENT: &str = "latent";

/// Frames or latents with `channels` channels.
pub(crate) fn read(path: &Path, name: &str, channels: usize) -> Result<HostTensor, CliError> {
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    let mut start = [0; 8];
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let is_png = file.read(&mut start).map_err(failed)? == 8 && start == still::SIGNATURE;
    if name == FRAMES && is_png {
        return still::read(path);
    }
    let tensors = read_tensors(path)?;
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

/// Writes frames or latents; `.png` for a single frame, safetensors otherwise.
pub(crate) fn write(path: &Path, name: &str, tensor: &HostTensor) -> Result<(), CliError> {
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("png")) {
        return still::write(path, tensor);
    }
    let s = tensor.shape;
    let named = NamedTensor {
        name: name.to_owned(),
        shape: vec![1, s.c, s.t, s.h, s.w],
        data: tensor.to_channels_first(),
    };
    Ok(write_tensors(path, &[named], &Default::default())?)
}
