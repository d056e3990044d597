//! What can be wrong with a checkpoint. Every message names the value and a next step.

use std::path::PathBuf;

use thiserror::Error;

use crate::dit::DitDoubt;
use crate::identify::{Kind, VaeDoubt};
use crate::report::LoadReport;
use crate::scale::LatentScaleError;
use crate::stored::StoredDtype;
use crate::torch::TorchFault;
use crate::upscaler::UpscalerDoubt;

/// Why a file is not a checkpoint that can be used.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The file could not be opened or mapped.
    #[error("cannot open {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A folder, a device or a pipe.
    #[error("{} is not a regular file; use the path of a .safetensors, .gguf or .pth file", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// No bytes at all.
    #[error("the file is empty; download it again")]
    Empty,
    /// A pickle that PyTorch did not write.
    #[error(
        "this is a Python pickle and no PyTorch pickle (.pth); pickles are not run, since that can run code: use a \
         .safetensors, .gguf or .pth file"
    )]
    Pickle,
    /// A file of PyTorch before 1.6: several pickles, without a zip around them.
    #[error(
        "this is a PyTorch pickle of the old format, which is not read; convert it: python -c \"import torch; \
         torch.save(torch.load('old.pth', weights_only=True), 'new.pth')\""
    )]
    OldTorch,
    /// A file of PyTorch that cannot be used.
    #[error("this PyTorch pickle (.pth) cannot be used: {fault}")]
    Torch {
        /// Why.
        fault: TorchFault,
    },
    /// A zip archive that PyTorch did not write.
    #[error(
        "this is a zip archive and no file of PyTorch; unpack it and give the .safetensors or .pth file inside"
    )]
    Zip,
    /// A GGUF file of a version that is not read.
    #[error("this is a GGUF file of version {version}; versions 2 and 3 can be read: download a newer file")]
    GgufVersion {
        /// Its version.
        version: u32,
    },
    /// A GGUF file for machines of the other byte order.
    #[error("this is a big-endian GGUF file; use the little-endian one")]
    GgufBigEndian,
    /// A number format of GGUF that is not read.
    #[error(
        "tensor `{name}` is stored as {dtype}, which cannot be read; use a GGUF file in Q8_0, Q4_K_M or another of \
         the Q formats, or the safetensors file of the same model"
    )]
    GgufType {
        /// Name in the file, shortened.
        name: String,
        /// The format's name in GGUF.
        dtype: String,
    },
    /// A quantised layer that cannot be widened.
    #[error("the quantised layer `{layer}` {fault}")]
    Layer {
        /// Its name in the file, shortened.
        layer: String,
        /// What is wrong with it.
        fault: LayerFault,
    },
    /// A web page or another XML document.
    #[error(
        "this is a web page, not a checkpoint: the download was answered by an error or login page; \
         open the address in a browser and download the file itself"
    )]
    Html,
    /// A pointer of Git LFS instead of the file.
    #[error("this is a Git LFS pointer, not the file it points to; run `git lfs pull` or download the file")]
    LfsPointer,
    /// None of the known formats.
    #[error("this is not a checkpoint: it starts with {start}; use a .safetensors, .gguf or .pth file")]
    NotSafetensors {
        /// The first bytes, as hexadecimal.
        start: String,
    },
    /// The file ends before its header or its header's tensors do.
    #[error("the file is cut off: {actual} bytes, at least {needed} expected; download it again")]
    Truncated {
        /// Bytes the file claims to have.
        needed: u64,
        /// Bytes it has.
        actual: u64,
    },
    /// Bytes after the last tensor.
    #[error("the file has {extra} bytes after its last tensor; it is damaged, download it again")]
    Trailing {
        /// How many.
        extra: u64,
    },
    /// The header is larger than any honest one.
    #[error("the header claims {bytes} bytes, but the limit is {max}; the file is damaged")]
    HeaderTooLarge {
        /// Claimed size.
        bytes: u64,
        /// Largest size accepted.
        max: u64,
    },
    /// The header is not JSON of the expected form.
    #[error("the header cannot be read: {reason}; the file is damaged, download it again")]
    Header {
        /// What the parser said, shortened.
        reason: String,
    },
    /// One tensor of the header is impossible.
    #[error("tensor `{name}`: {fault}; the file is damaged, download it again")]
    Tensor {
        /// Name in the file, shortened.
        name: String,
        /// What is wrong with it.
        fault: TensorFault,
    },
}

/// What is wrong with a tensor's entry in the header.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TensorFault {
    /// The name occurs twice.
    #[error("the name occurs more than once")]
    Duplicate,
    /// A number format this version does not know.
    #[error("unknown number format `{0}`")]
    UnknownDtype(String),
    /// More axes than any network uses.
    #[error("{rank} axes, but the limit is {max}")]
    Rank {
        /// Axes in the file.
        rank: usize,
        /// Most accepted.
        max: usize,
    },
    /// The number of values or of bytes does not fit into 64 bits.
    #[error("shape {shape:?} is larger than any memory")]
    Overflow {
        /// Shape in the file.
        shape: Vec<u64>,
    },
    /// A packed format that does not fill its last block.
    #[error("{elements} values do not fill whole blocks of {dtype}")]
    PartBlock {
        /// Number of values.
        elements: usize,
        /// Their format.
        dtype: StoredDtype,
    },
    /// The metadata gives it another number of values.
    #[error("its shape is {stored:?}, but the metadata says {said:?}, which is another number of values")]
    OtherShape {
        /// Shape of the stored values.
        stored: Vec<usize>,
        /// Shape in the metadata.
        said: Vec<u64>,
    },
    /// The data is not as long as shape and format say.
    #[error("data from byte {start} to {end}, but its shape and format need {needed} bytes")]
    Size {
        /// First byte, from the start of the data.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// Bytes by shape and format.
        needed: u64,
    },
    /// Shares bytes with the tensor before it.
    #[error("its data starts at byte {start}, inside the tensor before it, which ends at {previous}")]
    Overlap {
        /// First byte, from the start of the data.
        start: u64,
        /// Where the tensor before it ends.
        previous: u64,
    },
    /// Bytes before it belong to no tensor; the format forbids that.
    #[error("its data starts at byte {start}, but the tensor before it ends at {previous}")]
    Hole {
        /// First byte, from the start of the data.
        start: u64,
        /// Where the tensor before it ends.
        previous: u64,
    },
}

