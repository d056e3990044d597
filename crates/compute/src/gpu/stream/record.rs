//! Recording: a dispatch becomes a pipeline, a bind group and a block of parameters. Each is made once and found
//! again by what it was made from.

use std::num::NonZeroU64;
use std::time::Instant;

use super::Stream;
use super::batch::{Slot, Touch, Touched};
use super::pace::Pace;
use crate::dtype::DType;
use crate::error::{ComputeError, Result};
use crate::gpu::bindings::{Operand, Ranges, Reach};
use crate::gpu::device::lock;
use crate::gpu::kernels::{Kernel, MARKS, Role, SHARE, SLOTS};
use crate::gpu::params::{Params, TallyParams, WORDS, Words};

/// Blocks of parameters kept.
pub(super) const BLOCKS: u32 = 4096;
/// Bind groups kept. A slice of the whole decoder has 130 dispatches.
const GROUPS: usize = 4096;
/// A batch is submitted at this many commands.
const BATCH: usize = 64;

/// A recorded command. Pipelines, bind groups, blocks, buffers and stages are named by their index.
pub(super) enum Command {
    Dispatch {
        pipeline: usize,
        group: usize,
        block: u32,
        grid: [u32; 3],
        run: Run,
    },
    /// `filled`: how often the stage had been filled.
    Up {
        stage: usize,
        filled: u64,
        from: u64,
        buffer: usize,
        to: u64,
        bytes: u64,
    },
    Down {
        buffer: usize,
        from: u64,
        stage: usize,
        to: u64,
        bytes: u64,
    },
}

/// What is told with each dispatch: see `done.wgsl`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) base: u32,
    pub(super) words: u32,
}

impl Run {
    /// In the order of the fields there.
    pub(super) fn bytes(&self, stamp: u32) -> [u8; RUN] {
        let mut bytes = [0; RUN];
        let words = [self.first, self.base, stamp, self.words];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        bytes
    }
}

/// Bytes of a [`Run`].
const RUN: usize = 16;

/// The kernel that counts marks, and the one that sums what travelled.
const TALLY: Kernel = Kernel { role: Role::Tally { checksum: false }, dtype: DType::F32, vec_in: true };
const CHECKSUM: Kernel = Kernel { role: Role::Tally { checksum: true }, ..TALLY };

/// A grid as dispatches of about `most` workgroups, each with the number of its first one along the first two axes.
fn parts([x, y, z]: [u32; 3], most: u32) -> impl Iterator<Item = ([u32; 3], u32)> {
    let all = u64::from(x) * u64::from(y);
    let whole = all.saturating_mul(z.into()) <= most.into();
    let most = (u64::from(most) / u64::from(z.max(1))).clamp(1, u64::from(x.max(1)));
    let starts = (0..all).step_by(most as usize).filter(move |_| !whole);
    let cut = starts.map(move |first| ([(all - first).min(most) as u32, 1, z], first as u32));
    whole.then_some(([x, y, z], 0)).into_iter().chain(cut)
}

