//! The binary `remaster`: arguments in, results on stdout, messages on stderr.

mod args;
mod commands;
mod config;
mod drivers;
mod environment;
mod error;
mod generate;
mod habits;
mod help;
mod interrupt;
mod keys;
#[cfg(debug_assertions)]
mod kill;
mod names;
mod options;
mod output;
mod progress;
mod show;
mod stdin;
mod typed;
#[cfg(windows)]
mod windows;

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Cli, Command, GenerateCommand, ModelsCommand, ProgressMode, UnitCommand};
use commands::{models, unit};
use config::Refusal;
use error::CliError;
use interrupt::Interrupt;
use output::Output;
use remaster::{Class, Error};

fn main() -> ExitCode {
    #[cfg(windows)]
    windows::settle();
    drivers::silence();
    remaster::machine::settle_temporary();
    #[cfg(debug_assertions)]
    kill::arm();
    let typed: Vec<_> = std::env::args_os().collect();
    #[cfg(feature = "gpu")]
    if let Some(code) = drivers::listed(&typed) {
        return code;
    }
    // They could not be parsed yet, so `--json` is looked for by hand.
    let json = typed.iter().any(|a| a == "--json");
    let out = Output::new(json);
    out.report_panics();
    // Unwinding removes half files and ends children before this process ends.
    std::panic::catch_unwind(AssertUnwindSafe(|| start(typed, &out))).unwrap_or_else(|_| {
        out.crashed();
        ExitCode::from(Class::Internal.exit_code())
    })
}

fn start(typed: Vec<OsString>, out: &Output) -> ExitCode {
    let command = help::short(Cli::command(), &typed);
    let typed = names::as_typed(&command, typed);
    let set = environment::set();
    let parsed = config::parse(command, typed, config::home(), &set).and_then(|matches| {
        if progress::mode_of(&matches) == ProgressMode::Json {
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
    out.set(cli.json, cli.verbose, cli.quiet);
    environment::warnings().iter().for_each(|warning| out.warn(warning));
    #[cfg(debug_assertions)]
    if std::env::var_os("REMASTER_TEST_PANIC").is_some() {
        #[expect(clippy::panic, reason = "shows in tests how a panic ends; no part of a release")]
        {
            panic!("asked for by REMASTER_TEST_PANIC");
        }
    }
    let is_work = matches!(cli.command, Command::Work);
    if is_work {
        out.set(true, cli.verbose, cli.quiet);
        out.screen().json_lines();
    }
    let with_stdin = cli.cancel_on_stdin_close || is_work;
    if with_stdin && let Some(what) = cli.command.ignores_stdin_close() {
        return fail(out, &Error::NoEffect { flag: "--cancel-on-stdin-close", what }.into());
    }
    let interrupt = Interrupt::new(out.farewell(&Error::Interrupted.into()), with_stdin);
    match run(cli.command, out, &interrupt).and_then(|()| out.delivered()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whatever broke then broke because of it: a child that got the same signal, a pipe without a reader.
        Err(_) if interrupt.is_cancelled() => fail(out, &Error::Interrupted.into()),
        Err(error) => fail(out, &error),
    }
}

fn run(command: Command, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    match command {
        Command::Models { command: ModelsCommand::List(args) } => models::show_list(&args, out, interrupt),
        Command::Models { command: ModelsCommand::Pull(args) } => models::download(&args, out, interrupt),
        Command::Models { command: ModelsCommand::Verify(args) } => models::check(&args, out, interrupt),
        Command::Models { command: ModelsCommand::Inspect(args) } => models::show_file(&args, out),
        Command::Restore(args) => commands::restore::run(&args, out, interrupt),
        Command::Batch(args) => commands::batch::run(&args, out, interrupt),
        #[cfg(feature = "serve")]
        Command::Serve(args) => commands::serve::run(&args, out, interrupt),
        Command::Unit { command: UnitCommand::Run(args) } => unit::run(&args, out, interrupt),
        Command::Unit { command: UnitCommand::Status(args) } => unit::status(&args, out, interrupt),
        Command::Assemble(args) => unit::assemble(&args, out, interrupt),
        Command::Verify(args) => commands::verify::run(&args, out, interrupt),
        Command::Redecode(args) => commands::redecode::run(&args, out, interrupt),
        Command::Preview(args) => commands::preview::run(&args, out, interrupt),
        Command::Doctor(args) => commands::doctor::run(&args, out, interrupt),
        Command::Bench { command } => commands::bench::run(&command, out, interrupt),
        Command::Plan(args) => commands::plan::run(&args, out, interrupt),
        #[cfg(feature = "gpu")]
        Command::Tune(args) => commands::tune::run(&args, out, interrupt),
        Command::Devices => {
            commands::devices::run(out);
            Ok(())
        }
        Command::Licenses => {
            commands::licenses::run(out);
            Ok(())
        }
        Command::Work => commands::work::run(out, interrupt),
        Command::Compare(args) => commands::compare::run(&args, out, interrupt),
        Command::Scenes(args) => commands::scenes::run(&args, out, interrupt),
        Command::Probe(args) => commands::probe::run(&args, out, interrupt),
        Command::Vae { command } => commands::vae::run(&command, out, interrupt),
        Command::Completions { shell } => {
            generate::completions(shell, out);
            Ok(())
        }
        Command::Man { dir } => generate::man(dir.as_deref(), out),
        Command::Generate { command: GenerateCommand::Options } => {
            options::print(out);
            Ok(())
        }
    }
}

fn fail(out: &Output, error: &CliError) -> ExitCode {
    out.failed(error);
    ExitCode::from(error.exit_code())
}
