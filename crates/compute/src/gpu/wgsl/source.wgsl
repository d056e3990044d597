// Where a product reads: frames in front of the slice, then the slice, normalised on the way.

struct Source {
    start: u32,   // first value of the frame's first row held
    row0: u32,    // its absolute number
    stats: u32,   // first statistic of the frame
    tail: bool,   // in the carried tail, which is stored normalised
}

// Frame `f` of the prefix and the slice behind it.
fn source(f: u32) -> Source {
    if (f < op.prefix && op.continued != 0u) {
        return Source(op.carried_skip + f * op.carried_frame, op.carried_row0, 0u, true);
    }
    let n = select(0u, f - op.prefix, f >= op.prefix);
    return Source(op.input_skip + n * op.input_frame, op.input_row0, op.stats_skip + n * op.stats_frame, false);
}

// Four channels of the pixel whose first channel is value `o`; zero beyond the last one.
fn input4(s: Source, o: u32, c: u32) -> vec4<f32> {
    var v: vec4<f32>;
@IF VECIN@
    if (s.tail) { v = ld4_carried(o + c); } else { v = ld4_input(o + c); }
@ELSE@
    let n = op.cin - c;
    if (s.tail) { v = ld_some_carried(o + c, n); } else { v = ld_some_input(o + c, n); }
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
