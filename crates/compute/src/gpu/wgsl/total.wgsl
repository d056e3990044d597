// Sum over a workgroup of 64 threads, in a fixed order.

var<workgroup> part: array<f32, 64>;

fn total(tid: u32, v: f32) -> f32 {
    workgroupBarrier();
    part[tid] = v;
    for (var n = 32u; n > 0u; n = n >> 1u) {
        workgroupBarrier();
        if (tid < n) { part[tid] += part[tid + n]; }
    }
    workgroupBarrier();
    return part[0];
}
