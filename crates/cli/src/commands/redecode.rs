//! `remaster redecode`.

use std::path::Path;

use remaster::Machine;

use super::{check_stdout, conclude, film};
use crate::args::RedecodeArgs;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Summed;
use crate::show::Show;

pub(crate) fn run(args: &RedecodeArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let control = interrupt.watch()?;
    let request = args.request();
    if let Some(output) = &request.output {
        check_stdout(output, out)?;
    }
    let mut show = Show::new(args.progress.mode, out, interrupt);
    let outcome = &remaster::redecode(&request, &Machine::this(), &control, &mut |event| show.event(event))?;
    let summary = &show.finish();
    let text = || match out.is_verbose() {
        true => summary.to_string(),
        false => film::wrote(
            &outcome.output,
            outcome.frames,
            &outcome.shots,
            [outcome.width, outcome.height],
            summary,
        ),
    };
    conclude(&Summed { outcome, summary }, text, Path::new(&outcome.output), args.progress.mode, out);
    Ok(())
}
