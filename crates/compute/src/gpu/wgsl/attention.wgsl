// Softmax attention in one pass over the keys. A workgroup computes QUERIES queries of one head and up to VALUES
// output columns. Keys come in blocks of KEYS, always from the first key on, so a query's sums do not depend on the
// other queries. The scores are never stored.

const DEEP: u32 = 32u;           // channels of a step of the scores
const LINE: u32 = DEEP / 4u + 1u;
const PER: u32 = THREADS / QUERIES;   // threads that share a query
const KEYS: u32 = PER;
var<workgroup> sq: array<vec4<f32>, QUERIES * LINE>;
var<workgroup> sk: array<vec4<f32>, KEYS * LINE>;
var<workgroup> sp: array<f32, QUERIES * KEYS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let job = op.first_job + run.base + wid.x + wid.y * grid.x;
    if (job >= op.end_job) {
        done(wid, grid, tid);
        return;
    }
    let head = wid.z % op.heads;
    let column = wid.z / op.heads * VALUES;
    let t = job / op.tiles;
    let first = job % op.tiles * QUERIES;
    let c = op.channels;
    let wide = op.head_width;
    let queries = op.query_count;
    let keys = op.key_count;
    let q0 = op.queries_skip + t * op.queries_frame + head * wide;
    let k0 = op.keys_skip + t * op.keys_frame + head * wide;
    let v0 = op.values_skip + t * op.values_frame + head * wide;
    let mine = tid / PER;
    let lane = tid % PER;
    let scale = op.scale;
    var top = -3.0e38;
    var sum = 0.0;
@ACC@
    for (var start = 0u; start < keys; start += KEYS) {
        var score = 0.0;
        for (var d = 0u; d < wide; d += DEEP) {
            workgroupBarrier();
            for (var i = tid; i < QUERIES * DEEP / 4u; i += THREADS) {
                let n = first + i / (DEEP / 4u);
                let e = i % (DEEP / 4u);
                sq[i / (DEEP / 4u) * LINE + e] = token4_queries(q0 + n * c, d + e * 4u, n < queries);
            }
            for (var i = tid; i < KEYS * DEEP / 4u; i += THREADS) {
                let n = start + i / (DEEP / 4u);
                let e = i % (DEEP / 4u);
                sk[i / (DEEP / 4u) * LINE + e] = token4_keys(k0 + n * c, d + e * 4u, n < keys);
            }
            workgroupBarrier();
            for (var e = 0u; e < DEEP / 4u; e++) {
                let a = sq[mine * LINE + e];
                let b = sk[lane * LINE + e];
                score = fma(a.x, b.x, score);
                score = fma(a.y, b.y, score);
                score = fma(a.z, b.z, score);
                score = fma(a.w, b.w, score);
            }
        }
        let live = min(KEYS, keys - start);
        sp[mine * KEYS + lane] = select(-3.0e38, score * scale, lane < live);
        workgroupBarrier();
        var high = top;
        for (var i = 0u; i < live; i++) {
            high = max(high, sp[mine * KEYS + i]);
        }
        let fade = exp(top - high);
        workgroupBarrier();
        let lower = sp[mine * KEYS + lane] - high;
        // NaN is passed on by its bits: drivers differ in exp(NaN).
        let none = (bitcast<u32>(lower) & 0x7fffffffu) > 0x7f800000u;
        sp[mine * KEYS + lane] = select(0.0, select(exp(lower), lower, none), lane < live);
        workgroupBarrier();
        top = high;
        sum *= fade;
@FADE@
        for (var i = 0u; i < live; i++) {
            let p = sp[mine * KEYS + i];
            sum += p;
            let w = rounded_queries(vec4<f32>(p)).x;
            let o = v0 + (start + i) * c;
@INNER@
        }
    }
    let n = first + mine;
    if (n < queries) {
        let o = op.output_skip + t * op.output_frame + n * c + head * wide;
@STORE@
    }
    done(wid, grid, tid);
}

fn give(o: u32, x: u32, v: vec4<f32>) {
    if (x >= op.head_width) { return; }
@IF VECIN@
    st4_output(o + x, v);
@ELSE@
    st_some_output(o + x, op.head_width - x, v);
@END@
}
