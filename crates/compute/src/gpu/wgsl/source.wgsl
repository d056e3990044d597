// Where a convolution reads: frames in front of the slice, the slice itself, a normalisation on the way.

struct Source {
    start: u32,   // first value of the frame's first row held
    row0: u32,    // its absolute number
    stats: u32,   // first statistic of the frame
    tail: bool,   // of the carried tail, which is stored after its normalisation
}

// Frame `f` of the prefix and the slice behind it.
fn source(f: u32) -> Source {
    if (f < P(PREFIX) && P(CONTINUED) != 0u) {
        return Source(P(C_SKIP) + f * P(C_FRAME), P(C_ROW0), 0u, true);
    }
    let n = select(0u, f - P(PREFIX), f >= P(PREFIX));
    return Source(P(X_SKIP) + n * P(X_FRAME), P(X_ROW0), P(T_SKIP) + n * P(T_FRAME), false);
}

@IF PROLOGUE@
fn normalised(v: vec4<f32>, c: u32, stats: u32) -> vec4<f32> {
    let gamma = lf4_a(c);
    let beta = lf4_a(P(CIN4) + c);
    let wide = P(WIDE);
    var mean: vec4<f32>;
    var rstd: vec4<f32>;
    if ((wide & 3u) == 0u) {
        let g = stats + c / wide * 2u;
        mean = vec4<f32>(lf_t(g));
        rstd = vec4<f32>(lf_t(g + 1u));
    } else {
        let last = P(CIN) - 1u;
        let g = vec4<u32>(stats) + min(vec4<u32>(c, c + 1u, c + 2u, c + 3u), vec4<u32>(last)) / wide * 2u;
        mean = vec4<f32>(lf_t(g.x), lf_t(g.y), lf_t(g.z), lf_t(g.w));
        rstd = vec4<f32>(lf_t(g.x + 1u), lf_t(g.y + 1u), lf_t(g.z + 1u), lf_t(g.w + 1u));
    }
    var y = fma((v - mean) * rstd, gamma, beta);
    if (P(SILU) != 0u) {
        y = y / (vec4<f32>(1.0) + exp(-y));
    }
    return rounded_x(y);
}
@END@

// Four channels of the pixel whose first channel is value `o`; zero beyond the last one.
fn input4(s: Source, o: u32, c: u32) -> vec4<f32> {
    var v: vec4<f32>;
@IF VECIN@
    if (s.tail) { v = ld4_c(o + c); } else { v = ld4_x(o + c); }
@ELSE@
    let n = P(CIN) - c;
    if (s.tail) { v = ld_some_c(o + c, n); } else { v = ld_some_x(o + c, n); }
@END@
@IF PROLOGUE@
    if (!s.tail) {
        v = normalised(v, c, s.stats);
@IF !VECIN@
        if (n < 4u) { v.w = 0.0; }
        if (n < 3u) { v.z = 0.0; }
        if (n < 2u) { v.y = 0.0; }
@END@
    }
@END@
    return v;
}
