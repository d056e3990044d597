//! The command stream of a device. Ops record commands (`record`), a batch of them is submitted while earlier
//! batches run (`submit`), and bytes move through staging buffers (`staging`). A steady slice makes nothing: it
//! finds the pipelines, bind groups, parameters and buffers of the slice before it.

mod batch;
mod pace;
mod record;
mod staging;
mod submit;
mod swap;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::bindings::{Binding, Grid, Reach};
use super::device::{BLOCK, Fault, GpuDevice, MatrixUnits, Opened, lock};
use super::driver::{self, GpuMemory};
use super::kernels::{Kernel, MARKS, SLOTS};
use super::params::{WORDS, Words};
use crate::cancel::CancelToken;
use crate::error::{ComputeError, Result};
use batch::Batch;
pub(super) use pace::Pace;
use record::BLOCKS;
use staging::{STAGE, STAGES, Stage};
use submit::FLIGHT;
use swap::Swap;

/// Work done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuCounts {
    /// Kernels launched.
    pub dispatches: u64,
    /// Batches submitted.
    pub submissions: u64,
    /// Pipelines compiled.
    pub pipelines: u64,
    /// Buffers and bind groups created.
    pub allocations: u64,
    /// Blocks of parameters written. A steady slice writes none.
    pub parameters: u64,
    /// Bytes copied to the device.
    pub uploaded: u64,
    /// Bytes copied from the device.
    pub downloaded: u64,
}

/// Most buffers of an arena. At 2 GiB each, the smallest limit of current drivers, they hold 2 TiB.
const MOST_BUFFERS: u64 = 1024;
/// Device memory beside the arena: parameters, staging, and up to a block each lost to rounding behind the
/// parameters, behind the arena, and in the buffer that wgpu sends parameters with.
pub(super) const BESIDE: u64 = BLOCKS as u64 * (WORDS * 4) as u64
    + 2 * STAGES as u64 * STAGE
    + COUNTED.next_multiple_of(BLOCK)
    + 3 * BLOCK;
/// Bytes of slots and marks, where one binding can hold them.
const COUNTED: u64 = SLOTS as u64 * 8 + MARKS as u64 * 4;
/// Bytes of the note behind the arena. The arena is rounded up to a multiple of it, where a binding may start.
const NOTE: u64 = 256;

pub(super) struct Stream {
    name: String,
    pub(super) opened: Arc<Opened>,
    cancel: CancelToken,
    buffers: Vec<wgpu::Buffer>,
    grid: Grid,
    /// Address of a word behind the arena: the number of the first normalisation that met NaN or infinity.
    note: u64,
    params: wgpu::Buffer,
    /// Blocks of parameters in `params`, found by their words.
    blocks: HashMap<Words, u32>,
    /// Blocks that the next submission writes.
    fresh: Vec<u8>,
    /// Bind groups, found by their bindings.
    groups: Vec<wgpu::BindGroup>,
    bound: HashMap<Vec<Binding>, usize>,
    pipelines: Vec<wgpu::ComputePipeline>,
    compiled: HashMap<(Kernel, Reach), usize>,
    /// Bindings of the current dispatch.
    bindings: Vec<Binding>,
    /// The last of `buffers`: slots, then marks of finished workgroups.
    counted: Binding,
    /// Counts marks.
    tally: Option<(wgpu::ComputePipeline, wgpu::BindGroup)>,
    /// The batch being recorded, and the stamp of the one before.
    batch: Batch,
    serial: u32,
    /// Batches under way, oldest first, and empty ones.
    flight: VecDeque<Batch>,
    spare: Vec<Batch>,
    /// Slots of the batches under way, for the host.
    proofs: Vec<Stage>,
    /// Staging buffers to the device, and the one being filled.
    up: Vec<Stage>,
    filling: usize,
    /// Staging buffers from the device.
    down: Vec<Stage>,
    swap: Swap,
    counts: GpuCounts,
}

impl Stream {
    pub(super) fn new(gpu: GpuDevice, bytes: u64, cancel: CancelToken) -> Result<Self> {
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
        // No machine has this much, but a driver may grant it and fail only when the memory is used.
        if grid.buffers() > MOST_BUFFERS {
            return Err(refused());
        }
        let mut counts = GpuCounts::default();
        let mut make = |label: &str, size: u64, usage: wgpu::BufferUsages, mapped_at_creation: bool| {
            counts.allocations += 1;
            let label = Some(label);
            device.create_buffer(&wgpu::BufferDescriptor { label, size, usage, mapped_at_creation })
        };
        use wgpu::BufferUsages as Usage;
        let arena = Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST;
        let mut buffers: Vec<wgpu::Buffer> =
            (0..grid.buffers()).map(|i| make("arena", grid.left(i * grid.buffer), arena, false)).collect();
        let counted = Binding { buffer: buffers.len(), start: 0, bytes: COUNTED.min(grid.limit) };
        buffers.push(make("marks", counted.bytes, Usage::STORAGE | Usage::COPY_SRC, false));
        let block = (WORDS * 4) as u64;
        let params = make("parameters", u64::from(BLOCKS) * block, Usage::UNIFORM | Usage::COPY_DST, false);
        let proof = Usage::MAP_READ | Usage::COPY_DST;
        let proofs =
            (0..=FLIGHT).map(|_| Stage::new(make("proof", u64::from(SLOTS) * 8, proof, false), false));
        let proofs = proofs.collect();
        let mut stage = |usage, mapped| Stage::new(make("staging", STAGE, usage, mapped), mapped);
        let up = (0..STAGES).map(|_| stage(Usage::MAP_WRITE | Usage::COPY_SRC, true)).collect();
        let down = (0..STAGES).map(|_| stage(Usage::MAP_READ | Usage::COPY_DST, false)).collect();
        let mut stream = Stream {
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
            counted,
            tally: None,
            batch: Batch::default(),
            serial: 0,
            flight: VecDeque::new(),
            spare: Vec::new(),
            proofs,
            up,
            filling: 0,
            down,
            swap: Swap::new(),
            counts,
        };
        stream.check()?;
        stream.tally = Some(stream.ready_tally()?);
        Ok(stream)
    }

