// RMS norm of every token, or of each head of it, then scale, shift and rotation. TEAM threads share a head, so the
// order of its sum depends only on its width.

var<workgroup> part: array<vec2<f32>, 64>;

fn team_total(tid: u32, v: vec2<f32>) -> vec2<f32> {
    part[tid] = v;
    for (var n = TEAM / 2u; n > 0u; n = n >> 1u) {
        workgroupBarrier();
        if (tid % TEAM < n) { part[tid] += part[tid + n]; }
    }
    workgroupBarrier();
    return part[tid / TEAM * TEAM];
}

// Sums of the squares of large values exceed f32, so those are scaled and summed apart. Either sum has room for 2^31
// values.
const LARGE: f32 = 281474976710656.0;           // 2^48
const SMALLER: f32 = 8.271806125530277e-25;     // 2^-80

fn squares(v: vec4<f32>) -> vec2<f32> {
    let large = abs(v) >= vec4<f32>(LARGE);
    let a = select(v, vec4<f32>(0.0), large);
    let b = select(vec4<f32>(0.0), v * SMALLER, large);
    return vec2<f32>(dot(a, a), dot(b, b));
}

fn values4(o: u32, left: u32) -> vec4<f32> {
@IF VECIN@
    return ld4_input(o);
@ELSE@
    return ld_some_input(o, left);
@END@
}

fn affine4(o: u32, left: u32) -> vec4<f32> {
@IF VECIN@
    return lf4_affine(o);
@ELSE@
    var v = vec4<f32>(lf_affine(o), 0.0, 0.0, 0.0);
    if (left > 1u) { v.y = lf_affine(o + 1u); }
    if (left > 2u) { v.z = lf_affine(o + 2u); }
    if (left > 3u) { v.w = lf_affine(o + 3u); }
    return v;
@END@
}

// Turns a pair of channels; `places` is the first of the token's three places.
fn turned(v: vec2<f32>, pair: u32, places: u32) -> vec2<f32> {
    let n = op.frequencies;
    let axis = pair / n;
    if (axis >= 3u) { return v; }
    let last = op.positions - 1u;
    let row = min(u32(clamp(lf_places(places + axis), 0.0, f32(last))), last);
    let o = op.table_skip + row * 2u * n + pair % n;
    let cosine = lf_table(o);
    let sine = lf_table(o + n);
    return vec2<f32>(v.x * cosine - v.y * sine, v.y * cosine + v.x * sine);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let unit = (run.base + wid.x + wid.y * grid.x) * (64u / TEAM) + tid / TEAM;
    let wide = select(0u, op.head_width, unit < op.units);
    let head = unit % op.heads;
    let token = unit / op.heads;
    let t = token / op.frame_tokens;
    let y = token % op.frame_tokens;
    let source = op.input_skip + t * op.input_frame + y * op.channels + head * op.head_width;
    let to = op.output_skip + t * op.output_frame + y * op.channels + head * op.head_width;
    let places = op.places_skip + t * op.places_frame + y * 3u;
    let first = tid % TEAM * 4u;
    var sum = vec2<f32>(0.0);
    for (var c = first; c < wide; c += TEAM * 4u) {
        sum += squares(values4(source + c, wide - c));
    }
    let all = team_total(tid, sum);
    // The root and what it divides, both times `factor`.
    let factor = select(1.0, SMALLER, all.y > 0.0);
    let mean = (all.x * factor * factor + all.y) / f32(op.head_width);
    let root = sqrt(mean + op.eps * factor * factor);
    for (var c = first; c < wide; c += TEAM * 4u) {
        var v = values4(source + c, wide - c) * factor / root;
        if (op.scaled != 0u) { v *= affine4(head * op.scale_step + c, wide - c); }
        if (op.shifted != 0u) { v += affine4(op.shift + head * op.scale_step + c, wide - c); }
        if (op.rotated != 0u) {
            v = vec4<f32>(turned(v.xy, c / 2u, places), turned(v.zw, c / 2u + 1u, places));
        }
@IF VECIN@
        st4_output(to + c, v);
@ELSE@
        st_some_output(to + c, wide - c, v);
@END@
    }
    done(wid, grid, tid);
}
