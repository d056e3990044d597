//! A supervised child process: no wait for it is without a limit, and nothing of it is left
//! behind.
//!
//! A child leads a process group of its own, and the whole group is ended with it: what a wrapper started in the
//! background would hold our pipes open. A process that left the group can still hold them; reads and writes give up
//! on it [`GRACE`] after the child is gone. On Windows a job object is the group: nothing leaves it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::child::Stop;
use crate::error::MediaError;
use crate::group::{self, Group};
use crate::resident::Gauge;

/// How often a waiting thread looks up.
const TICK: Duration = Duration::from_millis(20);

/// How long anything is waited for once the child is gone.
const GRACE: Duration = Duration::from_secs(1);

/// The most that one poll adds to a wait: some systems' clocks run on while the machine sleeps, and sleep does not count.
const AWAKE: Duration = Duration::from_secs(1);

/// Ticks between two looks at the memory of a child.
const LOOK: u32 = 10;

/// Lines of complaint that are kept.
const LINES: usize = 24;

/// What the threads of a child share.
pub(crate) struct Shared {
    child: Mutex<Held>,
    lines: Mutex<Vec<String>>,
    /// When the current wait for the child began.
    waiting: Mutex<Option<Instant>>,
    /// Since when the child is known to have ended.
    gone: Mutex<Option<Instant>>,
    /// Somebody waited for too long.
    stalled: AtomicBool,
    over: AtomicBool,
    stop: Stop,
    gauge: Gauge,
}

struct Held {
    child: Child,
    group: Group,
    status: Option<ExitStatus>,
}

/// A lock whose holder panicked is still a lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Shared {
    /// Ends the child and what it started.
    pub(crate) fn kill(&self) {
        let mut held = lock(&self.child);
        if held.status.is_none() {
            held.group.end(&held.child);
            let _ = held.child.kill();
        }
        lock(&self.gone).get_or_insert_with(Instant::now);
    }

    fn has_ended(&self) -> bool {
        let mut held = lock(&self.child);
        let ended = held.status.is_some() || group::has_ended(&mut held.child);
        if ended {
            lock(&self.gone).get_or_insert_with(Instant::now);
        }
        ended
    }

    /// The status of a child that ended. What it left in its group is ended before its number is given back, so
    /// that the number cannot name another process.
    fn reap(&self) -> Option<ExitStatus> {
        if !self.has_ended() {
            return None;
        }
        let mut held = lock(&self.child);
        if held.status.is_none() {
            held.group.end(&held.child);
            held.status = held.child.try_wait().ok().flatten();
        }
        held.status
    }

    /// Whether nothing more can be expected from a pipe that has nothing to give.
    fn given_up(&self) -> bool {
        lock(&self.gone).is_some_and(|since| since.elapsed() > GRACE)
    }

    /// Waits for the end; `None` if the child does not even go when it is killed.
    fn wait(&self) -> Option<ExitStatus> {
        loop {
            match self.reap() {
                None if self.given_up() => return None,
                None => std::thread::sleep(TICK / 10),
                status => return status,
            }
        }
    }
}

/// Our end of a pipe to a child.
pub(crate) struct Pipe<P> {
    end: P,
    shared: Arc<Shared>,
}

/// Where frames go into a child.
pub(crate) type ToChild = Pipe<ChildStdin>;
/// Where a child's answer comes out.
pub(crate) type FromChild = Pipe<ChildStdout>;

#[cfg(unix)]
mod pipe {
    use std::io;
    use std::os::fd::AsFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::{Shared, TICK};

    pub(super) const IN: PollFlags = PollFlags::IN;
    pub(super) const OUT: PollFlags = PollFlags::OUT;

    /// From now on a call returns instead of waiting.
    pub(super) fn prepare(end: &impl AsFd) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(end, true)?)
    }

    /// Waits until there is something to do; false if there never will be.
    pub(super) fn ready(end: &impl AsFd, what: PollFlags, shared: &Shared) -> bool {
        let tick = Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) };
        loop {
            let mut fds = [PollFd::new(end, what)];
            if poll(&mut fds, Some(&tick)).is_ok_and(|n| n > 0) {
                return true;
            }
            if shared.given_up() {
                return false;
            }
        }
    }
}

/// Calls wait there until the other ends are closed. They are as soon as the job of the child is over, which holds all that
/// the child could have handed them to.
#[cfg(windows)]
mod pipe {
    use std::io;

    use super::Shared;

    pub(super) const IN: () = ();
    pub(super) const OUT: () = ();

