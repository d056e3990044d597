//! Frames of a file, decoded by ffmpeg.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ChildStdout;

use remaster_picture::{Coding, Frame, turn};

use crate::child::{Tools, Watched, plain, reason};
use crate::clip::{Format, FrameSource};
use crate::error::MediaError;
use crate::nut::{NutReader, TimeBase};
use crate::probe::{Probe, url};

/// A decoder gives a frame of the largest size in seconds; deinterlacing and slow disks take longer.
const PATIENCE: u64 = 60;

/// What to do with material that is not plain.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// Make frames of fields.
    pub deinterlace: bool,
    /// Pass PQ and HLG through as numbers.
    pub keep_hdr: bool,
    /// Read EXRs, whose light becomes the sRGB curve.
    pub exr: bool,
    /// Use what a decoder can make of damaged files.
    pub keep_damaged: bool,
    /// Threads of the decoder, which its memory depends on; `None` for as many as ffmpeg likes.
    pub threads: Option<usize>,
}

/// A file on its way through a decoder.
pub struct Decoder {
    path: PathBuf,
    format: Format,
    options: ReadOptions,
    reader: NutReader<BufReader<ChildStdout>>,
    /// Behind the reader: its pipe must be closed before the child is waited for.
    child: Option<Watched>,
    coding: Coding,
    turns: u32,
    stored: [usize; 2],
    bytes: Vec<u8>,
    upright: Frame,
    frames: usize,
    first: Option<i64>,
    last: Option<i64>,
    is_indexed: bool,
    ends: Option<f64>,
}

impl Decoder {
    /// Starts to decode what `probe` found.
    pub fn open(tools: &Tools, probe: &Probe, options: ReadOptions) -> Result<Self, MediaError> {
        let (path, video) = (probe.path.clone(), &probe.video);
        if let (Some(order), false) = (&video.fields, options.deinterlace) {
            return Err(MediaError::Interlaced { path, order: order.clone() });
        }
        if video.colour.is_hdr() && !options.keep_hdr {
            return Err(MediaError::Hdr { path, transfer: video.colour.transfer.value.clone() });
        }
        if !video.complaints.is_empty() && !options.keep_damaged {
            return Err(MediaError::Damaged { path, frame: 0, reason: plain(&video.complaints) });
        }
        let unsupported = |what| MediaError::Samples { path: probe.path.clone(), what };
        let coding = video.colour.coding().map_err(unsupported)?;
        let turned = video.turns % 2 == 1;
        let [a, b] = video.sample_aspect;
        let format = Format {
            width: if turned { video.height } else { video.width },
            height: if turned { video.width } else { video.height },
            layout: video.read_as,
            colour: video.colour.clone(),
            hdr: video.hdr.clone(),
            sample_aspect: if turned { [b, a] } else { [a, b] },
            time_base: video.time_base,
            rate: video.rate,
            frames: video.frames,
        };
        let mut args: Vec<OsString> =
            ["-hide_banner", "-nostdin", "-v", "error", "-noautorotate", "-copyts"].map(Into::into).into();
        if let Some(decoder) = video.decoder {
            args.extend(["-c:v", decoder].map(Into::into));
        }
        if let Some(threads) = options.threads {
            args.extend(["-threads".into(), threads.to_string().into()]);
        }
        args.extend(["-i".into(), url(&path), "-map".into(), format!("0:{}", video.index).into()]);
        if options.deinterlace && video.fields.is_some() {
            args.extend(["-vf", "bwdif=mode=send_frame:parity=auto:deint=all"].map(Into::into));
        }
        // Without autoscale a change of size shows as a frame of another length; otherwise ffmpeg would
        // scale in silence.
        args.extend(["-autoscale", "0", "-fps_mode", "passthrough", "-enc_time_base", "-1"].map(Into::into));
        args.extend(
            ["-pix_fmt", &video.read_name, "-c:v", "rawvideo", "-f", "nut", "pipe:1"].map(Into::into),
        );
        let mut child = tools.spawn("the decoder", &args, PATIENCE, false)?;
        let stored = [video.width, video.height];
        let length = format.layout.bytes(stored[0], stored[1]).unwrap_or(usize::MAX / 4);
        let stdout = child.stdout.take();
        let failed = |child: &Watched, e: MediaError| match (child.trouble(), child.lines()) {
            (Some(trouble), _) => trouble,
            (None, lines) if !lines.is_empty() => {
                MediaError::Unreadable { path: path.clone(), reason: reason(&lines, None) }
            }
            _ => e,
        };
        let Some(stdout) = stdout else {
            return Err(MediaError::broken("the frame stream", "there is none"));
        };
        let reader = child.waiting(|| NutReader::new(BufReader::with_capacity(1 << 20, stdout), 4 * length));
        let reader = match reader {
            Ok(reader) => reader,
            Err(_) if child.trouble().is_none() && child.lines().is_empty() => {
                return Err(MediaError::Empty { path });
            }
            Err(e) => return Err(failed(&child, e)),
        };
        let format = Format { time_base: reader.stream().time_base, ..format };
        Ok(Decoder {
            path,
            format,
            options,
            reader,
            child: Some(child),
            coding,
            turns: video.turns,
            stored,
            bytes: Vec::new(),
            upright: Frame::new(0, 0, 3),
            frames: 0,
            first: None,
            last: None,
            is_indexed: video.is_indexed,
            ends: video.ends,
        })
    }

