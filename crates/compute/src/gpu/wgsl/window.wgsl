// Copies the tokens of one window out of the grid, or back.

fn one(i: u32) {
    if (i >= op.units) { return; }
    let n = i / op.token_units;
    let channel = i % op.token_units * LANES;
    let c = op.token_units * LANES;
    let x = op.first_column + n % op.columns;
    let y = op.first_row + n / op.columns % op.rows;
    let t = op.first_frame + n / op.columns / op.rows;
    let place = op.grid_skip + t * op.grid_frame + (y * op.width + x) * c + channel;
    let token = op.tokens_skip + (op.first + n) * c + channel;
@IF SCATTER@
    let source = token;
    let to = place;
@ELSE@
    let source = place;
    let to = token;
@END@
@IF VECIN@
    st4_output(to, ld4_input(source));
@ELSE@
    st_output(to, ld_input(source));
@END@
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    one((run.base + wid.x + wid.y * grid.x) * 64u + tid);
    done(wid, grid, tid);
}
