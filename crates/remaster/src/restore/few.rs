//! A few frames that are restored on their own, from memory to memory.

use std::path::Path;
use std::sync::{Arc, Mutex};

use remaster_media::{Format, FrameSink, FrameSource, MediaError};
use remaster_picture::Frame;
use remaster_restore::{Cuts, Film as Whole, Footage};
use remaster_scenes::Shots;

use super::film::Film;
use super::networks::Networks;
use crate::control::lock;
use crate::error::Error;
use crate::event::Reporter;
use crate::job::Known;
use crate::media::{Opened, Target};
use crate::request::Restoration;
use crate::site::Site;

/// Frames of a film, and what restores them. Each is a shot of its own.
pub(super) struct FewFrames {
    film: Film,
    stills: Stills,
}

impl FewFrames {
    /// Plans the restoration of `frames`, which came from `opened`. `path` is where a result goes.
    pub(super) fn new(
        how: &Restoration,
        opened: Opened,
        frames: Vec<Frame>,
        site: Site,
        networks: Networks,
        threads: usize,
        path: &Path,
    ) -> Result<Self, Error> {
        let count = frames.len();
        let format = Format { frames: Some(count), ..opened.source.format().clone() };
        let stills = Stills { frames: Arc::new(frames), next: 0, format };
        let opened = Opened { source: Box::new(stills.clone()), counted: true, ..opened };
        let target = Target::default();
        let mut film = Film::new(how, &opened, site, networks, threads, (&target, Some(path)), false)?;
        film.recipe.cuts = match Shots::new((0..count as u64).collect(), None) {
            Ok(shots) => Cuts::At(shots),
            Err(source) => return Err(Error::Scenes { path: path.to_owned(), source }),
        };
        Ok(FewFrames { film, stills })
    }

    /// What is known before the work.
    pub(super) fn known(&self, path: &Path) -> Known {
        self.film.known(Some(path))
    }

    /// The frames as they came.
    pub(super) fn frames(&self) -> &[Frame] {
        &self.stills.frames
    }

    /// File or name of the network.
    pub(super) fn model(&self) -> &str {
        &self.film.networks.names[0]
    }

    /// The frames, restored.
    pub(super) fn restore(&mut self, input: &Path, report: &Reporter<'_>) -> Result<Vec<Frame>, Error> {
        self.film.announce(input, true, report);
        let made = Made::default();
        let opened = || Box::new(self.stills.clone());
        let footage = Footage { source: opened(), again: Some(Box::new(|| Ok(opened()))) };
        let sink = Box::new(made.clone());
        self.film.restore(Whole { footage, input: None, sink, keep: None }, report)?;
        let made = std::mem::take(&mut *lock(&made.0));
        Ok(made)
    }
}

/// Frames from memory.
#[derive(Clone)]
struct Stills {
    frames: Arc<Vec<Frame>>,
    next: usize,
    format: Format,
}

impl FrameSource for Stills {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        let Some(next) = self.frames.get(self.next) else { return Ok(None) };
        frame.clone_from(next);
        self.next += 1;
        Ok(Some(self.next as i64 - 1))
    }
}

/// Frames into memory.
#[derive(Clone, Default)]
struct Made(Arc<Mutex<Vec<Frame>>>);

impl FrameSink for Made {
    fn write(&mut self, frame: &Frame, _: i64) -> Result<(), MediaError> {
        lock(&self.0).push(frame.clone());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        Ok(())
    }
}
