//! ffmpeg and ffprobe: where they are, which versions they are, and how they are asked.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::time::{Duration, Instant};

use crate::error::MediaError;
use crate::resident::Gauge;
use crate::secrets::Secrets;
pub(crate) use crate::supervised::{FromChild, Supervised, ToChild, plain};
use crate::supervised::{Shared, lock};

/// What `-fps_mode` needs.
const OLDEST: Version = Version { major: 5, minor: 1 };

/// The newest that the tests ran with.
const NEWEST: u32 = 9;

/// A description takes a second at most, also of a film; a file that needs longer is built to.
const DESCRIBE_SECONDS: u64 = 20;

/// Descriptions are some KiB; chapters and tags can make it more.
pub(crate) const DESCRIBE_BYTES: usize = 16 << 20;

/// A decoder gives a frame of the largest size in seconds.
const FRAME_SECONDS: u64 = 60;

/// Starting a program takes milliseconds, and for ever if it is on a disk that is gone.
const STARTING: Duration = Duration::from_millis(500);

/// Tells whether to stop what is under way, asked from any thread, and knows the children that it stops.
#[derive(Clone)]
pub struct Stop {
    asked: Arc<dyn Fn() -> bool + Send + Sync>,
    children: Arc<Mutex<Children>>,
    /// Seconds that a child may be silent at most.
    pub(crate) patience: u64,
}

impl Stop {
    /// Everything ends with `Cancelled` as soon as `asked` says so.
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Stop { asked: Arc::new(asked), children: Arc::default(), patience: u64::MAX }
    }

    /// No child may be silent for longer than `seconds`, where the usual limit is higher.
    pub fn or_stalled_for(self, seconds: u64) -> Self {
        Stop { patience: seconds, ..self }
    }

    /// Nobody will ask.
    pub fn never() -> Self {
        Stop::when(|| false)
    }

    /// True once cancellation was requested.
    pub fn is_stopped(&self) -> bool {
        (self.asked)()
    }

    /// Ends all children now, and starts no more: for a process that has to end itself without going back.
    pub fn kill_all(&self) {
        let until = Instant::now() + STARTING;
        let mut children = loop {
            match self.children.try_lock() {
                Ok(children) => break children,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => return,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        children.over = true;
        for child in children.living.iter().filter_map(Weak::upgrade) {
            child.kill();
        }
    }

    /// Starts a child that [`Stop::kill_all`] ends. The list is locked meanwhile, so that it misses none.
    fn starting(
        &self,
        start: impl FnOnce() -> Result<Supervised, MediaError>,
    ) -> Result<Supervised, MediaError> {
        let mut children = lock(&self.children);
        if children.over {
            return Err(MediaError::Cancelled);
        }
        let child = start()?;
        children.living.retain(|c| c.strong_count() > 0);
        children.living.push(Arc::downgrade(&child.shared));
        Ok(child)
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stop").field(&self.is_stopped()).finish()
    }
}

/// Where ffmpeg and ffprobe are, and which versions.
#[derive(Clone, Debug)]
pub struct Tools {
    ffmpeg: Tool,
    ffprobe: Tool,
    /// How long ffmpeg took to start and to say its version.
    start: Duration,
    keeper: Keeper,
    /// What ffmpeg says about encoders: it is the same for every part of a film, and asking takes 0.1 s.
    encoders: Arc<Mutex<HashMap<String, Arc<str>>>>,
}

/// One of the two programs.
#[derive(Clone, Debug, Default)]
struct Tool {
    program: PathBuf,
    /// As it says it.
    words: String,
    version: Version,
    /// Its libraries and their versions.
    libraries: Vec<String>,
}

/// A release. Builds from git count as newer than any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    major: u32,
    minor: u32,
}

/// The children of a [`Stop`].
#[derive(Default)]
struct Children {
    living: Vec<Weak<Shared>>,
    /// No more are started.
    over: bool,
}

impl Tools {
    /// ffmpeg at `path`, or the one that the system finds. ffprobe is looked for beside it, then in the system's path. Neither
    /// gets to know the secrets.
    pub fn find(path: Option<&Path>, stop: Stop, secrets: Secrets) -> Result<Self, MediaError> {
        Tools::find_apart(path, None, stop, secrets)
    }

