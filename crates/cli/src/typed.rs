//! The parser's own view of what was typed.

use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Command};

/// What an error says about one thing.
pub(crate) fn said(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// The words of the command that was typed, and what was typed for it.
pub(crate) fn leaf(matches: &ArgMatches) -> (Vec<String>, &ArgMatches) {
    let (mut words, mut matches) = (Vec::new(), matches);
    while let Some((word, inner)) = matches.subcommand() {
        words.push(word.to_owned());
        matches = inner;
    }
    (words, matches)
}

/// The command that words lead to.
pub(crate) fn command<'a>(cli: &'a Command, words: &[String]) -> &'a Command {
    words.iter().fold(cli, |command, word| command.find_subcommand(word).unwrap_or(command))
}
