//! A server of our own in this process, without devices.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use remaster::{Restoration, WorkerProgram};
use remaster_serve::{AllowedHosts, Server, Settings};

/// The token of servers that have one.
pub(crate) const TOKEN: &str = "0123456789abcdef";

/// The longest that anything may take here.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn settings(state: &Path, token: Option<&str>) -> Settings {
    Settings {
        listen: "127.0.0.1".parse().unwrap(),
        port: 0,
        state: state.to_owned(),
        jobs: 100,
        upload_limit: 64 << 20,
        keep: Settings::KEEP,
        preview_limit: Settings::PREVIEW_LIMIT,
        token: token.map(str::to_owned),
        folders: Vec::new(),
        hosts: AllowedHosts::new::<&str>([]).unwrap(),
        names: Vec::new(),
        proxies: Vec::new(),
        devices: Vec::new(),
        how: Restoration::default(),
    }
}

pub(crate) fn bind(settings: Settings, program: PathBuf) -> Server {
    Server::bind(settings, WorkerProgram { program, without: Vec::new(), with: Vec::new() }).unwrap()
}

/// A server that answers until it is dropped.
pub(crate) struct Ours {
    pub(crate) at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// An answer: status, headers and body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Ours {
    pub(crate) fn new(settings: Settings) -> Self {
        Self::with(settings, "/nowhere".into())
    }

    /// The same with a program that does the work.
    pub(crate) fn with(settings: Settings, program: PathBuf) -> Self {
        let server = bind(settings, program);
        let (at, stop) = (server.address(), Arc::new(AtomicBool::new(false)));
        let asked = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || server.run(&|| asked.load(Ordering::SeqCst)).unwrap()));
        Ours { at, stop, thread }
    }

    /// A connection on which these bytes were sent.
    pub(crate) fn begun(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        // A server that has read enough may close first.
        let _ = stream.write_all(bytes);
        stream
    }

    /// The head of a request; what `more` says ends in line breaks.
    pub(crate) fn head(&self, line: &str, more: &str) -> String {
        format!("{line} HTTP/1.1\r\nHost: {}\r\nX-Remaster: 1\r\n{more}\r\n", self.at)
    }

    pub(crate) fn ask(&self, line: &str, more: &str, body: &[u8]) -> Answer {
        let more = format!("Connection: close\r\nContent-Length: {}\r\n{more}", body.len());
        read(self.begun(&[self.head(line, &more).as_bytes(), body].concat()))
    }

    /// How long a request of this kind takes, which has to be answered with this status.
    pub(crate) fn timed(&self, line: &str, more: &str, status: u16) -> Duration {
        let begun = Instant::now();
        let answer = self.ask(line, more, b"");
        assert_eq!(answer.status, status, "{line}: {}", answer.head);
        begun.elapsed()
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// What comes until the connection ends. A body in chunks stays as it came.
pub(crate) fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    // What is passed over.
    while bytes.starts_with(b"HTTP/1.1 100 ") {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        bytes.drain(..end + 4);
    }
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    Answer { status, head, body: bytes.get(end + 4..).unwrap_or_default().to_vec() }
}

/// A client that sends no more and waits.
pub(crate) fn half_closed(stream: TcpStream) -> Answer {
    stream.shutdown(Shutdown::Write).unwrap();
    read(stream)
}

/// A form with a file.
pub(crate) fn form(name: &str, content: &[u8]) -> Vec<u8> {
    let head =
        format!("--XB\r\nContent-Disposition: form-data; name=\"content\"; filename=\"{name}\"\r\n\r\n");
    [head.as_bytes(), content, b"\r\n--XB--\r\n"].concat()
}

/// The line of its head.
pub(crate) const FORM: &str = "Content-Type: multipart/form-data; boundary=XB\r\n";
