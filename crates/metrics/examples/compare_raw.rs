//! Compares two files of raw frames (`rgb24`) and writes the report and its pictures into a folder:
//! `cargo run --release -p remaster-metrics --example compare_raw -- a.rgb b.rgb 1280 720 folder [tile]`.
//! A stand-in for the command line, to look at the pictures and to time the measures.
#![allow(clippy::print_stdout, reason = "the table is the result")]

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use remaster_metrics::{Borders, Comparison, Image, Options, Picture};

fn frame(file: &mut File, values: usize) -> Option<Vec<f32>> {
    let mut bytes = vec![0; values];
    file.read_exact(&mut bytes).ok()?;
    Some(bytes.into_iter().map(|v| f32::from(v) / 255.0).collect())
}

/// Seconds that this thread has computed; where the system does not say, seconds since `start`. Other programs
/// on the machine do not count.
fn computed(start: Instant) -> f64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = said.and_then(|s| s.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.map_or(start.elapsed().as_secs_f64(), |n| n / 1e9)
}

/// PPM: the simplest file that picture programs read.
fn write(path: &Path, image: &Image) -> std::io::Result<()> {
    let head = format!("P6\n{} {}\n255\n", image.width, image.height);
    std::fs::write(path, [head.as_bytes(), &image.data].concat())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [a, b, width, height, folder, rest @ ..] = arguments.as_slice() else {
        return Err("usage: compare_raw A B WIDTH HEIGHT FOLDER [TILE]".into());
    };
    let (width, height): (usize, usize) = (width.parse()?, height.parse()?);
    let folder = Path::new(folder);
    std::fs::create_dir_all(folder)?;
    let mut borders = None;
    if let Some(tile) = rest.first() {
        let tile = tile.parse()?;
        borders = Some(Borders::every(tile, tile, width, height));
    }
    let (mut file_a, mut file_b) = (File::open(a)?, File::open(b)?);
    let mut comparison = Comparison::new(width, height, Options { borders, ..Options::default() })?;
    let mut last = None;
    let (mut seconds, start) = (Vec::new(), Instant::now());
    let values = width * height * 3;
    while let (Some(a), Some(b)) = (frame(&mut file_a, values), frame(&mut file_b, values)) {
        let before = computed(start);
        comparison.push(Picture::new(width, height, &a)?, Picture::new(width, height, &b)?)?;
        seconds.push(computed(start) - before);
        last = Some((a, b));
    }
    let report = comparison.finish();
    seconds.sort_by(f64::total_cmp);
    let name = |path: &str| {
        Path::new(path).file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    };
    write(&folder.join("sheet.ppm"), &remaster_metrics::sheet(&report, &name(a), &name(b)))?;
    write(&folder.join("drift.ppm"), &remaster_metrics::drift_map(&report))?;
    let title = format!("{} against {}", name(b), name(a));
    std::fs::write(folder.join("plot.svg"), remaster_metrics::plot(&report, &title))?;
    std::fs::write(folder.join("report.json"), serde_json::to_string_pretty(&report)?)?;
    if let Some((a, b)) = last {
        let (a, b) = (Picture::new(width, height, &a)?, Picture::new(width, height, &b)?);
        write(&folder.join("heat.ppm"), &remaster_metrics::heat_map(a, b, None)?)?;
        let time = |name: &str, run: &dyn Fn()| {
            // The best of several: other programs only ever add to it.
            let mut best = f64::INFINITY;
            for _ in 0..9 {
                let before = computed(start);
                run();
                best = best.min(computed(start) - before);
            }
            println!("{name:12} {:7.1} ms", best * 1e3);
        };
        time("psnr", &|| drop(remaster_metrics::psnr(a, b)));
        time("ssim", &|| drop(remaster_metrics::ssim(a, b)));
        time("ssimulacra2", &|| drop(remaster_metrics::ssimulacra2(a, b)));
        time("delta e", &|| drop(remaster_metrics::delta_e(a, b)));
    }
    let median = seconds.get(seconds.len() / 2).copied().unwrap_or(0.0);
    let least = seconds.first().copied().unwrap_or(0.0);
    println!("{} frames, {:.1} ms a frame at best, {:.1} (median)", report.frames, least * 1e3, median * 1e3);
    for (metric, stat) in &report.summary {
        println!(
            "{:36} mean {:9.4} worst {:9.4} at {}",
            metric.title(),
            stat.mean,
            stat.worst(*metric),
            stat.worst_frame
        );
    }
    println!("pooled {:?}\nseams {:?}", report.pooled, report.seams);
    Ok(())
}
