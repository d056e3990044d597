// Convolution as a matrix product that is never spelled out: rows are output pixels of one frame and one
// phase, columns output channels, and the inner axis runs over the taps of a table and their channels.
// Each output value is summed tap by tap, channel by channel: where it lies in a tile changes nothing.

@SHARED@

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32@BUILTINS@) {
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
@BEGIN@
    // The pixels this thread brings in.
@PIXELS@
    let frame = frame_of(t);
    let list = P(TABLE) + (frame.kind * P(PHASES) + phase) * P(TABLE_ROW);
    let taps = word_w(list >> 2u, list & 3u);
    for (var n = 1u; n <= taps; n++) {
        let at = list + n;
        let tap = word_w(at >> 2u, at & 3u);
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
            let deep = min(BK, cin4 - c0);
@MULTIPLY@
        }
    }
@IF SHORTCUT@
    {
        let deep4 = (P(SHORT_CIN) + 3u) / 4u * 4u;
@SHORT_PLACES@
        for (var c0 = 0u; c0 < deep4; c0 += BK) {
            workgroupBarrier();
@SHORT_A@
@SHORT_B@
            workgroupBarrier();
            let deep = min(BK, deep4 - c0);
@MULTIPLY@
        }
    }
@END@
@STORE@
}
