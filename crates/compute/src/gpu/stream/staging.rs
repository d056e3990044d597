//! Staging: bytes travel between the host and the arena through two rings of mapped buffers, one each way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Stream;
use super::batch::{Slot, Touch, Touched, checksum};
use super::record::Command;
use super::submit::PATIENCE;
use crate::error::{ComputeError, Result};
use crate::waited::Waited;

/// Bytes of a staging buffer, and how many there are each way: one is filled while the others travel.
pub(super) const STAGE: u64 = 4 << 20;
pub(super) const STAGES: usize = 3;

/// A staging buffer.
pub(super) struct Stage {
    pub(super) buffer: wgpu::Buffer,
    /// Whether the host may use it.
    mapped: Arc<AtomicBool>,
    /// Bytes of it in use.
    pub(super) used: u64,
    /// How often it was filled.
    pub(super) filled: u64,
    /// The host asked for it, or has it.
    asked: bool,
    /// Stamp of the batch that fills it on the device, and the sum of the words that it put in.
    pub(super) batch: u32,
    pub(super) sum: u32,
}

impl Stage {
    pub(super) fn new(buffer: wgpu::Buffer, mapped: bool) -> Self {
        Stage {
            buffer,
            mapped: Arc::new(AtomicBool::new(mapped)),
            used: 0,
            filled: 0,
            asked: mapped,
            batch: 0,
            sum: 0,
        }
    }

    /// Takes the buffer back from the host.
    pub(super) fn unmap(&mut self) {
        if std::mem::take(&mut self.asked) {
            self.buffer.unmap();
        }
        self.mapped.store(false, Ordering::Release);
    }

    /// Whether the host asked for it, or has it.
    pub(super) fn is_asked(&self) -> bool {
        self.asked
    }

    /// Hands the first bytes to `take`, and the buffer back to the device.
    pub(super) fn with<T>(&mut self, bytes: u64, device: &str, take: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let taken = {
            let mapped = self.buffer.get_mapped_range(0..bytes);
            take(&mapped.map_err(|e| refused(device, &e))?)
        };
        self.unmap();
        Ok(taken)
    }

    /// Maps the buffer again once the device is done with it.
    pub(super) fn map(&mut self, mode: wgpu::MapMode) {
        self.mapped.store(false, Ordering::Release);
        self.asked = true;
        let mapped = self.mapped.clone();
        self.buffer.map_async(mode, .., move |result| {
            if result.is_ok() {
                mapped.store(true, Ordering::Release);
            }
        });
    }
}

/// A device that does not give a mapped buffer to the host.
fn refused(device: &str, error: &dyn std::fmt::Display) -> ComputeError {
    ComputeError::Device { device: device.to_owned(), reason: error.to_string() }
}

impl Stream {
    /// Most bytes from here on that are copied at once: they lie in one buffer, and their sum is one kernel with few bindings.
    pub(super) fn piece(&self, at: u64) -> u64 {
        STAGE.min(self.grid.left(at)).min(self.grid.chunk)
    }

