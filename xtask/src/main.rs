//! `cargo xtask check` before a pull request, `cargo xtask parity` after a kernel changed.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool that talks")]

mod cycles;
mod dependencies;
mod dist;
mod goldens;
mod ignored;
mod isa;
mod layers;
mod not_run;
mod parity;
mod site;
mod suite;
mod versions;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const HELP: &str = "usage: cargo xtask COMMAND

  check    everything that must hold before a pull request
  rules    only the quick part of it: dependency table, list of dependencies, goldens by hash, marks of ignored tests, versions, links, imports
  tests [ARGUMENT...]
           only the tests; arguments are those of `cargo nextest run`
  cpu-only [ARGUMENT...]
           the tests of the command line with the program that has no GPU backend
  ignored WORD...
           the tests that are ignored for a reason that starts with one of these words
  left [WORD...]
           names the tests that are ignored for another reason than these words
  site PROGRAM
           builds the site into target/site with a program `remaster` that is there, and checks its links;
           scripts/site does it with everything that it needs
  site --check
           only the part that needs no program: links of documents, and a place in the site for each
  parity   runs every golden on this machine and writes docs/parity.md
  isa      compiles the kernels for cards that are not there and writes docs/gpu-isa.md, its record and ceilings
  isa --gate
           fails if what two of those cards get is worse than recorded
  dist [--only PART,...]
           archives, wheels, packages, image and installers in target/dist; parts are linux-x86-64, linux-aarch64,
           linux-x86-64-static, windows-x86-64, macos-aarch64, macos-x86-64, wheel, deb, image, installers, packages";

/// What every task ends with: nothing, or a reason.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check(),
        ["rules"] => rules(),
        ["tests", ref words @ ..] => suite::run(&root(), words),
        ["cpu-only", ref words @ ..] => suite::run_of(&root(), &suite::CPU_ONLY, words),
        ["ignored", ref words @ ..] => ignored::run(&root(), words),
        ["left", ref words @ ..] => {
            ignored::left(&root(), words).map(|left| left.iter().for_each(|line| println!("{line}")))
        }
        ["site", "--check"] => site::check(&root()),
        ["site", program] => site::build(&root(), program),
        ["parity"] => parity::write(&root()),
        ["isa"] => isa::write(&root()),
        ["isa", "--gate"] => isa::gate(&root()),
        ["dist", ref words @ ..] => dist::run(&root(), words),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => Err(format!("unknown command\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// The repository.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

fn rules() -> Outcome {
    let root = root();
    let workspace = workspace::read(&root)?;
    step("dependency table", || layers::check(&root, &workspace))?;
    step("list of dependencies", || dependencies::check(&root, &workspace))?;
    step("goldens by hash", || goldens::check(&root.join("testdata")))?;
    step("copies of goldens", || {
        goldens::check_copies(&root.join("testdata"), &root.join("crates/doctor/goldens"))
    })?;
    step("marks of ignored tests", || ignored::check(&root))?;
    step("one spelling of what was not run", || not_run::check(&root))?;
    step("programs of tests", || suite::check(&root))?;
    step("one version", || versions::check(&root))?;
    step("links of documents", || site::check(&root))?;
    step("circles of imports", || cycles::check(&root))?;
    step("parity lists every golden", || parity::check(&root))
}

fn check() -> Outcome {
    step("format", || cargo(&["fmt", "--all", "--check"]))?;
    rules()?;
    step("clippy", || {
        cargo(&[&["clippy", "--all-targets"], &suite::WHAT[..], &["--", "-D", "warnings"]].concat())
    })?;
    step("tests", || suite::run(&root(), &[]))?;
    // nextest does not run the examples in comments.
    step("examples", || cargo(&[&["test", "--doc"], &suite::WHAT[..]].concat()))?;
    step("documentation", || cargo(&[&["doc", "--no-deps"], &suite::WHAT[..]].concat()))
}

/// Runs one part, names it, and says how long it took.
fn step(name: &str, work: impl FnOnce() -> Outcome) -> Outcome {
    println!("== {name}");
    let started = Instant::now();
    work().map_err(|reason| format!("{name}: {reason}"))?;
    println!("== {name}: ok, {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// The cargo that runs this task.
fn tool() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

fn cargo(args: &[&str]) -> Outcome {
    let mut command = Command::new(tool());
    command.args(args).current_dir(root()).env("RUSTDOCFLAGS", "-D warnings");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`cargo {}` ended with {status}", args.join(" "))),
        Err(error) => Err(format!("`cargo {}` cannot be run: {error}", args.join(" "))),
    }
}
