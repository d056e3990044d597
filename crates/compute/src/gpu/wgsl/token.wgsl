// Four channels of a token; zero beyond the head's width.
fn token4_@O@(o: u32, c: u32, ok: bool) -> vec4<f32> {
    if (!ok || c >= P(WIDE)) { return vec4<f32>(0.0); }
@IF VECIN@
    return ld4_@O@(o + c);
@ELSE@
    let n = P(WIDE) - c;
    var v = vec4<f32>(ld_@O@(o + c), 0.0, 0.0, 0.0);
    if (n > 1u) { v.y = ld_@O@(o + c + 1u); }
    if (n > 2u) { v.z = ld_@O@(o + c + 2u); }
    if (n > 3u) { v.w = ld_@O@(o + c + 3u); }
    return v;
@END@
}
