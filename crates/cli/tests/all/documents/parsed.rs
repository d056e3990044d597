//! Every command line of every document, and every example of the help, is one that the program understands.
//!
//! In blocks fenced as `sh` or `console` a command must parse as it stands, with all that it needs. In running text it may
//! be a part of one: arguments may be missing, words in capitals stand for something else, `a|b` for one of them, and
//! `[x]` for x. Nothing is run: `REMASTER_TEST_PANIC` ends the program behind the parser.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use super::repository;
use crate::desk::Desk;

/// A command line without the program's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Typed {
    words: Vec<String>,
    /// From a block: everything that it needs is there.
    whole: bool,
}

/// Words of a line of a shell, command by command: quotes are taken off, and comments and files behind `>` left out.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote, mut begun) = (String::new(), None, false);
    for letter in line.chars().chain([' ']) {
        match quote {
            Some(end) if letter == end => quote = None,
            None if letter == '\'' || letter == '"' => (quote, begun) = (Some(letter), true),
            None if letter.is_whitespace() => {
                let ended = std::mem::take(&mut word);
                match ended.as_str() {
                    _ if !std::mem::take(&mut begun) => {}
                    "|" | "||" | "&&" | ";" => commands.push(Vec::new()),
                    _ if ended.starts_with('#') => break,
                    _ => commands.last_mut().unwrap().push(ended),
                }
            }
            _ => (word, begun) = (word + &letter.to_string(), true),
        }
    }
    for words in &mut commands {
        let end = words.iter().position(|word| word.starts_with('>')).unwrap_or(words.len());
        words.truncate(end);
    }
    commands
}

/// Those of a line that start with the program.
fn ours(line: &str, whole: bool) -> Vec<Typed> {
    let ours = |words: Vec<String>| match words.split_first() {
        Some((program, words)) if program == "remaster" => Some(words.to_vec()),
        _ => None,
    };
    commands(line).into_iter().filter_map(ours).map(|words| Typed { words, whole }).collect()
}

/// All of a document in Markdown.
fn typed(document: &str) -> Vec<Typed> {
    let (mut found, mut block, mut line) = (Vec::new(), None, String::new());
    let mut text = String::new();
    for part in document.lines() {
        if let Some(fence) = part.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(fence.trim()) };
            continue;
        }
        match block {
            None => text = text + part + "\n",
            Some("sh" | "console") => {
                let part = part.trim();
                line += part.strip_prefix("$ ").unwrap_or(part);
                match line.strip_suffix('\\') {
                    Some(begun) => line = begun.to_owned(),
                    None => found.extend(ours(&std::mem::take(&mut line), true)),
                }
            }
            Some(_) => {}
        }
    }
    let spans = text.split('`').skip(1).step_by(2).filter(|span| span.starts_with("remaster "));
    found.extend(spans.flat_map(|span| {
        let span: Vec<&str> = span.split_whitespace().filter(|word| *word != "...").collect();
        let one = |word: &&str| word.trim_matches(['[', ']']).split('|').next().map(str::to_owned);
        ours(&span.iter().filter_map(one).collect::<Vec<_>>().join(" "), false)
    }));
    found
}

/// Whether a word stands for something else: `FILE`, `N`.
fn is_placeholder(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c == '-')
        && word.starts_with(char::is_alphabetic)
}

struct Program {
    desk: Desk,
}

