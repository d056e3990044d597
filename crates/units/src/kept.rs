//! Latents of a unit in the store, for whoever goes on with it.

use std::error::Error;
use std::time::{Duration, Instant};

use remaster_restore::Checkpoint;
use remaster_store::Journal;

use crate::error::Stopped;
use crate::input::Watch;
use crate::pieces::Stop;

/// The latents of one unit.
pub struct Kept {
    journal: Journal,
    unit: u32,
    every: Duration,
    last: Instant,
    stop: Stop,
    watch: Watch,
    /// Bytes of an object at most.
    most: u64,
}

impl Kept {
    /// Keeps latents of a unit `every` so often, in objects of at most `most` bytes, and ends the work when it is time to
    /// `stop`. What was made of another film than the one that is watched is not kept.
    pub(crate) fn new(
        journal: Journal,
        unit: u32,
        every: Duration,
        most: u64,
        stop: Stop,
        watch: Watch,
    ) -> Self {
        Kept { journal, unit, every, last: Instant::now(), stop, watch, most }
    }
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
        self.last = Instant::now();
        if (self.stop)() { Err(Box::new(Stopped)) } else { Ok(()) }
    }
}
