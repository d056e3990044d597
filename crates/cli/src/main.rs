//! The binary `remaster`: arguments in, results on stdout, words for people on stderr.

mod args;
mod doctor;
mod error;
mod models;
mod output;
mod still;
mod tensors;
mod vae;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, ModelsCommand};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let out = output::Output::new(cli.json);
    let result = match cli.command {
        Command::Models { command: ModelsCommand::Inspect(args) } => models::inspect(&args, &out),
        Command::Doctor(args) => doctor::run(&args, &out),
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
