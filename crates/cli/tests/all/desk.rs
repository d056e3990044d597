//! A folder to work in, and the binary and ffmpeg there.
#![allow(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]
#![cfg(unix)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No run of a film of these tests takes this long, however busy the machine is.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// The binary in a folder, with its words, without the settings and the cache of the user. A run starts ffmpeg some twenty
/// times.
pub(crate) fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remaster"));
    command
        .current_dir(folder)
        .args(line.split_whitespace())
        .env("XDG_CONFIG_HOME", folder.join("none"))
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .stdin(Stdio::null());
    command.envs(quick_ffmpeg().map(|path| ("REMASTER_FFMPEG", path)));
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

/// Runs it; it must end with this code and these words.
pub(crate) fn refused(folder: &Path, line: &str, code: i32, words: &[&str]) {
    ends(&remaster(folder, line), code, words);
}

pub(crate) fn ends(out: &Output, code: i32, words: &[&str]) {
    let said = said(out);
    assert_eq!(out.status.code(), Some(code), "{said}");
    words.iter().for_each(|word| assert!(said.contains(word), "no `{word}` in {said}"));
}

pub(crate) fn ffmpeg(folder: &Path, line: &str) {
    let quiet = ["-v", "error", "-nostdin", "-y"];
    let out = Command::new("ffmpeg").current_dir(folder).args(quiet).args(line.split_whitespace()).output();
    let out = out.unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
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

pub(crate) fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
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

/// A small file system in memory; `None` where that is not allowed.
pub(crate) fn small_disk(folder: &Path, megabytes: u64) -> Option<Mounted> {
    std::fs::create_dir_all(folder).unwrap();
    let size = format!("size={megabytes}m");
    let mount = ["-t", "tmpfs", "-o", &size, "tmpfs", folder.to_str().unwrap()];
    let done = Command::new("mount").args(mount).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success()).then(|| Mounted(folder.to_owned()))
}

pub(crate) struct Mounted(pub(crate) PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