impl Program {
    /// The exit code and what was said.
    fn run(&self, words: &[String]) -> (Option<i32>, String) {
        let out = Command::new(env!("CARGO_BIN_EXE_remaster"))
            .args(words)
            .current_dir(&*self.desk)
            .envs(["XDG_CONFIG_HOME", "XDG_CACHE_HOME"].map(|name| (name, &*self.desk)))
            .env("REMASTER_TEST_PANIC", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (
            out.status.code(),
            [out.stderr, out.stdout].map(|text| String::from_utf8_lossy(&text).into_owned()).concat(),
        )
    }

    /// Why it is refused.
    fn refusal(&self, typed: &Typed) -> Option<String> {
        let (code, said) = self.run(&typed.words);
        // The panic is asked for, and help is what some commands ask for.
        if code == Some(101) || code == Some(0) {
            return None;
        }
        let mut names = typed.words.iter().filter(|word| is_placeholder(word));
        let excused =
            names.any(|name| said.contains(&format!("'{name}'")) || said.contains(&format!("`{name}`")));
        // `--help` at the end ends the parser before it asks for what is missing.
        let partly = || self.run(&[&typed.words[..], &["--help".to_owned()]].concat()).0 == Some(0);
        (typed.whole || !(excused || partly())).then_some(said)
    }

    /// Examples in the help of a command and of those below it: two spaces, the command, two spaces and what it does.
    fn examples(&self, command: &[String], found: &mut Vec<(String, Typed)>) {
        let (_, help) = self.run(&[command, &["--help".to_owned()]].concat());
        let mut inside = false;
        let mut below = Vec::new();
        for line in help.lines() {
            if !line.starts_with(' ') {
                inside = line == "Commands:";
            } else if let Some(example) = line.strip_prefix("  remaster ") {
                let line = format!("remaster {}", example.split("  ").next().unwrap_or_default());
                found.extend(
                    ours(&line, true).into_iter().map(|typed| (format!("help of {command:?}"), typed)),
                );
            } else if let Some(name) = line.strip_prefix("  ").filter(|l| inside && !l.starts_with(' ')) {
                below.extend(name.split(' ').next().filter(|name| *name != "help").map(str::to_owned));
            }
        }
        below.into_iter().for_each(|name| self.examples(&[command, &[name]].concat(), found));
    }
}

/// Documents with commands: Markdown of the root, `docs`, the site and packages, and the forms of GitHub.
fn documents(folder: &Path, deep: bool, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() && deep {
            documents(&path, true, found);
        } else if path.extension().is_some_and(|ending| ending == "md" || ending == "yml") {
            found.push(path);
        }
    }
}

#[test]
fn every_command_of_every_document_is_understood() {
    let root = repository();
    let mut paths = Vec::new();
    documents(&root, false, &mut paths);
    for folder in ["docs", "site", ".github", "testdata", "crates/cli", "crates/remaster"] {
        documents(&root.join(folder), folder != "crates/cli" && folder != "crates/remaster", &mut paths);
    }
    let program = Program { desk: Desk::bare() };
    let mut all = Vec::new();
    program.examples(&[], &mut all);
    assert!(all.len() >= 8, "{all:?}");
    for path in paths {
        let place = path.strip_prefix(&root).unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        all.extend(typed(&text).into_iter().map(|typed| (place.clone(), typed)));
    }
    let mut known = BTreeSet::new();
    all.retain(|(_, typed)| known.insert(typed.clone()));
    assert!(all.len() >= 120, "{}", all.len());
    if cfg!(not(feature = "gpu")) {
        all.retain(|(_, typed)| typed.words.first().is_none_or(|word| word != "tune"));
    }
    // Each takes a tenth of a second, most of it to check the tree of commands.
    let (next, wrong) = (Mutex::new(all.iter()), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((place, typed)) = { next.lock().unwrap().next() } {
                    if let Some(said) = program.refusal(typed) {
                        let line = typed.words.join(" ");
                        wrong.lock().unwrap().push(format!("{place}: remaster {line}\n{said}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_are_found_in_blocks_and_in_text() {
    let found = |text: &str| -> Vec<(String, bool)> {
        typed(text).into_iter().map(|typed| (typed.words.join("|"), typed.whole)).collect()
    };
    let block = "```sh\nremaster a.mkv --video 'x -y 1' > out # why\nffmpeg - | remaster - -o - && remaster b \\\n  --c\n\
                 cd remaster\n```\n";
    let whole = ["a.mkv|--video|x -y 1", "-|-o|-", "b|--c"].map(|words| (words.to_owned(), true));
    assert_eq!(found(block), whole);
    let text = "Type `remaster bench vae encode|decode [--json] ... --dtype TYPE` or `remasterer x`.\n```text\nremaster no\n```\n";
    assert_eq!(found(text), [("bench|vae|encode|--json|--dtype|TYPE".to_owned(), false)]);
    assert!(is_placeholder("FILE") && is_placeholder("N") && !is_placeholder("3b") && !is_placeholder("-v"));
}
