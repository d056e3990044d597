//! Lists GPUs with their limits, and opens one.

use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use super::bindings::Reach;
use super::cache::PipelineFile;
use super::choice::Choices;
use super::driver::{self, GpuMemory};
use super::examined::{Unlisted, unlisted};
use super::half;
use super::kernels::Kernel;
use super::stream::Pace;
use super::watch::{MonitorRef, NetworkId, Watch};
use crate::error::{ComputeError, Result};

/// The graphics API that drives a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// Linux, Windows, Android.
    Vulkan,
    /// Windows.
    Dx12,
    /// macOS.
    Metal,
}

impl Api {
    /// All of them, whether this system has them or not.
    pub const ALL: [Api; 3] = [Api::Vulkan, Api::Dx12, Api::Metal];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Api::Vulkan => "vulkan",
            Api::Dx12 => "dx12",
            Api::Metal => "metal",
        }
    }

    fn backends(self) -> wgpu::Backends {
        match self {
            Api::Vulkan => wgpu::Backends::VULKAN,
            Api::Dx12 => wgpu::Backends::DX12,
            Api::Metal => wgpu::Backends::METAL,
        }
    }
}

/// Limits below those of the device, for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GpuLimits {
    /// Bytes of one binding.
    pub binding: Option<u64>,
    /// Workgroups of a dispatch along one axis.
    pub groups: Option<u32>,
    /// Check indices in kernels that do without.
    pub checked: bool,
    /// Time kernels on a software device, too, and cut work by that.
    pub timed: bool,
}

/// A GPU that is not open yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GpuDevice {
    /// Its API.
    pub api: Api,
    /// Its number among the devices of that API.
    pub index: usize,
    /// Hash of name, driver and limits. Results of another device or driver belong to another class.
    pub fingerprint: u64,
    /// Limits to stay below.
    pub limits: GpuLimits,
    /// Kernels by layer, as `tune` chose them.
    pub choices: Choices,
    /// Folder for compiled kernels; without one every run compiles its own.
    pub cache: Option<&'static Path>,
    /// How often its results are computed again.
    pub watch: Watch,
    /// Who remembers what that finds. A device that has one is watched only while it computes a network.
    pub monitor: Option<MonitorRef>,
    /// The network that it computes.
    pub network: Option<NetworkId>,
}

impl std::fmt::Display for GpuDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.api.name(), self.index)
    }
}

/// Matrix units that the kernels can use: products of f16, sums in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixUnits {
    /// Rows and columns of a matrix.
    pub size: usize,
    /// Most threads of a subgroup.
    pub subgroup: usize,
    /// Whether every subgroup has that many. Otherwise the driver chooses, and there may be more subgroups than needed.
    pub fixed: bool,
}

/// Features that kernels on matrix units need.
const MATRIX_FEATURES: wgpu::Features = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX
    .union(wgpu::Features::SHADER_F16)
    .union(wgpu::Features::SUBGROUP);

/// The largest square matrices of f16 with sums in f32: WGSL has no others.
fn matrix_units(adapter: &wgpu::Adapter) -> Option<MatrixUnits> {
    if !adapter.features().contains(MATRIX_FEATURES) {
        return None;
    }
    use wgpu::CooperativeScalarType as Scalar;
    let square = |m: &wgpu::CooperativeMatrixProperties| m.m_size == m.n_size && m.n_size == m.k_size;
    let all = adapter.cooperative_matrix_properties();
    let fit = all.iter().filter(|m| square(m) && m.ab_type == Scalar::F16 && m.cr_type == Scalar::F32);
    let size = fit.map(|m| m.m_size as usize).max()?;
    let info = adapter.get_info();
    let fixed = info.subgroup_min_size == info.subgroup_max_size;
    Some(MatrixUnits { size, subgroup: info.subgroup_max_size as usize, fixed })
}

fn matrix_name(m: &wgpu::CooperativeMatrixProperties) -> String {
    format!("{}x{}x{} {:?} to {:?}", m.m_size, m.n_size, m.k_size, m.ab_type, m.cr_type).to_lowercase()
}

