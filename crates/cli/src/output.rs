//! The only place that prints. A reader that went away (`| head`) is no failure of ours; a result that is lost to a
//! full disk is. `println!` would panic at both.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Serialize;
use serde_json::json;

use remaster::{Class, with_causes};

use crate::error::{self, CliError};

/// The kind of the line that ends a run which was asked to stop: no error in text, one in JSON.
const STOPPED: &str = "stopped";

/// Kind and exit code of an error.
type Why = (&'static str, u8);

/// What a panic is called.
const BUG: &str = "internal error, please report it at https://github.com/remaster-video/remaster/issues";

/// Where results and words go. With `--json` stdout gets exactly one document, whatever happens.
pub(crate) struct Output {
    json: AtomicBool,
    verbose: AtomicBool,
    quiet: AtomicBool,
    answered: Arc<AtomicBool>,
    /// Why the result did not get where it should.
    lost: Mutex<Option<io::Error>>,
    screen: Screen,
    /// The first panic, if there was one.
    panic: Arc<OnceLock<String>>,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Output {
            json: json.into(),
            verbose: AtomicBool::default(),
            quiet: AtomicBool::default(),
            answered: Arc::default(),
            lost: Mutex::default(),
            screen: Screen::new(io::stderr()),
            panic: Arc::default(),
        }
    }

    /// The same for one of several runs: lines of text, and no document of its own.
    pub(crate) fn of_one(&self) -> Self {
        Output {
            verbose: self.is_verbose().into(),
            // Stdout is for the document of all runs.
            quiet: (self.is_quiet() || self.is_json()).into(),
            screen: self.screen.clone(),
            panic: Arc::clone(&self.panic),
            ..Output::new(false)
        }
    }

    /// Says whether JSON, details or nothing but errors were asked for, once all arguments are known.
    pub(crate) fn set(&self, json: bool, verbose: bool, quiet: bool) {
        self.json.store(json, Ordering::SeqCst);
        self.verbose.store(verbose, Ordering::SeqCst);
        self.quiet.store(quiet, Ordering::SeqCst);
        self.screen.lock().quiet = quiet;
    }

    /// Whether details were asked for.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose.load(Ordering::SeqCst)
    }

    /// Whether only errors were asked for.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::SeqCst)
    }

    /// A line in verbose mode.
    pub(crate) fn detail(&self, line: impl Display) {
        if self.is_verbose() {
            self.say(line);
        }
    }

    /// Something that may not be what a person wants.
    pub(crate) fn warn(&self, line: impl Display) {
        self.screen.line("warning", line);
    }

    /// Whether stdout is for a JSON document.
    pub(crate) fn is_json(&self) -> bool {
        self.json.load(Ordering::SeqCst)
    }

    /// From now on a panic is one line on stderr, like any other error.
    pub(crate) fn report_panics(&self) {
        let (screen, first) = (self.screen.clone(), self.panic.clone());
        std::panic::set_hook(Box::new(move |panic| {
            let trace = std::backtrace::Backtrace::capture();
            let trace = match trace.status() {
                std::backtrace::BacktraceStatus::Captured => format!("\n{trace}"),
                _ => String::new(),
            };
            let text = format!("{BUG}: {panic}");
            screen.line_at_once(
                "error",
                &format!("{text}{trace}"),
                Some((error::INTERNAL, Class::Internal.exit_code())),
            );
            let _ = first.set(text);
        }));
    }

    /// A panic ended the work; stderr has it already.
    pub(crate) fn crashed(&self) {
        let text = self.panic.get().map_or(BUG, String::as_str);
        answer(self.is_json(), &self.answered, text, error::INTERNAL, Class::Internal.exit_code());
    }

    /// What is on stderr; progress is drawn there.
    pub(crate) fn screen(&self) -> Screen {
        self.screen.clone()
    }

    /// The result of a command: a JSON document, or `text`.
    pub(crate) fn result(&self, value: &impl Serialize, text: impl FnOnce() -> String) {
        let text = if self.is_json() {
            serde_json::to_string_pretty(value)
                .unwrap_or_else(|e| failure(&e.to_string(), error::INTERNAL, 5))
        } else {
            printable(&text()).into_owned()
        };
        self.answered.store(true, Ordering::SeqCst);
        if !text.is_empty() {
            self.note(stdout(text.trim_end()));
        }
    }

    /// The end of a run whose result is a file: a JSON document, or `text` unless only errors were asked for.
    pub(crate) fn conclude(&self, value: &impl Serialize, text: impl FnOnce() -> String) {
        if self.is_json() || !self.is_quiet() {
            self.result(value, text);
        }
    }

    /// A result that is a file for another program, byte by byte.
    pub(crate) fn raw(&self, bytes: &[u8]) {
        self.answered.store(true, Ordering::SeqCst);
        let mut to = io::stdout();
        self.note(to.write_all(bytes).and_then(|()| to.flush()));
    }

    fn note(&self, written: io::Result<()>) {
        let failed = written.err().filter(|e| e.kind() != io::ErrorKind::BrokenPipe);
        if let Some(error) = failed {
            *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// An error if a result could not be written: to a full disk, say.
    pub(crate) fn delivered(&self) -> Result<(), CliError> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).take();
        lost.map_or(Ok(()), |source| Err(CliError::Stdout { source }))
    }

    /// A message; not part of the result.
    pub(crate) fn say(&self, line: impl Display) {
        self.screen.line("message", line);
    }

    /// An error with all its causes. A command that found something wrong has given its result already;
    /// the exit code and the result itself then say so.
    pub(crate) fn failed(&self, error: &CliError) {
        let message = with_causes(error);
        self.screen.failure(error.is_stop(), &message, (error.kind(), error.exit_code()));
        answer(self.is_json(), &self.answered, &message, error.kind(), error.exit_code());
    }

    /// Says notes and [`Output::failed`] from another thread, when the one at work does not answer. Never waits:
    /// that one may be stuck while it prints.
    pub(crate) fn farewell(&self, error: &CliError) -> impl Fn(&[String]) + Send + Sync + 'static {
        let (json, answered, screen) = (self.is_json(), self.answered.clone(), self.screen.clone());
        let (message, kind, code) = (error.to_string(), error.kind(), error.exit_code());
        let line = if error.is_stop() { STOPPED } else { "error" };
        move |notes| {
            notes.iter().for_each(|note| screen.line_at_once("message", note, None));
            screen.line_at_once(line, &message, Some((kind, code)));
            answer(json, &answered, &message, kind, code);
        }
    }
}

