//! Clips for reading: files, images, folders of images, pipes, scripts.

use std::io::{BufReader, Read};
use std::path::Path;

use remaster_media::{
    Decoder, Excerpt, Excerpted, FrameSource, Late, MediaError, Originals, Pictures, Probe, RawReader,
    ReadOptions, Replay, Stop, TimeBase, Y4mReader, is_still, probe,
};
use remaster_picture::{Frame, StillFormat, still};

use super::tools::Lazy;
use super::{Source, has_ending, is_pipe, is_script, refuse, refuse_avisynth, refuse_videos};
use crate::error::Error;

/// A clip that was opened.
pub(crate) struct Opened {
    pub(crate) source: Box<dyn FrameSource>,
    /// What ffprobe found, for files.
    pub(crate) probe: Option<Probe>,
    /// Of pictures.
    pub(crate) originals: Option<Originals>,
    /// What was guessed.
    pub(crate) notes: Vec<String>,
    /// Warnings after the last frame.
    pub(crate) late: Late,
    /// The number of frames is no guess.
    pub(crate) counted: bool,
    /// What a script says of its clip, which is part of what it is known by.
    pub(crate) clip: Option<String>,
    /// Decoding of most units begins far before their first frame.
    pub(crate) has_long_run_ups: bool,
}

impl Opened {
    /// Without what only some clips have.
    pub(crate) fn plain(source: Box<dyn FrameSource>, notes: Vec<String>, counted: bool) -> Self {
        let (late, clip) = (Late::default(), None);
        Opened { source, probe: None, originals: None, notes, late, counted, clip, has_long_run_ups: false }
    }

    /// Whether the number of frames was computed from duration and rate.
    pub(crate) fn is_estimated(&self) -> bool {
        let sure = |p: &Probe| !p.video.frames_estimated && p.span().is_whole();
        !self.counted && !self.probe.as_ref().is_some_and(sure)
    }
}

/// Where what comes through a pipe is kept, if it is read twice.
pub(crate) struct Spool<'a> {
    pub(crate) folder: &'a Path,
    /// Bytes at most.
    pub(crate) most: u64,
}

/// Why filters do not apply.
const RAW: &str = "raw frames, which are read without ffmpeg";

/// By its name or by its content.
fn is_exr(path: &Path) -> bool {
    has_ending(path, "exr") || still::sniff(path).is_ok_and(|format| format == Some(StillFormat::Exr))
}

/// Refuses an address, which is no path.
pub(crate) fn refuse_url(path: &Path) -> Result<(), Error> {
    if is_url(path) { Err(Error::Url { url: path.to_string_lossy().into_owned() }) } else { Ok(()) }
}

/// True if an input is an address and no file of that name exists. A scheme has two letters or more: `C://` is a drive.
pub fn is_url(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let is_url = text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.len() > 1 && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    });
    is_url && !path.exists()
}