/// What is wrong with a quantised layer.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LayerFault {
    /// A format this version does not know.
    #[error("is in the format `{0}`, which cannot be read; use an int8, nvfp4, mxfp8, fp8 or fp16 file")]
    UnknownFormat(String),
    /// Its marker cannot be understood.
    #[error("has a marker that cannot be read: {0}; the file is damaged, download it again")]
    Marker(String),
    /// A tensor it needs is not there.
    #[error("lacks its tensor `{0}`; the file is damaged, download it again")]
    Missing(String),
    /// A tensor in another number format.
    #[error("has `{name}` as {dtype}, expected {expected}; the file is damaged, download it again")]
    Dtype {
        /// The tensor.
        name: String,
        /// How it is stored.
        dtype: StoredDtype,
        /// How it should be.
        expected: StoredDtype,
    },
    /// A tensor of another shape.
    #[error("has `{name}` of shape {shape:?}, expected {expected}; the file is damaged, download it again")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// What it should be.
        expected: String,
    },
    /// A rotation that does not fit.
    #[error(
        "is rotated in groups of {group} columns, but has {columns} columns; groups of 4, 16, 64 or 256 that divide \
         the columns can be read"
    )]
    Group {
        /// Size of a group.
        group: u64,
        /// Columns of the weight.
        columns: usize,
    },
}

/// Why values of a tensor cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReadError {
    /// A format that is not converted.
    #[error(
        "tensor `{name}` is stored as {dtype}; F32, F16, BF16 and F8_E4M3 can be read: use a file in one of these"
    )]
    Dtype {
        /// Name in the file.
        name: String,
        /// How it is stored.
        dtype: StoredDtype,
    },
    /// Values past the end of the tensor were asked for.
    #[error("tensor `{name}` has {elements} values; {count} from {start} on were asked for")]
    Range {
        /// Name in the file.
        name: String,
        /// First value asked for.
        start: usize,
        /// Number of values asked for.
        count: usize,
        /// Values it has.
        elements: usize,
    },
    /// The file is not what it was when it was opened.
    #[error("{} changed while it was in use; run again, and do not modify the file during the run", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read any more.
    #[error("cannot read {}: {reason}; check the disk or network it is on", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The tensor belongs to another checkpoint.
    #[error("tensor `{name}` does not belong to this checkpoint")]
    Foreign {
        /// Name in its file.
        name: String,
    },
}

/// Why a network cannot be loaded from a checkpoint.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file itself.
    #[error("cannot use {}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: CheckpointError,
    },
    /// A good checkpoint of something else.
    #[error(
        "{} is {kind}, not a SeedVR2 video VAE; use `ema_vae_fp16.safetensors`", path.display()
    )]
    NotAVae {
        /// The file.
        path: PathBuf,
        /// What it is.
        kind: Kind,
    },
    /// A good checkpoint of something else than a diffusion transformer.
    #[error(
        "{} is {kind}, not a SeedVR2 diffusion transformer; use `seedvr2_ema_3b_fp16.safetensors` or another of its \
         files", path.display()
    )]
    NotADit {
        /// The file.
        path: PathBuf,
        /// What it is.
        kind: Kind,
    },
    /// A diffusion transformer whose sizes cannot be used.
    #[error("{} looks like a SeedVR2 diffusion transformer, but {doubt}", path.display())]
    DitDoubt {
        /// The file.
        path: PathBuf,
        /// What is not clear.
        doubt: DitDoubt,
    },
    /// A diffusion transformer whose metadata says an impossible factor for latents.
    #[error("cannot use {}", path.display())]
    LatentScale {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: LatentScaleError,
    },
    /// A VAE whose sizes cannot be used.
    #[error("{} looks like a SeedVR2 video VAE, but {doubt}", path.display())]
    Doubt {
        /// The file.
        path: PathBuf,
        /// What is not clear.
        doubt: VaeDoubt,
    },
    /// A good checkpoint of something else than one of Real-ESRGAN's networks.
    #[error(
        "{} is {kind}, not an upscaler; use a .pth or .safetensors file of a Real-ESRGAN model, Compact or RRDB",
        path.display()
    )]
    NotAnUpscaler {
        /// The file.
        path: PathBuf,
        /// What it is.
        kind: Kind,
    },
    /// One of Real-ESRGAN's networks whose sizes cannot be used.
    #[error("{} looks like a Real-ESRGAN upscaler, but {doubt}", path.display())]
    UpscalerDoubt {
        /// The file.
        path: PathBuf,
        /// What is not clear.
        doubt: UpscalerDoubt,
    },
    /// Tensors missing, left over or of another shape.
    #[error("{} does not fit the network: {report}", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// Every tensor.
        report: Box<LoadReport>,
    },
}

/// Longest piece of a file's own text that an error repeats.
const CLIP: usize = 120;

/// `text` from a file, made safe to show: short, on one line, no control characters.
pub(crate) fn clip(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(CLIP)
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect();
    if text.chars().nth(CLIP).is_some() {
        shown.push_str("...");
    }
    shown
}
