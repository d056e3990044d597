//! Staging: bytes travel between the host and the arena through two rings of mapped buffers, one each way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Stream;
use super::record::Command;
use crate::error::{ComputeError, Result};

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
}

impl Stage {
    pub(super) fn new(buffer: wgpu::Buffer, mapped: bool) -> Self {
        Stage { buffer, mapped: Arc::new(AtomicBool::new(mapped)), used: 0 }
    }

    /// Maps the buffer again once the device is done with it.
    pub(super) fn map(&self, mode: wgpu::MapMode) {
        self.mapped.store(false, Ordering::Release);
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
            self.wait_for(&self.up[self.filling])?;
            let stage = &mut self.up[self.filling];
            let n = (bytes.len() as u64).min(STAGE - stage.used).min(self.grid.left(at));
            let (piece, rest) = bytes.split_at(n as usize);
            let from = stage.used;
            let mapped = stage.buffer.get_mapped_range_mut(from..from + n);
            mapped.map_err(|e| refused(&self.name, &e))?.copy_from_slice(piece);
            // Mapped ranges start at multiples of 8.
            stage.used = (from + n).next_multiple_of(8);
            let (buffer, to) = self.grid.find(at);
            let stage = self.filling;
            self.commands.push(Command::Up { stage, from, buffer, to, bytes: n });
            at += n;
            bytes = rest;
        }
        Ok(())
    }

    /// Waits until the host may use a staging buffer.
    fn wait_for(&self, stage: &Stage) -> Result<()> {
        while !stage.mapped.load(Ordering::Acquire) {
            let poll =
                wgpu::PollType::Wait { submission_index: None, timeout: Some(Duration::from_millis(100)) };
            if let Err(wgpu::PollError::WrongSubmissionIndex(..)) = self.opened.device.poll(poll) {
                self.check()?;
            }
            self.check()?;
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
                let n = left.min(STAGE - used).min(self.grid.left(at));
                let (buffer, from) = self.grid.find(at);
                self.commands.push(Command::Down { buffer, from, stage, to: used, bytes: n });
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
        waiting.push_back(stage);
        Ok(())
    }

    /// Hands the oldest staging buffer to `sink` and frees it.
    fn receive(&mut self, waiting: &mut VecDeque<usize>, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Some(index) = waiting.pop_front() else { return Ok(()) };
        self.wait_for(&self.down[index])?;
        let stage = &mut self.down[index];
        let mapped = stage.buffer.get_mapped_range(0..stage.used);
        sink(&mapped.map_err(|e| refused(&self.name, &e))?);
        stage.buffer.unmap();
        stage.mapped.store(false, Ordering::Release);
        stage.used = 0;
        Ok(())
    }
}
