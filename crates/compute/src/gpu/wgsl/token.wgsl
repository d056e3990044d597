// Four channels of a token; zero beyond the head's width.
fn token4_@O@(o: u32, c: u32, ok: bool) -> vec4<f32> {
    if (!ok || c >= op.head_width) { return vec4<f32>(0.0); }
@IF VECIN@
    return ld4_@O@(o + c);
@ELSE@
    return ld_some_@O@(o + c, op.head_width - c);
@END@
}
