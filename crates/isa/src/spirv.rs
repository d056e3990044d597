//! Kernels as drivers get them: WGSL through naga with the options that wgpu sets on these devices.

use remaster_compute::gpu::KernelText;
use wgpu::naga::back::spv;
use wgpu::naga::front::wgsl;
use wgpu::naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use wgpu::naga::valid::{Capabilities, ValidationFlags, Validator};

/// The words of a kernel, or what is wrong with its text.
pub(crate) fn words(kernel: &KernelText) -> Result<Vec<u32>, String> {
    let options = wgsl::Options { parse_doc_comments: false, capabilities: Capabilities::all() };
    let text = &kernel.wgsl;
    let module = wgsl::Frontend::new_with_options(options).parse(text).map_err(|e| e.emit_to_string(text))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .map_err(|e| e.emit_to_string(text))?;
    let (module, info) =
        wgpu::naga::back::pipeline_constants::process_overrides(&module, &info, None, &Default::default())
            .map_err(|e| e.to_string())?;
    // Buffers have the driver's own checks; indices into workgroup memory and vectors are clamped.
    let index = if kernel.checked { BoundsCheckPolicy::Restrict } else { BoundsCheckPolicy::Unchecked };
    let options = spv::Options {
        lang_version: (1, 6),
        flags: spv::WriterFlags::empty(),
        bounds_check_policies: BoundsCheckPolicies { index, ..Default::default() },
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..Default::default()
    };
    spv::write_vec(&module, &info, &options, None).map_err(|e| e.to_string())
}
