//! The text of direct convolutions. All load pixels and weights into workgroup memory the same way and differ in how
//! they multiply.

use super::{each, product_source};

/// Which part of a product a workgroup makes.
pub(super) const JOB: &str = include_str!("../wgsl/job.wgsl");

/// Sizes of a workgroup's part of a product.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) bm: usize,
    pub(super) bn: usize,
    pub(super) bk: usize,
    pub(super) threads: usize,
}

/// How a kernel multiplies: pieces of text for the placeholders of `conv.wgsl`.
pub(super) struct Body<'a> {
    pub(super) shared: &'a str,
    pub(super) begin: String,
    /// Puts `v`, four channels of pixel `row`, at channel quad `quad` of the step.
    pub(super) put_a: &'a str,
    /// Puts `v`, four output channels from quad `quad` on, at input channel `row` of the step.
    pub(super) put_b: &'a str,
    pub(super) multiply: String,
    pub(super) store: String,
}

pub(super) fn text(part: Part, body: &Body<'_>) -> String {
    let Part { bm, bn, bk, threads } = part;
    let (units_a, units_b) = (bm * bk / 4, bk * bn / 4);
    let (loads_a, loads_b) = (units_a.div_ceil(threads), units_b.div_ceil(threads));
    let pixels = each(loads_a, |l| {
        format!(
            "    let u{l} = tid + {l}u * THREADS;\n    let p{l} = first + u{l} / (BK / 4u);\n    \
             let cy{l} = op.cell_row0 + p{l} / op.grid_w;\n    let cx{l} = p{l} % op.grid_w;\n    \
             let oy{l} = cy{l} * factor + py;\n    \
             let ok{l} = u{l} < {units_a}u && p{l} < op.cells && oy{l} >= op.output_row0 && oy{l} < op.output_end;"
        )
    });
    let places = each(loads_a, |l| {
        format!(
            "        let y{l} = cy{l} * op.stride_y + dy - op.pad_top;\n        \
             let x{l} = cx{l} * op.stride_x + dx - op.pad_left;\n        \
             let in{l} = ok{l} && y{l} < op.h_in && x{l} < op.w_in;\n        \
             let o{l} = s.start + ((y{l} - s.row0) * op.w_in + x{l}) * cin;"
        )
    });
    let short_places = each(loads_a, |l| {
        format!(
            "        let o{l} = op.shortcut_skip + t * op.shortcut_frame + ((oy{l} - op.output_row0) * op.grid_w + cx{l}) \
             * op.shortcut_cin;"
        )
    });
    let load_a = |inside: &str, limit: &str, call: &str| {
        each(loads_a, |l| {
            let guard = if units_a.is_multiple_of(threads) { "true" } else { "row < BM" };
            format!(
                "            {{ let row = u{l} / (BK / 4u); let quad = u{l} % (BK / 4u);\n              \
                 let c = c0 + quad * 4u; var v = vec4<f32>(0.0);\n              \
                 if ({inside}{l} && c < {limit}) {{ v = {call}o{l}, c); }}\n              \
                 if ({guard}) {{ {} }} }}",
                body.put_a
            )
        })
    };
    let load_b = |limit: &str, weight: &str, matrix: &str| {
        each(loads_b, |l| {
            let guard = if units_b.is_multiple_of(threads) { "true" } else { "row < BK" };
            format!(
                "            {{ let i = tid + {l}u * THREADS; let row = i / (BN / 4u); let quad = i % (BN / 4u);\n              \
                 let kk = c0 + row; let n = n0 + quad * 4u; var v = vec4<f32>(0.0);\n              \
                 if (kk < {limit} && n < cout4) {{ v = ld4_{weight}(({matrix}kk) * cout4 + n); }}\n              \
                 if ({guard}) {{ {} }} }}",
                body.put_b
            )
        })
    };
    product_source()
        .replace("@SHARED@", body.shared)
        .replace("@JOB@", JOB)
        .replace("@BEGIN@", &body.begin)
        .replace("@PIXELS@", &pixels)
        .replace("@PLACES@", &places)
        .replace("@SHORT_PLACES@", &short_places)
        .replace("@LOAD_A@", &load_a("in", "cin4", "input4(s, "))
        .replace("@SHORT_A@", &load_a("ok", "deep4", "short4("))
        .replace("@LOAD_B@", &load_b("cin4", "weight", "matrix + "))
        .replace("@SHORT_B@", &load_b("deep4", "shortcut_weight", ""))
        .replace("@MULTIPLY@", &body.multiply)
        .replace("@STORE@", &body.store)
}
