//! Work on its way to the device: commands are collected, submitted in batches, and a few batches are
//! under way at a time. Everything that a steady slice needs (pipelines, bind groups, parameters, buffers)
//! was made by the slice before and is found again.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::bindings::{Binding, Grid, Operand, Reach};
use super::device::{BLOCK, Fault, GpuDevice, MatrixUnits, Opened, lock};
use super::driver::{self, GpuMemory};
use super::kernels::Kernel;
use super::params::{Params, WORDS, Words};
use crate::cancel::CancelToken;
use crate::error::ComputeError;

/// What the backend did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuCounts {
    /// Kernels launched.
    pub dispatches: u64,
    /// Batches submitted.
    pub submissions: u64,
    /// Pipelines compiled.
    pub pipelines: u64,
    /// Buffers, layouts and bind groups made.
    pub allocations: u64,
    /// Blocks of parameters written; those of a steady slice are there already.
    pub parameters: u64,
    /// Bytes to the device.
    pub uploaded: u64,
    /// Bytes from the device.
    pub downloaded: u64,
}

/// Blocks of parameters that are kept.
const BLOCKS: u32 = 4096;
/// Bind groups that are kept: a slice of the whole decoder has 130 dispatches.
const GROUPS: usize = 4096;
/// Buffers of an arena: of 2 GiB each, the smallest that a driver of today stops at, they are 2 TiB.
const MOST_BUFFERS: u64 = 1024;
/// A staging buffer, and how many there are each way: one is filled while the others travel.
const STAGE: u64 = 4 << 20;
const STAGES: usize = 3;
/// Bytes beside the arena: parameters and staging, and the rest of a block behind the parameters, behind the
/// end of the arena, and of what wgpu itself sends parameters with.
pub(super) const BESIDE: u64 = BLOCKS as u64 * (WORDS * 4) as u64 + 2 * STAGES as u64 * STAGE + 3 * BLOCK;
/// Bytes behind the arena, which takes whole multiples of them; a binding may start at such a one.
const NOTE: u64 = 256;
/// A batch is submitted when it has this many commands or multiply-adds: drivers end work that takes
/// seconds, and a cancelled run should stop soon.
const BATCH: usize = 64;
const BATCH_MACS: u64 = 50_000_000_000;
/// Batches under way.
const FLIGHT: usize = 3;

/// Largest multiply-adds of one dispatch; larger ops are cut.
pub(super) const DISPATCH_MACS: u64 = 250_000_000_000;

enum Command {
    Dispatch { pipeline: usize, group: usize, block: u32, grid: [u32; 3] },
    Up { stage: usize, from: u64, buffer: usize, to: u64, bytes: u64 },
    Down { buffer: usize, from: u64, stage: usize, to: u64, bytes: u64 },
}

/// A staging buffer; `mapped` when the host may use it.
struct Stage {
    buffer: wgpu::Buffer,
    mapped: Arc<AtomicBool>,
    used: u64,
}

pub(super) struct Stream {
    name: String,
    opened: Arc<Opened>,
    cancel: CancelToken,
    buffers: Vec<wgpu::Buffer>,
    grid: Grid,
    /// Behind the arena: a word for the first normalisation that saw what is not finite.
    note: u64,
    params: wgpu::Buffer,
    blocks: HashMap<Words, u32>,
    fresh: Vec<u8>,
    /// Bind groups, found by their bindings.
    groups: Vec<wgpu::BindGroup>,
    bound: HashMap<Vec<Binding>, usize>,
    pipelines: Vec<wgpu::ComputePipeline>,
    compiled: HashMap<(Kernel, Reach), usize>,
    /// Bindings of the current dispatch.
    bindings: Vec<Binding>,
    commands: Vec<Command>,
    macs: u64,
    flight: VecDeque<wgpu::SubmissionIndex>,
    up: Vec<Stage>,
    filling: usize,
    down: Vec<Stage>,
    counts: GpuCounts,
}

