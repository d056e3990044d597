// Convolution as an implicit matrix product on matrix units: rows are output pixels of one frame and one phase, columns
// are output channels, and the inner axis runs over the taps of a list and their channels. Each output value is summed
// tap by tap and channel by channel, whatever its position in a tile. Workgroup memory holds units of eight values along
// the inner axis, for pixels and for output channels; the units of the next step are fetched while this one is multiplied.

var<workgroup> sa: array<vec4<f16>, BM * LINE>;
var<workgroup> sb: array<vec4<f16>, BN * LINE>;
var<workgroup> sc: array<f32, SUBGROUPS * SIZE * SIZE>;

// Four values of two words. Drivers see through it: nothing is converted.
fn halves(w: vec2<u32>) -> vec4<f16> {
    return vec4<f16>(vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y)));
}

@IF PROLOGUE@
// What normalises four channels.
struct Norm { mean: vec4<f32>, rstd: vec4<f32>, gamma: vec4<f32>, beta: vec4<f32> }

fn norm_of(c: u32, stats: u32) -> Norm {
    let wide = op.group_width;
@IF NARROW@
    let g = vec4<u32>(stats) + vec4<u32>(c, c + 1u, c + 2u, c + 3u) / wide * 2u;
    let mean = vec4<f32>(lf_stats(g.x), lf_stats(g.y), lf_stats(g.z), lf_stats(g.w));
    let rstd = vec4<f32>(lf_stats(g.x + 1u), lf_stats(g.y + 1u), lf_stats(g.z + 1u), lf_stats(g.w + 1u));
@ELSE@
    let g = stats + c / wide * 2u;
    let mean = vec4<f32>(lf_stats(g));
    let rstd = vec4<f32>(lf_stats(g + 1u));
@END@
    return Norm(mean, rstd, lf4_affine(c), lf4_affine(op.cin4 + c));
}

fn prepared(u: vec4<u32>, a: Norm, b: Norm) -> vec4<u32> {
    let low = with_norm(four_input(u.xy), a.mean, a.rstd, a.gamma, a.beta);
    let high = with_norm(four_input(u.zw), b.mean, b.rstd, b.gamma, b.beta);
    return vec4<u32>(words_input(low), words_input(high));
}
@END@

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32, @builtin(subgroup_id) sub: u32, @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) wide: u32) {
@JOB@
    // Extra subgroups, if there are any, stay within the tile.
    let works = sub < SUBGROUPS;
    let group = min(sub, SUBGROUPS - 1u);
    let row0 = group / COLUMNS * DOWN;
    let column0 = group % COLUMNS * ACROSS;
    let mine = group * SIZE * SIZE;
    for (var i = tid; i < SUBGROUPS * SIZE * SIZE; i += THREADS) { sc[i] = 0.0; }
    workgroupBarrier();
@ZERO@
    // This thread fetches the same unit of a step for several pixels and output channels.
    let part = tid % UNITS;
    let own = tid / UNITS;
    let c8 = 8u * part;
    // Pixels and channels beyond the last one are read as that one; nobody stores what they make.
@PIXELS@
    let frame = frame_of(t);
    let list = op.taps + (frame.kind * op.phases + phase) * op.taps_row;
    let taps = word_weight(list >> 2u, list & 3u);
    var tail = false;
    var stats = 0u;
@VARIABLES@
@TAP1@
@FETCH0@
    for (var n = 1u; n <= taps; n++) {
        for (var c0 = BK; c0 < cin; c0 += BK) {
            workgroupBarrier();
@PUT@
            workgroupBarrier();
@FETCH@
@MULTIPLY@
        }
        workgroupBarrier();
@PUT_LAST@
        workgroupBarrier();
        if (n < taps) {
@TAP@
@FETCH0@
        }
@MULTIPLY@
    }
@IF SHORTCUT@
    {
        let deep = op.shortcut_cin;
@SHORT_PLACES@
        for (var c0 = 0u; c0 < deep; c0 += BK) {
@SHORT_FETCH@
            workgroupBarrier();
@SHORT_PUT@
            workgroupBarrier();
@MULTIPLY@
        }
    }
@END@
@STORE@
    done(wid, grid, tid);
}
