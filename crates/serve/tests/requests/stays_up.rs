//! A server that stays up while clients are slow, greedy or gone: it answers at once and its memory does not grow. The same with
//! numbers that fill all places is a step of the night (`scripts/serve-check`).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use remaster_testkit::program;

use crate::ours::{Answer, FORM, LIMIT, Ours, TOKEN, bind, form, half_closed, read, settings};

/// How long an answer may take meanwhile.
const AT_ONCE: Duration = Duration::from_millis(500);

/// What the server may take meanwhile, and what our side of sixty connections does.
const GROWTH: u64 = 64 << 20;

/// Bytes of memory of this process, which is also that of the server.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// What a watchful client finds: the longest of its answers, and the most memory.
#[derive(Default, Debug)]
struct Seen {
    longest: Duration,
    most: u64,
}

impl Seen {
    fn look(&mut self, server: &Ours) {
        let token = format!("Authorization: Bearer {TOKEN}\r\n");
        for (line, more) in [("GET /healthz", ""), ("GET /v1/predictions", &token)] {
            self.longest = self.longest.max(server.timed(line, more, 200));
        }
        self.most = self.most.max(memory());
    }

    fn is_fine(&self, before: u64) {
        // A machine with other work may be late once; a server that waits for a client is late by seconds.
        assert!(self.longest < 4 * AT_ONCE, "{self:?}");
        assert!(self.most < before + GROWTH, "{before} {self:?}");
    }
}

#[test]
fn sixty_half_requests_keep_nobody_waiting_and_hold_little() {
    let desk = tempfile::tempdir().unwrap();
    let server = Ours::new(settings(desk.path(), Some(TOKEN)));
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let json = "Content-Type: application/json\r\nContent-Length: 25000\r\n";
    let film = format!("{token}Content-Type: application/json\r\nContent-Length: 20000000\r\n");
    let upload = format!("{token}{FORM}Content-Length: 20000000\r\n");
    let part = "--XB\r\nContent-Disposition: form-data; name=\"content\"\r\nX: ";
    for half in [
        "GET /v1/mod".to_owned(),
        server.head("GET /v1/models", "").trim_end().to_owned() + &format!("\r\nX: {}", "a".repeat(14_000)),
        server.head("POST /v1/session", json) + "{\"token\":\"",
        server.head("POST /v1/predictions", &(token.clone() + json)) + &" ".repeat(24_000),
        server.head("POST /v1/predictions", &film)
            + "{\"version\":\"anime\",\"input\":{\"media\":\"data:video/mp4;base64,"
            + &"A".repeat(300_000),
        server.head("POST /v1/files", &upload) + part + &"a".repeat(7000),
    ] {
        let before = memory();
        let held: Vec<TcpStream> = (0..60).map(|_| server.begun(half.as_bytes())).collect();
        let mut seen = Seen::default();
        (0..5).for_each(|_| seen.look(&server));
        seen.is_fine(before);
        drop(held);
    }
}

