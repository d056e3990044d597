// Follows a product, in one dispatch: the tail for the next slice, and the sums of the output's rows.

// Mean of one group of a row, and sum of squared distances from it. The order of the sum depends only on the columns
// and on the channels of a group.
fn row_sums(job: u32, tid: u32) {
    let groups = op.groups;
    let g = job % groups;
    let line = job / groups;
    let t = line / op.output_rows;
    let y = line % op.output_rows;
    let cout = op.cout;
    let wide = cout / groups;
    let count = op.output_w * wide;
    let start = op.output_skip + t * op.output_frame + y * op.output_w * cout + g * wide;
    var sum = 0.0;
    for (var i = tid; i < count; i += 64u) {
        sum += ld_output(start + i / wide * cout + i % wide);
    }
    let mean = total(tid, sum) / f32(count);
    var squares = 0.0;
    for (var i = tid; i < count; i += 64u) {
        let d = ld_output(start + i / wide * cout + i % wide) - mean;
        squares = fma(d, d, squares);
    }
    let all = total(tid, squares);
    if (tid == 0u) {
        let o = op.sums_skip + t * op.sums_frame + y * 2u * groups + 2u * g;
        sf_sums(o, mean);
        sf_sums(o + 1u, all);
    }
}

// One pixel of every tail frame, oldest first: the new tail may overwrite the old one.
fn tail(i: u32) {
    let cin4 = op.cin4;
    let pixel = i / (cin4 / 4u);
    if (pixel >= op.carry_rows * op.w_in) { return; }
    let c = i % (cin4 / 4u) * 4u;
    let cin = op.cin;
    let y = op.carry_row0 + pixel / op.w_in;
    let x = pixel % op.w_in;
    for (var n = 0u; n < op.tail_len; n++) {
        let s = source(op.tail_first + n);
        let v = input4(s, s.start + ((y - s.row0) * op.w_in + x) * cin, c);
        let o = op.carry_skip + n * op.carry_frame + pixel * cin + c;
@IF VECIN@
        st4_carry(o, v);
@ELSE@
        st_some_carry(o, cin - c, v);
@END@
    }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let job = run.base + wid.x + wid.y * grid.x;
    if (job < op.tail_jobs) {
        tail(job * 64u + tid);
    } else if (job < op.jobs) {
        row_sums(job - op.tail_jobs, tid);
    }
    done(wid, grid, tid);
}
