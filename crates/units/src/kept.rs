//! Latents of a unit in the store, for whoever goes on with it.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use remaster_restore::Checkpoint;
use remaster_store::Journal;

use crate::checkpoint::Progress;
use crate::checkpoint::Stop;
use crate::error::Stopped;
use crate::input::Watch;

/// The latents of one unit. What was made of another film than the one that is watched is not kept.
pub struct Kept {
    pub(crate) journal: Journal,
    pub(crate) unit: u32,
    /// How often they are kept.
    pub(crate) every: Duration,
    /// When they were kept last.
    pub(crate) last: Instant,
    /// Whether to end the work.
    pub(crate) stop: Stop,
    pub(crate) watch: Watch,
    /// Bytes of an object at most.
    pub(crate) most: u64,
    pub(crate) progress: Arc<Progress>,
}

impl Checkpoint for Kept {
    fn is_due(&mut self) -> bool {
        self.last.elapsed() >= self.every || (self.stop)()
    }

    fn names(&mut self) -> Result<Vec<String>, Box<dyn Error + Send + Sync>> {
        Ok(self.journal.kept_names(self.unit)?)
    }

    fn load(&mut self, name: &str) -> Result<Option<Vec<f32>>, Box<dyn Error + Send + Sync>> {
        let bytes = self.journal.kept(self.unit, name, self.most)?;
        let whole = bytes.filter(|bytes| bytes.len().is_multiple_of(4));
        Ok(whole.map(|bytes| {
            let values = bytes.as_chunks::<4>().0.iter();
            values.map(|bytes| f32::from_le_bytes(*bytes)).collect()
        }))
    }

    fn keep(&mut self, name: &str, values: &[&[f32]]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.watch.check()?;
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.iter()).flat_map(|v| v.to_le_bytes()).collect();
        self.journal.keep(self.unit, name, &bytes)?;
        self.progress.save_values();
        self.last = Instant::now();
        if (self.stop)() { Err(Box::new(Stopped)) } else { Ok(()) }
    }
}
