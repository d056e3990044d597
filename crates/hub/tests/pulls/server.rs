//! A hub for tests: a thread per connection, and a function that answers.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use remaster_testkit::Rng;
use sha2::{Digest, Sha256};

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: BTreeMap<String, String>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Where the part that is asked for begins.
    pub(crate) fn start(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

type Answer = dyn Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync;

/// Answers until it is dropped.
pub(crate) struct Server {
    port: u16,
    log: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
}

impl Server {
    pub(crate) fn new(
        answer: impl Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (log, over) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::<AtomicBool>::default());
        let answer: Arc<Answer> = Arc::new(answer);
        let server = Server { port, log: log.clone(), over: over.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let (answer, log) = (answer.clone(), log.clone());
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    if let Some(request) = read(&mut stream) {
                        log.lock().unwrap().push(request.clone());
                        let _ = answer(&request, &mut stream);
                    }
                });
            }
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The same server under another name.
    pub(crate) fn other_name(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn gets(&self) -> Vec<Request> {
        self.requests().into_iter().filter(|r| r.method == "GET").collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn read(stream: &mut TcpStream) -> Option<Request> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let text = String::from_utf8(head).ok()?;
    let mut lines = text.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers = lines.filter_map(|l| l.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Some(Request { method, path, headers })
}

/// Status line and headers; every answer closes its connection.
pub(crate) fn head(stream: &mut TcpStream, status: &str, headers: &[(&str, &str)]) -> std::io::Result<()> {
    let mut text = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    stream.write_all((text + "\r\n").as_bytes())
}

/// A file as a hub has it.
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(crate) sha256: String,
}

impl Content {
    /// Bytes that repeat nowhere soon.
    pub(crate) fn new(length: usize) -> Arc<Self> {
        let mut rng = Rng::new(0x2545_f491_4f6c_dd1d);
        Self::of((0..length).map(|_| rng.bits() as u8).collect())
    }

    pub(crate) fn of(bytes: Vec<u8>) -> Arc<Self> {
        let sha256 = remaster_disk::hex(&Sha256::digest(&bytes));
        Arc::new(Content { bytes, sha256 })
    }

    /// What the hub says before a download.
    pub(crate) fn about(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let (etag, size) = (format!("\"{}\"", self.sha256), self.bytes.len().to_string());
        let headers = [("X-Repo-Commit", COMMIT), ("X-Linked-Etag", &etag), ("X-Linked-Size", &size)];
        head(stream, "200 OK", &headers)
    }

    /// The file, or the part that is asked for, and of that at most `most` bytes before the connection ends.
    pub(crate) fn send(&self, request: &Request, stream: &mut TcpStream, most: usize) -> std::io::Result<()> {
        let (status, start) = match request.start() {
            Some(start) => ("206 Partial Content", start),
            None => ("200 OK", 0),
        };
        let all = self.bytes.len();
        let range = format!("bytes {start}-{}/{all}", all - 1);
        let length = (all - start).to_string();
        head(stream, status, &[("Content-Length", &length), ("Content-Range", &range), ("ETag", "\"v1\"")])?;
        stream.write_all(&self.bytes[start..all.min(start.saturating_add(most))])
    }
}

/// The bytes that are asked for, all of them.
pub(crate) fn all(content: &Content, request: &Request, stream: &mut TcpStream) -> std::io::Result<()> {
    content.send(request, stream, usize::MAX)
}

/// Tells what a hub tells, and leaves the bytes to `get`.
pub(crate) fn hub(
    content: &Arc<Content>,
    get: impl Fn(&Content, &Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> Server {
    let content = content.clone();
    Server::new(move |request, stream| match request.method.as_str() {
        "HEAD" => content.about(stream),
        _ => get(&content, request, stream),
    })
}
