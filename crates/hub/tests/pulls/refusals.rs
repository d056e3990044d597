//! Servers that say no, or say nothing of use.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::*;

fn answer(status: &'static str, headers: &'static [(&'static str, &'static str)]) -> Server {
    Server::new(move |_, stream| server::head(stream, status, headers))
}

fn error(server: &Server, settings: impl FnOnce(HubSettings) -> HubSettings) -> HubError {
    let (desk, content) = (Desk::new(), Content::new(1000));
    pull(settings(desk.settings(server)), &content).unwrap_err()
}

#[test]
fn each_refusal_says_what_to_do() {
    let gated = &[("X-Error-Message", "Access to model owner/name is restricted."), ("Content-Length", "0")];
    for (status, words) in [
        ("401 Unauthorized", ["HTTP 401: Access to model", "set HF_TOKEN"]),
        ("403 Forbidden", ["HTTP 403", "set HF_TOKEN"]),
        ("404 Not Found", ["has no model.safetensors in owner/name", "by hand"]),
        ("410 Gone", ["HTTP 410", "moved"]),
        ("418 I'm a teapot", ["HTTP 418", "try again later"]),
    ] {
        let server = answer(status, gated);
        let text = error(&server, |s| s).to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert_eq!(server.requests().len(), 1, "{status} is not tried again");
    }
    let server = answer("403 Forbidden", gated);
    let text = error(&server, |s| HubSettings { token: Some("hf_x".into()), ..s }).to_string();
    assert!(text.contains("check that HF_TOKEN is valid") && !text.contains("hf_x"), "{text}");
}

