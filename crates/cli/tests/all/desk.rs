//! A folder to work in, and the binary and ffmpeg there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use remaster_model::Param;
#[cfg(unix)]
use remaster_testkit::program;
pub(crate) use remaster_testkit::{Mounted, names};
use remaster_weights::{NamedTensor, fill_formula, write_tensors};
use serde_json::Value;
use tempfile::TempDir;

/// No run of a film of these tests takes this long, however busy the machine is.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A folder of its own for one test, and the environment of the binary in it.
pub(crate) struct Desk(TempDir, fn(&mut Command, &Path));

impl Deref for Desk {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

impl Desk {
    /// Without the settings and the cache of the user, and with the quick ffmpeg.
    pub(crate) fn new() -> Self {
        Desk::with(quick)
    }

    /// A new one with what ffmpeg makes.
    pub(crate) fn filmed(line: &str) -> Self {
        let desk = Desk::new();
        ffmpeg(&desk, line);
        desk
    }

    /// A new one with a film as [`three_shots`] makes it.
    pub(crate) fn of_shots(frames: [usize; 3], name: &str) -> Self {
        let desk = Desk::new();
        three_shots(&desk, frames, name);
        desk
    }

    /// With the environment of the test.
    pub(crate) fn bare() -> Self {
        Desk::with(|_, _| ())
    }

    pub(crate) fn with(home: fn(&mut Command, &Path)) -> Self {
        Desk(tempfile::tempdir().unwrap(), home)
    }

    /// Where a file goes; the folders that it is in are made.
    fn place(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.place(name), bytes).unwrap();
    }

    /// Writes a script that can be run.
    #[cfg(unix)]
    pub(crate) fn program(&self, name: &str, text: &str) {
        program(&self.place(name), text);
    }

    pub(crate) fn tensors(&self, name: &str, tensors: &[NamedTensor]) {
        write_tensors(&self.place(name), tensors, &BTreeMap::new()).unwrap();
    }

    /// One tensor in a file.
    pub(crate) fn tensor(&self, name: &str, of: &str, shape: &[usize], data: Vec<f32>) {
        self.tensors(name, &[NamedTensor { name: of.into(), shape: shape.to_vec(), data }]);
    }

    /// Frames `x`, all grey.
    pub(crate) fn frames(&self, name: &str, t: usize, h: usize, w: usize) {
        self.tensor(name, "x", &[1, 3, t, h, w], vec![0.25; 3 * t * h * w]);
    }

    pub(crate) fn names(&self) -> Vec<String> {
        names(self)
    }

    /// Words are split at spaces.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = plain(self, line);
        (self.1)(&mut command, self);
        command
    }

    pub(crate) fn run(&self, line: &str) -> Run {
        Run::of(&mut self.command(line))
    }

    #[track_caller]
    pub(crate) fn works(&self, line: &str) -> Run {
        let run = self.run(line);
        run.ends(0, &[]);
        run
    }

    /// The document that a run that works prints.
    #[track_caller]
    pub(crate) fn json(&self, line: &str) -> Value {
        self.works(line).json()
    }
}

/// What a run of the binary left.
pub(crate) struct Run {
    pub(crate) line: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn of(command: &mut Command) -> Self {
        let out = command.output().unwrap();
        Run::new(command, out)
    }

    /// How a command ended.
    pub(crate) fn new(command: &Command, out: Output) -> Self {
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let [stdout, stderr] = [out.stdout, out.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        Run { line: words.join(" "), code: out.status.code(), stdout, stderr }
    }

    /// stdout as the one JSON document it must be.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{}: {e}: {}", self.line, self.stdout))
    }

    /// Ended with `code`, no panic, and each of `words` in its error.
    #[track_caller]
    pub(crate) fn ends(&self, code: i32, words: &[&str]) -> &Self {
        let (line, said) = (&self.line, &self.stderr);
        assert_eq!(self.code, Some(code), "{line}: {said}");
        // Names of parts are internal.
        for word in ["panicked", ".part"] {
            assert!(!said.contains(word), "{line}: {said}");
        }
        for word in words {
            assert!(said.contains(word), "{line}: no `{word}` in: {said}");
        }
        self
    }
}

/// The binary in a folder, with its [`words`].
pub(crate) fn plain(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remaster"));
    command.current_dir(folder).args(words(line)).stdin(Stdio::null());
    command
}

/// With this as the folder of the user, by the names that systems have for it.
pub(crate) fn lives_in(command: &mut Command, home: &Path) {
    command.envs(["HOME", "USERPROFILE"].map(|name| (name, home)));
}