#[test]
fn sixty_clients_that_read_nothing_hold_no_pictures() {
    let desk = tempfile::tempdir().unwrap();
    let server = Ours::new(settings(desk.path(), Some(TOKEN)));
    let id = "aaaaaaaaaaaaaaaaaaaaaaaaa";
    let previews = desk.path().join("previews").join(id);
    std::fs::create_dir(&previews).unwrap();
    let bytes: Vec<u8> = (0..6_000_000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(previews.join("before.png"), &bytes).unwrap();
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let before = memory();
    let line = format!("GET /v1/previews/{id}/before");
    let ask = server.head(&line, &format!("{token}Connection: close\r\n"));
    let held: Vec<TcpStream> = (0..60).map(|_| server.begun(ask.as_bytes())).collect();
    std::thread::sleep(Duration::from_millis(500));
    let mut seen = Seen::default();
    (0..5).for_each(|_| seen.look(&server));
    seen.is_fine(before);
    // Whoever reads at last has all of it.
    for stream in held.into_iter().take(3) {
        let answer = read(stream);
        assert!(answer.status == 200 && answer.head.contains("image/png"), "{}", answer.head);
        assert!(answer.head.contains("max-age=3600") && answer.body == bytes, "{}", answer.head);
    }
    let part = server.ask(&line, &format!("{token}Range: bytes=10-19\r\n"), b"");
    assert_eq!((part.status, &*part.body), (206, &bytes[10..20]));
}

/// Sends a request with a body in chunks until the server has enough of it, for some seconds at most.
fn endless(server: &Ours, start: &str, for_seconds: u64) -> (Answer, usize) {
    let head = server.head("POST /v1/files", &format!("{FORM}Transfer-Encoding: chunked\r\n"));
    let mut stream = server.begun(format!("{head}{:x}\r\n{start}\r\n", start.len()).as_bytes());
    let (piece, begun, mut sent) = ("a".repeat(64 << 10), Instant::now(), 0);
    let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
    while begun.elapsed() < Duration::from_secs(for_seconds) {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
        sent += chunk.len();
    }
    (read(stream), sent)
}

#[test]
fn a_form_header_that_never_ends_is_given_up() {
    let desk = tempfile::tempdir().unwrap();
    let server = Ours::new(settings(desk.path(), None));
    let before = memory();
    let disposition = "Content-Disposition: form-data; name=\"content\"; filename=\"a.mkv\"\r\n";
    for start in [format!("--XB\r\n{disposition}X: "), "--XB".to_owned(), "no mark".to_owned()] {
        let (answer, sent) = endless(&server, &start, 10);
        // An answer can be lost when what was sent behind it is thrown away.
        assert!(matches!(answer.status, 0 | 400), "{}", answer.head);
        assert!(sent < 16 << 20, "{sent} bytes were taken");
        assert!(memory() < before + GROWTH, "{}", memory());
    }
    // A header of 3 MB is no header, also where the rest is right.
    let body = format!("--XB\r\n{disposition}X: {}\r\n\r\nfilm\r\n--XB--\r\n", "a".repeat(3 << 20));
    let answer = server.ask("POST /v1/files", FORM, body.as_bytes());
    assert!(matches!(answer.status, 0 | 400), "{}", answer.head);
    assert_eq!(server.ask("POST /v1/files", FORM, &form("a.mkv", b"film")).status, 201);
    assert_eq!(std::fs::read_dir(desk.path().join("files")).unwrap().count(), 1);
}

#[test]
fn a_client_that_has_sent_all_may_close_its_side() {
    let desk = tempfile::tempdir().unwrap();
    let server = Ours::new(settings(desk.path(), None));
    let body = form("a.mkv", &[7; 300_000]);
    for _ in 0..18 {
        let head = server.head("POST /v1/files", &format!("{FORM}Content-Length: {}\r\n", body.len()));
        let answer = half_closed(server.begun(&[head.as_bytes(), &body].concat()));
        assert_eq!(answer.status, 201, "{}", answer.head);
    }
    let answer = half_closed(server.begun(server.head("GET /healthz", "").as_bytes()));
    assert_eq!((answer.status, &*answer.body), (200, &b"ok"[..]));
    let dates = answer.head.lines().filter(|line| line.starts_with("date: ") && line.ends_with(" GMT"));
    assert_eq!(dates.count(), 1, "{}", answer.head);
    // HTTP/1.0 as it is typed.
    let old = format!("GET /v1/files HTTP/1.0\r\nHost: {}\r\n\r\n", server.at);
    assert_eq!(half_closed(server.begun(old.as_bytes())).status, 200);
    // One that has not sent all has no file.
    let head = server.head("POST /v1/files", &format!("{FORM}Content-Length: {}\r\n", body.len()));
    let answer = half_closed(server.begun(&[head.as_bytes(), &body[..1000]].concat()));
    assert!(matches!(answer.status, 0 | 400), "{}", answer.head);
    assert_eq!(std::fs::read_dir(desk.path().join("files")).unwrap().count(), 18);
    // Events have no end but this one.
    let begun = Instant::now();
    let answer = half_closed(server.begun(server.head("GET /v1/events", "").as_bytes()));
    assert!(answer.status == 200 && begun.elapsed() < LIMIT / 6, "{}", answer.head);
}

/// A server whose work is a script, with an upload, and the request for a preview of it.
fn working(desk: &Path, script: &str) -> (Ours, String) {
    program(&desk.join("work"), &format!("#!/bin/sh\nread task\n{script}\n"));
    let mut settings = settings(&desk.join("state"), None);
    settings.devices = vec!["cpu".into()];
    let server = Ours::with(settings, desk.join("work"));
    let upload = server.ask("POST /v1/files", FORM, &form("a.mkv", b"film"));
    let text = String::from_utf8_lossy(&upload.body).into_owned();
    let media = text.split("\"get\":\"").nth(1).unwrap().split('"').next().unwrap();
    let body = format!("{{\"version\":\"anime\",\"input\":{{\"media\":\"{media}\",\"resolution\":\"2x\"}}}}");
    let head = server.head(
        "POST /v1/previews",
        &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()),
    );
    (server, head + &body)
}

