//! What frames are written to.

use std::path::Path;

use remaster_media::{
    Encoder, Film, Format, FrameSink, MediaError, Originals, OutputKind, PictureWriter, Probe, RawWriter,
    SampleSink, SegmentKind, Tools, WriteOptions, Y4mWriter, encoder_name, ffmpeg_memory, trial,
};
use remaster_picture::{Frame, Layout};

use super::newest;
use super::tools::Lazy;
use super::{Target, is_video};
use crate::destination::{self, Size};
use crate::error::Error;

/// The size of frames that show the version of an encoder.
const TRIAL: [usize; 2] = [192, 128];

impl Target {
    /// Tries what `create` will do, as far as a second or two can tell: mistakes show before the work and not
    /// behind it. Returns notes to print.
    pub(crate) fn rehearse(
        &self,
        goal: &Goal<'_>,
        from: Option<&Probe>,
        tools: &mut Lazy,
    ) -> Result<Option<String>, Error> {
        self.refuse_frames(goal.path)?;
        let raw = destination::raw_bytes(goal.format);
        let size = match destination::kind(goal.path)? {
            OutputKind::Pipe => {
                self.refuse(RAW)?;
                self.frames.map_or(Ok(()), |kind| kind.check(goal.format))?;
                return Ok(None);
            }
            OutputKind::Y4m => {
                self.refuse(RAW)?;
                Size::Exact
            }
            kind @ (OutputKind::Picture | OutputKind::Folder) => {
                self.refuse("images")?;
                // A count that is not sure may be one too many.
                let most = if goal.counted { 1 } else { 2 };
                if kind == OutputKind::Picture && goal.format.frames.is_some_and(|n| n > most) {
                    return Err(MediaError::Container {
                        path: goal.path.to_owned(),
                        what: "more than one frame".into(),
                        hint: "write to a folder or a video file".into(),
                    }
                    .into());
                }
                Size::Lossless
            }
            OutputKind::Video(_) => {
                let options = self.write_options(goal.overwrite, self.encoder_threads());
                Encoder::rehearse(tools.get()?, goal.path, goal.format, from, &options)?;
                if self.lossless { Size::Lossless } else { Size::Lossy }
            }
        };
        destination::check_room(goal.path, raw, size, &tools.machine)
    }

    /// Makes whatever the goal's path names. Returns notes to print.
    pub(crate) fn create(
        &self,
        goal: &Goal<'_>,
        from: Option<&Probe>,
        originals: Option<&Originals>,
        tools: &mut Lazy,
    ) -> Result<(Box<dyn FrameSink>, Vec<String>), Error> {
        let Goal { path, format, overwrite, .. } = *goal;
        match destination::kind(goal.path)? {
            OutputKind::Pipe if let Some(kind) = self.frames => {
                let frames = format.frames.filter(|_| goal.counted);
                let writer = RawWriter::create(kind, std::io::stdout(), format, frames)?;
                Ok((Box::new(writer), dropped(from, kind.name())))
            }
            kind @ (OutputKind::Pipe | OutputKind::Y4m) => {
                let place = (kind == OutputKind::Y4m).then(|| (path.to_owned(), overwrite));
                Ok((Box::new(Y4mWriter::create(place, format)?), dropped(from, "y4m")))
            }
            OutputKind::Picture | OutputKind::Folder => {
                let writer = PictureWriter::create(path, format, originals, overwrite)?;
                let mut notes = dropped(from, "images");
                notes.extend_from_slice(writer.notes());
                Ok((Box::new(writer), notes))
            }
            OutputKind::Video(_) => {
                let options = self.write_options(overwrite, self.encoder_threads());
                let encoder = Encoder::create(tools.get()?, path, format, from, &options)?;
                let notes = encoder.notes().to_vec();
                let inputs = tools.inputs();
                let check = Box::new(move || inputs.check());
                let sink = newest::of_film(Box::new(encoder), self.newest.as_ref(), format.time_base);
                Ok((Box::new(Checked { sink, check }), notes))
            }
        }
    }