    /// Copies host bytes to the arena. Address and length are multiples of 4.
    pub(in crate::gpu) fn write(&mut self, mut at: u64, mut bytes: &[u8]) -> Result<()> {
        self.counts.uploaded += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.up[self.filling].used >= STAGE {
                self.filling = (self.filling + 1) % STAGES;
            }
            if self.up[self.filling].used >= STAGE {
                // All buffers are full and none was sent.
                self.submit()?;
            }
            let room = STAGE - self.up[self.filling].used;
            let (n, from) = ((bytes.len() as u64).min(room).min(self.piece(at)), self.up[self.filling].used);
            let sum = self.ready_checksum(at, n, from)?;
            self.wait_for(&self.up[self.filling])?;
            let stage = &mut self.up[self.filling];
            stage.filled += u64::from(stage.used == 0);
            let (piece, rest) = bytes.split_at(n as usize);
            let mapped = stage.buffer.get_mapped_range_mut(from..from + n);
            mapped.map_err(|e| refused(&self.name, &e))?.copy_from_slice(piece);
            // Mapped ranges start at multiples of 8.
            stage.used = (from + n).next_multiple_of(8);
            let filled = stage.filled;
            let (buffer, to) = self.grid.find(at);
            let stage = self.filling;
            self.batch.commands.push(Command::Up { stage, filled, from, buffer, to, bytes: n });
            self.batch.touched.push(Touch { range: at..at + n, kind: Touched::All });
            self.batch.sent = self.batch.sent.wrapping_add(checksum(from / 4, piece));
            self.sum(sum, Slot::Up);
            at += n;
            bytes = rest;
        }
        Ok(())
    }

    /// Waits until the host may use a staging buffer.
    pub(super) fn wait_for(&self, stage: &Stage) -> Result<()> {
        let mut waited = Waited::new(Duration::from_secs(1));
        while !stage.mapped.load(Ordering::Acquire) {
            let poll =
                wgpu::PollType::Wait { submission_index: None, timeout: Some(Duration::from_millis(100)) };
            if let Err(wgpu::PollError::WrongSubmissionIndex(..)) = self.opened.device.poll(poll) {
                self.check()?;
            }
            self.check()?;
            if waited.look() > PATIENCE {
                return Err(self.lose("it does not answer"));
            }
        }
        Ok(())
    }

    /// Passes runs of the arena, `(offset, bytes)` in multiples of 4, to `sink`, in order and in pieces.
    pub(in crate::gpu) fn read(
        &mut self,
        runs: impl Iterator<Item = (u64, u64)>,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let mut waiting: VecDeque<usize> = VecDeque::new();
        let mut stage = 0;
        for (mut at, mut left) in runs {
            self.counts.downloaded += left;
            while left > 0 {
                if self.down[stage].used >= STAGE {
                    self.send(stage, &mut waiting)?;
                    stage = (stage + 1) % STAGES;
                    if waiting.len() == STAGES {
                        self.receive(&mut waiting, sink)?;
                    }
                }
                let used = self.down[stage].used;
                let n = left.min(STAGE - used).min(self.piece(at));
                let (buffer, from) = self.grid.find(at);
                let sum = self.ready_checksum(at, n, used)?;
                self.sum(sum, Slot::Down(stage));
                self.batch.commands.push(Command::Down { buffer, from, stage, to: used, bytes: n });
                self.batch.touched.push(Touch { range: at..at + n, kind: Touched::Read });
                self.down[stage].used += n;
                at += n;
                left -= n;
            }
        }
        if self.down[stage].used > 0 {
            self.send(stage, &mut waiting)?;
        }
        while !waiting.is_empty() {
            self.receive(&mut waiting, sink)?;
        }
        if self.cancel.is_cancelled() { Err(ComputeError::Cancelled) } else { self.check() }
    }

    /// Submits the copies into a staging buffer and asks to map it.
    fn send(&mut self, stage: usize, waiting: &mut VecDeque<usize>) -> Result<()> {
        self.submit()?;
        self.down[stage].map(wgpu::MapMode::Read);
        self.down[stage].batch = self.serial;
        waiting.push_back(stage);
        Ok(())
    }

    /// Hands the oldest staging buffer to `sink` and frees it.
    fn receive(&mut self, waiting: &mut VecDeque<usize>, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Some(index) = waiting.pop_front() else { return Ok(()) };
        // Batches up to the one that filled it; stamps wrap around.
        let behind = |stage: &Stage, stamp: u32| stage.batch.wrapping_sub(stamp) < u32::MAX / 2;
        while self.flight.front().is_some_and(|batch| behind(&self.down[index], batch.stamp)) {
            self.settle()?;
        }
        self.wait_for(&self.down[index])?;
        let Stage { used, sum, .. } = self.down[index];
        let mut right = false;
        self.down[index].with(used, &self.name, |bytes| {
            right = checksum(0, bytes) == sum;
            if right {
                sink(bytes);
            }
        })?;
        (self.down[index].used, self.down[index].sum) = (0, 0);
        if right { Ok(()) } else { Err(self.lose("bytes read from it are not the bytes that arrived")) }
    }
}
