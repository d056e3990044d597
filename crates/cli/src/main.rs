//! The binary `remaster`: arguments in, results on stdout, words for people on stderr.

mod args;
mod bench;
mod doctor;
mod error;
mod memory;
mod models;
mod output;
mod plan;
mod plot;
mod still;
mod tensors;
mod vae;

use std::process::ExitCode;

use clap::Parser;

use args::{BenchCommand, Cli, Command, ModelsCommand};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    let out = output::Output::new(cli.json);
    let result = match cli.command {
        Command::Models { command: ModelsCommand::Inspect(args) } => models::inspect(&args, &out),
        Command::Doctor(args) => doctor::run(&args, &out),
        Command::Bench { command: BenchCommand::Kernels(args) } => bench::kernels(&args, &out),
        Command::Bench { command: BenchCommand::Vae(args) } => bench::vae(&args, &out),
        Command::Bench { command: BenchCommand::Scaling(args) } => bench::scaling(&args, &out),
        Command::Plan(args) => plan::run(&args, &out),
        Command::Vae { command } => vae::run(&command, &out),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out.failed(&error);
            ExitCode::from(error.exit_code())
        }
    }
}
