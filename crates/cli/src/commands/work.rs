//! `remaster work`: a task as one line of JSON on stdin, for programs that start this one. The end of stdin cancels it, and
//! a restoration obeys single bytes before, as `told` names them.

use std::io::BufRead;

use remaster::models::ListRequest;
use remaster::{Machine, Prepare, Task};

use super::{devices, film, restore};
use crate::args::ProgressMode;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::keys;
use crate::output::Output;
use crate::show::Show;

pub(crate) fn run(out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    // Before the end of stdin is watched for, as there is one reader.
    let task = read(std::io::stdin().lock())?;
    let control = interrupt.watch()?.control();
    match task {
        Task::Restore(request) => {
            let _hearing = keys::obey(interrupt, None)?;
            restore::restore(*request, ProgressMode::Json, out, interrupt)?;
        }
        Task::Plan(request) => {
            let plan = shown(*request, out, interrupt)?;
            out.result(&plan, || film::describe(&plan, out.is_verbose()));
        }
        Task::Still(request) => {
            let made = shown(*request, out, interrupt)?;
            out.result(&made, || format!("{} x {}", made.width, made.height));
        }
        Task::Probe { input, source } => {
            let probe = remaster::probe(&input, &source, &Machine::this(), control)?;
            out.result(&probe, String::new);
        }
        Task::Networks(models) => {
            let files = models.find(&Machine::this())?;
            out.result(&files, || files.join(", "));
        }
        Task::Models { folder } => {
            let models = shown(ListRequest { folder, all: false }, out, interrupt)?;
            out.result(&models, String::new);
        }
        Task::Devices => devices::run(out),
    }
    Ok(())
}

fn shown<T>(
    request: impl Prepare<Job = remaster::Job<T>>,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<T, CliError> {
    Ok(Show::new(ProgressMode::Json, out, interrupt).run(request)?)
}

fn read(from: impl BufRead) -> Result<Task, CliError> {
    let mut line = Vec::new();
    from.take(Task::MOST_BYTES).read_until(b'\n', &mut line).map_err(|source| CliError::Stdin { source })?;
    serde_json::from_slice(&line).map_err(|source| CliError::Task { source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_one_line_and_nothing_else() {
        let read = |text: &str| read(text.as_bytes());
        assert!(matches!(read("\"devices\"\n more"), Ok(Task::Devices)));
        assert!(matches!(read("{\"restore\":{\"input\":\"a\"}}\n"), Ok(Task::Restore(_))));
        for wrong in ["", "\n", "devices\n", "{\"restore\":{}}\n", "{\"restore\":{\"input\":\"a\",\"x\":1}}"]
        {
            assert!(matches!(read(wrong), Err(CliError::Task { .. })), "{wrong}");
        }
        let long = format!("\"{}\"", "x".repeat(Task::MOST_BYTES as usize));
        assert!(matches!(read(&long), Err(CliError::Task { .. })));
    }
}