/// Description of a device.
#[derive(Clone, Debug)]
pub struct GpuInfo {
    /// The device.
    pub device: GpuDevice,
    /// Product name.
    pub name: String,
    /// discrete, integrated, virtual, software or other.
    pub kind: &'static str,
    /// Driver and its version.
    pub driver: String,
    /// Largest binding in bytes.
    pub max_binding: u64,
    /// Largest buffer in bytes.
    pub max_buffer: u64,
    /// Most buffers bound to a kernel.
    pub max_bindings: u32,
    /// Most workgroups along one axis.
    pub max_groups: u32,
    /// Workgroup memory in bytes.
    pub shared_memory: u32,
    /// Most threads of a workgroup.
    pub max_threads: u32,
    /// Whether it computes in f16. Storage in 16 bits works everywhere.
    pub f16: bool,
    /// Sizes of its matrix units, such as `8x8x8 f16 to f32`.
    pub matrices: Vec<String>,
    /// The matrix units that the kernels use.
    pub units: Option<MatrixUnits>,
    /// Its memory, if the driver reports it.
    pub memory: Option<GpuMemory>,
    /// Reasons why it cannot be used; empty if it can.
    pub lacks: Vec<String>,
}

impl GpuInfo {
    /// Bytes of the largest operand: all bindings that the kernel with the most operands leaves for it.
    pub fn max_operand(&self) -> u64 {
        let chunk = 1u64 << self.max_binding.min(self.max_buffer).max(1).ilog2();
        let left = self.max_bindings.saturating_sub(9);
        chunk.saturating_mul(u64::from(left)).max(self.max_binding).min(u64::from(u32::MAX) * 16)
    }

    /// Whether its memory is host memory.
    pub fn shares_memory(&self) -> bool {
        matches!(self.kind, "software" | "integrated")
    }
}

/// Buffers, workgroup memory and threads that the kernels need. A convolution with prologue and shortcut has eight
/// operands, its output is bound twice, and there are the marks.
const BUFFERS_NEEDED: u32 = 10;
const SHARED_NEEDED: u32 = 16384;
const THREADS_NEEDED: u32 = 256;

fn instance(api: Api) -> wgpu::Instance {
    wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: api.backends(),
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    })
}

fn adapters(api: Api) -> Vec<wgpu::Adapter> {
    if unlisted().iter().any(|left| left.api == api) {
        return Vec::new();
    }
    block_on(instance(api).enumerate_adapters(api.backends()))
}

/// Waits for a future of wgpu. On native platforms they are ready at once or after the device was polled.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// FNV-1a: stable between versions and machines.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

fn describe(api: Api, index: usize, adapter: &wgpu::Adapter) -> GpuInfo {
    let (info, limits, features) = (adapter.get_info(), adapter.limits(), adapter.features());
    let driver = format!("{} {}", info.driver, info.driver_info).trim().to_owned();
    // Limits are part of it: a layer or a setting changes them under the same name, and kernels follow from them.
    let bounds = (
        [limits.max_storage_buffer_binding_size, limits.max_buffer_size],
        [limits.max_compute_workgroup_storage_size, limits.max_compute_invocations_per_workgroup],
        [limits.max_storage_buffers_per_shader_stage, limits.max_compute_workgroups_per_dimension],
        [info.subgroup_min_size, info.subgroup_max_size],
        [wgpu::Features::SHADER_F16, MATRIX_FEATURES].map(|wanted| features.contains(wanted)),
    );
    let fingerprint = hash(format!("{}|{driver}|{bounds:?}", info.name).as_bytes());
    let needs = [
        (limits.max_compute_workgroup_storage_size, "bytes of workgroup memory", SHARED_NEEDED),
        (limits.max_compute_invocations_per_workgroup, "threads per workgroup", THREADS_NEEDED),
        (limits.max_storage_buffers_per_shader_stage, "buffers per kernel", BUFFERS_NEEDED),
    ];
    let short = needs.into_iter().filter(|(has, _, needed)| has < needed);
    let mut lacks: Vec<String> =
        short.map(|(has, what, needed)| format!("{has} {what}, needs {needed}")).collect();
    if !features.contains(wgpu::Features::IMMEDIATES) {
        lacks.push("no immediates (push constants)".into());
    }
    let matrices = match features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
        true => adapter.cooperative_matrix_properties(),
        false => Vec::new(),
    };
    GpuInfo {
        device: GpuDevice {
            api,
            index,
            fingerprint,
            limits: GpuLimits::default(),
            choices: Choices::default(),
            cache: None,
            watch: Watch::Never,
            monitor: None,
            network: None,
        },
        name: info.name,
        kind: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => "discrete",
            wgpu::DeviceType::IntegratedGpu => "integrated",
            wgpu::DeviceType::VirtualGpu => "virtual",
            wgpu::DeviceType::Cpu => "software",
            wgpu::DeviceType::Other => "other",
        },
        driver,
        max_binding: limits.max_storage_buffer_binding_size,
        max_buffer: limits.max_buffer_size,
        max_bindings: limits.max_storage_buffers_per_shader_stage,
        max_groups: limits.max_compute_workgroups_per_dimension,
        shared_memory: limits.max_compute_workgroup_storage_size,
        max_threads: limits.max_compute_invocations_per_workgroup,
        f16: features.contains(wgpu::Features::SHADER_F16),
        matrices: matrices.iter().map(matrix_name).collect(),
        units: matrix_units(adapter),
        memory: driver::memory(adapter),
        lacks,
    }
}

