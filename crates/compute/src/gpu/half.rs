//! Whether a device converts to and from f16 as the integer arithmetic of the kernels does: to nearest, ties to even, with
//! small numbers. WGSL leaves that open, and results must not depend on which kernel rounds a value.

use std::time::Duration;

const TEXT: &str = concat!(include_str!("wgsl/formats.wgsl"), include_str!("wgsl/half_check.wgsl"));

/// How long a device may take: a software one needs milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Workgroups: 64 threads in each take 32 numbers.
const GROUPS: u32 = 0x8000 / (64 * 32);

/// Tries all numbers; false too if the device cannot be asked.
pub(super) fn is_native(device: &wgpu::Device, queue: &wgpu::Queue) -> bool {
    wrong(device, queue) == Some(0)
}

fn wrong(device: &wgpu::Device, queue: &wgpu::Queue) -> Option<u32> {
    let buffer = |usage| {
        let descriptor = wgpu::BufferDescriptor { label: None, size: 4, usage, mapped_at_creation: false };
        device.create_buffer(&descriptor)
    };
    let count = buffer(wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC);
    let read = buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
    let source = wgpu::ShaderSource::Wgsl(TEXT.into());
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: count.as_entire_binding() }],
    });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(GROUPS, 1, 1);
    }
    encoder.copy_buffer_to_buffer(&count, 0, &read, 0, 4);
    let submitted = queue.submit([encoder.finish()]);
    let (tell, told) = std::sync::mpsc::channel();
    read.map_async(wgpu::MapMode::Read, .., move |result| drop(tell.send(result)));
    // Of a device that was lost meanwhile, wgpu knows no submission; without a number it would panic.
    device.poll(wgpu::PollType::Wait { submission_index: Some(submitted), timeout: Some(PATIENCE) }).ok()?;
    told.try_recv().ok()?.ok()?;
    let mapped = read.get_mapped_range(..).ok()?;
    Some(u32::from_le_bytes(mapped.get(..4)?.try_into().ok()?))
}
