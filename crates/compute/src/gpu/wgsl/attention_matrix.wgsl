// Softmax attention on matrix units, in two passes over the keys: the first finds the largest score of each query, the
// second sums weights and values. One pass would have to scale sums whenever a larger score comes, and matrices have no
// such operation on their rows. A workgroup computes SIDE queries of one head and up to CHUNKS * SIDE output columns. Keys
// come in blocks of SIDE, always from the first key on, so a query's sums do not depend on the other queries.

const LINE: u32 = SIDE / 4u + 2u;     // quads of a row; two more than it has, so that rows start in different banks
const WIDE: u32 = SIDE / 4u + 1u;
const UNITS: u32 = SIDE / 8u;
const PER: u32 = THREADS / SIDE;      // threads that share a query
// Queries, then weights.
var<workgroup> sa: array<vec4<f16>, SIDE * LINE>;
// Keys, then values.
var<workgroup> sb: array<vec4<f16>, SIDE * LINE>;
// Scores, and sums at the end.
var<workgroup> sc: array<vec4<f32>, SIDE * WIDE>;
// What the threads of a query have found.
var<workgroup> sr: array<f32, THREADS>;

// Four values of two words. Drivers see through it: nothing is converted.
fn halves(w: vec2<u32>) -> vec4<f16> {
    return vec4<f16>(vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y)));
}

// NaN is passed on by its bits: drivers differ in exp(NaN).
fn power(v: vec4<f32>) -> vec4<f32> {
    return select(exp(v), v, (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32, @builtin(subgroup_id) sub: u32) {
    let job = op.first_job + run.base + wid.x + wid.y * grid.x;
    if (job >= op.end_job) {
        done(wid, grid, tid);
        return;
    }
    let column = wid.z / op.heads * CHUNKS * SIDE;
    let place = place_of(job, wid.z % op.heads * op.head_width);
    let keys = key_total();
    // Extra subgroups, if there are any, stay within the tile.
    let works = sub < SUBGROUPS;
    let group = min(sub, SUBGROUPS - 1u);
    let row0 = group / COLUMNS * DOWN;
    let column0 = group % COLUMNS * ACROSS;
    let mine = tid / PER;
    let lane = tid % PER;
    // Where this thread puts units, and where it finds them.
    let part = tid % UNITS * 8u;
    let own = tid / UNITS;
    for (var i = tid; i < SIDE * WIDE; i += THREADS) { sc[i] = vec4<f32>(0.0); }
    workgroupBarrier();
    let zero = coopLoadT<@C@>(&sc[0], WIDE);
@SUMS@
    var top = -3.0e38;
    var sum = 0.0;
    for (var turn = 0u; turn < 2u; turn++) {
        for (var start = 0u; start < keys; start += SIDE) {
@ZERO@
            for (var d = 0u; d < op.head_width; d += SIDE) {
                workgroupBarrier();
@LOAD_SCORES@
                workgroupBarrier();
@SCORES@
            }
            if (works) {
@STORE_SCORES@
            }
            workgroupBarrier();
            if (turn == 0u) {
                for (var e = lane; e < SIDE / 4u; e += PER) {
                    let k = vec4<u32>(start + e * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
                    let s = select(vec4<f32>(-3.0e38), sc[mine * WIDE + e] * op.scale, k < vec4<u32>(keys));
                    top = max(top, max(max(s.x, s.y), max(s.z, s.w)));
                }
            } else {
                for (var e = lane; e < SIDE / 4u; e += PER) {
                    let k = vec4<u32>(start + e * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
                    let s = sc[mine * WIDE + e] * op.scale - top;
                    let p = select(vec4<f32>(0.0), power(s), k < vec4<u32>(keys));
                    sum += (p.x + p.y) + (p.z + p.w);
                    sa[mine * LINE + e] = halves(words_queries(p));
                }
@VALUES@
            }
        }
        if (turn == 0u) {
            sr[tid] = top;
            workgroupBarrier();
            for (var i = 0u; i < PER; i++) { top = max(top, sr[mine * PER + i]); }
            workgroupBarrier();
        }
    }
    sr[tid] = sum;
    workgroupBarrier();
    sum = 0.0;
    for (var i = 0u; i < PER; i++) { sum += sr[mine * PER + i]; }
@STORE@
    done(wid, grid, tid);
}