fn until(what: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < LIMIT, "it never happens");
        std::thread::sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}

#[test]
fn a_client_that_waits_with_one_side_closed_gets_a_preview() {
    let desk = tempfile::tempdir().unwrap();
    let (server, ask) = working(desk.path(), "sleep 2; echo '{\"width\":7}'");
    let mut stream = server.begun(ask.as_bytes());
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("HTTP/1.1 201 ") && text.contains("\"width\":7"), "{text}");
    drop(server);
}

#[test]
fn a_preview_ends_with_its_client() {
    let desk = tempfile::tempdir().unwrap();
    let (begun, ended) = (desk.path().join("begun"), desk.path().join("ended"));
    // The end of stdin is what ends it.
    let script = format!("echo > '{}'; read more; echo > '{}'", begun.display(), ended.display());
    let (server, ask) = working(desk.path(), &script);
    for half_closed in [false, true] {
        let stream = server.begun(ask.as_bytes());
        until(|| begun.exists());
        assert!(!ended.exists());
        if half_closed {
            // It waits for a while, and then leaves without a sign.
            stream.shutdown(Shutdown::Write).unwrap();
            std::thread::sleep(Duration::from_secs(1));
            assert!(!ended.exists());
        }
        drop(stream);
        let took = until(|| ended.exists());
        assert!(took < Duration::from_secs(10), "{took:?}");
        std::fs::remove_file(&begun).unwrap();
        std::fs::remove_file(&ended).unwrap();
        // The device is free for the next.
        until(|| server.ask("GET /v1/predictions", "", b"").status == 200);
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn a_body_of_a_few_words_is_not_waited_for() {
    let desk = tempfile::tempdir().unwrap();
    let server = Ours::new(settings(desk.path(), Some(TOKEN)));
    let begun = Instant::now();
    let head = server.head("POST /v1/session", "Content-Length: 30\r\nConnection: close\r\n");
    let answer = read(server.begun((head + "{").as_bytes()));
    assert_eq!(answer.status, 408, "{}", answer.head);
    assert!((4..12).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[test]
fn a_film_inside_of_a_request_goes_to_the_disk() {
    let desk = tempfile::tempdir().unwrap();
    let server = Ours::new(settings(desk.path(), None));
    let film: Vec<u8> = (0..12_000_001_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let create = |data: &str, more: &str| {
        let body =
            format!("{{\"input\":{{\"media\":\"{data}\",\"resolution\":\"2x\"}},\"version\":\"anime\"}}");
        server.ask("POST /v1/predictions", more, body.as_bytes())
    };
    let before = memory();
    let data = format!("data:video/x-matroska;base64,{}", STANDARD.encode(&film));
    // Some programs write these letters so.
    let escaped = data.replace('/', "\\/").replace('+', "\\u002B");
    let ours = 4 * data.len() as u64 + 2 * film.len() as u64;
    for data in [&data, &escaped] {
        let answer = create(data, "");
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
        assert!(memory() < before + GROWTH + ours, "{}", memory());
    }
    let kept: Vec<Vec<u8>> = std::fs::read_dir(desk.path().join("files"))
        .unwrap()
        .map(|folder| std::fs::read(folder.unwrap().path().join("content.mkv")).unwrap())
        .collect();
    assert!(kept.len() == 2 && kept.iter().all(|kept| *kept == film));
    // The same key is the same request only with the same film.
    let key = "Idempotency-Key: one\r\n";
    let small = |bytes: &[u8]| format!("data:video/mp4;base64,{}", STANDARD.encode(bytes));
    let id = |answer: Answer| {
        let text = String::from_utf8(answer.body).unwrap();
        (
            answer.status,
            text.split("\"id\":\"").nth(1).unwrap_or_default().chars().take(25).collect::<String>(),
        )
    };
    let first = id(create(&small(b"film"), key));
    assert_eq!((first.0, id(create(&small(b"film"), key))), (201, first.clone()));
    assert_ne!(id(create(&small(b"other"), key)).0, 201);
    assert_eq!(std::fs::read_dir(desk.path().join("files")).unwrap().count(), 3);
    for wrong in [
        "data:",
        "data:video/mp4;base64",
        "data:video/mp4,AAAA",
        "data:video/mp4;base64,AAA",
        "data:video/mp4;base64,AAA=AAAA",
        "data:video/mp4;base64,@@@@",
        "data:a b;base64,AAAA",
        "data:video/mp4;base64,AA\\nAA",
    ] {
        let answer = create(wrong, "");
        assert_eq!(answer.status, 422, "{wrong}: {}", String::from_utf8_lossy(&answer.body));
    }
    // No more than one, and nothing else that is long.
    let twice = format!("{},\"seed\":\"{}", small(b"a"), small(b"b")).replacen(",\"seed", "\",\"seed", 1);
    assert_eq!(create(&twice, "").status, 422);
    assert_eq!(create(&"x".repeat(100_000), "").status, 413);
    assert_eq!(create(&format!("data:video/mp4;base64,{}", "A".repeat(25 << 20)), "").status, 413);
    assert_eq!(std::fs::read_dir(desk.path().join("files")).unwrap().count(), 3);
}

#[test]
fn what_the_server_keeps_is_for_its_user_alone() {
    let desk = tempfile::tempdir().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let allow = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let state = desk.path().join("state");
    assert_eq!(bind(settings(&state, None), "/nowhere".into()).warnings(), [""; 0]);
    let secret = state.join("webhook-secret");
    let word = std::fs::read(&secret).unwrap();
    assert_eq!((mode(&state), mode(&secret)), (0o700, 0o600));
    // A folder that somebody made, with what an older server left in it.
    allow(&state, 0o755);
    allow(&secret, 0o644);
    for name in ["jobs", "files", "previews"] {
        assert_eq!(mode(&state.join(name)), 0o700, "{name}");
        allow(&state.join(name), 0o755);
    }
    let server = bind(settings(&state, None), "/nowhere".into());
    let warnings = server.warnings().join("\n");
    assert!(warnings.contains("chmod 700 ") && warnings.contains("webhook-secret"), "{warnings}");
    assert_eq!((mode(&secret), mode(&state)), (0o600, 0o755));
    assert_eq!(std::fs::read(&secret).unwrap(), word);
    for name in ["jobs", "files", "previews"] {
        assert_eq!(mode(&state.join(name)), 0o700, "{name}");
    }
}