    /// The same with ffprobe in a place of its own.
    pub fn find_apart(
        ffmpeg: Option<&Path>,
        ffprobe: Option<&Path>,
        stop: Stop,
        secrets: Secrets,
    ) -> Result<Self, MediaError> {
        let ffmpeg = ffmpeg.map_or_else(|| PathBuf::from("ffmpeg"), Path::to_owned);
        let places = ffprobe.map_or_else(|| beside(&ffmpeg), |path| vec![path.to_owned()]);
        let mut tools = Tools {
            ffmpeg: Tool::default(),
            ffprobe: Tool::default(),
            start: Duration::ZERO,
            keeper: Keeper::new(stop, secrets),
            encoders: Arc::default(),
        };
        let began = Instant::now();
        tools.ffmpeg = tools.ask_version(ffmpeg)?;
        tools.start = began.elapsed();
        let mut found = Err(MediaError::NoTool { program: "ffprobe".into(), reason: String::new() });
        for place in places {
            found = tools.ask_version(place);
            if !matches!(found, Err(MediaError::NoTool { .. })) {
                break;
            }
        }
        tools.ffprobe = found?;
        Ok(tools)
    }

    fn ask_version(&self, program: PathBuf) -> Result<Tool, MediaError> {
        let text = self.run(&program, "ffmpeg", &[OsStr::new("-version")])?.0;
        let text = String::from_utf8_lossy(&text);
        let first = text.lines().next().unwrap_or_default().to_owned();
        let old = |found| MediaError::OldTool { program: program.display().to_string(), found };
        let (words, version) = version(&first).ok_or_else(|| old(first.clone()))?;
        if version < OLDEST {
            return Err(old(words));
        }
        Ok(Tool { program, words, version, libraries: text.lines().filter_map(library).collect() })
    }

    /// All of ffmpeg that decides the bytes of a file, as far as it says so itself: its version and those of its
    /// libraries. Libraries of others, such as x264, are not among them; [`trial`](crate::trial) shows what they do.
    pub fn identity(&self) -> String {
        let Tool { words, libraries, .. } = &self.ffmpeg;
        let mut all = vec![format!("ffmpeg {words}")];
        all.extend(libraries.iter().cloned());
        all.join(", ")
    }

    /// How long ffmpeg takes to start.
    pub fn start(&self) -> Duration {
        self.start
    }

    /// Where ffmpeg is and its version, then ffprobe.
    pub fn versions(&self) -> [(&Path, &str); 2] {
        [&self.ffmpeg, &self.ffprobe].map(|t| (&*t.program, &*t.words))
    }

    /// A word about versions that were never tested.
    pub fn note(&self) -> Option<String> {
        let new: Vec<String> = [("ffmpeg", &self.ffmpeg), ("ffprobe", &self.ffprobe)]
            .iter()
            .filter(|(_, tool)| tool.version.major > NEWEST)
            .map(|(name, tool)| format!("{name} {}", tool.words))
            .collect();
        let (oldest, minor) = (OLDEST.major, OLDEST.minor);
        (!new.is_empty()).then(|| {
            format!("untested version; tested are {oldest}.{minor} to {NEWEST} ({})", new.join(" and "))
        })
    }

    /// What stops the children of these tools.
    pub fn stopper(&self) -> &Stop {
        &self.keeper.stop
    }

    /// The most memory that all children together held so far.
    pub fn children_peak(&self) -> u64 {
        self.keeper.peak()
    }

    /// Names of all encoders of this ffmpeg.
    pub fn encoders(&self) -> Result<Vec<String>, MediaError> {
        let (text, _) = self.ffmpeg(&["-hide_banner", "-encoders"])?;
        let text = String::from_utf8_lossy(&text);
        // Below a line of dashes: ` V....D libx264   a description`.
        let list = text.lines().skip_while(|line| !line.trim().starts_with("---")).skip(1);
        Ok(list.filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect())
    }

    /// What ffprobe says, and its complaints. An exit code other than 0 is an error with those.
    pub(crate) fn ffprobe(&self, args: &[impl AsRef<OsStr>]) -> Result<(Vec<u8>, Vec<String>), MediaError> {
        self.run(&self.ffprobe.program, "ffprobe", args)
    }

    /// What ffmpeg says.
    pub(crate) fn ffmpeg(&self, args: &[impl AsRef<OsStr>]) -> Result<(Vec<u8>, Vec<String>), MediaError> {
        self.run(&self.ffmpeg.program, "ffmpeg", args)
    }

