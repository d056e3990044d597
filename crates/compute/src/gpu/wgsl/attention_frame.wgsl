// Where the queries, keys and values of a head in a frame are.
struct Head { first: u32, queries: u32, keys: u32, values: u32, output: u32 }

fn place_of(job: u32, head: u32) -> Head {
    let t = job / op.tiles;
    return Head(
        job % op.tiles * SIDE,
        op.queries_skip + t * op.queries_frame + head,
        op.keys_skip + t * op.keys_frame + head,
        op.values_skip + t * op.values_frame + head,
        op.output_skip + t * op.output_frame + head,
    );
}

fn key_total() -> u32 {
    return op.key_count;
}

// Eight channels of a token. Beyond the last one they are zero.
fn query_unit(p: Head, n: u32, x: u32) -> vec4<u32> {
    let m = min(p.first + n, op.query_count - 1u);
    return select(vec4<u32>(), unit_queries((p.queries + m * op.channels + x) / 8u), p.first + n < op.query_count);
}

fn key_unit(p: Head, n: u32, x: u32) -> vec4<u32> {
    let m = min(n, op.key_count - 1u);
    return select(vec4<u32>(), unit_keys((p.keys + m * op.channels + x) / 8u), n < op.key_count);
}

fn value_unit(p: Head, n: u32, x: u32) -> vec4<u32> {
    let m = min(n, op.key_count - 1u);
    return select(vec4<u32>(), unit_values((p.values + m * op.channels + x) / 8u), n < op.key_count);
}

fn give(p: Head, n: u32, x: u32, v: vec4<f32>) {
    if (p.first + n >= op.query_count || x >= op.head_width) { return; }
    st4_output(p.output + (p.first + n) * op.channels + x, v);
}
