//! Frames of a shot on disk, between two passes over them.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use remaster_colour::alpha::AlphaKind;
use remaster_picture::Frame;

use crate::error::RestoreError;

/// A restored frame, and what belongs to it.
pub(crate) struct Shown {
    pub(crate) frame: Frame,
    pub(crate) reference: Frame,
    /// Alpha as it came in, a plane of the size of the input, and its kind.
    pub(crate) alpha: Option<(Frame, AlphaKind)>,
    pub(crate) pts: i64,
}

/// Frames in the order in which they come, in a file without a name.
pub(crate) struct Spool {
    file: Ends,
    /// What is small stays in memory: sizes, times and kinds, oldest first.
    beside: std::collections::VecDeque<Beside>,
    /// Bytes that it may take, and those that are left of them.
    room: u64,
    left: u64,
}

enum Ends {
    Writing(BufWriter<File>),
    Reading(BufReader<File>),
    /// Between the two, or after an error.
    Neither,
}

struct Beside {
    pts: i64,
    size: [usize; 2],
    /// Size and kind of the alpha that came in.
    alpha: Option<([usize; 2], AlphaKind)>,
}

impl Spool {
    pub(crate) fn new(folder: &Path, room: u64) -> Result<Self, RestoreError> {
        let file = remaster_disk::unnamed(folder)
            .map_err(|source| RestoreError::Spool { folder: folder.to_owned(), source })?;
        let file = Ends::Writing(BufWriter::with_capacity(1 << 20, file));
        Ok(Spool { file, beside: std::collections::VecDeque::new(), room, left: room })
    }

    pub(crate) fn push(&mut self, shown: &Shown) -> Result<(), RestoreError> {
        let Ends::Writing(file) = &mut self.file else { return Err(RestoreError::Thread("encoding")) };
        let alpha = shown.alpha.as_ref().map(|(source, _)| source);
        for frame in [Some(&shown.frame), Some(&shown.reference), alpha].into_iter().flatten() {
            let bytes: Vec<u8> = frame.data.iter().flat_map(|v| v.to_le_bytes()).collect();
            let left = self.left.checked_sub(bytes.len() as u64);
            self.left = left.ok_or(RestoreError::Pool { room: self.room })?;
            file.write_all(&bytes).map_err(RestoreError::Latents)?;
        }
        let size = [shown.frame.width, shown.frame.height];
        let alpha = shown.alpha.as_ref().map(|(source, kind)| ([source.width, source.height], *kind));
        self.beside.push_back(Beside { pts: shown.pts, size, alpha });
        Ok(())
    }

    /// The oldest frame that was not taken; from now on nothing can be added.
    pub(crate) fn pop(&mut self) -> Result<Option<Shown>, RestoreError> {
        if let Ends::Writing(_) = self.file
            && let Ends::Writing(file) = std::mem::replace(&mut self.file, Ends::Neither)
        {
            let mut file = file.into_inner().map_err(|e| RestoreError::Latents(e.into_error()))?;
            file.rewind().map_err(RestoreError::Latents)?;
            self.file = Ends::Reading(BufReader::with_capacity(1 << 20, file));
        }
        let Ends::Reading(file) = &mut self.file else { return Err(RestoreError::Thread("encoding")) };
        let Some(Beside { pts, size, alpha }) = self.beside.pop_front() else { return Ok(None) };
        let mut next = |[width, height]: [usize; 2], channels: usize| {
            let mut bytes = vec![0; 4 * width * height * channels];
            file.read_exact(&mut bytes).map_err(RestoreError::Latents)?;
            let data = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            Ok::<Frame, RestoreError>(Frame { width, height, channels, data })
        };
        let (frame, reference) = (next(size, 3)?, next(size, 3)?);
        let alpha = match alpha {
            Some((size, kind)) => Some((next(size, 1)?, kind)),
            None => None,
        };
        Ok(Some(Shown { frame, reference, alpha, pts }))
    }
}
