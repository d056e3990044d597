//! What templates are filled with: functions of operands, chosen lines, constants, repeated lines.

use std::fmt::Write;

use crate::dtype::DType;
use crate::gpu::bindings::Operand;

/// Functions that read and write the values of an operand.
pub(super) fn values(dtype: DType, native: bool, operand: Operand) -> String {
    let text = match dtype {
        DType::F32 => include_str!("../wgsl/f32.wgsl"),
        DType::F16 | DType::Bf16 => include_str!("../wgsl/half.wgsl"),
    };
    let (bits, value) = match dtype {
        DType::F16 if native => ("pack2x16float(vec2<f32>(v, 0.0))", "unpack2x16float(h).x"),
        DType::F16 | DType::F32 => ("f16_bits(v)", "f16_value(h)"),
        DType::Bf16 => ("bf16_bits(v)", "bitcast<f32>(h << 16u)"),
    };
    let (four, words) = match dtype {
        DType::F16 if native => (
            "vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y))",
            "vec2<u32>(pack2x16float(v.xy), pack2x16float(v.zw))",
        ),
        _ => (
            "vec4<f32>(value_@O@(w.x & 0xffffu), value_@O@(w.x >> 16u), value_@O@(w.y & 0xffffu), value_@O@(w.y >> 16u))",
            "vec2<u32>(bits_@O@(v.x) | (bits_@O@(v.y) << 16u), bits_@O@(v.z) | (bits_@O@(v.w) << 16u))",
        ),
    };
    [include_str!("../wgsl/values.wgsl"), text, include_str!("../wgsl/some.wgsl")]
        .concat()
        .replace("@FOUR@", four)
        .replace("@WORDS@", words)
        .replace("@BITS@", bits)
        .replace("@VALUE@", value)
        .replace("@O@", operand.name())
}

/// Keeps the lines whose flags hold: `@IF NAME@`, `@IF !NAME@`, `@ELSE@`, `@END@`.
pub(super) fn choose(text: &str, flags: &[(&str, bool)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut stack: Vec<bool> = Vec::new();
    for line in text.lines() {
        let word = line.trim();
        if let Some(flag) = word.strip_prefix("@IF ").and_then(|w| w.strip_suffix('@')) {
            let (wanted, name) = flag.strip_prefix('!').map_or((true, flag), |n| (false, n));
            stack.push(flags.iter().any(|(n, on)| *n == name && *on) == wanted);
        } else if word == "@ELSE@" {
            if let Some(top) = stack.last_mut() {
                *top = !*top;
            }
        } else if word == "@END@" {
            stack.pop();
        } else if stack.iter().all(|on| *on) {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Declares constants.
pub(super) fn constants(text: &mut String, values: &[(&str, usize)]) {
    for (name, value) in values {
        let _ = writeln!(text, "const {name}: u32 = {value}u;");
    }
}

/// `lines(i)` for all i below `n`.
pub(super) fn each(n: usize, lines: impl Fn(usize) -> String) -> String {
    (0..n).map(lines).collect::<Vec<_>>().join("\n")
}
