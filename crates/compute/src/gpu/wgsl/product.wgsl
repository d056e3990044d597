// Shared by all products: which frames and taps make an output frame, and how a value is finished.

struct Frame { newest: u32, kind: u32 }

fn frame_of(t: u32) -> Frame {
    switch (op.frame_mode) {
        case 0u: { return Frame(t * op.stride_t + op.kernel_t - 1u, 0u); }
        case 1u: { return Frame(t + 2u, 0u); }
        case 2u: {
            let f = t / 2u;
            return Frame(f + 1u, select(0u, 3u, f == 0u && op.second != 0u) + (t & 1u));
        }
        default: {
            if (t == 0u) { return Frame(0u, 2u); }
            let f = (t + 1u) / 2u;
            return Frame(f, select(0u, 3u, f == 1u) + ((t + 1u) & 1u));
        }
    }
}

@IF SHORTCUT@
// Four channels of the shortcut's input.
fn short4(o: u32, c: u32) -> vec4<f32> {
    if ((op.shortcut_cin & 3u) == 0u) {
        return ld4_shortcut(o + c);
    }
    return ld_some_shortcut(o + c, op.shortcut_cin - c);
}
@END@

@IF SLOPES@
// PReLU, written so that what is not a number stays one.
fn prelu(v: vec4<f32>, slope: vec4<f32>) -> vec4<f32> {
    let zero = vec4<f32>(0.0);
    return fma(slope, select(v, zero, v > zero), select(v, zero, v < zero));
}
@END@

// Adds bias and residual, rounds and stores. `p` is the cell of the pixel, `n` the first channel.
fn finish(t: u32, p: u32, py: u32, px: u32, phase: u32, kind: u32, n: u32, acc: vec4<f32>) {
    if (p >= op.cells || n >= op.cout) { return; }
    let factor = op.factor;
    let cy = op.cell_row0 + p / op.grid_w;
    let cx = p % op.grid_w;
    let y = cy * factor + py;
    let x = cx * factor + px;
    if (y < op.output_row0 || y >= op.output_end || x >= op.output_w) { return; }
    var row = 0u;
    if (op.phases == 4u) {
        // A phase can touch only the border on its own side of the cell.
        let above = select(0u, 2u, cy == select(0u, op.grid_h - 1u, py == 1u));
        let beside = select(0u, 1u, cx == select(0u, op.grid_w - 1u, px == 1u));
        row = (kind * 4u + phase) * 4u + above + beside;
    }
    var v = acc + lf4_weight(op.bias + row * op.cout4 + n);
@IF SHORTCUT@
    v += lf4_shortcut_weight(op.shortcut_bias + n);
@END@
    let cout = op.cout;
    let o = op.output_skip + t * op.output_frame + ((y - op.output_row0) * op.output_w + x) * cout + n;
@IF VECOUT@
    if (op.accumulate != 0u) { v += ld4_output(o); }
@IF SLOPES@
    v = prelu(v, lf4_weight(op.bias + op.cout4 + n));
@END@
    st4_output(o, v);
@ELSE@
    if (op.accumulate != 0u) { v += ld_some_output(o, cout - n); }
@IF SLOPES@
    v = prelu(v, lf4_weight(op.bias + op.cout4 + n));
@END@
    st_some_output(o, cout - n, v);
@END@
}