#[test]
fn a_busy_server_is_asked_again_when_it_says_and_not_forever() {
    let (desk, content) = (Desk::new(), Content::new(50_000));
    for status in ["429 Too Many Requests", "503 Service Unavailable", "500 Oops"] {
        let (inner, count) = (content.clone(), AtomicUsize::new(0));
        let server = Server::new(move |request, stream| {
            match (count.fetch_add(1, Ordering::SeqCst), request.method.as_str()) {
                (0 | 2 | 3, _) => {
                    server::head(stream, status, &[("Retry-After", "0"), ("Content-Length", "0")])
                }
                (_, "HEAD") => inner.about(stream),
                _ => inner.send(request, stream, usize::MAX),
            }
        });
        is_whole(&pull(desk.settings(&server), &content).unwrap(), &content);
        assert_eq!(server.requests().len(), 5);
        std::fs::remove_dir_all(desk.repo()).unwrap();
    }

    let server = answer("503 Service Unavailable", &[("Content-Length", "0")]);
    let text = error(&server, |s| s).to_string();
    assert!(text.contains("HTTP 503 (4 attempts)"), "{text}");
    assert_eq!(server.requests().len(), 4);

    let server = answer("429 Too Many Requests", &[("Retry-After", "1"), ("Content-Length", "0")]);
    let started = Instant::now();
    let limits = Limits { retries: 1, ..LIMITS };
    assert!(matches!(error(&server, |s| HubSettings { limits, ..s }), HubError::Network { .. }));
    assert!(started.elapsed() >= Duration::from_secs(1));

    let server = answer("429 Too Many Requests", &[("Retry-After", "86400"), ("Content-Length", "0")]);
    assert!(matches!(error(&server, |s| s), HubError::Busy { seconds: 86_400, .. }));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn redirects_in_a_circle_end() {
    let server = answer("302 Found", &[("Location", "/again"), ("Content-Length", "0")]);
    assert!(matches!(error(&server, |s| s), HubError::Redirects { most: 5, .. }));
    assert_eq!(server.requests().len(), 6);
    for to in [&[("Location", "ftp://x/y")], &[("Location", "file:///etc/passwd")], &[("X", "y")]] {
        let server = answer("302 Found", to);
        assert!(matches!(error(&server, |s| s), HubError::Redirect { .. }));
    }
    // Also in front of the bytes.
    let (desk, content) = (Desk::new(), Content::new(1000));
    let server =
        server::hub(&content, |_, _, stream| server::head(stream, "307 Go", &[("Location", "loop")]));
    assert!(matches!(pull(desk.settings(&server), &content), Err(HubError::Redirects { .. })));
}

#[test]
fn what_is_no_hub_is_named() {
    for (headers, word) in [
        (&[("Content-Length", "5")] as &[(&str, &str)], "no commit"),
        (
            &[("X-Repo-Commit", "../../../../tmp/evil/path/of/40/letters.."), ("X-Linked-Size", "5")],
            "no hash",
        ),
        (&[("X-Repo-Commit", "main")], "no hash"),
        (&[("X-Repo-Commit", COMMIT)], "no size"),
        (&[("X-Repo-Commit", COMMIT), ("X-Linked-Size", "-1")], "no size"),
    ] {
        let server = answer("200 OK", headers);
        let text = error(&server, |s| s).to_string();
        assert!(text.contains(word) && text.contains("HF_ENDPOINT"), "{text}");
    }
    // Headers without an end.
    let server = Server::new(|_, stream| {
        std::io::Write::write_all(stream, b"HTTP/1.1 200 OK\r\n")?;
        for n in 0..100_000 {
            std::io::Write::write_all(stream, format!("X-{n}: {}\r\n", "y".repeat(90)).as_bytes())?;
        }
        Ok(())
    });
    let error_ = error(&server, |s| s);
    assert!(matches!(error_, HubError::NotAHub { .. } | HubError::Network { .. }), "{error_}");
    // Not HTTP at all.
    let server = Server::new(|_, stream| std::io::Write::write_all(stream, b"SSH-2.0-OpenSSH\r\n\r\n"));
    assert!(matches!(error(&server, |s| s), HubError::Network { .. }));
    // Nothing within the limit.
    let server = Server::new(|_, _| {
        std::thread::sleep(Duration::from_secs(4));
        Ok(())
    });
    let limits = Limits { retries: 1, connect: Duration::from_millis(300), ..LIMITS };
    assert!(matches!(error(&server, |s| HubSettings { limits, ..s }), HubError::Network { tries: 2, .. }));
}

#[test]
fn nobody_there_is_said_with_the_host() {
    let desk = Desk::new();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("http://127.0.0.1:{port}");
    let settings = HubSettings { endpoint, limits: LIMITS, ..HubSettings::new(desk.0.path()) };
    let text = pull(settings, &Content::new(10)).unwrap_err().to_string();
    assert!(text.contains(&format!("127.0.0.1:{port}")) && text.contains("4 attempts"), "{text}");
}

#[test]
fn a_file_that_is_another_one_now_is_not_downloaded() {
    let (desk, content) = (Desk::new(), Content::new(1000));
    let other = Content::new(1001);
    let server = server::hub(&other, server::all);
    let text = pull(desk.settings(&server), &content).unwrap_err().to_string();
    assert!(text.contains("its SHA-256 is") && text.contains("nothing was downloaded"), "{text}");
    let hub = Hub::new(desk.settings(&server), Arc::new(|| false)).unwrap();
    let sized = Wanted { bytes: Some(1000), ..wanted(&other) };
    let text = hub.look(&sized, &mut |_| {}).unwrap_err().to_string();
    assert!(text.contains("its size is 1001 bytes, expected 1000 bytes"), "{text}");
    assert_eq!(server.gets().len(), 0);
}

#[test]
fn wrong_settings_are_said_at_once() {
    let hub = |change: fn(&mut HubSettings)| {
        let mut settings = HubSettings::new("/nowhere");
        change(&mut settings);
        Hub::new(settings, Arc::new(|| false)).err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert_eq!(hub(|_| {}), "");
    for change in [
        |s: &mut HubSettings| s.endpoint = "huggingface".into(),
        |s: &mut HubSettings| s.endpoint = "ftp://huggingface.co".into(),
        |s: &mut HubSettings| s.endpoint = "https://me:word@hub.co".into(),
        |s: &mut HubSettings| s.endpoint = String::new(),
    ] {
        assert!(hub(change).contains("HF_ENDPOINT"), "{}", hub(change));
    }
    assert!(hub(|s| s.token = Some("a\nb: c".into())).contains("HF_TOKEN"));
    assert!(hub(|s| s.certificates = Some("/nowhere.pem".into())).contains("/nowhere.pem"));
    assert!(hub(|s| s.certificates = Some("Cargo.toml".into())).contains("SSL_CERT_FILE"));
    assert!(hub(|s| s.proxy = Some("socks5://p:1".into())).contains("HTTPS_PROXY"));
}