    /// Most workgroups of a batch.
    fn most_marks(&self) -> u32 {
        ((self.counted.bytes / 4) as u32).saturating_sub(2 * SLOTS).max(1)
    }

    pub(super) fn counts(&self) -> GpuCounts {
        self.counts
    }

    /// Bytes of device memory reserved by everyone who shares the device.
    pub(super) fn reserved(&self) -> Option<u64> {
        self.opened.device.generate_allocator_report().map(|r| r.total_reserved_bytes)
    }

    /// Memory as the driver counts it.
    pub(super) fn memory(&self) -> Option<GpuMemory> {
        driver::memory_now(&self.opened.device)
    }

    /// The first fault that the driver reported, as an error.
    pub(super) fn check(&self) -> Result<()> {
        let device = self.name.clone();
        Err(match self.opened.fault.get() {
            None => return Ok(()),
            Some(Fault::Memory) => ComputeError::DeviceMemory { device, bytes: self.note },
            Some(Fault::Lost(reason)) => ComputeError::DeviceLost { device, reason: reason.clone() },
            Some(Fault::Wrong(reason)) => ComputeError::DeviceWrong { device, reason: reason.clone() },
            Some(Fault::Other(reason)) => ComputeError::Device { device, reason: reason.clone() },
        })
    }

    /// Whether kernels are timed: not on a software device.
    pub(super) fn is_timed(&self) -> bool {
        lock(&self.opened.pace).is_timed()
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

    /// The bytes of the note behind the arena.
    pub(super) fn note(&self) -> Range<u64> {
        self.note..self.note + 16
    }

    /// Reads the note and clears it.
    pub(super) fn take_note(&mut self) -> Result<u32> {
        let mut word = [0; 4];
        self.read([(self.note, 4)].into_iter(), &mut |bytes| {
            word.iter_mut().zip(bytes).for_each(|(w, b)| *w = *b);
        })?;
        self.write(self.note, &[0; 4])?;
        Ok(u32::from_le_bytes(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::gpu::bindings::Ranges;
    use crate::gpu::kernels::Role;
    use crate::gpu::params::{CombineParams, Params};

    /// A stream on a device of its own, which a test may lose. The limit on groups tells devices apart.
    fn stream(test: &str, bytes: u64, groups: u32) -> Option<Result<Stream>> {
        let Ok(device) = "vulkan:0".parse::<GpuDevice>() else {
            remaster_testkit::no_gpu(test);
            return None;
        };
        let limits = crate::gpu::GpuLimits { groups: Some(groups), ..device.limits };
        let device = GpuDevice { limits, ..device };
        Some(Stream::new(device, bytes, CancelToken::default()))
    }

    #[test]
    fn a_lost_device_is_an_error_that_says_so() {
        let Some(stream) = stream("a_lost_device_is_an_error_that_says_so", 1 << 20, 1001) else { return };
        let mut stream = stream.unwrap();
        stream.write(0, &[0; 64]).unwrap();
        stream.opened.device.destroy();
        let error = stream.submit().and_then(|()| stream.wait()).unwrap_err();
        assert!(matches!(error, ComputeError::DeviceLost { .. }), "{error}");
        assert!(error.to_string().contains("vulkan:0"), "{error}");
    }

    #[test]
    fn a_command_that_is_not_valid_is_an_error_and_no_crash() {
        let Some(stream) = stream("a_command_that_is_not_valid_is_an_error_and_no_crash", 1 << 20, 1002)
        else {
            return;
        };
        let mut stream = stream.unwrap();
        let kernel = Kernel { role: Role::Combine, dtype: DType::F32, vec_in: true };
        let params = Params::new(&CombineParams::default(), Ranges::default());
        let result = stream.dispatch(kernel, &params, [u32::MAX, 1, 1], 0).and_then(|()| stream.wait());
        assert!(matches!(result, Err(ComputeError::Device { .. })), "{result:?}");
    }

    #[test]
    fn an_arena_beyond_all_memory_is_an_error_with_the_numbers() {
        for bytes in [1 << 44, 1 << 50, u64::MAX / 2] {
            let Some(result) = stream("an_arena_beyond_all_memory_is_an_error_with_the_numbers", bytes, 1003)
            else {
                return;
            };
            match result.err() {
                Some(ComputeError::DeviceMemory { bytes: b, .. }) => assert_eq!(b, bytes),
                other => panic!("{other:?}"),
            }
        }
    }
}
