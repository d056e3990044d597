//! A file that ffmpeg makes of one stream from us: counted, and put in place whole or not at all.

use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::child::{Supervised, ToChild, Tools, plain};
use crate::error::{MediaError, frames};
use crate::nut::{NutWriter, VideoStream};
use crate::place::{self, PartialFile};
use crate::probe::count_frames;
use crate::whitelist::url;

/// A disk with fewer bytes left is full: file systems give out blocks of up to 64 KiB.
const FULL: u64 = 1 << 16;

/// A file on its way out.
pub(crate) struct Outgoing {
    tools: Tools,
    path: PathBuf,
    writer: Option<NutWriter<BufWriter<ToChild>>>,
    child: Option<Supervised>,
    frames: usize,
    notes: Vec<String>,
    /// The last field: the child must be gone before its file is removed, or it makes it again.
    part: PartialFile,
}

impl Outgoing {
    /// Starts ffmpeg, which gets `stream` and makes `part` of it, the file that is to be `path`.
    pub(crate) fn start(
        tools: &Tools,
        path: &Path,
        part: PartialFile,
        stream: &VideoStream,
        args: &[OsString],
        patience: u64,
    ) -> Result<Self, MediaError> {
        let mut child = tools.spawn("the encoder", args, patience, true)?;
        let Some(stdin) = child.stdin.take() else {
            return Err(MediaError::broken("the frame stream", "there is none"));
        };
        let mut outgoing = Outgoing {
            tools: tools.clone(),
            path: path.to_owned(),
            writer: None,
            child: Some(child),
            frames: 0,
            notes: Vec::new(),
            part,
        };
        let writer = NutWriter::new(BufWriter::with_capacity(1 << 16, stdin), stream);
        outgoing.writer = Some(writer.map_err(|e| outgoing.failed(e))?);
        Ok(outgoing)
    }

    /// Adds notes to print.
    pub(crate) fn note(&mut self, notes: impl IntoIterator<Item = String>) {
        self.notes.extend(notes);
    }

    /// Notes to print.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Sends a frame, to be shown at `pts`.
    pub(crate) fn send(&mut self, pts: i64, is_key: bool, data: &[u8]) -> Result<(), MediaError> {
        let Ok(pts) = u64::try_from(pts) else {
            return Err(MediaError::broken("the clock", format!("a frame has the negative timestamp {pts}")));
        };
        let (Some(writer), Some(child)) = (&mut self.writer, &self.child) else {
            return Err(MediaError::broken("the frame stream", "it is closed"));
        };
        child.waiting(|| writer.packet(pts, is_key, data)).map_err(|e| self.failed(e))?;
        self.frames += 1;
        Ok(())
    }

    /// A pipe that broke: the child says why.
    fn failed(&mut self, e: MediaError) -> MediaError {
        drop(self.writer.take());
        match self.child.take().map(Supervised::finish) {
            Some(Err(why)) => self.full(why),
            Some(Ok(lines)) if !lines.is_empty() => {
                self.full(MediaError::Child { what: "the encoder", reason: plain(&lines) })
            }
            _ => self.full(e),
        }
    }

    /// A full disk has many symptoms, a file without its index among them.
    fn full(&self, e: MediaError) -> MediaError {
        let folder = place::parent(&self.path);
        let said = match &e {
            MediaError::Child { reason, .. } | MediaError::Verify { reason, .. } => {
                reason.contains("No space left") || reason.contains("quota exceeded")
            }
            MediaError::Io { .. } => false,
            _ => return e,
        };
        let full = || remaster_disk::free_space(folder).is_some_and(|free| free < FULL);
        if said || full() { MediaError::NoSpace { folder: folder.to_owned() } } else { e }
    }

    /// All frames were sent: waits for the file and reads it back.
    pub(crate) fn complete(&mut self) -> Result<(), MediaError> {
        if let Some(writer) = self.writer.take() {
            let flushed = writer.into_inner().flush();
            flushed.map_err(|source| {
                self.failed(MediaError::Io { doing: "pass frames through the pipe".into(), source })
            })?;
        }
        if let Some(child) = self.child.take() {
            let lines = child.finish().map_err(|e| self.full(e))?;
            if !lines.is_empty() {
                self.notes.push(plain(&lines));
            }
        }
        let verify = |reason: String| {
            let words = self.notes.last().filter(|n| n.contains("No space left"));
            let reason = words.map_or(reason, Clone::clone);
            self.full(MediaError::Verify { path: self.path.clone(), reason })
        };
        let count = count_frames(&self.tools, self.part.path()).map_err(|e| match e {
            // A check that was not finished says nothing about the file.
            MediaError::Cancelled | MediaError::Stalled { .. } => e,
            MediaError::Child { reason, .. } | MediaError::Verify { reason, .. } => {
                // The name of a part is internal.
                verify(reason.replace(&*url(self.part.path()).to_string_lossy(), "it"))
            }
            e => verify(e.to_string()),
        })?;
        if count != self.frames {
            return Err(verify(format!("it has {} instead of {}", frames(count), self.frames)));
        }
        Ok(())
    }

    /// Moves the complete file to its place.
    pub(crate) fn put(self) -> Result<(), MediaError> {
        self.part.put()
    }
}
