//! The binary `remaster`: arguments in, results on stdout, words for people on stderr.

mod args;
mod batch;
mod bench;
mod cache;
mod compare;
mod config;
mod destination;
mod devices;
mod dit;
mod doctor;
mod emit;
mod environment;
mod error;
mod estimate;
mod generate;
mod habits;
mod hashes;
mod help;
mod hush;
mod interrupt;
#[cfg(debug_assertions)]
mod kill;
mod machine;
mod media;
mod memory;
mod models;
mod network;
mod numbers;
mod output;
mod plan;
mod plan_command;
mod plot;
mod probe;
mod progress;
mod rates;
mod report;
mod restore;
mod scenes;
mod spill;
mod stdin;
mod tensors;
#[cfg(feature = "gpu")]
mod tune;
mod units;
mod vae;
mod video;

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{BenchCommand, Cli, Command, ModelsCommand, UnitCommand};
use config::Refusal;
use error::CliError;
use interrupt::Interrupt;
use output::Output;
use progress::ProgressMode;

fn main() -> ExitCode {
    hush::drivers();
    spill::settle_temporary();
    #[cfg(debug_assertions)]
    kill::arm();
    let typed: Vec<_> = std::env::args_os().collect();
    // They could not be parsed yet, so `--json` is looked for by hand.
    let json = typed.iter().any(|a| a == "--json");
    let out = Output::new(json);
    out.report_panics();
    // Unwinding removes half files and ends children before this process ends.
    std::panic::catch_unwind(AssertUnwindSafe(|| start(typed, &out))).unwrap_or_else(|_| {
        out.crashed();
        ExitCode::from(error::INTERNAL)
    })
}

fn start(typed: Vec<OsString>, out: &Output) -> ExitCode {
    let command = help::short(Cli::command(), &typed);
    let typed = restore::as_typed(&command, typed);
    let set = environment::set();
    let parsed = config::parse(command, typed, config::home(), &set).and_then(|matches| {
        if ProgressMode::of(&matches) == ProgressMode::Json {
            out.screen().json_lines();
        }
        Cli::from_arg_matches(&matches).map_err(Refusal::Usage)
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(Refusal::Usage(error)) => return output::usage(&error, None),
        Err(Refusal::Habit(error, instead)) => return output::usage(&error, Some(&instead)),
        Err(Refusal::Config(error)) => return fail(out, &error.into()),
    };
    out.set_json(cli.json);
    out.set_level(cli.verbose, cli.quiet);
    environment::warn(out);
    #[cfg(debug_assertions)]
    if std::env::var_os("REMASTER_TEST_PANIC").is_some() {
        #[expect(clippy::panic, reason = "shows in tests how a panic ends; no part of a release")]
        {
            panic!("asked for by REMASTER_TEST_PANIC");
        }
    }
    let mut interrupt = Interrupt::new(out.farewell(&CliError::Interrupted));
    if cli.cancel_on_stdin_close {
        if let Some(what) = cli.command.ignores_stdin_close() {
            return fail(out, &CliError::NoEffect { flag: "--cancel-on-stdin-close", what });
        }
        interrupt.also_on_stdin_close();
    }
    match run(cli.command, out, &interrupt).and_then(|()| out.delivered()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whatever broke then broke because of it: a child that got the same signal, a pipe without a reader.
        Err(_) if interrupt.is_cancelled() => fail(out, &CliError::Interrupted),
        Err(error) => fail(out, &error),
    }
}

fn run(command: Command, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    match command {
        Command::Models { command: ModelsCommand::List(args) } => models::list(&args, out),
        Command::Models { command: ModelsCommand::Pull(args) } => models::pull(&args, out, interrupt),
        Command::Models { command: ModelsCommand::Verify(args) } => models::verify(&args, out, interrupt),
        Command::Models { command: ModelsCommand::Inspect(args) } => models::inspect(&args, out),
        Command::Restore(args) => restore::run(&args, out, interrupt),
        Command::Batch(args) => batch::run(&args, out, interrupt),
        Command::Unit { command: UnitCommand::Run(args) } => units::run(&args, out, interrupt),
        Command::Unit { command: UnitCommand::Status(args) } => units::status(&args, out, interrupt),
        Command::Assemble(args) => units::assemble(&args, out, interrupt),
        Command::Verify(args) => units::verify(&args, out, interrupt),
        Command::Redecode(args) => restore::redecode(&args, out, interrupt),
        Command::Preview(args) => restore::preview(&args, out, interrupt),
        Command::Doctor(args) => doctor::run(&args, out, interrupt),
        Command::Bench { command: BenchCommand::Kernels(args) } => bench::kernels(&args, out),
        #[cfg(feature = "gpu")]
        Command::Bench { command: BenchCommand::Card(args) } => bench::card(&args, out),
        Command::Bench { command: BenchCommand::Vae(args) } => bench::vae(&args, out),
        Command::Bench { command: BenchCommand::Dit(args) } => bench::dit(&args, out),
        Command::Bench { command: BenchCommand::Scaling(args) } => bench::scaling(&args, out),
        Command::Plan(args) => plan_command::run(&args, out, interrupt),
        #[cfg(feature = "gpu")]
        Command::Tune(args) => tune::run(&args, out),
        Command::Devices => devices::run(out),
        Command::Compare(args) => compare::run(&args, out, interrupt),
        Command::Scenes(args) => scenes::run(&args, out, interrupt),
        Command::Probe(args) => probe::run(&args, out, interrupt),
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
