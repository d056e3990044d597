// Convolution as a matrix product that is never spelled out: rows are output pixels of one frame and one
// phase, columns output channels, and the inner axis runs over the taps of a table and their channels.
// Each output value is summed by one thread, tap by tap, channel by channel: where it lies in a tile
// changes nothing.

const ROW: u32 = BK / 4u + 1u;   // one more, so that rows start in different banks
var<workgroup> sa: array<vec4<f32>, BM * ROW>;
var<workgroup> sb: array<vec4<f32>, BK * BN / 4u>;

struct Frame { newest: u32, kind: u32 }

fn frame_of(t: u32) -> Frame {
    switch (P(MODE)) {
        case 0u: { return Frame(t * P(STRIDE_T) + P(KT) - 1u, 0u); }
        case 1u: { return Frame(t + 2u, 0u); }
        case 2u: {
            let f = t / 2u;
            return Frame(f + 1u, select(0u, 3u, f == 0u && P(SECOND) != 0u) + (t & 1u));
        }
        default: {
            if (t == 0u) { return Frame(0u, 2u); }
            let f = (t + 1u) / 2u;
            return Frame(f, select(0u, 3u, f == 1u) + ((t + 1u) & 1u));
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let job = P(FIRST) + wid.x + wid.y * grid.x;
    if (job >= P(JOBS)) { return; }
    let tiles = P(TILES);
    let t = job / tiles;
    let first = (job % tiles) * BM;
    let phase = wid.z % P(PHASES);
    let n0 = (wid.z / P(PHASES)) * BN;
    let factor = P(FACTOR);
    let py = phase >> 1u;
    let px = phase & 1u;
    let cin = P(CIN);
    let cin4 = P(CIN4);
    let cout4 = P(COUT4);
    let tx = tid % TX;
    let ty = tid / TX;
@ACC@
    // The pixels this thread brings in.
@PIXELS@
    let frame = frame_of(t);
    let list = P(TABLE_SKIP) + (frame.kind * P(PHASES) + phase) * P(TABLE_ROW);
    let taps = word(P(TABLE) + (list >> 2u), list & 3u);
    for (var n = 1u; n <= taps; n++) {
        let at = list + n;
        let tap = word(P(TABLE) + (at >> 2u), at & 3u);
        let s = source(frame.newest - (tap & 63u));
        let dy = (tap >> 6u) & 63u;
        let dx = (tap >> 12u) & 63u;
        let matrix = (tap >> 18u) * cin4;
@PLACES@
        for (var c0 = 0u; c0 < cin4; c0 += BK) {
            workgroupBarrier();
@LOAD_A@
@LOAD_B@
            workgroupBarrier();
            let deep = min(BK, cin4 - c0) / 4u;
            for (var k = 0u; k < deep; k++) {
@INNER@
            }
        }
    }
    if (P(SHORT_CIN) != 0u) {
        let deep4 = (P(SHORT_CIN) + 3u) / 4u * 4u;
@SHORT_PLACES@
        for (var c0 = 0u; c0 < deep4; c0 += BK) {
            workgroupBarrier();
@SHORT_A@
@SHORT_B@
            workgroupBarrier();
            let deep = min(BK, deep4 - c0) / 4u;
            for (var k = 0u; k < deep; k++) {
@INNER@
            }
        }
    }
@STORE@
}

// Four channels of the shortcut's input.
fn short4(o: u32, c: u32) -> vec4<f32> {
    let n = P(SHORT_CIN) - c;
    if ((P(SHORT_CIN) & 3u) == 0u) {
        return ld4(P(S_BASE), o + c);
    }
    var v = vec4<f32>(ld(P(S_BASE), o + c), 0.0, 0.0, 0.0);
    if (n > 1u) { v.y = ld(P(S_BASE), o + c + 1u); }
    if (n > 2u) { v.z = ld(P(S_BASE), o + c + 2u); }
    if (n > 3u) { v.w = ld(P(S_BASE), o + c + 3u); }
    return v;
}

// Bias, residual, rounding. `p` is the pixel's place in the frame's tiles, `n` the first channel.
fn finish(t: u32, p: u32, py: u32, px: u32, phase: u32, kind: u32, n: u32, acc: vec4<f32>) {
    if (p >= P(CELLS) || n >= P(COUT)) { return; }
    let factor = P(FACTOR);
    let cy = P(CELL0) + p / P(W_GRID);
    let cx = p % P(W_GRID);
    let y = cy * factor + py;
    let x = cx * factor + px;
    if (y < P(Y_ROW0) || y >= P(Y_END)) { return; }
    var row = 0u;
    if (P(PHASES) == 4u) {
        // The border that a phase can touch: its own side of the cell.
        let above = select(0u, 2u, cy == select(0u, P(H_GRID) - 1u, py == 1u));
        let beside = select(0u, 1u, cx == select(0u, P(W_GRID) - 1u, px == 1u));
        row = (kind * 4u + phase) * 4u + above + beside;
    }
    var v = acc + lf4(P(BIAS), row * P(COUT4) + n);
    if (P(SHORT_CIN) != 0u) {
        v += lf4(P(SHORT_BIAS), n);
    }
    let cout = P(COUT);
    let o = P(Y_SKIP) + t * P(Y_FRAME) + ((y - P(Y_ROW0)) * P(W_GRID) * factor + x) * cout + n;
@IF VECOUT@
    if (P(ACCUMULATE) != 0u) { v += ld4(P(Y_BASE), o); }
    st4(P(Y_BASE), o, v);
@ELSE@
    let left = cout - n;
    if (P(ACCUMULATE) != 0u) {
        v.x += ld(P(Y_BASE), o);
        if (left > 1u) { v.y += ld(P(Y_BASE), o + 1u); }
        if (left > 2u) { v.z += ld(P(Y_BASE), o + 2u); }
        if (left > 3u) { v.w += ld(P(Y_BASE), o + 3u); }
    }
    st(P(Y_BASE), o, v.x);
    if (left > 1u) { st(P(Y_BASE), o + 1u, v.y); }
    if (left > 2u) { st(P(Y_BASE), o + 2u, v.z); }
    if (left > 3u) { st(P(Y_BASE), o + 3u, v.w); }
@END@
}
