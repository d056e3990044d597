// Mean and 1/deviation of a frame from its row sums. The order of the sum depends only on the height.

fn is_finite(v: f32) -> bool {
    return (bitcast<u32>(v) & 0x7f800000u) != 0x7f800000u;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let job = run.base + wid.x + wid.y * grid.x;
    if (job >= op.jobs) {
        done(wid, grid, tid);
        return;
    }
    let groups = op.groups;
    let g = job % groups;
    let t = job / groups;
    let start = op.sums_skip + t * op.sums_frame + 2u * g;
    var sum = 0.0;
    for (var y = tid; y < op.rows; y += 64u) {
        sum += lf_sums(start + y * 2u * groups);
    }
    let mean = total(tid, sum) / f32(op.rows);
    var squares = 0.0;
    for (var y = tid; y < op.rows; y += 64u) {
        let o = start + y * 2u * groups;
        let d = lf_sums(o) - mean;
        squares += fma(d * d, f32(op.count), lf_sums(o + 1u));
    }
    let all = total(tid, squares);
    if (tid == 0u) {
        let variance = all / (f32(op.count) * f32(op.rows));
        let o = op.output_skip + t * op.output_frame + 2u * g;
        let rstd = 1.0 / sqrt(variance + op.eps);
        sf_output(o, mean);
        sf_output(o + 1u, rstd);
        // The first normalisation that meets NaN or infinity leaves its number. All groups of a dispatch write the
        // same number, and dispatches run in order.
        if (!(is_finite(mean) && is_finite(rstd)) && word_note(0u, 0u) == 0u) { put_word_note(0u, 0u, op.number); }
    }
    done(wid, grid, tid);
}
