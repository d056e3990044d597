//! What can go wrong between a file and its frames.

use std::io;
use std::path::{Path, PathBuf};

use remaster_picture::PictureError;
use thiserror::Error;

use crate::place;
use crate::span::Span;

/// Why a clip could not be read or written.
#[derive(Debug, Error)]
pub enum MediaError {
    /// ffmpeg is not there.
    #[error("cannot start {program}: {reason}; install ffmpeg 5.1 or newer, or set its path with --ffmpeg")]
    NoTool {
        /// What was tried.
        program: String,
        /// What the system said.
        reason: String,
    },
    /// ffmpeg is too old.
    #[error(
        "{program} is version {found}, but 5.1 or newer is needed; install a newer one, or set its path with --ffmpeg"
    )]
    OldTool {
        /// What was asked.
        program: String,
        /// What it said.
        found: String,
    },
    /// vspipe is not there, or does not run.
    #[error(
        "cannot run {program}: {reason}; install VapourSynth (`pip install vapoursynth`, then `vapoursynth config`), or set the path of vspipe with --vspipe"
    )]
    NoVspipe {
        /// What was tried.
        program: String,
        /// What the system or vspipe said.
        reason: String,
    },
    /// A script fails, or vspipe does.
    #[error("the script {path} fails: {reason}; `vspipe --info {path} -` runs it alone")]
    Script {
        /// Which.
        path: PathBuf,
        /// Its words, or what was wrong.
        reason: String,
    },
    /// A script whose frames do not go through a pipe.
    #[error("the script {path} gives {what}, which a pipe cannot carry; this line in it helps: {line}")]
    ScriptFormat {
        /// Which.
        path: PathBuf,
        /// What its frames are.
        what: String,
        /// What helps.
        line: String,
    },
    /// A file cannot be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{path} cannot be read as video: {reason}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A playlist, a pattern, or anything else that is not one file with video.
    #[error(
        "{path} is not a single video file: ffmpeg reads it as `{format}`, which can refer to other files; join them into one file first, for example with ffmpeg -i {path} -c copy joined.mkv"
    )]
    NotOneFile {
        /// Which.
        path: PathBuf,
        /// In ffmpeg's words.
        format: String,
    },
    /// Subtitles alone.
    #[error("{path} is a subtitle file, not a video")]
    Subtitles {
        /// Which.
        path: PathBuf,
    },
    /// Sound without a picture.
    #[error("{path} has no video stream; found {found}")]
    NoVideo {
        /// Which.
        path: PathBuf,
        /// What there is instead.
        found: String,
    },
    /// A frame size that is not believed.
    #[error(
        "{path} claims frames of {width} x {height}; the limit is {limit} pixels per side and {area} in total"
    )]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// Columns.
        width: u64,
        /// Rows.
        height: u64,
        /// Most columns or rows.
        limit: u64,
        /// Most pixels.
        area: u64,
    },
    /// Samples that are not understood.
    #[error(
        "{path} has {what}, which is not supported; convert it first, for example with ffmpeg -pix_fmt yuv444p10le"
    )]
    Samples {
        /// Which.
        path: PathBuf,
        /// Pixel format or matrix.
        what: String,
    },
    /// Raw video in fields.
    #[error(
        "{path} is interlaced ({order}), and raw video cannot be deinterlaced here; deinterlace it first, for example with ffmpeg -vf bwdif"
    )]
    Interlaced {
        /// Which.
        path: PathBuf,
        /// Order of the fields.
        order: String,
    },
    /// High dynamic range.
    #[error(
        "{path} is HDR ({transfer}), but the network supports standard range only; add --hdr keep to pass the signal through unchanged"
    )]
    Hdr {
        /// Which.
        path: PathBuf,
        /// The transfer curve.
        transfer: String,
    },
    /// Frames of several sizes.
    #[error("{path} changes its picture size at frame {frame}; split it there and run the parts separately")]
    SizeChange {
        /// Which.
        path: PathBuf,
        /// The first frame of another size.
        frame: usize,
    },
    /// The decoder complained.
    #[error("{path} is damaged near frame {frame}: {reason}; add --damaged keep to use what can be decoded")]
    Damaged {
        /// Which.
        path: PathBuf,
        /// How far the decoder came.
        frame: usize,
        /// Its words.
        reason: String,
    },
    /// Fewer frames than the file should have.
    #[error(
        "{path} ends after {}, but its header announces {stated}; add --damaged keep to use them anyway",
        frames(*got)
    )]
    Truncated {
        /// Which.
        path: PathBuf,
        /// Frames that came.
        got: usize,
        /// Frames that should have come.
        stated: usize,
    },
    /// Fewer bytes than the file should have.
    #[error(
        "{path} is cut off: it has {has} bytes, but its header announces {needs}; copy or download it again, or add --damaged keep to use what is there"
    )]
    CutOff {
        /// Which.
        path: PathBuf,
        /// Bytes that are there.
        has: u64,
        /// Bytes that should be there.
        needs: u64,
    },
    /// The input lost bytes while it was read.
    #[error(
        "{path} shrank while it was being read, so the output would be incomplete; run again when it is complete"
    )]
    Shrunk {
        /// Which.
        path: PathBuf,
    },
    /// Not a single frame.
    #[error("no frame of {path} can be decoded")]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// A part of a clip without a frame.
    #[error("{path} has no frame {span}{length}; --ss must be before --to and before the end")]
    EmptySpan {
        /// Which.
        path: PathBuf,
        /// The part.
        span: Span,
        /// The length of the clip in words, if it is known.
        length: String,
    },
    /// The first frame of an excerpt is not there.
    #[error(
        "the input has no frame at tick {pts} of its clock; it changed since it was looked at, or another ffmpeg reads it: plan again"
    )]
    NoFrame {
        /// Its time.
        pts: i64,
    },
    /// ffmpeg does not take the filters.
    #[error("ffmpeg cannot run the filters `{filters}`: {reason}; `ffmpeg -filters` lists what --vf can use")]
    Filters {
        /// What was asked for.
        filters: String,
        /// ffmpeg's words.
        reason: String,
    },
    /// More bytes came through a pipe than may be kept for a second reading.
    #[error(
        "stdin is larger than the {limit} bytes of temporary space it may take; allow more with --disk, or save it to a file first"
    )]
    ReplayFull {
        /// The most.
        limit: u64,
    },
    /// What reads a pipe first did not come to its end.
    #[error("the input on stdin cannot be read a second time: {reason}")]
    ReplayBroken {
        /// Why.
        reason: String,
    },
    /// A child took too long.
    #[error("{what} did not respond for {seconds} s and was stopped; the file may be damaged or malicious")]
    Stalled {
        /// Which child.
        what: &'static str,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A child said too much.
    #[error("{what} printed more than {limit} bytes of description; the file may be damaged or malicious")]
    TooMuch {
        /// Which child.
        what: &'static str,
        /// How much is taken.
        limit: usize,
    },
    /// A child failed.
    #[error("{what} failed: {reason}")]
    Child {
        /// Which.
        what: &'static str,
        /// Its words.
        reason: String,
    },
    /// A child was killed or crashed.
    #[error(
        "{what} was killed or crashed ({how}); free some memory and run again, or use another ffmpeg with --ffmpeg"
    )]
    Died {
        /// Which.
        what: &'static str,
        /// Its status.
        how: String,
    },
    /// A stream of bytes between us and a child, or from stdin, is not what it should be.
    #[error("{what} is broken: {reason}")]
    Broken {
        /// Which stream.
        what: &'static str,
        /// What was wrong.
        reason: String,
    },
    /// Reading or writing failed.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was done.
        doing: String,
        /// Why.
        source: io::Error,
    },
    /// A picture of a sequence.
    #[error("{path}: {source}")]
    Picture {
        /// Which.
        path: PathBuf,
        /// Why.
        source: PictureError,
    },
    /// Samples could not be converted.
    #[error(transparent)]
    Convert(#[from] PictureError),
    /// An output that cannot hold what the clip has.
    #[error("{path} cannot hold {what}; {hint}")]
    Container {
        /// Which.
        path: PathBuf,
        /// What does not go in.
        what: String,
        /// What would.
        hint: String,
    },
    /// An output that is there already.
    #[error("{path} exists; use -y to overwrite it")]
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// A place where no output can be.
    #[error("cannot write {path}: {reason}")]
    Place {
        /// Which.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// A finished output that another program keeps from its place.
    #[error(
        "cannot write {path}: another program holds it, or it may not be replaced ({source}); the finished file is {kept}: close the other program and rename it"
    )]
    Held {
        /// Where it should be.
        path: PathBuf,
        /// Where it is.
        kept: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A full disk.
    #[error("no space left on the disk of {folder}; free some, or write to another disk")]
    NoSpace {
        /// A folder on it.
        folder: PathBuf,
    },
    /// Samples that cannot be asked for.
    #[error("unsupported pixel format {name}; --pixel-format accepts {allowed}")]
    PixelFormat {
        /// What was asked for.
        name: String,
        /// What could be.
        allowed: String,
    },
    /// An encoder or a container that refuses what it would get.
    #[error("ffmpeg cannot write {path} with these settings: {reason}")]
    Rehearsal {
        /// The output.
        path: PathBuf,
        /// ffmpeg's words.
        reason: String,
    },
    /// A quality that the encoder does not have.
    #[error("--crf {crf} {reason}")]
    Quality {
        /// What was asked for.
        crf: u8,
        /// Why not, and what to do.
        reason: String,
    },
    /// An encoder that is not known.
    #[error("this ffmpeg has no video encoder `{name}`; list them with `ffmpeg -encoders`")]
    Encoder {
        /// What was asked for.
        name: String,
    },
    /// The finished file is not what was written.
    #[error("the written file failed verification: {reason}; {path} was not written")]
    Verify {
        /// Where it would have gone.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// A segment of a film that cannot be joined to the others.
    #[error(
        "segment {number} ({path}) cannot be joined: {reason}; encode it again with the settings of the others"
    )]
    Segment {
        /// Which, counted from 0.
        number: usize,
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Stopped by the person.
    #[error("stopped")]
    Cancelled,
}