/// A copy of a folder.
pub(crate) fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.as_ref().unwrap(), to.join(entry.as_ref().unwrap().file_name()));
        if entry.path().is_dir() {
            copied(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Without the settings and the cache of the user.
pub(crate) fn private(command: &mut Command, folder: &Path) {
    command.env("XDG_CONFIG_HOME", folder.join("none")).env("XDG_CACHE_HOME", folder.join("cache"));
}

/// The same with the quick ffmpeg: a run starts it some twenty times.
pub(crate) fn quick(command: &mut Command, folder: &Path) {
    private(command, folder);
    command.envs(quick_ffmpeg().map(|path| ("REMASTER_FFMPEG", path)));
}

/// The binary in a folder, as in a new [`Desk`].
pub(crate) fn command(folder: &Path, line: &str) -> Command {
    let mut command = plain(folder, line);
    quick(&mut command, folder);
    command
}

/// An ffmpeg that starts quickly, for commands that start it often.
pub(crate) fn quick_ffmpeg() -> Option<OsString> {
    std::env::var_os("REMASTER_QUICK_FFMPEG").filter(|path| !path.is_empty())
}

pub(crate) fn remaster(folder: &Path, line: &str) -> Output {
    command(folder, line).output().unwrap()
}

/// Everything that a run said.
pub(crate) fn said(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

pub(crate) fn works(folder: &Path, line: &str) -> String {
    let out = remaster(folder, line);
    assert!(out.status.success(), "{line}: {}", said(&out));
    said(&out)
}

/// The document that a run prints, which says nothing else.
pub(crate) fn told(folder: &Path, line: &str) -> Value {
    serde_json::from_str(&works(folder, line)).unwrap()
}

/// Runs it; it must end with this code and these words.
pub(crate) fn refused(folder: &Path, line: &str, code: i32, words: &[&str]) {
    ends(&remaster(folder, line), code, words);
}

pub(crate) fn ends(out: &Output, code: i32, words: &[&str]) {
    let said = said(out);
    assert_eq!(out.status.code(), Some(code), "{said}");
    words.iter().for_each(|word| assert!(said.contains(word), "no `{word}` in {said}"));
}

/// Runs ffmpeg; returns what it writes to stdout.
pub(crate) fn ffmpeg(folder: &Path, line: &str) -> Vec<u8> {
    let quiet = ["-v", "error", "-nostdin", "-y"];
    let out = Command::new("ffmpeg").current_dir(folder).args(quiet).args(line.split_whitespace()).output();
    let out = out.unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

/// What ffprobe says of a file.
pub(crate) fn ffprobe(line: &str, file: impl AsRef<Path>) -> String {
    let quiet = ["-v", "error"];
    let out = Command::new("ffprobe").args(quiet).args(line.split_whitespace()).arg(file.as_ref()).output();
    let out = out.unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Presentation times of the video, in seconds.
pub(crate) fn times(file: impl AsRef<Path>) -> Vec<f64> {
    let text = ffprobe("-select_streams v:0 -show_entries frame=pts_time -of csv=p=0", file);
    text.lines().filter_map(|line| line.trim_matches(',').parse().ok()).collect()
}

/// A film of 64x48 in three shots of so many frames, without sound.
pub(crate) fn three_shots(folder: &Path, [a, b, c]: [usize; 3], name: &str) {
    let graph = format!(
        "testsrc2=s=64x48:r=25:d=4,format=yuv420p,trim=end_frame={a}[a];\
         mandelbrot=s=64x48:r=25:start_scale=0.3,format=yuv420p,trim=end_frame={b}[b];\
         smptebars=s=64x48:r=25:d=4,format=yuv420p,trim=end_frame={c}[c];[a][b][c]concat=n=3"
    );
    let codec = if name.ends_with(".y4m") { "" } else { "-c:v libx264 -crf 8" };
    ffmpeg(folder, &format!("-f lavfi -i {graph} {codec} ./{name}"));
}

/// A file of the repository.
pub(crate) fn testdata(name: &str) -> PathBuf {
    testdata_folder().join(name)
}

fn testdata_folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    // A canonical path of Windows takes no slashes behind it.
    if cfg!(windows) { std::path::absolute(folder).unwrap() } else { folder.canonicalize().unwrap() }
}

/// The words of a line. `SMALL` stands for the trained networks of `testdata` as the model, and `TESTDATA` for that folder.
pub(crate) fn words(line: &str) -> Vec<String> {
    let line = line.replace("SMALL", "--model TESTDATA/nano_dit.safetensors --vae TESTDATA/nano.safetensors");
    let folder = testdata_folder().display().to_string();
    line.split_whitespace().map(|word| word.replace("TESTDATA", &folder)).collect()
}

/// Weights of a network, as the formula has them.
pub(crate) fn formula(params: Vec<Param>) -> Vec<NamedTensor> {
    let made = |Param { name, shape }: Param| {
        let mut data = vec![0.0; shape.iter().product()];
        fill_formula(&name, &shape, 0, &mut data).unwrap();
        NamedTensor { name, shape, data }
    };
    params.into_iter().map(made).collect()
}

pub(crate) fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

/// A file that holds a JSON document.
pub(crate) fn document(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&bytes(folder, name)).unwrap()
}

pub(crate) fn remove(folder: &Path, name: &str) {
    std::fs::remove_file(folder.join(name)).unwrap();
}

/// Regular files below a folder, in order.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// How a run ended, if it did within the time.
pub(crate) fn ended(child: &mut Child, within: Duration) -> Option<i32> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.code().unwrap_or(-1));
        }
        if began.elapsed() >= within {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(unix)]
#[track_caller]
pub(crate) fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

/// A small file system in memory; `None` where that is not allowed.
pub(crate) fn small_disk(folder: &Path, megabytes: u64) -> Option<Mounted> {
    Mounted::new(folder, &format!("size={megabytes}m"))
}
