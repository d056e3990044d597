//! `remaster completions` and `remaster man`: made from the same tree as the parser and the help.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use remaster::Error;
use remaster_media::place;
use serde_json::json;

use crate::args::Cli;
use crate::error::CliError;
use crate::output::Output;

pub(crate) fn completions(shell: Shell, out: &Output) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "remaster", &mut script);
    out.raw(&script);
}

pub(crate) fn man(dir: Option<&Path>, out: &Output) -> Result<(), CliError> {
    let mut cli = Cli::command();
    cli.build();
    let mut pages = Vec::new();
    collect(&cli, "remaster".into(), &mut pages)?;
    let Some(dir) = dir else {
        let (_, page) = pages.swap_remove(0);
        let text = String::from_utf8_lossy(&page).into_owned();
        out.result(&json!({ "page": text }), || text.clone());
        return Ok(());
    };
    remaster_disk::make_folders(dir).map_err(|source| Error::Write { path: dir.to_owned(), source })?;
    let mut files = Vec::new();
    for (name, page) in pages {
        let path = dir.join(format!("{name}.1"));
        place::write(&path, &page, true).map_err(Error::from)?;
        files.push(path.display().to_string());
    }
    out.result(&json!({ "files": files }), || files.join("\n"));
    Ok(())
}

/// A page for `command` and for everything below it.
fn collect(command: &Command, name: String, pages: &mut Vec<(String, Vec<u8>)>) -> Result<(), CliError> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .render(&mut page)
        .map_err(|source| Error::Write { path: name.clone().into(), source })?;
    pages.push((name.clone(), page));
    for inner in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        collect(inner, format!("{name}-{}", inner.get_name()), pages)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `vae encode` and so on.
    fn commands(command: &Command, before: &str, all: &mut Vec<String>) {
        for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            let words = format!("{before} {}", inner.get_name()).trim().to_owned();
            commands(inner, &words, all);
            all.push(words);
        }
    }

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_shell_completes_every_command() {
        let mut all = Vec::new();
        commands(&Cli::command(), "", &mut all);
        assert!(all.len() >= 15, "{all:?}");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell, Shell::Elvish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "remaster", &mut script);
            let script = String::from_utf8(script).unwrap();
            for words in &all {
                let last = words.split(' ').next_back().unwrap();
                assert!(script.contains(last), "{shell}: {words}");
            }
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let mut cli = Cli::command();
        cli.build();
        let mut pages = Vec::new();
        collect(&cli, "remaster".into(), &mut pages).unwrap();
        let mut all = Vec::new();
        commands(&Cli::command(), "remaster", &mut all);
        all.push("remaster".into());
        let mut names: Vec<String> = all.iter().map(|words| words.replace(' ', "-")).collect();
        let mut made: Vec<String> = pages.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        made.sort();
        assert_eq!(names, made);
        for (name, page) in pages {
            let page = String::from_utf8(page).unwrap();
            assert!(page.contains(".SH NAME") && page.contains(".TH"), "{name}");
        }
    }
}