/// The GPUs of an API, usable or not.
pub fn devices_of(api: Api) -> Vec<GpuInfo> {
    adapters(api).iter().enumerate().map(|(i, adapter)| describe(api, i, adapter)).collect()
}

/// Every GPU of this machine, usable or not.
pub fn devices() -> Vec<GpuInfo> {
    Api::ALL.into_iter().flat_map(devices_of).collect()
}

/// The default GPU: discrete, else integrated, else virtual, never software.
pub fn preferred() -> Option<GpuDevice> {
    let usable: Vec<GpuInfo> = devices().into_iter().filter(|d| d.lacks.is_empty()).collect();
    let of = |kind: &str| usable.iter().find(|d| d.kind == kind);
    of("discrete").or_else(|| of("integrated")).or_else(|| of("virtual")).map(|d| d.device)
}

impl FromStr for GpuDevice {
    type Err = String;

    /// Parses a name such as `vulkan:0`.
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let (api, index) = word.split_once(':').unwrap_or((word, "0"));
        let api = Api::ALL.into_iter().find(|a| a.name() == api);
        let (Some(api), Ok(index)) = (api, index.parse::<usize>()) else {
            return Err(format!("unknown device `{word}`; use auto, cpu, or a name of `remaster devices`"));
        };
        if let Some(Unlisted { reason, .. }) = unlisted().iter().find(|left| left.api == api) {
            return Err(format!(
                "{word} cannot be used: the {} driver {reason} when it was asked for its devices; update it, or use --device cpu",
                api.name()
            ));
        }
        let found = adapters(api);
        match found.get(index) {
            Some(adapter) => Ok(describe(api, index, adapter).device),
            None => Err(format!(
                "there is no device {word}: {} found with {}; see `remaster devices`",
                found.len(),
                api.name()
            )),
        }
    }
}

/// The first failure of a device, as the driver reported it.
#[derive(Debug)]
pub(super) enum Fault {
    Memory,
    Lost(String),
    /// Its results are wrong.
    Wrong(String),
    Other(String),
}

/// Locks a mutex. No code panics while it holds one, so poisoning is ignored.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open device, and the kernels compiled for it.
pub(super) struct Opened {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) limits: wgpu::Limits,
    pub(super) fault: Arc<OnceLock<Fault>>,
    pub(super) units: Option<MatrixUnits>,
    /// Whether it converts to and from f16 as the kernels would, once a kernel needs to know. Known to be false for a device
    /// that does not convert at all.
    native: OnceLock<bool>,
    pub(super) pace: Mutex<Pace>,
    /// Whether the indices of every kernel are checked.
    pub(super) checked: bool,
    /// By the number of bound buffers.
    pub(super) layouts: Mutex<HashMap<usize, (wgpu::BindGroupLayout, wgpu::PipelineLayout)>>,
    pub(super) pipelines: Mutex<HashMap<(Kernel, Reach), wgpu::ComputePipeline>>,
    pub(super) kept: Option<PipelineFile>,
}

impl Opened {
    /// The cache of compiled kernels, if the device has a folder for it.
    pub(super) fn pipeline_cache(&self) -> Option<&wgpu::PipelineCache> {
        self.kept.as_ref().map(PipelineFile::cache)
    }

    /// Whether it converts to and from f16 as the kernels would.
    pub(super) fn is_native(&self) -> bool {
        *self.native.get_or_init(|| half::is_native(&self.device, &self.queue))
    }
}

impl Drop for Opened {
    /// Saves the compiled kernels, unless the device failed: what it compiled before may be bad.
    fn drop(&mut self) {
        if let Some(kept) = self.kept.as_ref().filter(|_| self.fault.get().is_none()) {
            kept.save();
        }
    }
}

/// Open devices. Opening one again shares it and the kernels compiled for it.
static OPEN: Mutex<Vec<(GpuDevice, Weak<Opened>)>> = Mutex::new(Vec::new());

/// Small buffers share blocks of this many bytes, in device and host memory: the smallest that wgpu allows. By
/// default blocks grow to 64 MiB and more, which no plan could predict.
pub(super) const BLOCK: u64 = 4 << 20;

