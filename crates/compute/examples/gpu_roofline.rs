//! The table of `docs/gpu.md`: what each kernel of a 1080p frame costs, and the least time it could take on
//! five cards. Computed from public specifications, not measured.
//! `cargo run -p remaster-compute --features gpu --example gpu_roofline`
#![allow(clippy::print_stdout, reason = "an example")]

use remaster_compute::gpu::variants;

/// Name, f32 TFLOP/s, GB/s.
const CARDS: [(&str, f64, f64); 5] = [
    ("RTX 4090", 82.6, 1008.0),
    ("RTX 3060", 12.7, 360.0),
    ("RX 7900 XTX", 61.4, 960.0),
    ("Arc A770", 19.7, 560.0),
    ("M2 Max (38)", 13.6, 400.0),
];

struct Row {
    name: String,
    variant: Option<&'static str>,
    flops: f64,
    bytes: f64,
}

/// One frame of a convolution; the three input frames it sees count once, the frame behind is in cache.
fn conv(name: &str, pixels: f64, cin: f64, cout: f64, taps: f64) -> Row {
    let variant = Some(if cout > 16.0 { "wide" } else { "narrow" });
    let bytes = 4.0 * (pixels * (cin + cout) + taps * cin * cout);
    Row { name: name.into(), variant, flops: 2.0 * pixels * cin * cout * taps, bytes }
}

fn main() {
    let full = 1920.0 * 1080.0;
    let (half, quarter, eighth) = (full / 4.0, full / 16.0, full / 64.0);
    let pass = |name: &str, values: f64, flops: f64, moves: f64| Row {
        name: name.into(),
        variant: None,
        flops: values * flops,
        bytes: 4.0 * values * moves,
    };
    let rows = [
        conv("conv 3x3x3, 512 to 512, 1/8 size", eighth, 512.0, 512.0, 27.0),
        conv("conv 3x3x3, 512 to 512, 1/4 size", quarter, 512.0, 512.0, 27.0),
        conv("conv 3x3x3, 256 to 256, 1/2 size", half, 256.0, 256.0, 27.0),
        conv("conv 3x3x3, 128 to 128, full size", full, 128.0, 128.0, 27.0),
        conv("conv 3x3x3, 128 to 3, full size", full, 128.0, 3.0, 27.0),
        Row {
            name: "upsampler 512, two frames to 1/4 size".into(),
            variant: Some("wide"),
            flops: 2.0 * 2.0 * quarter * 8.0 * 512.0 * 512.0,
            bytes: 4.0 * (2.0 * eighth * 512.0 + 2.0 * quarter * 512.0 + 64.0 * 512.0 * 512.0),
        },
        Row {
            name: "upsampler 256, one frame to full size".into(),
            variant: Some("wide"),
            flops: 2.0 * full * 12.0 * 256.0 * 256.0,
            bytes: 4.0 * (3.0 * half * 256.0 + full * 256.0 + 48.0 * 256.0 * 256.0),
        },
        conv("linear 512 to 512, 1/8 size", eighth, 512.0, 512.0, 1.0),
        Row {
            name: "attention 32 400 tokens of 512".into(),
            variant: None,
            flops: 4.0 * eighth * eighth * 512.0,
            bytes: 4.0 * 4.0 * eighth * 512.0,
        },
        pass("row sums of 128 channels, full size", full * 128.0, 4.0, 1.0),
        pass("tail of 128 channels, full size", full * 128.0, 8.0, 4.0),
        pass("normalize 512 channels, 1/8 size", eighth * 512.0, 4.0, 2.0),
    ];
    print!("| kernel | GFLOP | MB | FLOP/byte | group memory | sums a thread |");
    println!("{}", CARDS.map(|c| format!(" {} |", c.0)).concat());
    println!("|---|---:|---:|---:|---:|---:|{}", "---:|".repeat(CARDS.len()));
    for row in &rows {
        let found = variants().into_iter().find(|v| Some(v.name) == row.variant && v.index == 0);
        let (shared, sums) =
            found.map_or(("-".into(), "-".into()), |v| (v.shared_bytes.to_string(), v.sums.to_string()));
        print!(
            "| {} | {:.2} | {:.1} | {:.1} | {shared} | {sums} |",
            row.name,
            row.flops / 1e9,
            row.bytes / 1e6,
            row.flops / row.bytes
        );
        for (_, tera, giga) in CARDS {
            let seconds = (row.flops / (tera * 1e12)).max(row.bytes / (giga * 1e9));
            print!(" {:.3} ms |", 1e3 * seconds);
        }
        println!();
    }
}
