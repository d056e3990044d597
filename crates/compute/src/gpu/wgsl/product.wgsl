// What all convolutions share: which frames and taps an output frame has, and how a value is finished.

struct Frame { newest: u32, kind: u32 }

fn frame_of(t: u32) -> Frame {
    switch (P(MODE)) {
        case 0u: { return Frame(t * P(STRIDE_T) + P(KT) - 1u, 0u); }
        case 1u: { return Frame(t + 2u, 0u); }
        case 2u: {
            let f = t / 2u;
            return Frame(f + 1u, select(0u, 3u, f == 0u && P(SECOND) != 0u) + (t & 1u));
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
    if ((P(SHORT_CIN) & 3u) == 0u) {
        return ld4_s(o + c);
    }
    return ld_some_s(o + c, P(SHORT_CIN) - c);
}
@END@

// Bias, residual, rounding. `p` is the pixel's place in the frame's tiles, `n` the first channel.
fn finish(t: u32, p: u32, py: u32, px: u32, phase: u32, kind: u32, n: u32, acc: vec4<f32>) {
    if (p >= P(CELLS) || n >= P(COUT)) { return; }
    let factor = P(FACTOR);
    let cy = P(CELL0) + p / P(W_GRID);
    let cx = p % P(W_GRID);
    let y = cy * factor + py;
    let x = cx * factor + px;
    if (y < P(Y_ROW0) || y >= P(Y_END) || x >= P(Y_W)) { return; }
    var row = 0u;
    if (P(PHASES) == 4u) {
        // The border that a phase can touch: its own side of the cell.
        let above = select(0u, 2u, cy == select(0u, P(H_GRID) - 1u, py == 1u));
        let beside = select(0u, 1u, cx == select(0u, P(W_GRID) - 1u, px == 1u));
        row = (kind * 4u + phase) * 4u + above + beside;
    }
    var v = acc + lf4_w(P(BIAS) + row * P(COUT4) + n);
@IF SHORTCUT@
    v += lf4_v(P(SHORT_BIAS) + n);
@END@
    let cout = P(COUT);
    let o = P(Y_SKIP) + t * P(Y_FRAME) + ((y - P(Y_ROW0)) * P(Y_W) + x) * cout + n;
@IF VECOUT@
    if (P(ACCUMULATE) != 0u) { v += ld4_y(o); }
    st4_y(o, v);
@ELSE@
    if (P(ACCUMULATE) != 0u) { v += ld_some_y(o, cout - n); }
    st_some_y(o, cout - n, v);
@END@
}