impl MediaError {
    /// Writing the output at `path` failed.
    pub fn writing(path: &Path, source: io::Error) -> Self {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match source.kind() {
            StorageFull | QuotaExceeded => MediaError::NoSpace { folder: place::parent(path).to_owned() },
            _ => MediaError::Io { doing: format!("write {}", path.display()), source },
        }
    }

    /// A frame would take more memory than it may.
    pub fn is_over_budget(&self) -> bool {
        let MediaError::Picture { source, .. } = self else { return false };
        match source {
            PictureError::File { source, .. } => matches!(**source, PictureError::OverBudget { .. }),
            source => matches!(source, PictureError::OverBudget { .. }),
        }
    }

    /// Reading failed. An error of ours that went through [`io::Read`] comes out as it was.
    pub(crate) fn reading(doing: &str, source: io::Error) -> Self {
        match source.downcast::<MediaError>() {
            Ok(error) => error,
            Err(source) => MediaError::Io { doing: doing.into(), source },
        }
    }

    /// The error for a file of a kind that has no place for `what`.
    pub(crate) fn cannot_hold(path: &Path, what: impl Into<String>, hint: impl Into<String>) -> Self {
        MediaError::Container { path: path.to_owned(), what: what.into(), hint: hint.into() }
    }

    pub(crate) fn unreadable(path: &Path, reason: impl Into<String>) -> Self {
        MediaError::Unreadable { path: path.to_owned(), reason: reason.into() }
    }

    /// The error for a file that is no video or not whole, with ffmpeg's own `reason`.
    pub(crate) fn cut_off(path: &Path, reason: &str) -> Self {
        let next = "if no player opens it either, copy or download it again";
        MediaError::unreadable(path, format!("{}; {next}", reason.trim_end_matches(['.', ' '])))
    }

    pub(crate) fn broken(what: &'static str, reason: impl Into<String>) -> Self {
        MediaError::Broken { what, reason: reason.into() }
    }
}

/// `1 frame`, `2 frames`.
pub(crate) fn frames(n: usize) -> String {
    format!("{n} frame{}", if n == 1 { "" } else { "s" })
}
