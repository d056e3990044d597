//! Kernels on tokens.

use super::{constants, each};

/// Threads that share the norm of a head of this width.
pub(in crate::gpu) fn norm_team(width: usize) -> usize {
    if width <= 256 { 8 } else { 64 }
}

/// Queries of a workgroup of attention in windows, and its threads.
pub(super) const WINDOW_QUERIES: usize = 32;
const THREADS: usize = 128;
/// Threads that share four queries.
const PER: usize = THREADS / (WINDOW_QUERIES / 4);
/// Most output columns of a workgroup: the values of 16 keys then take less workgroup memory than queries and keys.
const MOST_VALUES: usize = 128;

/// Output columns of a workgroup of attention in windows, a whole number of quads per thread.
pub(in crate::gpu) fn window_values(width: usize) -> usize {
    width.min(MOST_VALUES).next_multiple_of(4 * PER)
}

pub(super) fn window_attention(text: &mut String, values: usize) -> String {
    constants(text, &[("QUERIES", WINDOW_QUERIES), ("THREADS", THREADS), ("VALUES", values)]);
    let operands = ["queries", "keys", "values", "common_queries", "common_keys", "common_values"];
    let tokens = operands.map(|o| include_str!("../wgsl/token.wgsl").replace("@O@", o)).concat();
    let quads = values / 4 / PER;
    let sums = |line: &dyn Fn(usize, usize, &str) -> String| {
        each(quads, |j| each(4, |i| line(j, i, &"xyzw"[i..=i])))
    };
    let inner = |j: usize| {
        let value = format!("                let v{j} = sh[i * (VALUES / 4u) + lane + {j}u * PER];");
        let add = |i: usize| {
            let p = &"xyzw"[i..=i];
            format!("                r{i}_{j} = fma(vec4<f32>(p.{p}), v{j}, r{i}_{j});")
        };
        [value, each(4, add)].join("\n")
    };
    (tokens + include_str!("../wgsl/window_attention.wgsl"))
        .replace("@ACC@", &sums(&|j, i, _| format!("    var r{i}_{j} = vec4<f32>(0.0);")))
        .replace("@FADE@", &sums(&|j, i, p| format!("        r{i}_{j} *= fade.{p};")))
        .replace("@INNER@", &each(quads, inner))
        .replace(
            "@STORE@",
            &sums(&|j, i, p| {
                let (n, x) =
                    (format!("first + mine * 4u + {i}u"), format!("column + (lane + {j}u * PER) * 4u"));
                format!("    give(own, {n}, head, {x}, r{i}_{j} / sum.{p});")
            }),
        )
}