impl Stream {
    pub(super) fn new(gpu: GpuDevice, bytes: u64, cancel: CancelToken) -> Result<Self, ComputeError> {
        let opened = gpu.open()?;
        let (device, limits) = (&opened.device, &opened.limits);
        let refused = || ComputeError::DeviceMemory { device: gpu.to_string(), bytes };
        let note = bytes.max(256).checked_next_multiple_of(NOTE).ok_or_else(refused)?;
        let grid = Grid::new(
            note.checked_add(NOTE).ok_or_else(refused)?,
            limits.max_buffer_size,
            limits.max_storage_buffer_binding_size,
            u64::from(limits.min_storage_buffer_offset_alignment),
        );
        // No machine has as much; a driver may still say yes and mean it when the memory is used.
        if grid.buffers() > MOST_BUFFERS {
            return Err(refused());
        }
        let mut counts = GpuCounts::default();
        let mut make = |label: &str, size: u64, usage: wgpu::BufferUsages, mapped: bool| {
            counts.allocations += 1;
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(label),
                size,
                usage,
                mapped_at_creation: mapped,
            })
        };
        use wgpu::BufferUsages as Usage;
        let arena = Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST;
        let buffers: Vec<wgpu::Buffer> =
            (0..grid.buffers()).map(|i| make("arena", grid.left(i * grid.buffer), arena, false)).collect();
        let block = (WORDS * 4) as u64;
        let params = make("parameters", u64::from(BLOCKS) * block, Usage::UNIFORM | Usage::COPY_DST, false);
        let mut stage = |usage, mapped| Stage {
            buffer: make("staging", STAGE, usage, mapped),
            mapped: Arc::new(AtomicBool::new(mapped)),
            used: 0,
        };
        let up = (0..STAGES).map(|_| stage(Usage::MAP_WRITE | Usage::COPY_SRC, true)).collect();
        let down = (0..STAGES).map(|_| stage(Usage::MAP_READ | Usage::COPY_DST, false)).collect();
        let stream = Stream {
            name: gpu.to_string(),
            opened: opened.clone(),
            cancel,
            buffers,
            grid,
            note,
            params,
            blocks: HashMap::new(),
            fresh: Vec::new(),
            groups: Vec::new(),
            bound: HashMap::new(),
            pipelines: Vec::new(),
            compiled: HashMap::new(),
            bindings: Vec::new(),
            commands: Vec::new(),
            macs: 0,
            flight: VecDeque::new(),
            up,
            filling: 0,
            down,
            counts,
        };
        stream.check()?;
        Ok(stream)
    }

    pub(super) fn counts(&self) -> GpuCounts {
        self.counts
    }

    /// Bytes of device memory reserved, by all who share the device.
    pub(super) fn reserved(&self) -> Option<u64> {
        self.opened.device.generate_allocator_report().map(|r| r.total_reserved_bytes)
    }

    /// What the driver counts.
    pub(super) fn memory(&self) -> Option<GpuMemory> {
        driver::memory_now(&self.opened.device)
    }

    /// Whether kernels of an earlier run were found.
    pub(super) fn found_pipelines(&self) -> bool {
        self.opened.found_pipelines()
    }

    /// What the driver reported, if anything.
    fn check(&self) -> Result<(), ComputeError> {
        let device = self.name.clone();
        match self.opened.faults.get() {
            None => Ok(()),
            Some(Fault::Memory) => Err(ComputeError::DeviceMemory { device, bytes: self.note }),
            Some(Fault::Lost(reason)) => Err(ComputeError::DeviceLost { device, reason }),
            Some(Fault::Other(reason)) => Err(ComputeError::Device { device, reason }),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Matrix units that kernels can use.
    pub(super) fn units(&self) -> Option<MatrixUnits> {
        self.opened.units
    }

    /// `jobs` workgroups in two axes, each within the device's limit.
    pub(super) fn grid(&self, jobs: usize) -> [u32; 2] {
        let most = self.opened.limits.max_compute_workgroups_per_dimension as usize;
        let x = jobs.clamp(1, most);
        [x as u32, jobs.div_ceil(x).max(1) as u32]
    }

    /// Enqueues a kernel.
    pub(super) fn dispatch(
        &mut self,
        kernel: Kernel,
        params: &Params,
        grid: [u32; 3],
        macs: u64,
    ) -> Result<(), ComputeError> {
        if self.is_cancelled() {
            return Ok(());
        }
        let mut words = params.words;
        let reach = self.reach(kernel, params, &mut words);
        let group = self.group()?;
        let pipeline = self.pipeline(kernel, reach)?;
        let block = self.block(words)?;
        self.commands.push(Command::Dispatch { pipeline, group, block, grid });
        self.counts.dispatches += 1;
        self.macs += macs;
        if self.commands.len() >= BATCH || self.macs >= BATCH_MACS { self.submit() } else { Ok(()) }
    }

    /// Covers the operands with bindings and writes where each starts in its first one. An operand that this
    /// dispatch does not use is bound to the start of the arena and never read.
    fn reach(&mut self, kernel: Kernel, params: &Params, words: &mut Words) -> Reach {
        self.bindings.clear();
        let mut bindings = [0; Operand::COUNT];
        let nothing = 0..1;
        let range = |o: Operand| params.ranges[o as usize].as_ref().unwrap_or(&nothing);
        for operand in kernel.operands() {
            let (count, base) = self.grid.cover(range(operand), &mut self.bindings);
            // More than 255 are refused below: no device binds as many.
            bindings[operand as usize] = count.min(255) as u8;
            words[operand as usize] = base;
        }
        if let Some(operand) = kernel.merged() {
            self.grid.cover(range(operand), &mut self.bindings);
        }
        let several = bindings.iter().any(|n| *n > 1);
        Reach { bindings, shift: if several { (self.grid.chunk / 16).ilog2() } else { 0 } }
    }

    /// The block of parameters with these values.
    fn block(&mut self, words: Words) -> Result<u32, ComputeError> {
        if let Some(block) = self.blocks.get(&words) {
            return Ok(*block);
        }
        if self.blocks.len() as u32 >= BLOCKS {
            // No batch under way may still read them.
            self.submit()?;
            self.drain()?;
            self.blocks.clear();
        }
        let block = self.blocks.len() as u32;
        self.blocks.insert(words, block);
        self.fresh.extend(words.into_iter().flat_map(u32::to_le_bytes));
        self.counts.parameters += 1;
        Ok(block)
    }

    /// Compiles a kernel unless it was before.
    fn pipeline(&mut self, kernel: Kernel, reach: Reach) -> Result<usize, ComputeError> {
        let key = (kernel, reach);
        if let Some(found) = self.compiled.get(&key) {
            return Ok(*found);
        }
        let opened = self.opened.clone();
        let mut compiled = lock(&opened.pipelines);
        let pipeline = match compiled.get(&key) {
            Some(pipeline) => pipeline.clone(),
            None => {
                let pipeline = self.compile(kernel, reach);
                self.counts.pipelines += 1;
                compiled.insert(key, pipeline.clone());
                pipeline
            }
        };
        self.compiled.insert(key, self.pipelines.len());
        self.pipelines.push(pipeline);
        self.check()?;
        Ok(self.pipelines.len() - 1)
    }

    fn compile(&self, kernel: Kernel, reach: Reach) -> wgpu::ComputePipeline {
        let layouts = lock(&self.opened.layouts);
        let layout = layouts.get(&self.bindings.len()).map(|l| &l.1);
        let text = kernel.source(reach);
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some("remaster"),
            source: wgpu::ShaderSource::Wgsl(text.into()),
        };
        let checks = wgpu::ShaderRuntimeChecks { force_loop_bounding: false, ..Default::default() };
        #[expect(unsafe_code, reason = "loops that count up need no counter beside theirs")]
        // SAFETY: indices stay checked. What is left out is a second counter in every loop, against loops that
        // never end: every loop of the kernels counts up to a number of its parameters or its table of taps.
        let module = unsafe { self.opened.device.create_shader_module_trusted(descriptor, checks) };
        self.opened.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some("remaster"),
            layout,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                // Every kernel writes its workgroup memory before it reads it.
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: self.opened.pipeline_cache(),
        })
    }

    /// The bind group of the current bindings.
    fn group(&mut self) -> Result<usize, ComputeError> {
        if let Some(found) = self.bound.get(&self.bindings) {
            return Ok(*found);
        }
        let count = self.bindings.len();
        let most = self.opened.limits.max_storage_buffers_per_shader_stage;
        if count > most as usize {
            return Err(ComputeError::DeviceBindings {
                device: self.name.clone(),
                windows: count,
                bytes: self.grid.chunk,
                most,
            });
        }
        let block = std::num::NonZeroU64::new((WORDS * 4) as u64);
        let opened = self.opened.clone();
        let mut layouts = lock(&opened.layouts);
        let (layout, _) = layouts.entry(count).or_insert_with(|| make_layout(&opened.device, count as u32));
        let entry = |binding, buffer, offset, size| {
            let resource = wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size });
            wgpu::BindGroupEntry { binding, resource }
        };
        let mut entries = vec![entry(0, &self.params, 0, block)];
        for (i, b) in self.bindings.iter().enumerate() {
            // Bindings are whole words; the end of the arena is one of 16 bytes.
            let size = std::num::NonZeroU64::new(b.bytes / 4 * 4);
            entries.push(entry(i as u32 + 1, &self.buffers[b.buffer], b.start, size));
        }
        let group = opened.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout,
            entries: &entries,
        });
        self.counts.allocations += 1;
        if self.groups.len() >= GROUPS {
            // No batch that is collected or under way may still use them.
            self.submit()?;
            self.drain()?;
            self.groups.clear();
            self.bound.clear();
        }
        self.bound.insert(self.bindings.clone(), self.groups.len());
        self.groups.push(group);
        self.check()?;
        Ok(self.groups.len() - 1)
    }

    /// Sends what was collected. Waits while too much is under way.
    pub(super) fn submit(&mut self) -> Result<(), ComputeError> {
        self.macs = 0;
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
        let mut rest = commands.as_slice();
        while let Some(first) = rest.first() {
            let run = rest.iter().take_while(|c| matches!(c, Command::Dispatch { .. })).count();
            if run > 0 {
                self.encode(&mut encoder, &rest[..run]);
                rest = &rest[run..];
                continue;
            }
            match *first {
                Command::Up { stage, from, buffer, to, bytes } => {
                    let (source, target) = (&self.up[stage].buffer, &self.buffers[buffer]);
                    encoder.copy_buffer_to_buffer(source, from, target, to, bytes);
                }
                Command::Down { buffer, from, stage, to, bytes } => {
                    let (source, target) = (&self.buffers[buffer], &self.down[stage].buffer);
                    encoder.copy_buffer_to_buffer(source, from, target, to, bytes);
                }
                Command::Dispatch { .. } => {}
            }
            rest = &rest[1..];
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
            let oldest = self.flight.pop_front();
            self.poll(oldest)?;
        }
        // The list keeps its room: no allocation per batch.
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

    fn poll(&self, submission: Option<wgpu::SubmissionIndex>) -> Result<(), ComputeError> {
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

    /// Waits for every batch.
    fn drain(&mut self) -> Result<(), ComputeError> {
        while let Some(oldest) = self.flight.pop_front() {
            self.poll(Some(oldest))?;
        }
        Ok(())
    }

    /// Where the note behind the arena lies.
    pub(super) fn note(&self) -> Range<u64> {
        self.note..self.note + 16
    }

    /// What the note says, which is then empty again.
    pub(super) fn take_note(&mut self) -> Result<u32, ComputeError> {
        let mut word = [0; 4];
        self.read([(self.note, 4)].into_iter(), &mut |bytes| {
            word.iter_mut().zip(bytes).for_each(|(w, b)| *w = *b);
        })?;
        self.write(self.note, &[0; 4])?;
        Ok(u32::from_le_bytes(word))
    }

    /// Submits and waits for everything.
    pub(super) fn wait(&mut self) -> Result<(), ComputeError> {
        self.submit()?;
        self.drain()?;
        self.check()?;
        if self.is_cancelled() { Err(ComputeError::Cancelled) } else { Ok(()) }
    }

    /// Copies host bytes to the arena. Both numbers are multiples of 4.
    pub(super) fn write(&mut self, mut at: u64, mut bytes: &[u8]) -> Result<(), ComputeError> {
        self.counts.uploaded += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.up[self.filling].used >= STAGE {
                self.filling = (self.filling + 1) % STAGES;
            }
            if self.up[self.filling].used >= STAGE {
                // All are full and none was sent.
                self.submit()?;
            }
            self.wait_for(&self.up[self.filling])?;
            let stage = &mut self.up[self.filling];
            let n = (bytes.len() as u64).min(STAGE - stage.used).min(self.grid.left(at));
            let (piece, rest) = bytes.split_at(n as usize);
            let from = stage.used;
            match stage.buffer.get_mapped_range_mut(from..from + n) {
                Ok(mut view) => view.copy_from_slice(piece),
                Err(error) => {
                    let (device, reason) = (self.name.clone(), error.to_string());
                    return Err(ComputeError::Device { device, reason });
                }
            }
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

    fn wait_for(&self, stage: &Stage) -> Result<(), ComputeError> {
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

    /// Copies runs of the arena, `(offset, bytes)` in multiples of 4, to `sink` in order and in pieces.
    pub(super) fn read(
        &mut self,
        runs: impl Iterator<Item = (u64, u64)>,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(), ComputeError> {
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
        if self.is_cancelled() { Err(ComputeError::Cancelled) } else { self.check() }
    }

    fn send(&mut self, stage: usize, waiting: &mut VecDeque<usize>) -> Result<(), ComputeError> {
        self.submit()?;
        self.down[stage].map(wgpu::MapMode::Read);
        waiting.push_back(stage);
        Ok(())
    }

    fn receive(
        &mut self,
        waiting: &mut VecDeque<usize>,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(), ComputeError> {
        let Some(index) = waiting.pop_front() else { return Ok(()) };
        self.wait_for(&self.down[index])?;
        let stage = &mut self.down[index];
        match stage.buffer.get_mapped_range(0..stage.used) {
            Ok(view) => sink(&view),
            Err(error) => {
                let (device, reason) = (self.name.clone(), error.to_string());
                return Err(ComputeError::Device { device, reason });
            }
        }
        stage.buffer.unmap();
        stage.mapped.store(false, Ordering::Release);
        stage.used = 0;
        Ok(())
    }
}

/// One block of parameters and `count` buffers that kernels read and write.
fn make_layout(device: &wgpu::Device, count: u32) -> (wgpu::BindGroupLayout, wgpu::PipelineLayout) {
    let entry = |binding, ty, dynamic, size| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: dynamic, min_binding_size: size },
        count: None,
    };
    let block = std::num::NonZeroU64::new((WORDS * 4) as u64);
    let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform, true, block)];
    let storage = wgpu::BufferBindingType::Storage { read_only: false };
    entries.extend((0..count).map(|i| entry(i + 1, storage, false, None)));
    let group =
        device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
    let pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&group)],
        immediate_size: 0,
    });
    (group, pipeline)
}

