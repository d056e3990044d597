// Convolution by Winograd's F(2x2, 3x3): 4 by 4 input pixels give 2 by 2 output pixels with 16 products instead of
// 36. Taps in time are summed before the inverse transform. A workgroup computes TM tiles by BN output channels, with
// sixteen threads for each of the 16 places of a transformed tile. Tiles start at even rows and columns of the frame,
// wherever a stripe starts.

const QUADS: u32 = BK / 4u;
const BEHIND: u32 = 16u * TM * QUADS;
// Transformed pixels [16, TM, QUADS], then weights [16, BK, BN / 4]. Reused for the sums at the end.
var<workgroup> sh: array<vec4<f32>, 2u * BEHIND>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let job = op.first_job + run.base + wid.x + wid.y * grid.x;
    if (job >= op.end_job) {
        done(wid, grid, tid);
        return;
    }
    let t = job / op.tiles;
    let first = (job % op.tiles) * TM;
    let n0 = wid.z * BN;
    let cin = op.cin;
    let cin4 = op.cin4;
    let cout4 = op.cout4;
    // The part that this thread multiplies.
    let place = tid / 16u;
    let tx = tid % 4u;
    let ty = tid / 4u % 4u;
@ACC@
    // The part that it loads: a row of the transformed tile is the sum or difference of two rows of pixels.
    let row = tid % 4u;
    let tile = tid / 4u % TM;
    let quad = tid / (4u * TM);
    let cell = first + tile;
    let ok = cell < op.cells && quad < QUADS;
    let top = (op.cell_row0 + cell / op.grid_w) * 2u - op.pad_top;
    let left = cell % op.grid_w * 2u - op.pad_left;
    let ya = top + select(select(0u, 1u, (row & 1u) == 1u), 2u, row == 2u);
    let yb = top + select(select(2u, 3u, row == 3u), 1u, row == 2u);
    let sign = select(-1.0, 1.0, row == 1u);
    let ina = ok && ya >= op.need_row0 && ya < op.need_end;
    let inb = ok && yb >= op.need_row0 && yb < op.need_end;
    let frame = frame_of(t);
    for (var n = 0u; n < op.kernel_t; n++) {
        let s = source(frame.newest + n + 1u - op.kernel_t);
        let oa = s.start + (ya - s.row0) * op.w_in * cin;
        let ob = s.start + (yb - s.row0) * op.w_in * cin;
        for (var c0 = 0u; c0 < cin4; c0 += BK) {
            workgroupBarrier();
            if (quad < QUADS) {
                let c = c0 + quad * 4u;
                let deep = c < cin4;
@LOAD@
                let at = (row * 4u * TM + tile) * QUADS + quad;
                sh[at] = e0 - e2;
                sh[at + TM * QUADS] = e1 + e2;
                sh[at + 2u * TM * QUADS] = e2 - e1;
                sh[at + 3u * TM * QUADS] = e1 - e3;
            }
            for (var i = tid; i < 16u * BK * BN / 4u; i += 256u) {
                let p = i / (BK * BN / 4u);
                let kk = c0 + i / (BN / 4u) % BK;
                let o = n0 + i % (BN / 4u) * 4u;
                var v = vec4<f32>(0.0);
                if (kk < cin4 && o < cout4) { v = ld4_weight(((n * 16u + p) * cin4 + kk) * cout4 + o); }
                sh[BEHIND + i] = v;
            }
            workgroupBarrier();
            let deep = min(BK, cin4 - c0) / 4u;
            for (var k = 0u; k < deep; k++) {
@INNER@
            }
        }
    }
    // Inverse transform: a quarter of the sums at a time, one output pixel and four channels per thread.
    let here = tid / 4u % 16u;
    let py = tid / 128u;
    let px = tid / 64u % 2u;
@STORE@
    done(wid, grid, tid);
}

// Four channels of a pixel; zero outside the frame.
fn pixel(s: Source, o: u32, inside: bool, x: u32, c: u32) -> vec4<f32> {
    if (!inside || x >= op.w_in) { return vec4<f32>(0.0); }
    return input4(s, o + x * op.cin, c);
}

fn across(o: u32, py: u32) -> vec4<f32> {
    let b = sh[o + 4u * STEP];
    let c = sh[o + 8u * STEP];
    if (py == 0u) { return sh[o] + b + c; }
    return b - c - sh[o + 12u * STEP];
}

const STEP: u32 = 16u * 4u;

fn back(o: u32, py: u32, px: u32) -> vec4<f32> {
    let b = across(o + STEP, py);
    let c = across(o + 2u * STEP, py);
    if (px == 0u) { return across(o, py) + b + c; }
    return b - c - across(o + 3u * STEP, py);
}
