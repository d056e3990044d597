//! A file written by ffmpeg: frames from us, everything else from the input.

use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use remaster_picture::{Coding, Frame, Layout};
use tempfile::TempPath;

use crate::child::{ToChild, Tools, Watched};
use crate::clip::{Format, FrameSink};
use crate::door::{opened, url};
use crate::error::MediaError;
use crate::nut::{NutWriter, RawStream, TimeBase, fourcc};
use crate::place;
use crate::probe::{Probe, count_frames};
use crate::target::{Target, WriteOptions, decide, tags};

/// Slow presets hold a frame back for a while, and the end of a long file has to be rewritten.
const PATIENCE: u64 = 600;

/// A file on its way out.
pub struct Encoder {
    tools: Tools,
    path: PathBuf,
    place: TempPath,
    overwrite: bool,
    writer: Option<NutWriter<BufWriter<ToChild>>>,
    child: Option<Watched>,
    layout: Layout,
    coding: Coding,
    bytes: Vec<u8>,
    frames: usize,
    notes: Vec<String>,
}

impl Encoder {
    /// Starts an encoder for frames of `format`. Sound, subtitles, chapters, attachments and tags come from
    /// the file behind `from`.
    pub fn create(
        tools: &Tools,
        path: &Path,
        format: &Format,
        from: Option<&Probe>,
        options: &WriteOptions,
    ) -> Result<Self, MediaError> {
        let target = decide(tools, path, format, from, options)?;
        let place = place::beside(path, options.overwrite)?;
        let tag = fourcc(&target.layout).unwrap_or(*b"RGB0");
        let stream = RawStream {
            width: format.width,
            height: format.height,
            fourcc: tag,
            time_base: format.time_base,
            aspect: format.sample_aspect.map(u64::from),
        };
        let bytes = target.layout.bytes(format.width, format.height).unwrap_or(0);
        let args = arguments(&place, &target, from, bytes, format.time_base);
        let mut child = tools.spawn("the encoder", &args, PATIENCE, true)?;
        let Some(stdin) = child.stdin.take() else {
            return Err(MediaError::broken("the frame stream", "there is none"));
        };
        let coding =
            target.colour.coding().map_err(|what| MediaError::Samples { path: path.to_owned(), what })?;
        let mut encoder = Encoder {
            tools: tools.clone(),
            path: path.to_owned(),
            place,
            overwrite: options.overwrite,
            writer: None,
            child: Some(child),
            layout: target.layout,
            coding,
            bytes: Vec::new(),
            frames: 0,
            notes: target.notes,
        };
        let writer = NutWriter::new(BufWriter::with_capacity(1 << 16, stdin), &stream);
        encoder.writer = Some(writer.map_err(|e| encoder.failed(e))?);
        Ok(encoder)
    }

    /// What a person should know about how the clip is written.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How samples are written.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A pipe that broke: the child says why.
    fn failed(&mut self, e: MediaError) -> MediaError {
        drop(self.writer.take());
        match self.child.take().map(Watched::finish) {
            Some(Err(why)) => why,
            _ => e,
        }
    }
}

fn arguments(
    place: &Path,
    target: &Target,
    from: Option<&Probe>,
    frame: usize,
    clock: TimeBase,
) -> Vec<OsString> {
    let mut args: Vec<OsString> =
        ["-hide_banner", "-nostdin", "-y", "-v", "error", "-copyts"].map(Into::into).into();
    // Three frames are enough to see the rate, which is only written into headers; the clock is exact anyway.
    let enough = (3 * frame + (1 << 16)).max(5_000_000).to_string();
    args.extend(tags(&target.colour));
    args.extend(["-probesize", &enough, "-f", "nut", "-i", "pipe:0"].map(Into::into));
    if let Some(probe) = from {
        args.extend(opened(&probe.path));
    }
    args.extend(["-map", "0:v:0"].map(Into::into));
    args.extend(["-c", "copy"].map(Into::into));
    args.extend(target.streams.iter().map(Into::into));
    args.push("-c:v:0".into());
    args.extend(target.encoder.iter().map(Into::into));
    args.extend(["-pix_fmt:v:0".into(), OsString::from(&target.pixel_format)]);
    args.extend(tags(&target.colour));
    // The word for the input's own clock differs between versions of ffmpeg; its numbers do not.
    let clock = format!("{}:{}", clock.num, clock.den);
    args.extend(["-fps_mode", "passthrough", "-enc_time_base", &clock].map(Into::into));
    args.extend(["-muxpreload", "0", "-muxdelay", "0"].map(Into::into));
    args.push(url(place));
    args
}

impl FrameSink for Encoder {
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError> {
        self.layout.pack(frame, &self.coding, &mut self.bytes)?;
        let Ok(pts) = u64::try_from(pts) else {
            return Err(MediaError::broken(
                "the clock",
                format!("a frame is shown at {pts}, before the start"),
            ));
        };
        let (Some(writer), Some(child)) = (&mut self.writer, &self.child) else {
            return Err(MediaError::broken("the frame stream", "it is closed"));
        };
        let bytes = &self.bytes;
        child.waiting(|| writer.frame(pts, bytes)).map_err(|e| self.failed(e))?;
        self.frames += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), MediaError> {
        if let Some(writer) = self.writer.take() {
            let flushed = writer.into_inner().flush();
            flushed.map_err(|source| {
                self.failed(MediaError::Io { doing: "pass frames through the pipe".into(), source })
            })?;
        }
        if let Some(child) = self.child.take() {
            let lines = child.finish()?;
            if !lines.is_empty() {
                self.notes.push(crate::child::plain(&lines));
            }
        }
        let verify = |reason: String| MediaError::Verify { path: self.path.clone(), reason };
        let frames = count_frames(&self.tools, &self.place).map_err(|e| match e {
            MediaError::Cancelled => e,
            e => verify(e.to_string()),
        })?;
        if frames != self.frames {
            return Err(verify(format!("it has {frames} frames, but {} were written", self.frames)));
        }
        place::put(self.place, &self.path, self.overwrite)
    }
}
