//! Buckets of servers that this test starts itself, on the loopback only.
//!
//! ```text
//! REMASTER_MOTO=.../moto REMASTER_WEED=.../weed REMASTER_RCLONE=.../rclone \
//!     cargo test -p remaster-store --features cloud --test all buckets:: -- --ignored --nocapture
//! ```
#![cfg(feature = "cloud")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use crate::common::{done, limits, race, tour};
use remaster_store::{Journal, Limits, Store, StoreError, StoreSettings};

/// A server that ends with the test.
struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts the program that a variable names. `arguments` get a port and an empty folder.
    fn start(variable: &str, arguments: impl Fn(u16, &str) -> Vec<String>) -> Server {
        let program = PathBuf::from(std::env::var_os(variable).unwrap_or_else(|| panic!("set {variable}")));
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("films")).unwrap();
        let port = free_port();
        let log = folder.path().join("log");
        let child = Command::new(program)
            .args(arguments(port, folder.path().to_str().unwrap()))
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let server = Server { child, port, _folder: folder };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let said = || std::fs::read_to_string(&log).unwrap();
            assert!(start.elapsed() < Duration::from_secs(60), "{variable} does not listen: {}", said());
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// Makes the bucket `films` without a signature, which none of these servers asks for.
    fn make_bucket(&self) {
        for _ in 0..60 {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let request = format!(
                "PUT /films HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                self.port
            );
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            if answer.starts_with("HTTP/1.1 200") {
                return;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        panic!("no bucket");
    }

    fn store(&self, prefix: &str) -> Store {
        let limits = Limits { part: 5 << 20, ..limits() };
        bucket(self.port, prefix, ["test-access", "test-secret"], limits)
    }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// A part of the bucket `films` of a server on the loopback.
fn bucket(port: u16, prefix: &str, [access, secret]: [&str; 2], limits: Limits) -> Store {
    let variables = [
        pair("AWS_ENDPOINT", &format!("http://127.0.0.1:{port}")),
        pair("AWS_ALLOW_HTTP", "true"),
        pair("AWS_ACCESS_KEY_ID", access),
        pair("AWS_SECRET_ACCESS_KEY", secret),
        pair("AWS_REGION", "us-east-1"),
    ];
    let settings = StoreSettings { limits, ..StoreSettings::with_variables(variables) };
    Store::open(&format!("s3://films/{prefix}"), settings).unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first of four ports that are free, each with the one 10,000 above it: SeaweedFS takes all of them. No port is
/// given twice, because the connections of its last server may linger.
fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let all_free = |first: u16| (first..first + 4).all(|port| free(port) && free(port + 10_000));
    let base = 20_000 + (std::process::id() % 2_000) as u16 * 4;
    loop {
        let first = base + GIVEN.fetch_add(4, Ordering::SeqCst) % 2_000;
        if all_free(first) {
            return first;
        }
    }
}

/// Everything a store does, and the race.
fn promises(server: &Server, name: &str) {
    tour(&server.store("tour"));
    for round in 0..5 {
        let start = Instant::now();
        let winners = race(|| server.store(&format!("race{round}")));
        let took = start.elapsed();
        println!("{name}: 16 racers, winners of the key and of the commit: {winners:?}, {took:?}");
        assert_eq!(winners, (1, 1));
    }
}

/// The commits of a film of three hours.
fn long_film(server: &Server, name: &str) {
    let journal = Journal::make(server.store("long"), 2800, "{}").unwrap();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for part in 0..8 {
            let journal = &journal;
            scope.spawn(move || {
                for unit in (part..2800).step_by(8) {
                    done(journal, unit, vec![1; 100]);
                }
            });
        }
    });
    let written = start.elapsed();
    let start = Instant::now();
    assert_eq!(journal.done().unwrap().len(), 2800);
    let listed = start.elapsed();
    let start = Instant::now();
    assert_eq!(journal.commits().unwrap().whole.len(), 2800);
    let read = start.elapsed();
    println!("{name}: 2,800 units written in {written:?}, listed in {listed:?}, listed and read in {read:?}");
    // This is what a resume waits for.
    assert!(listed < Duration::from_secs(20), "{listed:?}");
}

fn moto() -> Server {
    let server = Server::start("REMASTER_MOTO", |port, _| {
        ["-H", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned).into()
    });
    server.make_bucket();
    server
}

#[test]
#[ignore = "moto: a server of S3"]
fn moto_keeps_its_promises() {
    promises(&moto(), "moto");
}

#[test]
#[ignore = "moto: a minute or two"]
fn the_commits_of_a_long_film_are_listed_by_moto() {
    long_film(&moto(), "moto");
}

#[test]
#[ignore = "seaweedfs: a server of S3"]
fn seaweedfs_keeps_its_promises() {
    let server = Server::start("REMASTER_WEED", |port, folder| {
        let ports = [port + 1, port + 2, port + 3];
        let mut arguments: Vec<String> =
            ["server", "-s3", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=100"]
                .map(str::to_owned)
                .into();
        arguments.extend([
            "-master.volumeSizeLimitMB=64".to_owned(),
            format!("-dir={folder}"),
            format!("-s3.port={port}"),
            format!("-master.port={}", ports[0]),
            format!("-volume.port={}", ports[1]),
            format!("-filer.port={}", ports[2]),
        ]);
        arguments
    });
    server.make_bucket();
    promises(&server, "SeaweedFS");
    long_film(&server, "SeaweedFS");
}

#[test]
#[ignore = "rclone: a server of S3 that does not keep its promises"]
fn rclone_is_refused() {
    let server = Server::start("REMASTER_RCLONE", |port, folder| {
        let address = format!("127.0.0.1:{port}");
        ["serve", "s3", "--addr", &address, folder].map(str::to_owned).into()
    });
    let error = server.store("").probe().unwrap_err();
    println!("{error}");
    assert!(matches!(error, StoreError::Liar { .. }), "{error}");
}

#[test]
fn a_server_that_is_not_there_is_an_error_without_secrets() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    drop(server);
    let store = bucket(port, "a", ["AKIAswordfish", "swordfish"], Limits { tries: 2, ..limits() });
    let error = store.get(&crate::common::key("plan.json"), 10).unwrap_err();
    let text = error.to_string();
    assert!(error.may_pass() && text.contains("s3://films/a") && !text.contains("swordfish"), "{text}");
}

#[test]
fn plain_http_that_is_not_allowed_is_said_before_the_first_call() {
    let open = |allowed: Option<&str>| {
        let endpoint = pair("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
        let allowed = allowed.map(|word| pair("AWS_ALLOW_HTTP", word));
        Store::open("s3://films/a", StoreSettings::with_variables([endpoint].into_iter().chain(allowed)))
    };
    for allowed in [None, Some("false"), Some("")] {
        let text = open(allowed).err().unwrap().to_string();
        assert!(text.contains("plain http needs AWS_ALLOW_HTTP=true"), "{text}");
    }
    assert!(open(Some("true")).is_ok());
}

#[test]
fn a_bucket_that_is_not_there_is_said_by_its_name() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let Ok(mut stream) = stream else { break };
            let _ = stream.read(&mut [0; 4096]);
            let body = "<Error><Code>NoSuchBucket</Code><Message>no bucket</Message></Error>";
            let head = "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Type: application/xml";
            let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    let store = bucket(port, "a", ["a", "b"], Limits { tries: 1, ..limits() });
    let get = store.get(&crate::common::key("plan.json"), 10).err().unwrap();
    for error in [store.probe().err().unwrap(), get] {
        assert!(matches!(&error, StoreError::NoBucket { bucket } if bucket == "films"), "{error}");
    }
}