    /// Starts a piece of a film: its path, its format, and what its other streams come from.
    pub(crate) fn segment(
        &self,
        tools: &Tools,
        path: &Path,
        (film, format, from): (&Path, &Format, Option<&Probe>),
        kind: SegmentKind,
        threads: u32,
    ) -> Result<Box<dyn SampleSink>, MediaError> {
        let options = self.write_options(false, threads);
        let film = Film { path: film, format, from, options: &options, kind };
        let encoder = Box::new(Encoder::segment(tools, path, &film)?);
        Ok(newest::of_segment(encoder, self.newest.as_ref(), format.time_base))
    }

    /// What the encoder makes of a few frames that are always the same.
    pub(crate) fn trial(
        &self,
        tools: &Tools,
        encoder: &str,
        (film, format, from): (&Path, &Format, Option<&Probe>),
    ) -> Result<Vec<u8>, MediaError> {
        // Small, unless only some sizes are allowed, and with one thread: it takes a tenth of a second.
        let [width, height] = if encoder == "dnxhd" { [format.width, format.height] } else { TRIAL };
        let (mut format, mut options) =
            (Format { width, height, ..format.clone() }, self.write_options(false, 1));
        if encoder.starts_with("libvpx") {
            // Alpha of VP8 and VP9 is a second stream of the same encoder, for which segments have no place.
            format.layout.alpha = false;
            let opaque = |name: &String| Layout::from_name(name).is_some_and(|layout| !layout.alpha);
            options.pixel_format = options.pixel_format.filter(opaque);
        }
        trial(tools, &Film { path: film, format: &format, from, options: &options, kind: SegmentKind::Final })
    }

    pub(crate) fn write_options(&self, overwrite: bool, threads: u32) -> WriteOptions {
        let Target { encoder: video, crf, pixel_format, lossless, no_audio, .. } = self.clone();
        let threads = Some(threads as usize);
        WriteOptions { video, crf, pixel_format, lossless, no_audio, overwrite, threads, tag: None }
    }

    /// The encoder of ffmpeg that `create` would start for `path`, if any.
    pub(crate) fn encoder(&self, path: &Path, format: &Format, from: Option<&Probe>) -> Option<String> {
        let options = self.write_options(false, self.encoder_threads());
        is_video(path).then(|| encoder_name(path, format, from, &options))
    }

    /// Bytes that it takes beside us.
    pub(crate) fn encoder_bytes(&self, path: &Path, format: &Format, from: Option<&Probe>) -> u64 {
        self.encoder(path, format, from).map_or(0, |name| {
            let size = ffmpeg_memory::Size::new(&self.layout(format), format.width, format.height);
            ffmpeg_memory::encoder(&name, size, self.encoder_threads() as usize)
        })
    }
}

/// Why options of the output do not apply to it.
const RAW: &str = "raw frames, which are written as they are";

/// What is to be written.
#[derive(Clone, Copy)]
pub(crate) struct Goal<'a> {
    pub(crate) path: &'a Path,
    /// Of the frames that come out.
    pub(crate) format: &'a Format,
    /// The number of frames is no guess.
    pub(crate) counted: bool,
    pub(crate) overwrite: bool,
}

fn dropped(from: Option<&Probe>, what: &str) -> Vec<String> {
    match from.map_or(0, |p| p.others.len()) {
        0 => Vec::new(),
        1 => vec![format!("{what} cannot store audio or subtitles: 1 stream dropped")],
        n => vec![format!("{what} cannot store audio or subtitles: {n} streams dropped")],
    }
}

/// An output that is put in its place only if a check finds nothing wrong.
pub(crate) struct Checked {
    pub(crate) sink: Box<dyn FrameSink>,
    pub(crate) check: Box<dyn FnOnce() -> Result<(), MediaError> + Send>,
}

impl FrameSink for Checked {
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError> {
        self.sink.write(frame, pts)
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        (self.check)()?;
        self.sink.finish()
    }
}
