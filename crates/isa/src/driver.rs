//! Compiles one kernel with the Vulkan driver of this process and asks what came out.
#![expect(unsafe_code, reason = "Vulkan is a C interface")]

use std::ffi::CStr;

use ash::{khr, vk};
use serde::{Deserialize, Serialize};

/// What a driver says about a compiled kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Compiled {
    /// The device, and its driver.
    pub(crate) device: String,
    /// Threads of a subgroup.
    pub(crate) subgroup: u32,
    /// Numbers by the names that the driver has for them.
    pub(crate) statistics: Vec<(String, f64)>,
    /// Texts of the kernel, from the first form to the last.
    pub(crate) texts: Vec<(String, String)>,
}

/// Compiles a kernel that binds so many buffers behind its parameters.
pub(crate) fn compile(words: &[u32], buffers: usize) -> Result<Compiled, String> {
    let said = |what: &str| {
        let what = what.to_owned();
        move |error: vk::Result| format!("{what}: {error}")
    };
    // SAFETY: every call below gets structures that live until it returns, of the types that Vulkan names, and handles
    // that were made before it. Nothing is destroyed: the process ends with the answer.
    unsafe {
        let entry = ash::Entry::load().map_err(|e| e.to_string())?;
        let about = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let create = vk::InstanceCreateInfo::default().application_info(&about);
        let instance = entry.create_instance(&create, None).map_err(said("instance"))?;
        let physical = instance.enumerate_physical_devices().map_err(said("devices"))?;
        let physical = *physical.first().ok_or("there is no device")?;
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        instance.get_physical_device_properties2(physical, &mut properties);
        let name = text(&properties.properties.device_name);
        let device_name = format!("{name}, {} {}", text(&driver.driver_name), text(&driver.driver_info));

        let mut executables = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
        let mut matrices = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Features::default();
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut executables)
            .push_next(&mut matrices)
            .push_next(&mut v13)
            .push_next(&mut v12)
            .push_next(&mut v11);
        instance.get_physical_device_features2(physical, &mut features);
        let queue = vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0]);
        let extensions =
            [khr::pipeline_executable_properties::NAME.as_ptr(), khr::cooperative_matrix::NAME.as_ptr()];
        let queues = [queue];
        let create = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&extensions)
            .push_next(&mut features);
        let device = instance.create_device(physical, &create, None).map_err(said("device"))?;

        let module = vk::ShaderModuleCreateInfo::default().code(words);
        let module = device.create_shader_module(&module, None).map_err(said("module"))?;
        let bindings: Vec<_> = (0..=buffers as u32)
            .map(|i| {
                let kind = match i {
                    0 => vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC,
                    _ => vk::DescriptorType::STORAGE_BUFFER,
                };
                vk::DescriptorSetLayoutBinding::default()
                    .binding(i)
                    .descriptor_type(kind)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let layout = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let layouts = [device.create_descriptor_set_layout(&layout, None).map_err(said("layout"))?];
        // The four words that are told with each dispatch.
        let told = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(16)];
        let layout =
            vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts).push_constant_ranges(&told);
        let layout = device.create_pipeline_layout(&layout, None).map_err(said("layout"))?;
        // As wgpu does where subgroups are in use.
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .flags(vk::PipelineShaderStageCreateFlags::ALLOW_VARYING_SUBGROUP_SIZE)
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let create = vk::ComputePipelineCreateInfo::default()
            .flags(
                vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
                    | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR,
            )
            .stage(stage)
            .layout(layout);
        let made = device.create_compute_pipelines(vk::PipelineCache::null(), &[create], None);
        let pipeline = *made.map_err(|(_, e)| format!("pipeline: {e}"))?.first().ok_or("no pipeline")?;

        let ask = khr::pipeline_executable_properties::Device::new(&instance, &device);
        let about = vk::PipelineInfoKHR::default().pipeline(pipeline);
        let about = ask.get_pipeline_executable_properties(&about).map_err(said("executables"))?;
        let subgroup = about.first().map_or(0, |p| p.subgroup_size);
        let of = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
        let numbers = ask.get_pipeline_executable_statistics(&of).map_err(said("statistics"))?;
        let mut compiled = Compiled { device: device_name, subgroup, ..Compiled::default() };
        for s in &numbers {
            // The format says which member of the union is set.
            let value = match s.format {
                vk::PipelineExecutableStatisticFormatKHR::BOOL32 => f64::from(s.value.b32),
                vk::PipelineExecutableStatisticFormatKHR::INT64 => s.value.i64 as f64,
                vk::PipelineExecutableStatisticFormatKHR::UINT64 => s.value.u64 as f64,
                _ => s.value.f64,
            };
            compiled.statistics.push((text(&s.name), value));
        }
        compiled.texts = texts(&ask, &of)?;
        Ok(compiled)
    }
}

/// The forms of a kernel that the driver shows as text.
///
/// # Safety
///
/// `of` names a pipeline that was made with its forms captured, by the device of `ask`.
unsafe fn texts(
    ask: &khr::pipeline_executable_properties::Device,
    of: &vk::PipelineExecutableInfoKHR<'_>,
) -> Result<Vec<(String, String)>, String> {
    let call = ask.fp().get_pipeline_executable_internal_representations_khr;
    let mut count = 0;
    // SAFETY: without an array the call only counts.
    let counted = unsafe { call(ask.device(), of, &mut count, std::ptr::null_mut()) };
    counted.result().map_err(|e| format!("forms: {e}"))?;
    let mut forms = vec![vk::PipelineExecutableInternalRepresentationKHR::default(); count as usize];
    // SAFETY: there is room for `count` of them, and without data pointers the call only tells their sizes.
    unsafe { call(ask.device(), of, &mut count, forms.as_mut_ptr()) }
        .result()
        .map_err(|e| format!("forms: {e}"))?;
    let mut room: Vec<Vec<u8>> = forms.iter().map(|form| vec![0; form.data_size]).collect();
    for (form, room) in forms.iter_mut().zip(&mut room) {
        form.p_data = room.as_mut_ptr().cast();
    }
    // SAFETY: each data pointer has the room that the call before asked for.
    unsafe { call(ask.device(), of, &mut count, forms.as_mut_ptr()) }
        .result()
        .map_err(|e| format!("forms: {e}"))?;
    let pairs = forms.iter().zip(&room).filter(|(form, _)| form.is_text == vk::TRUE);
    Ok(pairs
        .map(|(form, bytes)| {
            let bytes = bytes.split(|b| *b == 0).next().unwrap_or_default();
            (text(&form.name), String::from_utf8_lossy(bytes).into_owned())
        })
        .collect())
}

/// A name in a field of fixed size.
fn text(chars: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}