    pub(super) fn prepare<P>(_: &P) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn ready<P>(_: &P, _: (), _: &Shared) -> bool {
        true
    }
}

macro_rules! until_ready {
    ($pipe:ident, $what:expr, $call:expr, $otherwise:expr) => {
        loop {
            match $call {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if !pipe::ready(&$pipe.end, $what, &$pipe.shared) {
                return $otherwise;
            }
        }
    };
}

/// What can be read from; a trait so that both systems' bounds are said once.
#[cfg(unix)]
trait End: std::os::fd::AsFd {}
#[cfg(unix)]
impl<P: std::os::fd::AsFd> End for P {}
#[cfg(windows)]
trait End {}
#[cfg(windows)]
impl<P> End for P {}

impl<P: Read + End> Read for Pipe<P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        until_ready!(self, pipe::IN, self.end.read(buffer), Ok(0))
    }
}

impl<P: Write + End> Write for Pipe<P> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        until_ready!(self, pipe::OUT, self.end.write(bytes), Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end.flush()
    }
}

/// A child that is looked after. Dropping it ends the child.
pub(crate) struct Supervised {
    pub(crate) stdin: Option<ToChild>,
    pub(crate) stdout: Option<FromChild>,
    pub(crate) shared: Arc<Shared>,
    what: &'static str,
    patience: u64,
    watcher: Option<JoinHandle<()>>,
    /// Hears from the thread that reads stderr when it is done.
    listener: Receiver<()>,
}

impl Supervised {
    pub(crate) fn spawn(
        mut command: Command,
        what: &'static str,
        patience: u64,
        stop: Stop,
        gauge: Gauge,
    ) -> Result<Self, MediaError> {
        let patience = patience.min(stop.patience);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (mut child, group) = Group::spawn(&mut command).map_err(|e| MediaError::NoTool {
            program: command.get_program().to_string_lossy().into_owned(),
            reason: e.to_string(),
        })?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let shared = Arc::new(Shared {
            child: Mutex::new(Held { child, group, status: None }),
            lines: Mutex::default(),
            waiting: Mutex::default(),
            gone: Mutex::default(),
            stalled: AtomicBool::new(false),
            over: AtomicBool::new(false),
            stop,
            gauge,
        });
        let watcher = {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || watch(&shared, Duration::from_secs(patience)))
        };
        let (done, listener) = channel();
        let mut watched = Supervised {
            stdin: None,
            stdout: None,
            shared: Arc::clone(&shared),
            what,
            patience,
            watcher: Some(watcher),
            listener,
        };
        let failed = |source| MediaError::Io { doing: format!("make a pipe to {what}"), source };
        watched.stdin = stdin.map(|end| pipe(end, &shared)).transpose().map_err(failed)?;
        watched.stdout = stdout.map(|end| pipe(end, &shared)).transpose().map_err(failed)?;
        if let Some(stderr) = stderr.map(|end| pipe(end, &shared)).transpose().map_err(failed)? {
            std::thread::spawn(move || {
                listen(stderr, &shared);
                let _ = done.send(());
            });
        }
        Ok(watched)
    }

    /// Runs `f`, which waits for the child: it is ended if that takes too long.
    pub(crate) fn waiting<T>(&self, f: impl FnOnce() -> T) -> T {
        self.lives();
        let result = f();
        *lock(&self.shared.waiting) = None;
        result
    }

    /// The child just showed that it is at work: the time it may take begins anew.
    pub(crate) fn lives(&self) {
        *lock(&self.shared.waiting) = Some(Instant::now());
    }

    /// What the child complained about so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        lock(&self.shared.lines).clone()
    }

    /// What it complained about so far does not matter.
    pub(crate) fn forgive(&self) {
        lock(&self.shared.lines).clear();
    }

    /// The error behind an end that came too early.
    pub(crate) fn trouble(&self) -> Option<MediaError> {
        if self.shared.stop.is_stopped() {
            return Some(MediaError::Cancelled);
        }
        let stalled = self.shared.stalled.load(Ordering::Relaxed);
        stalled.then_some(MediaError::Stalled { what: self.what, seconds: self.patience })
    }

    /// Waits for the end. Complaints of a child that ended well are returned.
    pub(crate) fn finish(self) -> Result<Vec<String>, MediaError> {
        let (end, lines) = self.ended();
        end.map(|()| lines)
    }

    /// Waits for the end, and says how it was and what the child complained about.
    pub(crate) fn ended(mut self) -> (Result<(), MediaError>, Vec<String>) {
        drop(self.stdin.take());
        drop(self.stdout.take());
        let ended = self.waiting(|| self.shared.wait());
        let _ = self.listener.recv_timeout(2 * GRACE);
        let lines = self.lines();
        if let Some(trouble) = self.trouble() {
            return (Err(trouble), lines);
        }
        let end = match ended {
            Some(status) if status.success() => Ok(()),
            Some(status) if was_killed(status) => {
                let how = format!("{status}{}", said(&lines));
                Err(MediaError::Died { what: self.what, how })
            }
            status => Err(MediaError::Child { what: self.what, reason: reason(&lines, status) }),
        };
        (end, lines)
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.shared.kill();
        self.shared.wait();
        drop(self.stdin.take());
        drop(self.stdout.take());
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
        // It ends by itself; a process elsewhere that holds stderr may keep it for a while.
        let _ = self.listener.recv_timeout(GRACE);
    }
}

