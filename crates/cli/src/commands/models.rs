//! `remaster models`.

use std::path::PathBuf;

use remaster::Error;
use remaster::models::{
    Inspected, InstalledModels, ListRequest, PullRequest, Pulled, Sizes, VerifiedModels, VerifyRequest,
    inspect, shown,
};
use remaster::numbers::count;
use remaster_plan::bytes;

use crate::args::{InspectArgs, ListArgs, ProgressMode, PullArgs, VerifyArgs};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::show::Show;

pub(crate) fn show_list(args: &ListArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let request = ListRequest { folder: args.dirs.model_dir.clone(), all: args.all };
    let report = Show::new(ProgressMode::None, out, interrupt).run(request)?;
    if report.files.is_empty() {
        out.say("no model files found; searched");
        for place in &report.searched {
            let missing = if place.exists { "" } else { ", missing" };
            out.say(format_args!("  {} ({}){missing}", place.folder, place.why));
        }
        out.say(
            "get the VAE with `remaster models pull vae`, and a transformer with `remaster models pull 3b`",
        );
        out.say(
            "or put ema_vae_fp16.safetensors into one of these folders, or name another with --model-dir",
        );
    }
    if report.others > 0 {
        let files = count(report.others, "file");
        out.say(format_args!("{files} of other networks not listed; show with --all"));
    }
    out.result(&report, || describe_list(&report));
    Ok(())
}

pub(crate) fn download(args: &PullArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let request =
        PullRequest { model: args.model, quant: args.quant.clone(), folder: args.dirs.model_dir.clone() };
    let report = Show::new(args.progress.mode, out, interrupt.watch()?).run(request)?;
    out.conclude(&report, || describe_pulled(&report));
    Ok(())
}

pub(crate) fn check(args: &VerifyArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let request = VerifyRequest { files: args.files.clone(), folder: args.dirs.model_dir.clone() };
    let report = Show::new(args.progress.mode, out, interrupt.watch()?).run(request)?;
    out.result(&report, || describe_verified(&report));
    Ok(report.check()?)
}

pub(crate) fn show_file(args: &InspectArgs, out: &Output) -> Result<(), CliError> {
    let report = inspect(&args.file, args.tensors)?;
    out.result(&report, || describe_file(&report));
    match report.unusable {
        Some(reason) => Err(Error::Unusable { path: PathBuf::from(&args.file), reason }.into()),
        None => Ok(()),
    }
}

fn describe_file(report: &Inspected) -> String {
    let formats: Vec<String> = report.dtypes.iter().map(|(d, n)| format!("{d} x {n}")).collect();
    let formats = formats.join(", ");
    let Inspected { file, format, bytes, sha256, description, tensors, parameters, .. } = report;
    let mut text = format!(
        "file        {file}\nformat      {format}\nbytes       {bytes}\nsha256      {sha256}\n\
         kind        {description}\ntensors     {tensors} ({formats})\nparameters  {parameters}\n"
    );
    if let Some(Sizes { width, head, blocks, hidden, text: columns, .. }) = report.sizes {
        text += &format!(
            "sizes       width {width}, {blocks} blocks, heads of {head}, MLP {hidden}, text {columns}\n"
        );
    }
    if let Some(inside) = report.text_embedding {
        let inside = if inside { "in the file" } else { "not in the file; pos_emb.pt has it" };
        text += &format!("embedding   {inside}\n");
    }
    for (key, value) in report.metadata.iter().take(16) {
        let short: String = value.chars().take(100).collect();
        text += &format!("metadata    {key} = {short}\n");
    }
    if let Some(fit) = &report.fit {
        text += &format!("fit         {fit}\n");
    }
    for e in &report.list {
        text += &format!("{:5} {:?} {}\n", e.dtype, e.shape, e.name);
    }
    text
}

fn describe_list(report: &InstalledModels) -> String {
    let mut text = String::new();
    for e in &report.files {
        let (kind, precision) = (e.kind.unwrap_or("-"), e.precision.as_deref().unwrap_or("-"));
        text += &format!("{kind:8} {precision:14} {:>11}  {}\n", bytes(e.bytes), shown(&e.file));
        let revision = e.revision.map(|revision| match revision {
            "first" => "ByteDance's first 3B weights".to_owned(),
            date => format!("ByteDance's 3B weights of {date}"),
        });
        let warning = e.warning.as_ref().map(|warning| format!("warning: {warning}"));
        for note in [revision, e.reason.clone(), warning].into_iter().flatten() {
            text += &format!("{:35}  {note}\n", "");
        }
    }
    text
}

fn describe_pulled(report: &Pulled) -> String {
    let mut text = String::new();
    for e in &report.files {
        let word = if e.downloaded { "downloaded" } else { "installed" };
        text += &format!("{word:10} {:8} {:>11}  {}\n", e.model, bytes(e.bytes), shown(&e.file));
    }
    text
}

fn describe_verified(report: &VerifiedModels) -> String {
    let mut text = String::new();
    for e in &report.files {
        text += &format!("{:10} {:>11}  {}\n", e.verdict.word(), bytes(e.bytes), shown(&e.file));
        text += &format!("{:24}{}\n{:24}sha256 {}\n", "", e.reason, "", e.sha256);
    }
    text
}