/// stderr, shared by messages and the bar below them.
#[derive(Clone)]
pub(crate) struct Screen(Arc<Mutex<Lines>>);

struct Lines {
    to: Box<dyn Write + Send>,
    /// The bar as it was drawn last, and how many columns it takes.
    bar: Option<(String, usize)>,
    json: bool,
    /// Only errors are shown, and JSON lines, which were asked for.
    quiet: bool,
}

impl Screen {
    pub(crate) fn new(to: impl Write + Send + 'static) -> Self {
        Screen(Arc::new(Mutex::new(Lines { to: Box::new(to), bar: None, json: false, quiet: false })))
    }

    /// From now on every line is a JSON object with a field `event`.
    pub(crate) fn json_lines(&self) {
        self.lock().json = true;
    }

    /// A line above the bar. `kind` is one of `message`, `warning`, `error`.
    pub(crate) fn line(&self, kind: &'static str, text: impl Display) {
        self.lock().say(kind, text, None);
    }

    /// The line of a run that failed or was stopped: why, for programs too.
    fn failure(&self, stopped: bool, text: &str, why: Why) {
        self.lock().say(if stopped { STOPPED } else { "error" }, text, Some(why));
    }

    /// The same as the last line of all, unless another thread is writing.
    fn line_at_once(&self, kind: &'static str, text: &str, why: Option<Why>) {
        if let Ok(mut lines) = self.0.try_lock() {
            lines.wipe();
            lines.bar = None;
            lines.say(kind, text, why);
        }
    }

    /// A JSON object as a line of its own.
    pub(crate) fn event(&self, value: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(value) {
            self.lock().put(&text);
        }
    }