    /// Complaints of the decoder are the only sign of damage: its exit code is 0 then.
    fn judge(&self, child: &Watched) -> Result<(), MediaError> {
        if let Some(trouble) = child.trouble() {
            return Err(trouble);
        }
        let lines = child.lines();
        if lines.is_empty() || self.options.keep_damaged {
            return Ok(());
        }
        Err(MediaError::Damaged { path: self.path.clone(), frame: self.frames, reason: plain(&lines) })
    }

    fn end(&mut self) -> Result<(), MediaError> {
        let Some(child) = self.child.take() else { return Ok(()) };
        self.judge(&child)?;
        let path = self.path.clone();
        match child.finish() {
            Ok(lines) if !lines.is_empty() && !self.options.keep_damaged => {
                return Err(MediaError::Damaged { path, frame: self.frames, reason: plain(&lines) });
            }
            Err(MediaError::Child { reason, .. }) if !self.options.keep_damaged => {
                return Err(MediaError::Damaged { path, frame: self.frames, reason });
            }
            Ok(_) | Err(MediaError::Child { .. }) => {}
            Err(e) => return Err(e),
        }
        if self.frames == 0 {
            return Err(MediaError::Empty { path });
        }
        if self.options.keep_damaged {
            return Ok(());
        }
        // One part in a hundred: averages of variable rates and edits at both ends are not exact.
        let stated = self.format.frames.unwrap_or(0);
        if self.is_indexed && self.frames + 2 < stated - stated / 100 {
            return Err(MediaError::Truncated { path, got: self.frames, stated });
        }
        // Without an index the clock tells; sound may go on a little after the last picture.
        let TimeBase { num, den } = self.format.time_base;
        let lasted = self.last.zip(self.first).map(|(b, a)| (b - a) as f64 * num as f64 / den as f64);
        match (self.is_indexed, self.ends, lasted) {
            (false, Some(ends), Some(lasted)) if lasted + 2.0 < 0.95 * ends => {
                let reason = format!("its pictures end after {lasted:.1} s of {ends:.1} s");
                Err(MediaError::Damaged { path, frame: self.frames, reason })
            }
            _ => Ok(()),
        }
    }
}

impl FrameSource for Decoder {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        let Some(child) = &self.child else { return Ok(None) };
        let read = child.waiting(|| self.reader.frame(&mut self.bytes));
        self.judge(child)?;
        let Ok(Some(pts)) = read else {
            // A pipe that breaks in the middle of a frame: the child says why.
            self.end()?;
            return read.map(|_| None);
        };
        let [width, height] = self.stored;
        if Some(self.bytes.len()) != self.format.layout.bytes(width, height) {
            return Err(MediaError::SizeChange { path: self.path.clone(), frame: self.frames });
        }
        // Muxers refuse clocks that stand still or run back.
        if self.last.is_some_and(|last| pts <= last) && !self.options.keep_damaged {
            let reason = format!("frame {} is shown no later than the one before it", self.frames);
            return Err(MediaError::Damaged { path: self.path.clone(), frame: self.frames, reason });
        }
        self.last = Some(pts);
        self.first.get_or_insert(pts);
        self.frames += 1;
        if self.turns == 0 {
            shape(frame, width, height, self.format.channels());
            self.format.layout.unpack(&self.bytes, &self.coding, frame)?;
        } else {
            shape(&mut self.upright, width, height, self.format.channels());
            self.format.layout.unpack(&self.bytes, &self.coding, &mut self.upright)?;
            *frame = turn(&self.upright, self.turns);
        }
        Ok(Some(pts))
    }
}

/// Makes room without giving memory back and forth.
pub(crate) fn shape(frame: &mut Frame, width: usize, height: usize, channels: usize) {
    (frame.width, frame.height, frame.channels) = (width, height, channels);
    frame.data.resize(width * height * channels, 0.0);
}
