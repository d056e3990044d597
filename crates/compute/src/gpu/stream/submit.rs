//! Submission: recorded commands go to the device as one batch, and the host waits for batches and looks at their proofs.

use std::time::{Duration, Instant};

use super::Stream;
use super::batch::{Batch, is_repeatable, judge};
use super::pace::Pace;
use super::record::{Command, Run};
use super::staging::{STAGES, Stage};
use crate::error::{ComputeError, Result};
use crate::gpu::device::{Fault, lock};
use crate::gpu::params::WORDS;
use crate::waited::Waited;

/// Most batches under way.
pub(super) const FLIGHT: usize = 3;
/// A device that does not answer for so long counts as lost. Batches are made for half a second; a software device on a busy
/// machine can take a hundred times as long.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// How often it is asked meanwhile.
const LOOK: Duration = Duration::from_secs(1);

impl Stream {
    /// Sends the recorded commands as one batch. Waits while too many batches are under way.
    pub(in crate::gpu) fn submit(&mut self) -> Result<()> {
        if !self.fresh.is_empty() {
            let block = WORDS * 4;
            let first = (self.blocks.len() * block - self.fresh.len()) as u64;
            self.opened.queue.write_buffer(&self.params, first, &self.fresh);
            self.fresh.clear();
        }
        if self.batch.commands.is_empty() {
            return Ok(());
        }
        let next = self.spare.pop().unwrap_or_default();
        let mut batch = std::mem::replace(&mut self.batch, next);
        self.carry_out(&mut batch);
        self.flight.push_back(batch);
        self.counts.submissions += 1;
        while self.flight.len() > FLIGHT {
            let (started, batches) = (Instant::now(), self.flight.len());
            self.settle()?;
            if Pace::is_late(started.elapsed().as_secs_f64(), batches) {
                lock(&self.opened.pace).slow_down();
            }
        }
        self.check()
    }

