//! The binary `remaster`: arguments in, results on stdout, words for people on stderr.

mod args;
mod bench;
#[cfg(feature = "gpu")]
mod cache;
mod compare;
mod config;
mod devices;
mod doctor;
mod error;
mod generate;
mod help;
mod interrupt;
mod machine;
mod media;
mod memory;
mod models;
mod network;
mod output;
mod plan;
mod plot;
mod progress;
mod spill;
mod tensors;
#[cfg(feature = "gpu")]
mod tune;
mod vae;
mod video;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{BenchCommand, Cli, Command, ModelsCommand};
use config::Refusal;
use error::CliError;
use interrupt::Interrupt;
use output::Output;

fn main() -> ExitCode {
    let typed: Vec<_> = std::env::args_os().collect();
    // They could not be parsed yet, so `--json` is looked for by hand.
    let json = typed.iter().any(|a| a == "--json");
    let parsed = config::parse(Cli::command(), typed, config::home())
        .and_then(|matches| Cli::from_arg_matches(&matches).map_err(Refusal::Usage));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(Refusal::Usage(error)) => return output::usage(&error),
        Err(Refusal::Config(error)) => return fail(&Output::new(json), &error.into()),
    };
    let out = Output::new(cli.json);
    let interrupt = Interrupt::new(out.farewell(&CliError::Interrupted));
    match run(cli.command, &out, &interrupt) {
        Ok(()) => ExitCode::SUCCESS,
        // Whatever broke then broke because of it: a child that got the same signal, a pipe without a reader.
        Err(_) if interrupt.is_cancelled() => fail(&out, &CliError::Interrupted),
        Err(error) => fail(&out, &error),
    }
}

fn run(command: Command, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    match command {
        Command::Models { command: ModelsCommand::Inspect(args) } => models::inspect(&args, out),
        Command::Models { command: ModelsCommand::List(args) } => models::list(&args, out),
        Command::Models { command: ModelsCommand::Verify(args) } => models::verify(&args, out, interrupt),
        Command::Doctor(args) => doctor::run(&args, out, interrupt),
        Command::Bench { command: BenchCommand::Kernels(args) } => bench::kernels(&args, out),
        Command::Bench { command: BenchCommand::Vae(args) } => bench::vae(&args, out),
        Command::Bench { command: BenchCommand::Scaling(args) } => bench::scaling(&args, out),
        Command::Plan(args) => plan::run(&args, out),
        #[cfg(feature = "gpu")]
        Command::Tune(args) => tune::run(&args, out),
        Command::Devices => devices::run(out),
        Command::Compare(args) => compare::run(&args, out, interrupt),
        Command::Probe(args) => media::probe(&args, out, interrupt),
        Command::Vae { command } => vae::run(&command, out, interrupt),
        Command::Completions(args) => {
            generate::completions(&args, out);
            Ok(())
        }
        Command::Man(args) => generate::man(&args, out),
    }
}

fn fail(out: &Output, error: &CliError) -> ExitCode {
    out.failed(error);
    ExitCode::from(error.exit_code())
}
