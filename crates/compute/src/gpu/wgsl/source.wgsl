// Where a convolution reads: frames in front of the slice, the slice itself, a normalisation on the way.

struct Source {
    base: u32,
    start: u32,   // first value of the frame's first row held
    row0: u32,    // its absolute number
    stats: u32,   // first statistic of the frame
    raw: bool,    // a tail: stored after its normalisation
}

// Frame `f` of the prefix and the slice behind it.
fn source(f: u32) -> Source {
    if (f < P(PREFIX) && P(CONTINUED) != 0u) {
        return Source(P(C_BASE), P(C_SKIP) + f * P(C_FRAME), P(C_ROW0), 0u, true);
    }
    let n = select(0u, f - P(PREFIX), f >= P(PREFIX));
    return Source(P(X_BASE), P(X_SKIP) + n * P(X_FRAME), P(X_ROW0), P(ST_SKIP) + n * P(ST_FRAME), false);
}

fn normalised(v: vec4<f32>, c: u32, stats: u32) -> vec4<f32> {
    let gamma = lf4(P(AFFINE), c);
    let beta = lf4(P(AFFINE), P(CIN4) + c);
    let wide = P(WIDE);
    var mean: vec4<f32>;
    var rstd: vec4<f32>;
    if ((wide & 3u) == 0u) {
        let g = stats + c / wide * 2u;
        mean = vec4<f32>(lf(P(ST_BASE), g));
        rstd = vec4<f32>(lf(P(ST_BASE), g + 1u));
    } else {
        let last = P(CIN) - 1u;
        let g = vec4<u32>(stats) + min(vec4<u32>(c, c + 1u, c + 2u, c + 3u), vec4<u32>(last)) / wide * 2u;
        mean = vec4<f32>(lf(P(ST_BASE), g.x), lf(P(ST_BASE), g.y), lf(P(ST_BASE), g.z), lf(P(ST_BASE), g.w));
        rstd = vec4<f32>(lf(P(ST_BASE), g.x + 1u), lf(P(ST_BASE), g.y + 1u), lf(P(ST_BASE), g.z + 1u), lf(P(ST_BASE), g.w + 1u));
    }
    var y = fma((v - mean) * rstd, gamma, beta);
    if (P(SILU) != 0u) {
        y = y / (vec4<f32>(1.0) + exp(-y));
    }
    return rounded(y);
}

// Four channels of the pixel whose first channel is value `o`; zero beyond the last one.
fn input4(s: Source, o: u32, c: u32) -> vec4<f32> {
    var v: vec4<f32>;
@IF VECIN@
    v = ld4(s.base, o + c);
@ELSE@
    let n = P(CIN) - c;
    v = vec4<f32>(ld(s.base, o + c), 0.0, 0.0, 0.0);
    if (n > 1u) { v.y = ld(s.base, o + c + 1u); }
    if (n > 2u) { v.z = ld(s.base, o + c + 2u); }
    if (n > 3u) { v.w = ld(s.base, o + c + 3u); }
@END@
@IF PROLOGUE@
    if (!s.raw) {
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
