//! Video in and out for Remaster.
//!
//! * [`probe`]: what is in a file;
//! * [`FrameSource`] and [`FrameSink`]: frames in order, with their timestamps;
//! * [`Decoder`], [`Encoder`]: any file, through ffmpeg as a child process, watched and never left behind;
//! * [`Filters`], [`Encoding`]: what ffmpeg is asked for, and closed lists of what a plan may ask for;
//! * [`Span`]: a part of a clip;
//! * [`fingerprint`]: which film a file is, and whether it was touched;
//! * [`Excerpt`]: some frames of a film, with their times in the film;
//! * [`Encoder::segment`], [`join`]: a film in pieces, encoded apart and joined without encoding again;
//! * [`Y4mReader`], [`Y4mWriter`], [`RawReader`], [`RawWriter`], [`Pictures`], [`PictureWriter`]: raw pipes and pictures,
//!   without ffmpeg;
//! * [`Script`]: VapourSynth scripts, through vspipe as a child process;
//! * [`Replay`]: a pipe that is read twice.
//!
//! ffmpeg only decodes and encodes: samples come as they are stored, and what they mean is computed here, so
//! that no default of another program changes a colour. Timestamps travel with the frames.

mod asked;
mod child;
mod clip;
mod colour;
mod command;
mod decode;
mod encode;
mod ends;
mod entry;
mod error;
mod excerpt;
pub mod ffmpeg_memory;
mod fields;
mod filter;
pub mod fingerprint;
mod group;
mod hdr;
#[cfg(test)]
mod hostile;
mod join;
mod kind;
mod launch;
mod natural;
mod nut;
mod outgoing;
mod pinned;
pub mod place;
mod probe;
mod quality;
mod raw;
mod replay;
mod resident;
mod script;
mod secrets;
mod segment;
mod sequence;
mod span;
mod stream;
mod supervised;
mod target;
mod trial;
mod weave;
mod whitelist;
mod words;
mod y4m;

pub use asked::{AskedError, Encoding, Filters, ListedEncoding, ListedFilters};
pub use child::{Stop, Tools};
pub use clip::{Format, FrameSink, FrameSource, Late, SampleSink};
pub use colour::{Colour, Said, Tag};
pub use decode::{Decoder, ReadOptions};
pub use encode::Encoder;
pub use error::MediaError;
pub use excerpt::{Excerpt, Excerpted};
pub use fields::Deinterlace;
pub use group::{end_tied, reap_tied, spawn_tied};
pub use hdr::{Hdr, MasterDisplay};
pub use join::join;
pub use kind::{Container, OutputKind};
pub use nut::TimeBase;
pub use pinned::repeats;
pub use probe::{MAX_AREA, MAX_SIDE, Probe, Stream, Video, count_frames, probe};
pub use raw::{RawFrames, RawReader, RawWriter};
pub use remaster_picture::PictureInfo;
pub use replay::{Again, Replay};
pub use resident::resident;
pub use script::{Script, ScriptFrames, Vspipe};
pub use secrets::Secrets;
pub use segment::check_tag;
pub use sequence::{Originals, PictureWriter, Pictures, is_still};
pub use span::Span;
pub use target::{ENCODERS, Film, SegmentKind, WriteOptions, encoder_name};
pub use trial::trial;
pub use y4m::{Y4mReader, Y4mWriter};