impl Stage {
    /// Asks for the buffer back once the device is done with it.
    fn map(&self, mode: wgpu::MapMode) {
        self.mapped.store(false, Ordering::Release);
        let mapped = self.mapped.clone();
        self.buffer.map_async(mode, .., move |result| {
            if result.is_ok() {
                mapped.store(true, Ordering::Release);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::gpu::kernels::Role;

    /// On a device of its own: others must not share one that is lost.
    fn stream(bytes: u64, groups: u32) -> Option<Result<Stream, ComputeError>> {
        let device: GpuDevice = "vulkan:0".parse().ok()?;
        let limits = crate::gpu::GpuLimits { groups: Some(groups), ..device.limits };
        let device = GpuDevice { limits, ..device };
        Some(Stream::new(device, bytes, CancelToken::default()))
    }

    #[test]
    fn a_lost_device_is_an_error_that_says_so() {
        let Some(stream) = stream(1 << 20, 1001) else { return };
        let mut stream = stream.unwrap();
        stream.write(0, &[0; 64]).unwrap();
        stream.opened.device.destroy();
        let error = stream.submit().and_then(|()| stream.wait()).unwrap_err();
        assert!(matches!(error, ComputeError::DeviceLost { .. }), "{error}");
        assert!(error.to_string().contains("vulkan:0"), "{error}");
    }

    #[test]
    fn a_command_that_is_not_valid_is_an_error_and_no_crash() {
        let Some(stream) = stream(1 << 20, 1002) else { return };
        let mut stream = stream.unwrap();
        let kernel = Kernel { role: Role::Combine, dtype: DType::F32, vec_in: true };
        let result =
            stream.dispatch(kernel, &Params::new(), [u32::MAX, 1, 1], 0).and_then(|()| stream.wait());
        assert!(matches!(result, Err(ComputeError::Device { .. })), "{result:?}");
    }

    #[test]
    fn an_arena_beyond_all_memory_is_an_error_with_the_numbers() {
        for bytes in [1 << 44, 1 << 50, u64::MAX / 2] {
            let Some(result) = stream(bytes, 1003) else { return };
            match result.err() {
                Some(ComputeError::DeviceMemory { bytes: b, .. }) => assert_eq!(b, bytes),
                other => panic!("{other:?}"),
            }
        }
    }
}