    /// What ffmpeg says about an encoder; `None` if it has none of that name.
    pub(crate) fn encoder(&self, name: &str) -> Result<Option<Arc<str>>, MediaError> {
        if let Some(known) = lock(&self.encoders).get(name) {
            return Ok(Some(known.clone()));
        }
        let question = format!("encoder={name}");
        let (text, lines) = self.ffmpeg(&["-hide_banner", "-v", "error", "-h", &question])?;
        let text = String::from_utf8_lossy(&text);
        if !lines.is_empty() || !text.contains(&format!("Encoder {name}")) {
            return Ok(None);
        }
        let text: Arc<str> = text.into();
        lock(&self.encoders).insert(name.to_owned(), text.clone());
        Ok(Some(text))
    }

    fn run(
        &self,
        program: &Path,
        what: &'static str,
        args: &[impl AsRef<OsStr>],
    ) -> Result<(Vec<u8>, Vec<String>), MediaError> {
        let (out, watched) = self.read(program, what, args, DESCRIBE_SECONDS)?;
        if out.len() > DESCRIBE_BYTES {
            return Err(MediaError::TooMuch { what, limit: DESCRIBE_BYTES });
        }
        let lines = watched.finish()?;
        Ok((out, lines))
    }

    /// What ffmpeg says within some seconds; it need not come to an end.
    pub(crate) fn ffmpeg_for(&self, seconds: u64, args: &[impl AsRef<OsStr>]) -> Result<Vec<u8>, MediaError> {
        let (out, watched) = self.read(&self.ffmpeg.program, "ffmpeg", args, seconds)?;
        match watched.trouble() {
            Some(MediaError::Cancelled) => Err(MediaError::Cancelled),
            _ => Ok(out),
        }
    }

    fn read(
        &self,
        program: &Path,
        what: &'static str,
        args: &[impl AsRef<OsStr>],
        patience: u64,
    ) -> Result<(Vec<u8>, Supervised), MediaError> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        quiet(&mut command);
        self.keeper.read(command, what, patience)
    }

    /// Frames that ffmpeg counts while it goes through a whole file, and its complaints. `args` say what to count.
    /// It may take as long as frames go on coming.
    pub(crate) fn count(&self, args: &[OsString]) -> Result<(usize, Vec<String>), MediaError> {
        self.count_within(args, FRAME_SECONDS)
    }

    fn count_within(&self, args: &[OsString], patience: u64) -> Result<(usize, Vec<String>), MediaError> {
        let mut command = Command::new(&self.ffmpeg.program);
        command.args(args).args(["-progress", "pipe:1", "-f", "null", "-"]).stdin(Stdio::null());
        let mut frames = 0;
        // A frame more is a sign of life; a line alone is none, since a clock makes it.
        let lines = self.lines(command, "the check of the written file", patience, &mut |line| {
            let found = line.strip_prefix("frame=").and_then(|n| n.trim().parse().ok());
            let is_more = found.is_some_and(|n| n > frames);
            frames = found.unwrap_or(frames);
            is_more
        })?;
        Ok((frames, lines))
    }

    /// Gives `each` the lines that ffprobe says. It may take as long as lines go on coming.
    pub(crate) fn ffprobe_lines(
        &self,
        args: &[OsString],
        each: &mut dyn FnMut(&str),
    ) -> Result<(), MediaError> {
        let mut command = Command::new(&self.ffprobe.program);
        command.args(args).stdin(Stdio::null());
        let mut alive = |line: &str| {
            each(line);
            true
        };
        self.lines(command, "ffprobe", FRAME_SECONDS, &mut alive).map(drop)
    }

    /// Gives `each` the lines that a program says, which tells whether they are a sign of life. Its complaints are returned.
    fn lines(
        &self,
        command: Command,
        what: &'static str,
        patience: u64,
        each: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Vec<String>, MediaError> {
        let mut watched = self.watched(command, what, patience)?;
        if let Some(stdout) = watched.stdout.take() {
            let mut lines = BufReader::new(stdout);
            let mut line = Vec::new();
            watched.lives();
            while lines.by_ref().take(4096).read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                if each(&String::from_utf8_lossy(&line)) {
                    watched.lives();
                }
                line.clear();
            }
        }
        watched.finish()
    }

    /// Starts ffmpeg with pipes. `patience` is how long a read or a write may take.
    pub(crate) fn spawn(
        &self,
        what: &'static str,
        args: &[impl AsRef<OsStr>],
        patience: u64,
        input: bool,
    ) -> Result<Supervised, MediaError> {
        let mut command = Command::new(&self.ffmpeg.program);
        command.args(args).stdin(if input { Stdio::piped() } else { Stdio::null() });
        self.watched(command, what, patience)
    }

    fn watched(
        &self,
        mut command: Command,
        what: &'static str,
        patience: u64,
    ) -> Result<Supervised, MediaError> {
        quiet(&mut command);
        self.keeper.watched(command, what, patience)
    }
}

