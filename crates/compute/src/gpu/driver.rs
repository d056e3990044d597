//! What needs the driver's own interface: free memory, and compiled kernels of an earlier run.
#![expect(unsafe_code, reason = "below wgpu's safe surface")]

/// Memory of a device, as its driver counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuMemory {
    /// Bytes of the device's largest heap, which holds the arena.
    pub size: u64,
    /// Bytes of it that this process may still allocate, if the driver reports them.
    pub free: Option<u64>,
    /// Bytes of it that this process has allocated, if the driver reports them. Mesa's software device counts the
    /// whole machine.
    pub used: Option<u64>,
}

#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod vulkan {
    use ash::vk;
    use wgpu::hal::api::Vulkan;
    use wgpu::hal::vulkan::InstanceShared;

    use super::GpuMemory;

    pub(super) fn of_adapter(adapter: &wgpu::Adapter) -> Option<GpuMemory> {
        // SAFETY: the adapter is read while the guard lives, and nothing of it is destroyed.
        let adapter = unsafe { adapter.as_hal::<Vulkan>() }?;
        let told = adapter.physical_device_capabilities().supports_extension(vk::EXT_MEMORY_BUDGET_NAME);
        Some(ask(adapter.shared_instance(), adapter.raw_physical_device(), told))
    }

    pub(super) fn of_device(device: &wgpu::Device) -> Option<GpuMemory> {
        // SAFETY: the device is read while the guard lives, and nothing of it is destroyed.
        let device = unsafe { device.as_hal::<Vulkan>() }?;
        let told = device.enabled_device_extensions().contains(&vk::EXT_MEMORY_BUDGET_NAME);
        Some(ask(device.shared_instance(), device.raw_physical_device(), told))
    }

    /// `told`: whether the device has `VK_EXT_memory_budget`.
    fn ask(instance: &InstanceShared, device: vk::PhysicalDevice, told: bool) -> GpuMemory {
        let vulkan = instance.raw_instance();
        // SAFETY: the device belongs to this instance, and the caller holds both.
        let version = unsafe { vulkan.get_physical_device_properties(device) }.api_version;
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        // The query that takes extensions needs Vulkan 1.1 in both the instance and the device.
        let told = told && version.min(instance.instance_api_version()) >= vk::API_VERSION_1_1;
        let memory = if told {
            let mut asked = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
            // SAFETY: as above. The function exists, the device supports the extension of the chained structure,
            // and that structure outlives the call.
            unsafe { vulkan.get_physical_device_memory_properties2(device, &mut asked) };
            asked.memory_properties
        } else {
            // SAFETY: as above.
            unsafe { vulkan.get_physical_device_memory_properties(device) }
        };
        let heaps = memory.memory_heaps_as_slice().iter().enumerate();
        let own = heaps.filter(|(_, h)| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
        // Memory that the host can map may show up as a second, small heap.
        let (i, size) = own.map(|(i, h)| (i, h.size)).max_by_key(|(_, size)| *size).unwrap_or((0, 0));
        let (whole, used) = (budget.heap_budget[i], budget.heap_usage[i]);
        GpuMemory { size, free: told.then(|| whole.saturating_sub(used)), used: told.then_some(used) }
    }
}

#[cfg(windows)]
fn dx12(adapter: &wgpu::Adapter) -> Option<GpuMemory> {
    // SAFETY: the adapter is read while the guard lives, and nothing of it is destroyed.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Dx12>() }?;
    let mut info = Default::default();
    // SAFETY: the adapter lives, and the result goes into a structure of the right type. Node 0 and the default
    // group are the first GPU and its local memory.
    unsafe { adapter.as_raw().QueryVideoMemoryInfo(0, Default::default(), &mut info) }.ok()?;
    // SAFETY: the adapter lives.
    let size = unsafe { adapter.as_raw().GetDesc1() }.ok()?.DedicatedVideoMemory as u64;
    let (whole, used) = (info.Budget, info.CurrentUsage);
    Some(GpuMemory { size: size.max(whole), free: Some(whole.saturating_sub(used)), used: Some(used) })
}

#[cfg(target_vendor = "apple")]
fn metal(adapter: &wgpu::Adapter) -> Option<GpuMemory> {
    use objc2_metal::MTLDevice;
    // SAFETY: the adapter is read while the guard lives, and nothing of it is destroyed.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Metal>() }?;
    let device = adapter.raw_device();
    let (whole, used) = (device.recommendedMaxWorkingSetSize(), device.currentAllocatedSize() as u64);
    Some(GpuMemory { size: whole, free: Some(whole.saturating_sub(used)), used: Some(used) })
}

/// Memory of a device that is not open.
pub(super) fn memory(adapter: &wgpu::Adapter) -> Option<GpuMemory> {
    #[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
    if let Some(memory) = vulkan::of_adapter(adapter) {
        return Some(memory);
    }
    #[cfg(windows)]
    if let Some(memory) = dx12(adapter) {
        return Some(memory);
    }
    #[cfg(target_vendor = "apple")]
    if let Some(memory) = metal(adapter) {
        return Some(memory);
    }
    let _ = adapter;
    None
}

/// Current memory of an open device. Only Vulkan reports it.
pub(super) fn memory_now(device: &wgpu::Device) -> Option<GpuMemory> {
    #[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
    return vulkan::of_device(device);
    #[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
    {
        let _ = device;
        None
    }
}

/// A pipeline cache that starts with the kernels of an earlier run. The device must have been opened with
/// `PIPELINE_CACHE`.
///
/// # Safety
///
/// `data` must come from such a cache on this device with this driver, unchanged.
pub(super) unsafe fn pipelines(device: &wgpu::Device, data: Option<&[u8]>) -> wgpu::PipelineCache {
    let descriptor = wgpu::PipelineCacheDescriptor { label: Some("remaster"), data, fallback: true };
    // SAFETY: promised by the caller. wgpu and the driver also check their own headers and start with an empty
    // cache if those do not match.
    unsafe { device.create_pipeline_cache(&descriptor) }
}
