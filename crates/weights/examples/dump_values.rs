//! Writes the values of every tensor of a checkpoint to stdout as little-endian f32, by name, for comparison with
//! other readers: `dump_values FILE`.
#![expect(clippy::print_stderr, reason = "a program for the terminal")]

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use remaster_weights::Checkpoint;

/// Not a multiple of any block, so that ranges start and end inside blocks.
const RUN: usize = 99_991;

fn dump(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let checkpoint = Checkpoint::open(Path::new(path))?;
    let mut tensors: Vec<_> = checkpoint.tensors().filter(|t| !t.is_companion()).collect();
    tensors.sort_by(|a, b| a.name().cmp(b.name()));
    let mut out = std::io::stdout().lock();
    let mut values = vec![0.0f32; RUN];
    for tensor in tensors {
        for start in (0..tensor.elements()).step_by(RUN) {
            let run = &mut values[..RUN.min(tensor.elements() - start)];
            checkpoint.read_f32(tensor, start, run)?;
            out.write_all(&run.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: dump_values FILE");
        return ExitCode::from(2);
    };
    match dump(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