/// The number of a device that is not there.
const NOWHERE: usize = usize::MAX;

impl GpuDevice {
    /// A device to plan for that is not there: it has default kernels, and it cannot be opened.
    pub fn imagined() -> Self {
        GpuDevice {
            api: Api::Vulkan,
            index: NOWHERE,
            fingerprint: 0,
            limits: GpuLimits::default(),
            choices: Choices::default(),
            cache: None,
            watch: Watch::Never,
            monitor: None,
            network: None,
        }
    }

    /// Describes the device as it is now; `None` if it is gone.
    pub fn info(&self) -> Option<GpuInfo> {
        // Plans for a device that is not there must not depend on the drivers of this machine.
        if self.index == NOWHERE {
            return None;
        }
        Some(describe(self.api, self.index, adapters(self.api).get(self.index)?))
    }

    /// Opens the device with all its limits, except those forced lower.
    pub(super) fn open(&self) -> Result<Arc<Opened>> {
        let (choices, watch) = (Choices::default(), Watch::Never);
        let key = GpuDevice { choices, watch, monitor: None, network: None, ..*self };
        let mut open = lock(&OPEN);
        open.retain(|(_, o)| o.upgrade().is_some_and(|o| o.fault.get().is_none()));
        if let Some(found) = open.iter().find(|(k, _)| *k == key).and_then(|(_, o)| o.upgrade()) {
            return Ok(found);
        }
        let opened = Arc::new(self.open_anew()?);
        open.push((key, Arc::downgrade(&opened)));
        Ok(opened)
    }

    fn open_anew(&self) -> Result<Opened> {
        let refused = |reason: String| ComputeError::Device { device: self.to_string(), reason };
        let adapter = adapters(self.api).into_iter().nth(self.index);
        let adapter = adapter.ok_or_else(|| refused("the device is gone; see `remaster devices`".into()))?;
        let info = describe(self.api, self.index, &adapter);
        if let Some(lack) = info.lacks.first() {
            return Err(refused(format!("it has {lack}")));
        }
        let mut limits = adapter.limits();
        if let Some(binding) = self.limits.binding {
            limits.max_storage_buffer_binding_size = limits.max_storage_buffer_binding_size.min(binding);
        }
        if let Some(groups) = self.limits.groups {
            limits.max_compute_workgroups_per_dimension =
                limits.max_compute_workgroups_per_dimension.min(groups);
        }
        let units = info.units;
        #[expect(unsafe_code, reason = "wgpu asks for consent to experimental features")]
        let experimental_features = match units {
            // SAFETY: "experimental" means that wgpu may have bugs here. The features in use, loads, products and
            // stores of matrices, are tested against the naive loops, and on every device `tune` checks such a
            // kernel before it can be chosen.
            Some(_) => unsafe { wgpu::ExperimentalFeatures::enabled() },
            None => wgpu::ExperimentalFeatures::disabled(),
        };
        let folder = self.cache.filter(|_| adapter.features().contains(wgpu::Features::PIPELINE_CACHE));
        let mut required_features = wgpu::Features::empty();
        required_features.set(MATRIX_FEATURES, units.is_some());
        required_features.set(wgpu::Features::PIPELINE_CACHE, folder.is_some());
        required_features |= wgpu::Features::IMMEDIATES;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("remaster"),
            required_features,
            required_limits: limits.clone(),
            experimental_features,
            memory_hints: wgpu::MemoryHints::Manual { suballocated_device_memory_block_size: BLOCK..BLOCK },
            ..Default::default()
        };
        let (device, queue) =
            block_on(adapter.request_device(&descriptor)).map_err(|e| refused(e.to_string()))?;
        let fault = Arc::new(OnceLock::new());
        let seen = Arc::clone(&fault);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            let _ = seen.set(match error {
                wgpu::Error::OutOfMemory { .. } => Fault::Memory,
                other => Fault::Other(other.to_string()),
            });
        }));
        let seen = Arc::clone(&fault);
        device.set_device_lost_callback(move |_, message| drop(seen.set(Fault::Lost(message))));
        let kept = folder.and_then(|f| PipelineFile::open(f, &device, &adapter.get_info(), self.fingerprint));
        let (layouts, pipelines) = (Mutex::default(), Mutex::default());
        let pace = Mutex::new(Pace::new(info.kind != "software" || self.limits.timed));
        let native = OnceLock::new();
        if !adapter.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::SHADER_F16_IN_F32) {
            let _ = native.set(false);
        }
        let checked = self.limits.checked;
        Ok(Opened { device, queue, limits, fault, units, native, pace, checked, layouts, pipelines, kept })
    }
}
