//! What can be wrong with a picture. Every message names the value and a next step.

use std::path::PathBuf;

use thiserror::Error;

use crate::layout::Layout;

/// Why a picture cannot be taken in or given out.
#[derive(Debug, Error)]
pub enum PictureError {
    /// A combination of samples, depth and alpha that is not known.
    #[error(
        "samples of {kind:?} with {depth} bits cannot be used; use gray, YUV or GBR planes of 8, 9, 10, 12, 14 \
         or 16 bits, GBR planes of 32-bit floats, or packed RGB of 8 or 16 bits",
        kind = .0.kind, depth = .0.depth
    )]
    Layout(Layout),
    /// YUV without the numbers that make RGB of it.
    #[error("{layout} needs a YUV matrix, but RGB was given; name one, BT.709 for HD and BT.601 for SD")]
    Matrix {
        /// Name of the layout.
        layout: String,
    },
    /// A raw frame that is too short or too long.
    #[error(
        "a {layout} frame of {width} x {height} pixels is {needed} bytes, not {given}; check its size and layout"
    )]
    Bytes {
        /// Name of the layout.
        layout: String,
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
        /// Bytes by size and layout.
        needed: usize,
        /// Bytes that came.
        given: usize,
    },
    /// A frame without pixels, with a wrong number of channels, or whose values do not fill it.
    #[error(
        "a frame of {width} x {height} pixels with {channels} channels and {values} values cannot be used; it \
         needs 3 or 4 channels, at least one pixel, and a value for each"
    )]
    Frame {
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
        /// Values of a pixel.
        channels: usize,
        /// Values in all.
        values: usize,
    },
    /// One side has alpha and the other has no room for it.
    #[error("{what} has an alpha channel that would be lost; use a format with alpha, or drop it first")]
    Alpha {
        /// The side with alpha.
        what: String,
    },
    /// A depth that the file format does not have.
    #[error("{format} files of {depth} bits cannot be written; use {allowed}")]
    Depth {
        /// The file format.
        format: &'static str,
        /// What was asked for.
        depth: u32,
        /// What can be written.
        allowed: &'static str,
    },
    /// A picture beyond what is accepted.
    #[error("the image is {width} x {height} pixels, but the limit is {max} pixels; scale it down first")]
    TooLarge {
        /// Width in pixels.
        width: u64,
        /// Height in pixels.
        height: u64,
        /// Most pixels accepted.
        max: u64,
    },
    /// A picture that takes more memory than it may.
    #[error(
        "an image of {width} x {height} pixels needs {:.1} MiB of memory, but the limit is {:.1} MiB; raise --ram \
         (an image may use a quarter of it), or scale the image down",
        *needs as f64 / 1048576.0, *most as f64 / 1048576.0
    )]
    OverBudget {
        /// Width in pixels.
        width: u64,
        /// Height in pixels.
        height: u64,
        /// Bytes that reading it takes.
        needs: u64,
        /// Bytes that it may take.
        most: u64,
    },
    /// A format that is only read.
    #[error("cannot write {format} files; use {}", crate::StillFormat::WRITTEN)]
    Unwritten {
        /// The file format.
        format: &'static str,
    },
    /// A few bytes that claim to be a large picture.
    #[error(
        "the file claims {width} x {height} pixels in {bytes} bytes; it is cut off or damaged, get it again"
    )]
    Implausible {
        /// Width in pixels.
        width: u64,
        /// Height in pixels.
        height: u64,
        /// Bytes in the file.
        bytes: u64,
    },
    /// Not a file of this format, or a broken one.
    #[error("not a usable {format} file: {reason}; get it again, or convert it with another program")]
    Damaged {
        /// The file format.
        format: &'static str,
        /// What the reader said.
        reason: String,
    },
    /// A file of the right format with something inside that is not read.
    #[error("this {format} file has {what}, which is not supported; convert it to {instead}")]
    Unsupported {
        /// The file format.
        format: &'static str,
        /// What is in it.
        what: String,
        /// What would do.
        instead: &'static str,
    },
    /// The file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A file with something wrong inside.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: Box<PictureError>,
    },
}
