// Where the queries of a head in a window are: its own ones, or those of the common tokens.
struct Head { own: bool, first: u32, head: u32 }

fn place_of(job: u32, head: u32) -> Head {
    let own = job < op.tiles;
    return Head(own, select(job - op.tiles, job, own) * SIDE, head);
}

fn key_total() -> u32 {
    return op.count + op.common_count;
}

// Eight channels of a token. Beyond the last one they are zero.
fn query_unit(p: Head, n: u32, x: u32) -> vec4<u32> {
    let m = p.first + n;
    if (p.own) {
        let o = op.queries_skip + (op.first + min(m, op.count - 1u)) * op.channels + p.head + x;
        return select(vec4<u32>(), unit_queries(o / 8u), m < op.count);
    }
    let o = op.common_queries_skip + min(m, op.common_count - 1u) * op.channels + p.head + x;
    return select(vec4<u32>(), unit_common_queries(o / 8u), m < op.common_count);
}

fn key_unit(p: Head, n: u32, x: u32) -> vec4<u32> {
    if (n < op.count) {
        return unit_keys((op.keys_skip + (op.first + n) * op.channels + p.head + x) / 8u);
    }
    let m = n - op.count;
    if (m >= op.common_count) { return vec4<u32>(); }
    return unit_common_keys((op.common_keys_skip + m * op.channels + p.head + x) / 8u);
}

fn value_unit(p: Head, n: u32, x: u32) -> vec4<u32> {
    if (n < op.count) {
        return unit_values((op.values_skip + (op.first + n) * op.channels + p.head + x) / 8u);
    }
    let m = n - op.count;
    if (m >= op.common_count) { return vec4<u32>(); }
    return unit_common_values((op.common_values_skip + m * op.channels + p.head + x) / 8u);
}

fn give(p: Head, n: u32, x: u32, v: vec4<f32>) {
    let m = p.first + n;
    if (m >= select(op.common_count, op.count, p.own) || x >= op.head_width) { return; }
    if (p.own) {
        st4_output(op.output_skip + (op.first + m) * op.channels + p.head + x, v);
        return;
    }
    let o = op.sums_skip + m * op.channels + p.head + x;
    var before = vec4<f32>(0.0);
    if (op.accumulate != 0u) { before = lf4_sums(o); }
    sf4_sums(o, fma(v, vec4<f32>(op.share), before));
}
