//! `remaster models`.

use std::path::PathBuf;

use remaster::Error;
use remaster::models::{
    BuiltInModel, Inspected, InstalledModels, ListRequest, PullRequest, Pulled, SearchedFolder, Sizes,
    VerifiedModels, VerifyRequest, inspect, shown,
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
    out.result(&report, || describe_list(&report));
    if report.files.is_empty() {
        say_where(&report, out);
    }
    if report.others > 0 {
        let files = count(report.others, "file");
        out.say(format_args!("{files} of other networks not listed; show with --all"));
    }
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

/// Says where files of models are expected. Folders that are missing are shown to who asks for details.
fn say_where(report: &InstalledModels, out: &Output) {
    out.say("no model files found; get SeedVR2 with `remaster models pull 3b`, or name its folder with --model-dir");
    let shown = |place: &&SearchedFolder| place.exists || out.is_verbose();
    for place in report.searched.iter().filter(shown) {
        let missing = if place.exists { "" } else { ", missing" };
        out.say(format_args!("  searched {} ({}){missing}", place.folder, place.why));
    }
    let missing = report.searched.iter().filter(|place| !place.exists).count();
    if missing > 0 && !out.is_verbose() {
        let folders = count(missing, "folder");
        out.say(format_args!("  {folders} of the search are missing; -v lists them"));
    }
}

fn describe_list(report: &InstalledModels) -> String {
    let mut text = String::new();
    for BuiltInModel { model, public_name, kind, bytes: size, .. } in &report.built_in {
        text += &format!(
            "{kind:8} {:14} {:>11}  {model} (inside the program: {public_name})\n",
            "F16",
            bytes(*size)
        );
    }
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
