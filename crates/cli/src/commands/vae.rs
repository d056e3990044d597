//! `remaster vae`.

use std::path::Path;

use remaster::numbers::count;
use remaster::{VaeOutcome, VaeWork};

use super::{check_stdout, conclude, took};
use crate::args::VaeCommand;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::{Summary, Summed};
use crate::show::Show;

pub(crate) fn run(command: &VaeCommand, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let (args, request) = (command.args(), command.request());
    // Latents have no name without an ending.
    if request.work != VaeWork::Encode {
        check_stdout(Some(&request.output), out)?;
    }
    let mut show = Show::new(args.progress.mode, out, interrupt.watch()?);
    let outcome = &show.run(request)?;
    let summary = &show.finish();
    let text = || if out.is_verbose() { block(outcome, summary) } else { line(outcome, summary) };
    conclude(&Summed { outcome, summary }, text, Path::new(&outcome.output), args.progress.mode, out);
    Ok(())
}

fn line(outcome: &VaeOutcome, summary: &Summary) -> String {
    let (frames, took) = (count(outcome.frames, "frame"), took(summary.total_seconds));
    let output = if outcome.output == "-" { "stdout" } else { &outcome.output };
    let psnr = outcome.psnr.map(|p| format!(", PSNR {p:.2} dB against the input")).unwrap_or_default();
    format!("wrote {output}: {frames}, {} x {}, in {took}{psnr}", outcome.width, outcome.height)
}

fn block(outcome: &VaeOutcome, summary: &Summary) -> String {
    let mut text = summary.to_string();
    if let Some(psnr) = outcome.psnr {
        text += &format!("psnr     {psnr:.2} dB against the input\n");
    }
    text
}
