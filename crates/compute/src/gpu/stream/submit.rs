//! Submission: recorded commands go to the device as one batch, and the host waits for batches.

use std::time::Instant;

use super::Stream;
use super::pace::Pace;
use super::record::Command;
use crate::error::{ComputeError, Result};
use crate::gpu::device::lock;
use crate::gpu::params::WORDS;

/// Most batches under way.
const FLIGHT: usize = 3;

impl Stream {
    /// Sends the recorded commands as one batch. Waits while too many batches are under way.
    pub(in crate::gpu) fn submit(&mut self) -> Result<()> {
        self.seconds = 0.0;
        if !self.fresh.is_empty() {
            let block = WORDS * 4;
            let first = (self.blocks.len() * block - self.fresh.len()) as u64;
            self.opened.queue.write_buffer(&self.params, first, &self.fresh);
            self.fresh.clear();
        }
        let commands = std::mem::take(&mut self.commands);
        if commands.is_empty() {
            return Ok(());
        }
        let mut encoder = self.opened.device.create_command_encoder(&Default::default());
        let dispatched = |c: &Command| matches!(c, Command::Dispatch { .. });
        for run in commands.chunk_by(|a, b| dispatched(a) && dispatched(b)) {
            match run[0] {
                Command::Up { stage, from, buffer, to, bytes } => {
                    let (source, target) = (&self.up[stage].buffer, &self.buffers[buffer]);
                    encoder.copy_buffer_to_buffer(source, from, target, to, bytes);
                }
                Command::Down { buffer, from, stage, to, bytes } => {
                    let (source, target) = (&self.buffers[buffer], &self.down[stage].buffer);
                    encoder.copy_buffer_to_buffer(source, from, target, to, bytes);
                }
                Command::Dispatch { .. } => self.encode(&mut encoder, run),
            }
        }
        for stage in self.up.iter().filter(|s| s.used > 0) {
            stage.buffer.unmap();
        }
        self.flight.push_back(self.opened.queue.submit([encoder.finish()]));
        self.counts.submissions += 1;
        for stage in self.up.iter_mut().filter(|s| s.used > 0) {
            stage.used = 0;
            stage.map(wgpu::MapMode::Write);
        }
        while self.flight.len() > FLIGHT {
            let (started, batches) = (Instant::now(), self.flight.len());
            let oldest = self.flight.pop_front();
            self.poll(oldest)?;
            if Pace::is_late(started.elapsed().as_secs_f64(), batches) {
                lock(&self.opened.pace).slow_down();
            }
        }
        // The list keeps its capacity: no allocation per batch.
        self.commands = commands;
        self.commands.clear();
        self.check()
    }

    fn encode(&self, encoder: &mut wgpu::CommandEncoder, commands: &[Command]) {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        for command in commands {
            let Command::Dispatch { pipeline, group, block, grid } = *command else { continue };
            pass.set_pipeline(&self.pipelines[pipeline]);
            pass.set_bind_group(0, &self.groups[group], &[block * (WORDS * 4) as u32]);
            pass.dispatch_workgroups(grid[0], grid[1], grid[2]);
        }
    }

    fn poll(&self, submission: Option<wgpu::SubmissionIndex>) -> Result<()> {
        let wait = wgpu::PollType::Wait { submission_index: submission, timeout: None };
        match self.opened.device.poll(wait) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.check()?;
                let (device, reason) = (self.name.clone(), error.to_string());
                Err(ComputeError::DeviceLost { device, reason })
            }
        }
    }

    /// Waits for every batch under way.
    pub(super) fn drain(&mut self) -> Result<()> {
        while let Some(oldest) = self.flight.pop_front() {
            self.poll(Some(oldest))?;
        }
        Ok(())
    }

    /// Submits and waits for everything.
    pub(in crate::gpu) fn wait(&mut self) -> Result<()> {
        self.submit()?;
        self.drain()?;
        self.check()?;
        if self.cancel.is_cancelled() { Err(ComputeError::Cancelled) } else { Ok(()) }
    }
}