    /// Submits the commands of a batch under a new stamp, and asks for its proof.
    fn carry_out(&mut self, batch: &mut Batch) {
        self.serial = self.serial.wrapping_add(1);
        batch.stamp = self.serial;
        let mut encoder = self.opened.device.create_command_encoder(&Default::default());
        let dispatched = |c: &Command| matches!(c, Command::Dispatch { .. });
        let mut sent = [false; STAGES];
        for run in batch.commands.chunk_by(|a, b| dispatched(a) && dispatched(b)) {
            match run[0] {
                Command::Up { stage, from, buffer, to, bytes, .. } => {
                    let (source, target) = (&self.up[stage].buffer, &self.buffers[buffer]);
                    encoder.copy_buffer_to_buffer(source, from, target, to, bytes);
                    sent[stage] = true;
                }
                Command::Down { buffer, from, stage, to, bytes } => {
                    let (source, target) = (&self.buffers[buffer], &self.down[stage].buffer);
                    encoder.copy_buffer_to_buffer(source, from, target, to, bytes);
                }
                Command::Dispatch { .. } => self.encode(&mut encoder, batch.stamp, run),
            }
        }
        let marks = batch.mark_slots();
        if let (true, Some((pipeline, group))) = (marks > 0, &self.tally) {
            let run = Run { first: batch.slots.len() as u32, base: 0, words: batch.marks };
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, group, &[0]);
            pass.set_immediates(0, &run.bytes(batch.stamp));
            pass.dispatch_workgroups(marks, 1, 1);
        }
        let number = self.proof_of(batch);
        let proof = &self.proofs[number];
        let bytes = u64::from(batch.slots.len() as u32 + marks) * 8;
        if let Some(counted) = self.buffers.last() {
            encoder.copy_buffer_to_buffer(counted, 0, &proof.buffer, 0, bytes);
        }
        let sent = || (0..STAGES).filter(|i| sent[*i]);
        sent().for_each(|i| self.up[i].unmap());
        batch.index = Some(self.opened.queue.submit([encoder.finish()]));
        for i in sent() {
            self.up[i].used = 0;
            self.up[i].map(wgpu::MapMode::Write);
        }
        self.proofs[number].map(wgpu::MapMode::Read);
    }

    /// Which proof is that of a batch under way.
    fn proof_of(&self, batch: &Batch) -> usize {
        batch.stamp as usize % self.proofs.len()
    }

    fn encode(&self, encoder: &mut wgpu::CommandEncoder, stamp: u32, commands: &[Command]) {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        for command in commands {
            let Command::Dispatch { pipeline, group, block, grid, run } = command else { continue };
            pass.set_pipeline(&self.pipelines[*pipeline]);
            pass.set_bind_group(0, &self.groups[*group], &[block * (WORDS * 4) as u32]);
            pass.set_immediates(0, &run.bytes(stamp));
            pass.dispatch_workgroups(grid[0], grid[1], grid[2]);
        }
    }

    /// Waits for the oldest batch and looks at its proof. A batch that is not complete is repeated if that can be done; a device
    /// that fails again counts as lost.
    pub(super) fn settle(&mut self) -> Result<()> {
        let Some(batch) = self.flight.pop_front() else { return Ok(()) };
        self.poll(batch.index.clone())?;
        match self.prove(&batch)? {
            Ok(()) => self.recycle(batch),
            Err(reason) => self.repeat(batch, &reason)?,
        }
        Ok(())
    }

    fn recycle(&mut self, mut batch: Batch) {
        batch.clear();
        self.spare.push(batch);
    }

    /// What is missing of a batch that the device has ended, if anything is.
    fn prove(&mut self, batch: &Batch) -> Result<Result<(), String>> {
        let number = self.proof_of(batch);
        self.wait_for(&self.proofs[number])?;
        let bytes = 8 * (batch.slots.len() + batch.mark_slots() as usize);
        let judged = self.proofs[number].with(bytes as u64, &self.name, |bytes| {
            let (pairs, _) = bytes.as_chunks::<8>();
            let pairs = pairs.iter().map(|pair| u64::from_le_bytes(*pair));
            judge(batch, &pairs.map(|pair| [pair as u32, (pair >> 32) as u32]).collect::<Vec<_>>())
        })?;
        Ok(judged.map(|went| {
            for (stage, sum) in went {
                self.down[stage].sum = self.down[stage].sum.wrapping_add(sum);
            }
        }))
    }

    /// Carries out a batch and those behind it once more, if they still find what they found.
    fn repeat(&mut self, failed: Batch, reason: &str) -> Result<()> {
        let mut window = vec![failed];
        while let Some(batch) = self.flight.pop_front() {
            self.poll(batch.index.clone())?;
            window.push(batch);
        }
        let kept = |command: &Command| match command {
            Command::Up { stage, filled, .. } => self.up[*stage].filled == *filled,
            _ => true,
        };
        let touched = || window.iter().flat_map(|batch| &batch.touched);
        let whole = window.iter().all(|batch| batch.commands.iter().all(kept));
        if !whole || !is_repeatable(touched()) {
            return Err(self.lose(reason));
        }
        let downs: Vec<usize> = (0..STAGES)
            .filter(|i| {
                let to = |c: &Command| matches!(c, Command::Down { stage, .. } if stage == i);
                self.down[*i].is_asked() && window.iter().any(|batch| batch.commands.iter().any(to))
            })
            .collect();
        downs.iter().for_each(|i| self.down[*i].unmap());
        // Their proofs may be mapped, and go on under new stamps.
        self.proofs.iter_mut().for_each(Stage::unmap);
        for mut batch in window {
            self.carry_out(&mut batch);
            self.poll(batch.index.clone())?;
            if let Err(reason) = self.prove(&batch)? {
                return Err(self.lose(&reason));
            }
            self.recycle(batch);
        }
        for i in downs {
            self.down[i].map(wgpu::MapMode::Read);
            self.down[i].batch = self.serial;
        }
        Ok(())
    }

    /// From now on the device counts as lost.
    pub(super) fn lose(&self, reason: &str) -> ComputeError {
        let _ = self.opened.fault.set(Fault::Lost(format!("work was lost without an error: {reason}")));
        match self.check() {
            Err(error) => error,
            Ok(()) => ComputeError::DeviceLost { device: self.name.clone(), reason: reason.to_owned() },
        }
    }

    fn poll(&self, submission: Option<wgpu::SubmissionIndex>) -> Result<()> {
        let mut waited = Waited::new(2 * LOOK);
        loop {
            let wait = wgpu::PollType::Wait { submission_index: submission.clone(), timeout: Some(LOOK) };
            match self.opened.device.poll(wait) {
                Ok(_) => return Ok(()),
                Err(wgpu::PollError::Timeout) if waited.look() < PATIENCE => self.check()?,
                Err(error) => {
                    self.check()?;
                    let (device, reason) = (self.name.clone(), error.to_string());
                    return Err(ComputeError::DeviceLost { device, reason });
                }
            }
        }
    }

    /// Waits for every batch under way.
    pub(super) fn drain(&mut self) -> Result<()> {
        while !self.flight.is_empty() {
            self.settle()?;
        }
        Ok(())
    }

    /// Submits and waits for everything.
    pub(in crate::gpu) fn wait(&mut self) -> Result<()> {
        self.submit()?;
        self.drain()?;
        self.check()?;
        self.look_for_swap()?;
        if self.cancel.is_cancelled() { Err(ComputeError::Cancelled) } else { Ok(()) }
    }
}
