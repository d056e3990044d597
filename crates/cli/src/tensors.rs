//! Frames and latents in files: recognised by content when read, by ending when written.

use std::io::Read;
use std::path::Path;

use remaster_compute::HostTensor;
use remaster_weights::{CheckpointError, NamedTensor, TensorFileError, read_tensors, write_tensors};

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
    let tensors = read_tensors(path).map_err(|source| match source {
        TensorFileError::Checkpoint(CheckpointError::NotSafetensors { .. }) if name == FRAMES => {
            CliError::Picture {
                path: path.to_owned(),
                reason: "it is neither a PNG nor a safetensors file".into(),
            }
        }
        source => CliError::Input { path: path.to_owned(), source },
    })?;
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
pub(crate) fn check_output(path: &Path, name: &str) -> Result<(), CliError> {
    let allowed = if name == FRAMES { ".safetensors or .png" } else { ".safetensors" };
    match has_ending(path, "safetensors") || (name == FRAMES && is_still(path)) {
        true => Ok(()),
        false => Err(CliError::Ending { path: path.to_owned(), allowed }),
    }
}

/// Refuses several frames for a still, for the same reason.
pub(crate) fn check_frames(path: &Path, frames: usize) -> Result<(), CliError> {
    if is_still(path) && frames != 1 { Err(CliError::Frames { frames }) } else { Ok(()) }
}

fn is_still(path: &Path) -> bool {
    has_ending(path, "png")
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(ending))
}

/// Writes frames or latents; `.png` for a single frame, safetensors otherwise.
pub(crate) fn write(path: &Path, name: &str, tensor: &HostTensor) -> Result<(), CliError> {
    if is_still(path) {
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
