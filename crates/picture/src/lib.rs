//! Everything about one picture, and nothing about clips: no processes, no clock, no printing.
//!
//! * [`Frame`]: RGB or RGBA in f32, the form in which all of the program sees pictures;
//! * [`Layout`] and [`Coding`]: raw samples to a frame and back, without loss for an untouched frame;
//! * [`resize`], [`pad`] with its [`Edges`], [`crop`], [`turn`], [`upright`]: geometry;
//! * [`dither`]: noise before rounding to few bits;
//! * [`short_side`], [`mirror_index`]: which sizes and which frames the network gets;
//! * [`still`]: pictures in files, JPEG, PNG, WebP, TIFF, BMP and EXR.
//!
//! ```
//! use remaster_picture::{Coding, Frame, Layout, Matrix, Range, Siting};
//!
//! let layout = Layout::from_name("yuv420p10le").ok_or("unknown layout")?;
//! let coding = Coding { matrix: Matrix::Bt709, range: Range::Limited, siting: Siting::Left };
//! let raw: Vec<u8> = (0..30u16).flat_map(|i| (64 + 29 * i).to_le_bytes()).collect();
//!
//! let mut frame = Frame::new(5, 3, 3);
//! layout.unpack(&raw[..layout.bytes(5, 3).ok_or("too large")?], &coding, &mut frame)?;
//! let mut back = Vec::new();
//! layout.pack(&frame, &coding, &mut back)?;
//! assert_eq!(back, raw[..54]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bmp;
mod chroma;
mod coding;
mod dither;
mod edges;
mod error;
mod exif;
pub mod exr;
mod file;
mod frame;
mod jpeg;
mod jpeg_encode;
mod layout;
mod pack;
pub mod png;
mod resize;
mod samples;
pub mod still;
mod tags;
mod tiff;
mod time;
mod unpack;
mod webp;

pub use coding::{Coding, Matrix, Range, Siting};
pub use dither::dither;
pub use edges::{Edges, pad};
pub use error::PictureError;
pub use file::MAX_PIXELS;
pub use frame::{Frame, crop, turn, upright};
pub use layout::{Kind, Layout};
pub use resize::{resize, resize_short, short_side};
pub use still::{PictureInfo, StillFormat, StillInfo};
pub use time::mirror_index;
