//! The table of `docs/gpu.md`: what each kernel of a 1080p frame costs, and the least time it could take on
//! five cards. Computed from public specifications, not measured.
//! `cargo run -p remaster-compute --features gpu --example gpu_roofline`
#![allow(clippy::print_stdout, reason = "an example")]

use remaster_compute::gpu::{MatrixUnits, Variant, variants};
use remaster_compute::{DType, WeightSpec};

struct Card {
    name: &'static str,
    /// f32 multiply-adds, TFLOP/s.
    f32: f64,
    /// f16 products with f32 sums on matrix units, TFLOP/s; none where the kernels cannot use them or the maker
    /// gives no number.
    matrix: Option<f64>,
    /// GB/s.
    memory: f64,
}

/// By their makers' data sheets. The matrix rate of the 3060 is that of the 3070 (40.6), scaled by units and
/// clock. The A770's matrices are not square, the M2's rate is not published.
const CARDS: [Card; 5] = [
    Card { name: "RTX 4090", f32: 82.6, matrix: Some(165.2), memory: 1008.0 },
    Card { name: "RTX 3060", f32: 12.7, matrix: Some(25.5), memory: 360.0 },
    Card { name: "RX 7900 XTX", f32: 61.4, matrix: Some(122.8), memory: 960.0 },
    Card { name: "Arc A770", f32: 19.7, matrix: None, memory: 560.0 },
    Card { name: "M2 Max (38)", f32: 13.6, matrix: None, memory: 400.0 },
];

struct Row {
    name: String,
    variant: Option<Variant>,
    flops: f64,
    bytes: f64,
}

/// The first kernel of a family for a layer, on a card with matrices of 16 and subgroups of 32.
fn kernel(family: &str, spec: &WeightSpec) -> Option<Variant> {
    let units = Some(MatrixUnits { size: 16, subgroup: 32, fixed: true });
    variants(spec, units).into_iter().find(|v| v.family() == family)
}

/// One frame of a convolution; of the three input frames it sees, two are in a cache or count for their own.
fn conv(family: &str, size: &str, pixels: f64, [cin, cout]: [usize; 2], taps: usize, dtype: DType) -> Row {
    let spec = match taps {
        1 => WeightSpec::Linear { cin, cout, dtype },
        _ => WeightSpec::conv([cin, cout], [3; 3], dtype),
    };
    // Winograd multiplies 16 times for 4 pixels, and its weights are 48 matrices.
    let (work, matrices) = if family == "winograd" { (12.0, 48) } else { (taps as f64, taps) };
    let (a, b) = (cin as f64, cout as f64);
    let kind = if taps == 1 { "linear" } else { "conv 3x3x3" };
    Row {
        name: format!("{kind} {cin} to {cout}, {size}, {dtype}"),
        variant: kernel(family, &spec),
        flops: 2.0 * pixels * a * b * work,
        bytes: dtype.bytes() as f64 * (pixels * (a + b) + matrices as f64 * a * b),
    }
}

fn rows() -> Vec<Row> {
    let full = 1920.0 * 1080.0;
    let (half, quarter, eighth) = (full / 4.0, full / 16.0, full / 64.0);
    let mut rows = Vec::new();
    for (family, dtype) in [("direct", DType::F32), ("winograd", DType::F32), ("matrix", DType::F16)] {
        rows.push(conv(family, "1/8 size", eighth, [512, 512], 27, dtype));
        rows.push(conv(family, "1/4 size", quarter, [512, 512], 27, dtype));
        rows.push(conv(family, "1/2 size", half, [256, 256], 27, dtype));
        rows.push(conv(family, "full size", full, [128, 128], 27, dtype));
        if family == "winograd" {
            continue;
        }
        let up = |cin: usize, time, frames: f64, from: f64, taps: f64, matrices: f64| {
            let spec = WeightSpec::Upsample { cin, cout: cin, time, dtype };
            let c = cin as f64;
            Row {
                name: format!(
                    "upsampler {cin}, {}, {dtype}",
                    if time { "two frames to 1/4" } else { "to full size" }
                ),
                variant: kernel(family, &spec),
                flops: 2.0 * frames * 4.0 * from * taps * c * c,
                bytes: dtype.bytes() as f64 * (frames * 5.0 * from * c + matrices * c * c),
            }
        };
        rows.push(up(512, true, 2.0, eighth, 8.0, 64.0));
        rows.push(up(256, false, 1.0, half, 12.0, 48.0));
        rows.push(conv(family, "1/8 size", eighth, [512, 512], 1, dtype));
    }
    rows.push(conv("direct", "full size", full, [128, 3], 27, DType::F32));
    rows.push(Row {
        name: "attention 32 400 tokens of 512, f32".into(),
        variant: None,
        flops: 4.0 * eighth * eighth * 512.0,
        bytes: 4.0 * 4.0 * eighth * 512.0,
    });
    let pass = |name: &str, values: f64, flops: f64, moves: f64| Row {
        name: format!("{name}, f32"),
        variant: None,
        flops: values * flops,
        bytes: 4.0 * values * moves,
    };
    rows.push(pass("row sums of 128 channels, full size", full * 128.0, 4.0, 1.0));
    rows.push(pass("tail of 128 channels, full size", full * 128.0, 8.0, 4.0));
    rows.push(pass("normalize 512 channels, 1/8 size", eighth * 512.0, 4.0, 2.0));
    rows
}

fn main() {
    print!("| layer | kernel | GFLOP | MB | FLOP/byte | group memory | sums a thread |");
    println!("{}", CARDS.iter().map(|c| format!(" {} |", c.name)).collect::<String>());
    println!("|---|---|---:|---:|---:|---:|---:|{}", "---:|".repeat(CARDS.len()));
    for row in rows() {
        let (kernel, shared, sums) = row.variant.map_or(("-".into(), "-".into(), "-".into()), |v| {
            (v.to_string(), v.shared_bytes().to_string(), v.sums().to_string())
        });
        print!(
            "| {} | {kernel} | {:.2} | {:.1} | {:.1} | {shared} | {sums} |",
            row.name,
            row.flops / 1e9,
            row.bytes / 1e6,
            row.flops / row.bytes
        );
        let matrix = row.variant.is_some_and(|v| v.family() == "matrix");
        for card in &CARDS {
            let rate = if matrix { card.matrix } else { Some(card.f32) };
            match rate {
                Some(rate) => {
                    let time = (row.flops / rate / 1e12).max(row.bytes / card.memory / 1e9);
                    print!(" {:.2} ms |", 1e3 * time);
                }
                None => print!(" - |"),
            }
        }
        println!();
    }
}
