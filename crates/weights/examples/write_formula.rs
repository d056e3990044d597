//! Writes a checkpoint of a diffusion transformer with formula weights, as F16 safetensors, for runs at real size:
//! `write_formula 3b|7b|tiny-3b|tiny-7b FILE`. Holds a few megabytes whatever the size.
#![expect(clippy::print_stderr, reason = "a program for the terminal")]

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use remaster_compute::DType;
use remaster_compute::dtype::encode;
use remaster_disk::write_at;
use remaster_model::Param;
use remaster_model::dit::{self, DitConfig, Family};
use remaster_weights::fill_formula;

/// Values that a thread makes at a time: 4 MiB in f32.
const RUN: usize = 1 << 20;

const FREQUENCIES: &str = ".attn.rope.rope.freqs";

/// The network's tensors, and the tables of its rotation, which every published file has.
fn tensors(config: &DitConfig) -> Vec<Param> {
    let tables = (0..config.layers)
        .map(|n| Param { name: format!("blocks.{n}{FREQUENCIES}"), shape: vec![config.frequencies()] });
    dit::params(config).into_iter().chain(tables).collect()
}

/// One frequency of the rotation.
fn frequency(config: &DitConfig, k: usize) -> f32 {
    let (count, k) = (config.frequencies() as f64, k as f64);
    match config.family {
        Family::Shared => 10000f64.powf(-k / count) as f32,
        Family::Separate => ((1.0 + 127.0 * k / (count - 1.0).max(1.0)) * std::f64::consts::PI) as f32,
    }
}

fn values(
    config: &DitConfig,
    param: &Param,
    start: usize,
    out: &mut [f32],
) -> Result<(), Box<dyn Error + Send + Sync>> {
    if param.name.ends_with(FREQUENCIES) {
        out.iter_mut().enumerate().for_each(|(i, v)| *v = frequency(config, start + i));
        return Ok(());
    }
    Ok(fill_formula(&param.name, &param.shape, start, out)?)
}

fn write(config: &DitConfig, path: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    let tensors = tensors(config);
    let mut entries = Vec::new();
    // First value, in the order of the file, and which tensor.
    let (mut runs, mut end) = (Vec::new(), 0);
    for (i, Param { name, shape }) in tensors.iter().enumerate() {
        let elements: usize = shape.iter().product();
        let stop = end + 2 * elements;
        entries
            .push(format!(r#""{name}":{{"dtype":"F16","shape":{shape:?},"data_offsets":[{end},{stop}]}}"#));
        runs.extend(
            (0..elements).step_by(RUN).map(|start| (i, start, RUN.min(elements - start), end + 2 * start)),
        );
        end = stop;
    }
    let mut header = format!("{{{}}}", entries.join(",")).replace(", ", ",").into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let file = File::create(path)?;
    file.set_len((8 + header.len() + end) as u64)?;
    write_at(&file, &(header.len() as u64).to_le_bytes(), 0)?;
    write_at(&file, &header, 8)?;
    let data = 8 + header.len();
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut made, mut bytes) = (vec![0.0; RUN], vec![0; 2 * RUN]);
        while let Some(&(i, start, count, at)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            values(config, &tensors[i], start, &mut made[..count])?;
            encode(DType::F16, &made[..count], &mut bytes[..2 * count]);
            write_at(&file, &bytes[..2 * count], (data + at) as u64)?;
        }
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let config = match args.first().map(String::as_str) {
        Some("3b") => Some(DitConfig::dit_3b()),
        Some("7b") => Some(DitConfig::dit_7b()),
        Some("tiny-3b") => Some(DitConfig::tiny(Family::Shared)),
        Some("tiny-7b") => Some(DitConfig::tiny(Family::Separate)),
        _ => None,
    };
    let (Some(config), [_, path]) = (config, &args[..]) else {
        eprintln!("usage: write_formula 3b|7b|tiny-3b|tiny-7b FILE");
        return ExitCode::from(2);
    };
    match write(&config, Path::new(path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write {path}: {error}");
            ExitCode::FAILURE
        }
    }
}
