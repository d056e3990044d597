// Convolution as an implicit matrix product: rows are output pixels of one frame and one phase, columns are output
// channels, and the inner axis runs over the taps of a list and their channels. Each output value is summed tap by
// tap and channel by channel, whatever its position in a tile.

@SHARED@

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
@JOB@
    let cin4 = op.cin4;
    let cout4 = op.cout4;
@BEGIN@
    // The pixels that this thread loads.
@PIXELS@
    let frame = frame_of(t);
    let list = op.taps + (frame.kind * op.phases + phase) * op.taps_row;
    let taps = word_weight(list >> 2u, list & 3u);
    for (var n = 1u; n <= taps; n++) {
        let at = list + n;
        let tap = word_weight(at >> 2u, at & 3u);
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
        let deep4 = (op.shortcut_cin + 3u) / 4u * 4u;
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
    done(wid, grid, tid);
}