impl Stream {
    /// Records a kernel, and submits the batch if it is full.
    pub(in crate::gpu) fn dispatch(
        &mut self,
        kernel: Kernel,
        params: &Params,
        grid: [u32; 3],
        macs: u64,
    ) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Ok(());
        }
        let (pipeline, group, block) = self.ready(kernel, params)?;
        let work = if macs > 0 { macs } else { grid.iter().map(|n| u64::from(*n)).product() };
        let timed = lock(&self.opened.pace).wants(&kernel, work);
        if timed {
            self.submit()?;
            self.drain()?;
        }
        let most = self.most_marks();
        for (grid, base) in parts(grid, most) {
            let groups = grid.iter().fold(1u32, |n, axis| n.saturating_mul(*axis));
            if self.batch.marks.saturating_add(groups) > most {
                self.submit()?;
            }
            self.touch(kernel, &params.ranges);
            let run = Run { first: self.batch.marks, base, words: 0 };
            self.batch.commands.push(Command::Dispatch { pipeline, group, block, grid, run });
            self.batch.marks = self.batch.marks.saturating_add(groups);
            self.counts.dispatches += 1;
        }
        if timed {
            return self.time(kernel, work);
        }
        self.batch.seconds += lock(&self.opened.pace).seconds(&kernel, work);
        let full = self.batch.commands.len() >= BATCH || Pace::is_full(self.batch.seconds);
        if full { self.submit() } else { Ok(()) }
    }

    /// Pipeline, bind group and block of parameters of a dispatch. Making room for them may submit the batch.
    fn ready(&mut self, kernel: Kernel, params: &Params) -> Result<(usize, usize, u32)> {
        let mut words = params.words;
        let reach = self.reach(kernel, params, &mut words);
        let group = self.group()?;
        let pipeline = self.pipeline(kernel, reach)?;
        Ok((pipeline, group, self.block(words)?))
    }

    /// The kernel that counts marks, with what is bound to it. Its parameters are zeros: the first block.
    pub(super) fn ready_tally(&mut self) -> Result<(wgpu::ComputePipeline, wgpu::BindGroup)> {
        self.block([0; WORDS])?;
        let (pipeline, group, _) =
            self.ready(TALLY, &Params::new(&TallyParams::default(), Ranges::default()))?;
        Ok((self.pipelines[pipeline].clone(), self.groups[group].clone()))
    }

    /// Notes what a dispatch reads and writes.
    fn touch(&mut self, kernel: Kernel, ranges: &Ranges) {
        let whole = if ranges.partial { Touched::Some } else { Touched::All };
        let operands = kernel.operands();
        let used = |writes: bool| {
            let operands = operands.iter().filter(move |o| kernel.writes(**o) == writes);
            operands.filter_map(|o| ranges.find(*o))
        };
        let read = used(false).chain(used(true).filter(|_| ranges.accumulates));
        let read = read.map(|range| Touch { range, kind: Touched::Read });
        let written = used(true).map(|range| Touch { range, kind: whole });
        self.batch.touched.extend(read.chain(written));
    }

    /// Prepares the sum of words of the arena, the first of which is number `base` of a staging buffer. Submits the batch if it
    /// has no room for it.
    pub(super) fn ready_checksum(&mut self, at: u64, bytes: u64, base: u64) -> Result<Command> {
        let mut ranges = Ranges::default();
        let start = at / 16 * 16;
        ranges.set(Operand::Input, start..at + bytes);
        let params = TallyParams { input_skip: ((at - start) / 4) as usize };
        let words = (bytes / 4) as u32;
        let groups = words.div_ceil(SHARE);
        if self.batch.slots.len() as u32 + groups > SLOTS - MARKS / SHARE {
            self.submit()?;
        }
        let (pipeline, group, block) = self.ready(CHECKSUM, &Params::new(&params, ranges))?;
        let run = Run { first: self.batch.slots.len() as u32, base: (base / 4) as u32, words };
        Ok(Command::Dispatch { pipeline, group, block, grid: [groups, 1, 1], run })
    }

    /// Records a sum that was prepared.
    pub(super) fn sum(&mut self, sum: Command, slot: Slot) {
        if let Command::Dispatch { grid, .. } = &sum {
            self.batch.slots.extend((0..grid[0]).map(|_| slot));
        }
        self.batch.commands.push(sum);
    }

    /// Submits a dispatch on its own and notes how long it takes.
    fn time(&mut self, kernel: Kernel, work: u64) -> Result<()> {
        let started = Instant::now();
        self.submit()?;
        self.drain()?;
        lock(&self.opened.pace).learn(kernel, work, started.elapsed().as_secs_f64());
        Ok(())
    }

    /// Most multiply-adds of one dispatch of a kernel; larger ops are cut.
    pub(in crate::gpu) fn most(&self, kernel: &Kernel) -> u64 {
        lock(&self.opened.pace).most(kernel)
    }

    /// Covers the operands with bindings and writes where each starts in its first one. An operand that this
    /// dispatch does not use is bound to the start of the arena and never read.
    fn reach(&mut self, kernel: Kernel, params: &Params, words: &mut Words) -> Reach {
        self.bindings.clear();
        let mut bindings = [0; Operand::COUNT];
        for (i, operand) in kernel.operands().into_iter().enumerate() {
            if operand == Operand::Marks {
                self.bindings.push(self.counted);
                bindings[operand as usize] = 1;
                continue;
            }
            let (count, base) = self.grid.cover(&params.ranges.get(operand), &mut self.bindings);
            // `group` refuses more than 255: no device binds as many.
            bindings[operand as usize] = count.min(255) as u8;
            words[params.len + i] = base;
        }
        if let Some(operand) = kernel.merged() {
            self.grid.cover(&params.ranges.get(operand), &mut self.bindings);
        }
        let several = bindings.iter().any(|n| *n > 1);
        Reach { bindings, shift: if several { (self.grid.chunk / 16).ilog2() } else { 0 } }
    }

    /// The block of parameters with these words.
    fn block(&mut self, words: Words) -> Result<u32> {
        if let Some(block) = self.blocks.get(&words) {
            return Ok(*block);
        }
        if self.blocks.len() as u32 >= BLOCKS {
            // Batches under way may still read the old blocks.
            self.submit()?;
            self.drain()?;
            self.blocks.clear();
            // Another block may be the first now, which belongs to the tally.
            self.block([0; WORDS])?;
        }
        let block = self.blocks.len() as u32;
        self.blocks.insert(words, block);
        self.fresh.extend(words.into_iter().flat_map(u32::to_le_bytes));
        self.counts.parameters += 1;
        Ok(block)
    }

    /// Finds a compiled kernel, or compiles it.
    fn pipeline(&mut self, kernel: Kernel, reach: Reach) -> Result<usize> {
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
        let text = kernel.source(reach, kernel.converts() && self.opened.is_native());
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some("remaster"),
            source: wgpu::ShaderSource::Wgsl(text.into()),
        };
        let checks = wgpu::ShaderRuntimeChecks {
            bounds_checks: self.opened.checked || !kernel.on_matrix_units(),
            force_loop_bounding: false,
            int_div_checks: false,
            ..Default::default()
        };
        #[expect(
            unsafe_code,
            reason = "the loops of the kernels are bounded, and their divisors are not zero"
        )]
        // SAFETY: left out are the counter that wgpu adds to every loop, to stop endless ones, and the test of every
        // divisor: every loop of the kernels counts up to a parameter or to the length of its list of taps, and divisors
        // are sizes, which the checks of every op keep above zero. Kernels on matrix units do not check indices either:
        // the ops refuse operands that are not of the sizes that the indices follow from, pixels, tokens and channels
        // beyond the last are read as the last, and the tests run the same kernels with checks.
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
    fn group(&mut self) -> Result<usize> {
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
        let block = NonZeroU64::new((WORDS * 4) as u64);
        let opened = self.opened.clone();
        let mut layouts = lock(&opened.layouts);
        let (layout, _) = layouts.entry(count).or_insert_with(|| make_layout(&opened.device, count as u32));
        let entry = |binding, buffer, offset, size| {
            let resource = wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size });
            wgpu::BindGroupEntry { binding, resource }
        };
        let mut entries = vec![entry(0, &self.params, 0, block)];
        for (i, b) in self.bindings.iter().enumerate() {
            // Bindings are whole words, and the arena ends at a multiple of 16 bytes.
            let size = NonZeroU64::new(b.bytes / 4 * 4);
            entries.push(entry(i as u32 + 1, &self.buffers[b.buffer], b.start, size));
        }
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        let group = opened.device.create_bind_group(&descriptor);
        self.counts.allocations += 1;
        if self.groups.len() >= GROUPS {
            // The batch being recorded and those under way may still use the old groups.
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
}

/// The layout of one block of parameters and `count` buffers that kernels read and write.
fn make_layout(device: &wgpu::Device, count: u32) -> (wgpu::BindGroupLayout, wgpu::PipelineLayout) {
    let entry = |binding, ty, dynamic, size| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: dynamic, min_binding_size: size },
        count: None,
    };
    let block = NonZeroU64::new((WORDS * 4) as u64);
    let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform, true, block)];
    let storage = wgpu::BufferBindingType::Storage { read_only: false };
    entries.extend((0..count).map(|i| entry(i + 1, storage, false, None)));
    let group =
        device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
    let pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&group)],
        immediate_size: RUN as u32,
    });
    (group, pipeline)
}