/// Refuses a named pipe or a device, which can be read once and may never say a word.
pub(crate) fn refuse_named_pipe(path: &Path) -> Result<(), Error> {
    // What is not there is reported when it is opened.
    match path.metadata() {
        Ok(about) if !is_pipe(path) && !about.is_file() && !about.is_dir() => {
            Err(Error::NamedPipe { path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

impl Source {
    /// Whether the frames of what was opened have times of their own.
    pub(crate) fn has_clock(&self, opened: &Opened) -> bool {
        opened.originals.is_none() || self.rate.is_some()
    }

    /// Opens whatever `path` names for more than one reader. What comes through a pipe is kept for the second one; anything
    /// else can be opened again.
    pub(crate) fn open_twice(
        &self,
        path: &Path,
        ram: u64,
        tools: &mut Lazy,
        spool: &Spool<'_>,
    ) -> Result<(Opened, Option<Box<dyn FrameSource>>), Error> {
        if !is_pipe(path) {
            return Ok((self.open(path, ram, tools)?, None));
        }
        self.refuse_filters(RAW)?;
        let (first, second) =
            Replay::new(std::io::stdin(), spool.folder, spool.most, tools.control.child_stop())?;
        let first = self.raw(Box::new(first), path, ram / 4, tools.control.child_stop())?;
        Ok((first, Some(self.raw(Box::new(second), path, ram / 4, tools.control.child_stop())?.source)))
    }

    /// Opens a film that was opened before at the frame that is shown at `pts` of its clock.
    pub(crate) fn open_at(
        &self,
        path: &Path,
        probe: Option<&Probe>,
        (clock, pts): (TimeBase, i64),
        tools: &mut Lazy,
    ) -> Result<Box<dyn FrameSource>, Error> {
        if is_script(path) {
            return self.open_script_at(path, (clock, pts), tools);
        }
        let excerpt = Excerpt { first: Some(pts), end: None };
        if let Some(probe) = probe {
            let options = ReadOptions { threads: tools.threads, ..self.read_options() };
            return Ok(Box::new(Decoder::excerpt(tools.get()?, probe, options, clock, excerpt)?));
        }
        if path.is_dir() {
            // It fitted when it was opened first; what is free now says nothing.
            return Ok(Box::new(
                self.pictures(path, u64::MAX, tools.control.child_stop())?.excerpt(excerpt)?,
            ));
        }
        Ok(Box::new(Excerpted::new(self.open(path, u64::MAX, tools)?.source, excerpt)))
    }

    /// How many frames there are before the part of a clip that is used, and in it. Both are decoded for that: times of
    /// frames need not be even.
    pub(crate) fn frames_around(&self, path: &Path, tools: &mut Lazy) -> Result<(u64, u64), Error> {
        let control = tools.control.clone();
        let mut count = |part: &Source| {
            let (mut source, mut frame) = (part.open(path, u64::MAX, tools)?.source, Frame::new(0, 0, 3));
            let mut frames = 0;
            while source.next(&mut frame)?.is_some() {
                frames += 1;
                control.check()?;
            }
            Ok::<_, Error>(frames)
        };
        let before = match self.start.filter(|start| !start.is_zero()) {
            Some(start) => count(&Source { start: None, end: Some(start), ..self.clone() })?,
            None => 0,
        };
        Ok((before, count(self)?))
    }

    /// A picture, or those of a folder.
    fn pictures(&self, path: &Path, most: u64, stop: Stop) -> Result<Pictures, Error> {
        let rate = self.rate.unwrap_or(TimeBase { num: 25, den: 1 });
        Ok(Pictures::open(path, rate, self.read_options(), most, stop)?.within(self.span())?)
    }

    /// Raw frames.
    fn raw(&self, input: Box<dyn Read + Send>, path: &Path, most: u64, stop: Stop) -> Result<Opened, Error> {
        let (input, name, span) = (BufReader::with_capacity(1 << 20, input), path.to_owned(), self.span());
        let reader: Box<dyn FrameSource> = match self.frames {
            Some(kind) => Box::new(RawReader::new(kind, input, name, most, stop)?.within(span)?),
            None => Box::new(Y4mReader::new(input, name, most, stop)?.within(span)?),
        };
        let notes = reader.format().colour.guesses().into_iter().collect();
        // A stream with another number than it announced is refused.
        let counted = reader.format().frames.is_some();
        Ok(Opened::plain(reader, notes, counted))
    }

    /// Opens whatever `path` names. A picture or a raw frame may take a quarter of `ram` bytes.
    pub(crate) fn open(&self, path: &Path, ram: u64, tools: &mut Lazy) -> Result<Opened, Error> {
        refuse_url(path)?;
        if !is_pipe(path) {
            // On Windows a name may be that of a device, and opening it waits.
            let failed = |source| MediaError::Open { path: path.to_owned(), source };
            remaster_disk::check_path(path).map_err(failed)?;
            refuse_named_pipe(path)?;
        }
        self.refuse_frames(path)?;
        let stop = tools.control.child_stop();
        let most = ram / 4;
        if is_script(path) {
            return self.open_script(path, most, tools);
        }
        refuse_avisynth(path)?;
        let raw = is_pipe(path) || has_ending(path, "y4m");
        let picture = !raw && (path.is_dir() || is_still(path));
        if picture && !self.exr && is_exr(path) {
            return Err(Error::Exr { path: path.to_owned() });
        }
        if !picture && self.exr {
            return Err(Error::NoEffect { flag: "--exr", what: "video" });
        }
        if !picture && self.rate.is_some() {
            return Err(Error::NoEffect { flag: "--fps", what: "video, which has its own frame rate" });
        }
        if raw {
            self.refuse_filters(RAW)?;
            let input: Box<dyn Read + Send> = if is_pipe(path) {
                Box::new(std::io::stdin())
            } else {
                let failed = |source| MediaError::Open { path: path.to_owned(), source };
                Box::new(remaster_disk::read_named(path).map_err(failed)?)
            };
            return self.raw(input, path, most, stop);
        }
        if picture {
            self.refuse_filters("images, which are read without ffmpeg")?;
            if !path.is_dir() {
                let part = [("--ss", self.start.is_some()), ("--to", self.end.is_some())];
                refuse(&part, "a single image")?;
            }
            let mut notes = Vec::new();
            if path.is_dir() && self.rate.is_none() {
                notes.push("images have no frame rate: assuming 25 fps (change with --fps)".into());
            }
            refuse_videos(path)?;
            let pictures = self.pictures(path, most, stop)?;
            notes.extend_from_slice(pictures.notes());
            let originals = Some(pictures.originals());
            return Ok(Opened { originals, ..Opened::plain(Box::new(pictures), notes, true) });
        }
        tools.remember(path);
        let options = ReadOptions { threads: tools.threads, ..self.read_options() };
        let tools = tools.get()?;
        let probe = probe(tools, path)?.within(self.span())?.looked_at(tools, options.deinterlace)?;
        let source = Decoder::open(tools, &probe, options)?;
        let mut notes = probe.video.notes.clone();
        notes.extend_from_slice(source.notes());
        let late = source.late();
        Ok(Opened { probe: Some(probe), late, ..Opened::plain(Box::new(source), notes, false) })
    }
}
