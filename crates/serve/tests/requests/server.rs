//! Servers on loopback that behave badly, and count who comes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A server that gives every connection to a function, with what was asked.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    count: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn new(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", answer)
    }

    pub(crate) fn at(
        address: impl ToSocketAddrs,
        answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let (at, count, answer) = (listener.local_addr().unwrap(), Arc::default(), Arc::new(answer));
        let counted = Arc::clone(&count);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, answer) = (stream.unwrap(), Arc::clone(&answer));
                AtomicUsize::fetch_add(&counted, 1, Ordering::SeqCst);
                thread::spawn(move || {
                    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    let asked = read_request(&mut stream);
                    answer(&asked, &mut stream);
                });
            }
        });
        Server { at, count }
    }

    /// A server with one answer for everybody.
    pub(crate) fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        // Whoever has heard enough may leave.
        Self::new(move |_, stream| drop(stream.write_all(&answer)))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.at)
    }

    /// Connections so far.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// Head and, if its length is given, body.
fn read_request(stream: &mut TcpStream) -> String {
    let (mut asked, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut piece).unwrap_or(0);
        asked.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&asked);
        // The start of TLS, which has no lines.
        if asked.first() == Some(&0x16) {
            return text.into_owned();
        }
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            if read == 0 {
                return text.into_owned();
            }
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        if read == 0 || body.len() >= length.unwrap_or(0) {
            return text.into_owned();
        }
    }
}
