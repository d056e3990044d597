// What follows a convolution, in one dispatch: the tail for the next slice, and sums of the rows made.

// Mean of a row's values and sum of squared distances from it, for one group. The order of the sum is
// given by the columns and the channels of a group alone.
fn row_sums(job: u32, tid: u32) {
    let groups = P(GROUPS);
    let g = job % groups;
    let line = job / groups;
    let t = line / P(Y_ROWS);
    let y = line % P(Y_ROWS);
    let cout = P(COUT);
    let wide = cout / groups;
    let count = P(Y_W) * wide;
    let start = P(Y_SKIP) + t * P(Y_FRAME) + y * P(Y_W) * cout + g * wide;
    var sum = 0.0;
    for (var i = tid; i < count; i += 64u) {
        sum += ld_y(start + i / wide * cout + i % wide);
    }
    let mean = total(tid, sum) / f32(count);
    var squares = 0.0;
    for (var i = tid; i < count; i += 64u) {
        let d = ld_y(start + i / wide * cout + i % wide) - mean;
        squares = fma(d, d, squares);
    }
    let all = total(tid, squares);
    if (tid == 0u) {
        let o = P(U_SKIP) + t * P(U_FRAME) + y * 2u * groups + 2u * g;
        sf_u(o, mean);
        sf_u(o + 1u, all);
    }
}

// The same place of every tail frame, oldest first: the new tail may lie where the old one does.
fn tail(i: u32) {
    let cin4 = P(CIN4);
    let pixel = i / (cin4 / 4u);
    if (pixel >= P(K_ROWS) * P(W_IN)) { return; }
    let c = i % (cin4 / 4u) * 4u;
    let cin = P(CIN);
    let y = P(K_ROW0) + pixel / P(W_IN);
    let x = pixel % P(W_IN);
    for (var n = 0u; n < P(TAIL); n++) {
        let s = source(P(TAIL_FIRST) + n);
        let v = input4(s, s.start + ((y - s.row0) * P(W_IN) + x) * cin, c);
        let o = P(K_SKIP) + n * P(K_FRAME) + pixel * cin + c;
@IF VECIN@
        st4_k(o, v);
@ELSE@
        st_some_k(o, cin - c, v);
@END@
    }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let job = wid.x + wid.y * grid.x;
    if (job < P(TAIL_JOBS)) {
        tail(job * 64u + tid);
    } else if (job < P(JOBS)) {
        row_sums(job - P(TAIL_JOBS), tid);
    }
}