fn pipe<P: End>(end: P, shared: &Arc<Shared>) -> io::Result<Pipe<P>> {
    pipe::prepare(&end)?;
    Ok(Pipe { end, shared: Arc::clone(shared) })
}

/// Ends the child when it is time to.
fn watch(shared: &Shared, patience: Duration) {
    // A child leads a process group of its own.
    let group = lock(&shared.child).child.id();
    watch_group(shared, patience, group);
    shared.gauge.forget(group);
}

fn watch_group(shared: &Shared, patience: Duration, group: u32) {
    let (mut wait, mut waited, mut looked) = (None, Duration::ZERO, Instant::now());
    for tick in 0u32.. {
        if shared.over.load(Ordering::Relaxed) {
            return;
        }
        if tick % LOOK == LOOK - 1 {
            shared.gauge.sample(group);
        }
        let passed = looked.elapsed();
        looked += passed;
        let now = *lock(&shared.waiting);
        waited = if now.is_some() && now == wait { waited + passed.min(AWAKE) } else { Duration::ZERO };
        wait = now;
        let late = waited > patience;
        if late {
            shared.stalled.store(true, Ordering::Relaxed);
        }
        if late || shared.stop.is_stopped() {
            shared.kill();
            return;
        }
        shared.has_ended();
        std::thread::sleep(TICK);
    }
}

/// Keeps the first complaints. The rest is read and dropped: a full pipe would stop the child.
fn listen(stderr: impl Read, shared: &Shared) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(4096).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        // It comes later than what it repeats, which may be forgiven by then, and says nothing of its own. Nor does vspipe with
        // the first word of its progress, which would take the place of what matters.
        let again = text.starts_with("Last message repeated") || text.starts_with("Information: ");
        let mut lines = lock(&shared.lines);
        if !text.is_empty() && !again && lines.len() < LINES {
            lines.push(text);
        }
    }
}

/// True if a user or the system ended the child. ffmpeg turns SIGTERM and SIGINT into 255, a shell around it any
/// signal into 128 and its number; ffmpeg's own codes lie elsewhere.
fn was_killed(status: ExitStatus) -> bool {
    #[cfg(unix)]
    if std::os::unix::process::ExitStatusExt::signal(&status).is_some() {
        return true;
    }
    status.code().is_some_and(is_end_by_others)
}

/// Crashes have codes from 0xC0000000 to 0xC0FFFFFF on Windows. ffmpeg's own are negative there: -22, or the letters of a
/// name from 0xA5000000 to 0xBFFFFFFF.
fn is_end_by_others(code: i32) -> bool {
    code as u32 >> 24 == 0xC0 || code == 255 || (129..160).contains(&code)
}

fn said(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("; last message: {}", plain(lines)) }
}

/// Why a child failed, in one line.
fn reason(lines: &[String], status: Option<ExitStatus>) -> String {
    match (lines.last(), status) {
        (Some(_), _) => plain(lines),
        (None, Some(status)) => format!("it ended with {status} and no message"),
        (None, None) => "it could not be waited for".into(),
    }
}

/// Complaints without the addresses that ffmpeg puts in front: `[h264 @ 0x55d]`.
pub(crate) fn plain(lines: &[String]) -> String {
    let strip = |line: &String| match (line.strip_prefix('['), line.find("] ")) {
        (Some(rest), Some(end)) => {
            let name = rest.split(" @").next().unwrap_or_default();
            format!("{name}: {}", &line[end + 2..])
        }
        _ => line.clone(),
    };
    let mut seen: Vec<String> = Vec::new();
    for line in lines.iter().map(strip) {
        if !seen.contains(&line) && seen.len() < 3 {
            seen.push(line);
        }
    }
    seen.join("; ")
}

#[cfg(test)]
mod tests;
