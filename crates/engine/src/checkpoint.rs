//! The state of a run, saved now and then for when its device is lost.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use remaster_disk::{forget_pages, free_space};

use crate::error::EngineError;
use crate::session::Session;

/// How often the state is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Not more often than this, and not before.
    pub every: Duration,
    /// Saving took so long the last time; the work until the next time takes at least so many times as long.
    pub times: u32,
}

impl Default for Pace {
    /// A lost device costs a minute of work, or as much as keeps saving at 2 % of the time.
    fn default() -> Self {
        Pace { every: Duration::from_secs(60), times: 50 }
    }
}

/// The last state that was saved, in a file without a name: it is gone with the process, however that ends.
pub(crate) struct Checkpoint {
    folder: PathBuf,
    /// `None` once nothing is saved any more.
    pace: Option<Pace>,
    since: Instant,
    took: Duration,
    saved: Option<Saved>,
}

struct Saved {
    file: File,
    /// Of each network: input frames that went through, and bytes of its state.
    networks: Vec<(usize, u64)>,
}

impl Checkpoint {
    pub(crate) fn new(folder: PathBuf, pace: Option<Pace>) -> Self {
        Checkpoint { folder, pace, since: Instant::now(), took: Duration::ZERO, saved: None }
    }

    /// Whether it is time to save.
    pub(crate) fn is_due(&self) -> bool {
        self.pace.is_some_and(|pace| self.since.elapsed() >= pace.every.max(self.took * pace.times))
    }

    /// Nothing is saved any more. What is there stays.
    pub(crate) fn stop(&mut self) {
        self.pace = None;
    }

    /// The clip is over: what was saved of it is of no use to the next one.
    pub(crate) fn forget(&mut self) {
        self.saved = None;
        self.since = Instant::now();
    }

    /// Input frames that went through network number `i` when the state was saved; 0 if it never was.
    pub(crate) fn seen(&self, i: usize) -> usize {
        self.network(i).0
    }

    /// Bytes of disk that the saved state of network number `i` takes.
    pub(crate) fn bytes(&self, i: usize) -> u64 {
        self.network(i).1
    }

    fn network(&self, i: usize) -> (usize, u64) {
        self.saved.as_ref().and_then(|s| s.networks.get(i)).copied().unwrap_or_default()
    }

    /// Saves the states of all networks, one behind the other. The one before counts until this one is whole.
    pub(crate) fn save(&mut self, sessions: &mut [Session<'_>]) -> Result<(), EngineError> {
        let began = Instant::now();
        let bytes = sessions.iter().map(Session::state_bytes).sum();
        let failed =
            |reason: String| EngineError::Spill { folder: self.folder.display().to_string(), bytes, reason };
        if let Some(free) = free_space(&self.folder).filter(|free| *free < bytes) {
            return Err(failed(format!("{free} bytes are free")));
        }
        let file = remaster_disk::unnamed(&self.folder).map_err(|e| failed(e.to_string()))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        for session in sessions.iter_mut() {
            session.save(&mut out)?;
        }
        let file = out.into_inner().map_err(|e| failed(e.error().to_string()))?;
        forget_pages(&file, 0, usize::try_from(bytes).unwrap_or(usize::MAX));
        let networks = sessions.iter().map(|s| (s.seen(), s.state_bytes())).collect();
        self.saved = Some(Saved { file, networks });
        (self.took, self.since) = (began.elapsed(), Instant::now());
        Ok(())
    }

    /// Brings new sessions to where the state was saved.
    pub(crate) fn restore(&mut self, sessions: &mut [Session<'_>]) -> Result<(), EngineError> {
        self.since = Instant::now();
        let Some(saved) = &mut self.saved else { return Ok(()) };
        saved.file.rewind().map_err(|e| EngineError::State { reason: e.to_string() })?;
        let mut from = BufReader::with_capacity(1 << 20, &saved.file);
        sessions.iter_mut().try_for_each(|session| session.restore(&mut from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saving_takes_at_most_its_share() {
        let second = Duration::from_secs(1);
        let mut point = Checkpoint::new(std::env::temp_dir(), Some(Pace::default()));
        let ago = |seconds: u32| Instant::now().checked_sub(second * seconds).unwrap();
        for (took, early, late) in [(0, 58, 61), (1, 58, 61), (4, 198, 201)] {
            point.took = second * took;
            point.since = ago(early);
            assert!(!point.is_due(), "{took} s");
            point.since = ago(late);
            assert!(point.is_due(), "{took} s");
        }
        point.stop();
        assert!(!point.is_due());
    }
}