/// Otherwise SVT-AV1 tells its settings where only complaints are expected.
fn quiet(command: &mut Command) {
    command.env("SVT_LOG", "1");
}

/// State that all child processes of one tool share: what stops them, their memory, and what they must not know.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    pub(crate) stop: Stop,
    gauge: Gauge,
    secrets: Secrets,
}

impl Keeper {
    pub(crate) fn new(stop: Stop, secrets: Secrets) -> Self {
        Keeper { stop, gauge: Gauge::default(), secrets }
    }

    /// Starts a child. `patience` is how long a read or a write may take, in seconds.
    pub(crate) fn watched(
        &self,
        mut command: Command,
        what: &'static str,
        patience: u64,
    ) -> Result<Supervised, MediaError> {
        self.secrets.hide_from(&mut command);
        let (stop, gauge) = (self.stop.clone(), self.gauge.clone());
        self.stop.starting(|| Supervised::spawn(command, what, patience, stop, gauge))
    }

    /// What a child says, a byte more than a description may have at most, and the child.
    pub(crate) fn read(
        &self,
        command: Command,
        what: &'static str,
        patience: u64,
    ) -> Result<(Vec<u8>, Supervised), MediaError> {
        let mut watched = self.watched(command, what, patience)?;
        let mut out = Vec::new();
        if let Some(stdout) = watched.stdout.take() {
            let read = watched.waiting(|| stdout.take(DESCRIBE_BYTES as u64 + 1).read_to_end(&mut out));
            read.map_err(|source| MediaError::Io { doing: format!("read from {what}"), source })?;
        }
        Ok((out, watched))
    }

    /// The most memory that all children together held so far.
    pub(crate) fn peak(&self) -> u64 {
        self.gauge.most()
    }
}

/// Where the ffprobe of an ffmpeg may be: under the matching name (`ffmpeg-7`, `ffprobe-7`), under its own beside it,
/// or where the system finds one.
fn beside(ffmpeg: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(name) = ffmpeg.file_name().and_then(OsStr::to_str) {
        places.push(ffmpeg.with_file_name(name.replacen("ffmpeg", "ffprobe", 1)));
        places.push(ffmpeg.with_file_name(format!("ffprobe{}", std::env::consts::EXE_SUFFIX)));
        // A program of another name must not be asked as if it were ffprobe.
        places.retain(|place| place != ffmpeg);
    }
    places.push(PathBuf::from("ffprobe"));
    places.dedup();
    places
}

/// A library in a line that ffmpeg prints: `libavutil      57. 28.100 / 57. 28.100`. The second version is the one that runs.
fn library(line: &str) -> Option<String> {
    let (name, versions) = line.split_once(' ').filter(|(name, _)| name.starts_with("lib"))?;
    let (_, version) = versions.split_once('/')?;
    let version: String = version.split_whitespace().collect();
    let is_version = version.chars().all(|c| c.is_ascii_digit() || c == '.') && !version.is_empty();
    is_version.then(|| format!("{name} {version}"))
}

/// The version in the first line that ffmpeg prints, as written and as numbers.
fn version(line: &str) -> Option<(String, Version)> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "version");
    let found = words.nth(1)?.to_owned();
    let mut parts = found.trim_start_matches('n').split(['.', '-']).map_while(|p| p.parse::<u32>().ok());
    // Builds from git are named N-12345-gabcdef or by their date; none that is in use is too old.
    let version = match parts.next() {
        Some(major) => Version { major, minor: parts.next().unwrap_or(0) },
        None => Version { major: u32::MAX, minor: 0 },
    };
    Some((found, version))
}

#[cfg(test)]
mod tests;
