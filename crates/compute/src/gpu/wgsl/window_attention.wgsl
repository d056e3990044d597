// Softmax attention of one window in one pass over its keys: the window's own tokens, then the common ones. A
// workgroup computes QUERIES queries of one head, own or common, and up to VALUES output columns. Keys come in blocks
// of KEYS, always from the first key on, so a query's sums do not depend on the other queries. The scores are never
// stored.

const DEEP: u32 = 32u;                // channels of a step of the scores
const LINE: u32 = DEEP / 4u + 1u;
const GROUPS: u32 = QUERIES / 4u;     // a thread has four queries
const PER: u32 = THREADS / GROUPS;    // threads that share them
const KEYS: u32 = 2u * PER;           // a thread scores two keys
const SOME: u32 = PER;                // keys whose values are held at a time
// Queries, then keys, of a step of the scores; afterwards values.
var<workgroup> sh: array<vec4<f32>, (QUERIES + KEYS) * LINE>;
// Weights of four queries, [KEYS, GROUPS].
var<workgroup> sp: array<vec4<f32>, KEYS * GROUPS>;

fn query4(own: bool, head: u32, n: u32, c: u32) -> vec4<f32> {
    if (own) {
        return token4_queries(op.queries_skip + (op.first + n) * op.channels + head, c, n < op.count);
    }
    return token4_common_queries(op.common_queries_skip + n * op.channels + head, c, n < op.common_count);
}

fn key4(head: u32, n: u32, c: u32) -> vec4<f32> {
    if (n < op.count) {
        return token4_keys(op.keys_skip + (op.first + n) * op.channels + head, c, true);
    }
    let m = n - op.count;
    return token4_common_keys(op.common_keys_skip + m * op.channels + head, c, m < op.common_count);
}

fn value4(head: u32, n: u32, c: u32) -> vec4<f32> {
    if (n < op.count) {
        return token4_values(op.values_skip + (op.first + n) * op.channels + head, c, true);
    }
    let m = n - op.count;
    return token4_common_values(op.common_values_skip + m * op.channels + head, c, m < op.common_count);
}

// NaN is passed on by its bits: drivers differ in exp(NaN).
fn power(v: vec4<f32>) -> vec4<f32> {
    return select(exp(v), v, (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let job = op.first_job + run.base + wid.x + wid.y * grid.x;
    if (job >= op.end_job) {
        done(wid, grid, tid);
        return;
    }
    let wide = op.head_width;
    let head = wid.z % op.heads * wide;
    let column = wid.z / op.heads * VALUES;
    let own = job < op.tiles;
    let first = select(job - op.tiles, job, own) * QUERIES;
    let keys = op.count + op.common_count;
    let mine = tid / PER;
    let lane = tid % PER;
    var top = vec4<f32>(-3.0e38);
    var sum = vec4<f32>(0.0);
@ACC@
    for (var start = 0u; start < keys; start += KEYS) {
        var s0 = vec4<f32>(0.0);
        var s1 = vec4<f32>(0.0);
        for (var d = 0u; d < wide; d += DEEP) {
            workgroupBarrier();
            for (var i = tid; i < QUERIES * DEEP / 4u; i += THREADS) {
                let n = i / (DEEP / 4u);
                let e = i % (DEEP / 4u);
                sh[n * LINE + e] = query4(own, head, first + n, d + e * 4u);
            }
            for (var i = tid; i < KEYS * DEEP / 4u; i += THREADS) {
                let n = i / (DEEP / 4u);
                let e = i % (DEEP / 4u);
                sh[(QUERIES + n) * LINE + e] = key4(head, start + n, d + e * 4u);
            }
            workgroupBarrier();
            for (var e = 0u; e < DEEP / 4u; e++) {
                let q = mine * 4u * LINE + e;
                let k = (QUERIES + lane) * LINE + e;
                let a = mat4x4<f32>(sh[q], sh[q + LINE], sh[q + 2u * LINE], sh[q + 3u * LINE]);
                s0 += sh[k] * a;
                s1 += sh[k + PER * LINE] * a;
            }
        }
        let live = min(KEYS, keys - start);
        s0 *= op.scale;
        s1 *= op.scale;
        sp[lane * GROUPS + mine] = s0;
        sp[(lane + PER) * GROUPS + mine] = s1;
        workgroupBarrier();
        var high = top;
        for (var i = 0u; i < live; i++) {
            high = max(high, sp[i * GROUPS + mine]);
        }
        let fade = exp(top - high);
        let p0 = select(vec4<f32>(0.0), power(s0 - high), lane < live);
        let p1 = select(vec4<f32>(0.0), power(s1 - high), lane + PER < live);
        top = high;
        sum = fma(sum, fade, p0 + p1);
@FADE@
        workgroupBarrier();
        sp[lane * GROUPS + mine] = rounded_queries(p0);
        sp[(lane + PER) * GROUPS + mine] = rounded_queries(p1);
        for (var some = 0u; some < live; some += SOME) {
            workgroupBarrier();
            for (var i = tid; i < SOME * VALUES / 4u; i += THREADS) {
                sh[i] = value4(head, start + some + i / (VALUES / 4u), column + i % (VALUES / 4u) * 4u);
            }
            workgroupBarrier();
            for (var i = 0u; i < min(SOME, live - some); i++) {
                let p = sp[(some + i) * GROUPS + mine];
@INNER@
            }
        }
    }
    // The threads of a query have each summed the weights of their keys.
    workgroupBarrier();
    sp[lane * GROUPS + mine] = sum;
    workgroupBarrier();
    sum = vec4<f32>(0.0);
    for (var i = 0u; i < PER; i++) {
        sum += sp[i * GROUPS + mine];
    }
@STORE@
    done(wid, grid, tid);
}

fn give(own: bool, n: u32, head: u32, x: u32, v: vec4<f32>) {
    if (n >= select(op.common_count, op.count, own) || x >= op.head_width) { return; }
    if (own) {
        let o = op.output_skip + (op.first + n) * op.channels + head + x;
@IF VECIN@
        st4_output(o, v);
@ELSE@
        st_some_output(o, op.head_width - x, v);
@END@
        return;
    }
    let o = op.sums_skip + n * op.channels + head + x;
@IF VECIN@
    var before = vec4<f32>(0.0);
    if (op.accumulate != 0u) { before = lf4_sums(o); }
    sf4_sums(o, fma(v, vec4<f32>(op.share), before));
@ELSE@
    for (var i = 0u; i < min(4u, op.head_width - x); i++) {
        var before = 0.0;
        if (op.accumulate != 0u) { before = lf_sums(o + i); }
        sf_sums(o + i, fma(v[i], op.share, before));
    }
@END@
}
