// Four normalised values before they are rounded.
fn with_norm(v: vec4<f32>, mean: vec4<f32>, rstd: vec4<f32>, gamma: vec4<f32>, beta: vec4<f32>) -> vec4<f32> {
    let y = fma((v - mean) * rstd, gamma, beta);
    if (op.silu != 0u) {
        return y / (vec4<f32>(1.0) + exp(-y));
    }
    return y;
}

// What normalises four channels.
struct Scale { mean: vec4<f32>, rstd: vec4<f32>, gamma: vec4<f32>, beta: vec4<f32> }

// Of the channels from `c` on; `stats` is the first statistic of their frame.
fn scale_of(c: u32, stats: u32) -> Scale {
    let gamma = lf4_affine(c);
    let beta = lf4_affine(op.cin4 + c);
    let wide = op.group_width;
    var mean: vec4<f32>;
    var rstd: vec4<f32>;
    if ((wide & 3u) == 0u) {
        let g = stats + c / wide * 2u;
        mean = vec4<f32>(lf_stats(g));
        rstd = vec4<f32>(lf_stats(g + 1u));
    } else {
        let last = op.cin - 1u;
        let g = vec4<u32>(stats) + min(vec4<u32>(c, c + 1u, c + 2u, c + 3u), vec4<u32>(last)) / wide * 2u;
        mean = vec4<f32>(lf_stats(g.x), lf_stats(g.y), lf_stats(g.z), lf_stats(g.w));
        rstd = vec4<f32>(lf_stats(g.x + 1u), lf_stats(g.y + 1u), lf_stats(g.z + 1u), lf_stats(g.w + 1u));
    }
    return Scale(mean, rstd, gamma, beta);
}

fn scaled(v: vec4<f32>, s: Scale) -> vec4<f32> {
    return rounded_input(with_norm(v, s.mean, s.rstd, s.gamma, s.beta));
}

// Four channels from `c` on, normalised.
fn normalised(v: vec4<f32>, c: u32, stats: u32) -> vec4<f32> {
    return scaled(v, scale_of(c, stats));
}
