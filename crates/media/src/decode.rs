//! Frames of a file, decoded by ffmpeg.

use std::ffi::OsString;
use std::io::{BufReader, ErrorKind};
use std::path::PathBuf;

use remaster_picture::{Coding, Frame, turn};

use crate::child::{FromChild, Tools, Watched, plain};
use crate::clip::{Format, FrameSource, Late};
use crate::door::opened;
use crate::error::MediaError;
use crate::fields::{self, Deinterlace};
use crate::nut::{Next, NutReader, TimeBase};
use crate::probe::Probe;

/// A decoder gives a frame of the largest size in seconds; deinterlacing and slow disks take longer.
const PATIENCE: u64 = 60;

/// What to do with material that is not plain.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// What to do with interlaced video.
    pub deinterlace: Deinterlace,
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
    /// Both go together: the pipe must be closed before the child is waited for.
    running: Option<(NutReader<BufReader<FromChild>>, Watched)>,
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
    notes: Vec<String>,
    late: Late,
}

impl Decoder {
    /// Starts to decode what `probe` found.
    pub fn open(tools: &Tools, probe: &Probe, options: ReadOptions) -> Result<Self, MediaError> {
        let (path, video) = (probe.path.clone(), &probe.video);
        if video.colour.is_hdr() && !options.keep_hdr {
            return Err(MediaError::Hdr { path, transfer: video.colour.transfer.value.clone() });
        }
        if !video.complaints.is_empty() && !options.keep_damaged {
            return Err(MediaError::Damaged { path, frame: 0, reason: plain(&video.complaints) });
        }
        let fields = fields::decide(tools, probe, options.deinterlace)?;
        let [out, of] = fields.frames;
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
            rate: video.rate.map(|rate| rate.times(out, of)),
            frames: video.frames.map(|n| (n as u64 * out).div_ceil(of) as usize),
        };
        let mut args: Vec<OsString> =
            ["-hide_banner", "-nostdin", "-v", "error", "-noautorotate", "-copyts"].map(Into::into).into();
        if let Some(decoder) = video.decoder {
            args.extend(["-c:v", decoder].map(Into::into));
        }
        if let Some(threads) = options.threads {
            args.extend(["-threads".into(), OsString::from(threads.to_string())]);
        }
        args.extend(opened(&path));
        args.extend(["-map".into(), OsString::from(format!("0:{}", video.index))]);
        if let Some(filter) = &fields.filter {
            args.extend(["-vf".into(), OsString::from(filter)]);
        }
        // Without autoscale a change of size shows as a frame of another length; otherwise ffmpeg would
        // scale in silence. The word for the input's own clock differs between versions; its numbers do not.
        let clock = format!("{}:{}", fields.clock.num, fields.clock.den);
        args.extend(["-noautoscale", "-fps_mode", "passthrough", "-enc_time_base", &clock].map(Into::into));
        args.extend(
            ["-pix_fmt", &video.read_name, "-c:v", "rawvideo", "-f", "nut", "pipe:1"].map(Into::into),
        );
        let mut child = tools.spawn("the decoder", &args, PATIENCE, false)?;
        let stored = [video.width, video.height];
        let length = format.layout.bytes(stored[0], stored[1]).unwrap_or(usize::MAX / 4);
        let Some(stdout) = child.stdout.take() else {
            return Err(MediaError::broken("the frame stream", "there is none"));
        };
        let reader = child.waiting(|| NutReader::new(BufReader::with_capacity(1 << 20, stdout), length));
        let reader = match reader {
            Ok(reader) => reader,
            // The pipe is closed with the reader that was not made.
            Err(_) => {
                return Err(match child.finish() {
                    Ok(lines) if lines.is_empty() => MediaError::Empty { path },
                    Ok(lines) => MediaError::Unreadable { path, reason: plain(&lines) },
                    Err(MediaError::Child { reason, .. }) => MediaError::Unreadable { path, reason },
                    Err(e) => e,
                });
            }
        };
        // The frames know best: ffmpeg 9 crops Theora where its ffprobe does not. Larger than what was admitted is no
        // matter of cropping.
        let seen = [reader.stream().width, reader.stream().height];
        let stored = if (0..2).all(|i| (1..=stored[i]).contains(&seen[i])) { seen } else { stored };
        let [width, height] = if turned { [stored[1], stored[0]] } else { stored };
        let format = Format { time_base: reader.stream().time_base, width, height, ..format };
        Ok(Decoder {
            path,
            format,
            options,
            running: Some((reader, child)),
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
            notes: fields.note.into_iter().collect(),
            late: Late::default(),
        })
    }

    /// What a person should know about how the file is read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What a person should know when the file was read.
    pub fn late(&self) -> Late {
        self.late.clone()
    }

    fn damaged(&self, reason: String) -> MediaError {
        MediaError::Damaged { path: self.path.clone(), frame: self.frames, reason }
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
        Err(self.damaged(plain(&lines)))
    }

    /// No frame comes any more: the child says whether that is the end.
    fn end(&mut self) -> Result<(), MediaError> {
        let Some((reader, child)) = self.running.take() else { return Ok(()) };
        drop(reader);
        let complaint = match child.finish() {
            Ok(lines) if lines.is_empty() => None,
            Ok(lines) => Some(plain(&lines)),
            Err(MediaError::Child { reason, .. }) => Some(reason),
            Err(e) => return Err(e),
        };
        let missing = self.missing();
        if !self.options.keep_damaged {
            return match (complaint, missing) {
                (Some(reason), _) => Err(self.damaged(reason)),
                (None, _) if self.frames == 0 => Err(MediaError::Empty { path: self.path.clone() }),
                (None, Some(error)) => Err(error),
                (None, None) => Ok(()),
            };
        }
        if self.frames == 0 {
            return Err(MediaError::Empty { path: self.path.clone() });
        }
        let stated = self.format.frames.filter(|n| *n > self.frames);
        let of = stated.map_or_else(String::new, |n| format!(" of about {n}"));
        if let Some(words) = complaint {
            let got = self.frames;
            self.late.add(format!("the input is damaged: {got}{of} frames decoded; ffmpeg reports: {words}"));
        } else if missing.is_some() {
            self.late.add(format!("the input is cut off: {}{of} frames decoded", self.frames));
        }
        Ok(())
    }

    /// Whether the file should have had more frames.
    fn missing(&self) -> Option<MediaError> {
        // One part in a hundred: averages of variable rates and edits at both ends are not exact.
        let stated = self.format.frames.unwrap_or(0);
        if self.is_indexed && self.frames + 2 < stated - stated / 100 {
            return Some(MediaError::Truncated { path: self.path.clone(), got: self.frames, stated });
        }
        // Without an index the clock tells; sound may go on a little after the last picture.
        let TimeBase { num, den } = self.format.time_base;
        let lasted =
            self.last.zip(self.first).map(|(b, a)| b.saturating_sub(a) as f64 * num as f64 / den as f64);
        match (self.is_indexed, self.ends, lasted) {
            (false, Some(ends), Some(lasted)) if lasted + 2.0 < 0.95 * ends => {
                Some(self.damaged(format!("its video ends after {lasted:.1} s of {ends:.1} s")))
            }
            _ => None,
        }
    }
}

impl FrameSource for Decoder {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        let Some((reader, child)) = &mut self.running else { return Ok(None) };
        let read = child.waiting(|| reader.frame(&mut self.bytes));
        if let Some((_, child)) = &self.running {
            self.judge(child)?;
        }
        let size_change = || MediaError::SizeChange { path: self.path.clone(), frame: self.frames };
        let pts = match read {
            Ok(Next::Frame(pts)) => pts,
            Ok(Next::TooLong) => return Err(size_change()),
            Ok(Next::End) => {
                self.end()?;
                return Ok(None);
            }
            Err(e) => {
                // A pipe that ends in the middle of a frame: the child says why.
                if matches!(&e, MediaError::Io { source, .. } if source.kind() == ErrorKind::UnexpectedEof) {
                    self.end()?;
                }
                return Err(e);
            }
        };
        let [width, height] = self.stored;
        if Some(self.bytes.len()) != self.format.layout.bytes(width, height) {
            return Err(size_change());
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