    /// Draws `text`, which takes `columns`, over the bar that is there.
    pub(crate) fn bar(&self, text: String, columns: usize) {
        let mut lines = self.lock();
        // Blanks instead of an escape sequence: they work on every terminal.
        let before = lines.bar.as_ref().map_or(0, |(_, columns)| *columns);
        let rest = before.saturating_sub(columns);
        let _ = write!(lines.to, "\r{text}{:rest$}{:\x08<rest$}", "", "");
        let _ = lines.to.flush();
        lines.bar = Some((text, columns));
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        let mut lines = self.lock();
        lines.wipe();
        lines.bar = None;
        let _ = lines.to.flush();
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn say(&mut self, kind: &'static str, text: impl Display, why: Option<Why>) {
        if self.quiet && !self.json && !matches!(kind, "error" | STOPPED) {
            return;
        }
        let text = match (self.json, kind) {
            (true, _) => {
                let event = if kind == STOPPED { "error" } else { kind };
                let mut line = json!({ "event": event, "text": text.to_string() });
                if let (Some((kind, code)), Some(fields)) = (why, line.as_object_mut()) {
                    fields.extend([("kind".to_owned(), kind.into()), ("exit_code".to_owned(), code.into())]);
                }
                line.to_string()
            }
            (false, "message" | STOPPED) => printable(&text.to_string()).into_owned(),
            (false, _) => printable(&format!("{kind}: {text}")).into_owned(),
        };
        self.put(&text);
    }

    fn put(&mut self, text: &str) {
        self.wipe();
        let _ = writeln!(self.to, "{text}");
        if let Some((bar, _)) = &self.bar {
            let _ = write!(self.to, "\r{bar}");
            let _ = self.to.flush();
        }
    }

    fn wipe(&mut self) {
        if let Some((_, columns)) = self.bar {
            let _ = write!(self.to, "\r{:columns$}\r", "");
        }
    }
}

/// Help, the version, or what is wrong with the arguments, in better words if there are any. They could not be parsed,
/// so `--json` is looked for by hand.
pub(crate) fn usage(error: &clap::Error, better: Option<&str>) -> ExitCode {
    // Arguments are quoted as they are, and the name of a file may bring control characters along (`*.mp4`).
    let strange = |arg: std::ffi::OsString| matches!(printable(&arg.to_string_lossy()), Cow::Owned(_));
    let printed = match better {
        Some(better) => writeln!(io::stderr(), "error: {}", printable(better)),
        None if error.use_stderr() && std::env::args_os().any(strange) => {
            write!(io::stderr(), "{}", printable(&error.to_string()))
        }
        None => error.print().and_then(|()| io::stdout().flush()),
    };
    let mut code = u8::try_from(error.exit_code()).unwrap_or(2);
    if printed.is_err_and(|e| e.kind() != io::ErrorKind::BrokenPipe) && code == 0 {
        code = 3;
    }
    if error.use_stderr() && std::env::args_os().any(|a| a == "--json") {
        let text = error.to_string();
        let reason = better.unwrap_or(text.split("\n\n").next().unwrap_or_default().trim());
        let _ = stdout(failure(reason.strip_prefix("error: ").unwrap_or(reason), error::USAGE, code));
    }
    ExitCode::from(code)
}

/// Text that a terminal only shows. Names, tags and other programs' complaints come from files, and a terminal would
/// obey the escape sequences in them; marks that turn the direction of writing can disguise a name.
fn printable(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(obeyed) {
        Cow::Owned(text.chars().map(|c| if obeyed(c) { char::REPLACEMENT_CHARACTER } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Gives an error as the document, if one is due.
fn answer(json: bool, answered: &AtomicBool, message: &str, kind: &str, exit_code: u8) {
    if json && !answered.swap(true, Ordering::SeqCst) {
        let _ = stdout(failure(message, kind, exit_code));
    }
}

fn failure(message: &str, kind: &str, exit_code: u8) -> String {
    format!("{:#}", json!({ "error": message, "kind": kind, "exit_code": exit_code }))
}

fn stdout(text: impl Display) -> io::Result<()> {
    let mut to = io::stdout();
    writeln!(to, "{text}")?;
    to.flush()
}

/// A screen for tests.
#[cfg(test)]
pub(crate) mod paper {
    use super::*;

    /// Keeps what was written.
    #[derive(Clone, Default)]
    pub(crate) struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }

        /// What a terminal that knows only carriage return, backspace and newline would show.
        pub(crate) fn shown(&self) -> Vec<String> {
            let (mut lines, mut at) = (vec![Vec::new()], 0);
            for c in self.text().chars() {
                let line: &mut Vec<char> = lines.last_mut().unwrap();
                match c {
                    '\r' => at = 0,
                    '\x08' => at -= 1,
                    '\n' => {
                        lines.push(Vec::new());
                        at = 0;
                    }
                    c => {
                        match line.get_mut(at) {
                            Some(place) => *place = c,
                            None => line.push(c),
                        }
                        at += 1;
                    }
                }
            }
            lines.into_iter().map(|l| l.into_iter().collect::<String>().trim_end().to_owned()).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::paper::Paper;
    use super::*;

    #[test]
    fn lines_stand_above_the_bar_and_a_shorter_bar_leaves_no_rest() {
        let paper = Paper::default();
        let screen = Screen::new(paper.clone());
        screen.bar("encode 10/65".into(), 12);
        screen.line("message", "hello");
        screen.line("warning", "mind the gap");
        screen.bar("decode".into(), 6);
        assert_eq!(paper.shown(), ["hello", "warning: mind the gap", "decode"]);
        screen.clear();
        assert_eq!(paper.shown(), ["hello", "warning: mind the gap", ""]);
    }

    #[test]
    fn a_quiet_screen_shows_errors_and_json_lines_only() {
        let paper = Paper::default();
        let screen = Screen::new(paper.clone());
        screen.lock().quiet = true;
        screen.line("message", "hello");
        screen.line("warning", "mind the gap");
        screen.line("error", "broken");
        assert_eq!(paper.shown(), ["error: broken", ""]);
        screen.json_lines();
        screen.line("message", "hello");
        assert!(paper.shown()[1].contains("hello"));
    }

    #[test]
    fn a_terminal_is_given_nothing_to_obey() {
        let paper = Paper::default();
        let screen = Screen::new(paper.clone());
        screen.line("error", "a\u{1b}]0;title\u{7}b\u{9b}31m c\rd\u{202e}e\nnext\tline é");
        let text = paper.text();
        assert_eq!(text, "error: a\u{fffd}]0;title\u{fffd}b\u{fffd}31m c\u{fffd}d\u{fffd}e\nnext\tline é\n");
        assert!(matches!(printable("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn with_json_lines_every_line_is_an_object() {
        let paper = Paper::default();
        let screen = Screen::new(paper.clone());
        screen.json_lines();
        screen.line("error", "no \"frames\"\nat all");
        let line = &paper.shown()[0];
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&json["event"], &json["text"]), (&json!("error"), &json!("no \"frames\"\nat all")));
    }
}
