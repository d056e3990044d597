//! Webhooks: what a receiver gets, and who gets none.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use remaster_serve::NetError;
use remaster_serve::hosts::AllowedHosts;
use remaster_serve::webhooks::{ATTEMPT, DeliverError, Secret, deliver, signed};

use crate::server::Server;

/// What a limit or a stop may be late.
const SECOND: Duration = Duration::from_secs(1);

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn allow(hosts: &[String]) -> AllowedHosts {
    AllowedHosts::new(hosts).unwrap()
}

fn post(url: &str, hosts: &AllowedHosts, limit: Duration) -> Result<u16, DeliverError> {
    deliver(url, &[], b"{}", hosts, limit, &|| false)
}

#[test]
fn a_receiver_gets_the_body_and_its_signature() {
    let (heard, asked) = mpsc::channel();
    let server = Server::new(move |request, stream| {
        heard.send(request.to_owned()).unwrap();
        stream.write_all(OK.as_bytes()).unwrap();
    });
    let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
    let body = br#"{"test": 2432232314}"#;
    let headers = signed(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
    let hosts = allow(&[server.at.to_string()]);
    assert_eq!(deliver(&server.url("/hook?a=b"), &headers, body, &hosts, ATTEMPT, &|| false).unwrap(), 200);
    let asked = asked.recv().unwrap();
    let (head, got) = asked.split_once("\r\n\r\n").unwrap();
    assert_eq!(got.as_bytes(), body);
    assert!(head.starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{head}");
    for line in [
        "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp: 1614265330",
        "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "content-type: application/json",
        "content-length: 20",
    ] {
        assert!(head.lines().any(|found| found == line), "{line} in {head}");
    }
}

#[test]
fn private_addresses_get_nothing_unless_they_are_named() {
    let server = Server::saying(OK);
    let port = server.at.port();
    let name = format!("http://app.example:{port}/");
    let hosts = |values: &[String]| {
        let lookup = |_: &str| Ok(vec!["127.0.0.1".parse::<IpAddr>().unwrap()]);
        allow(values).with_lookup(Arc::new(lookup))
    };
    for url in [
        &server.url("/"),
        &name,
        &format!("http://[::ffff:127.0.0.1]:{port}/"),
        &format!("http://0.0.0.0:{port}/"),
    ] {
        // Named without its port, it is named with the usual one.
        for values in [&[][..], &["127.0.0.1".to_owned(), "app.example".to_owned()]] {
            let error = post(url, &hosts(values), ATTEMPT).unwrap_err();
            assert!(
                matches!(&error, DeliverError::Net(NetError::Refused(_))) && !error.is_passing(),
                "{error}"
            );
        }
    }
    assert_eq!(server.count(), 0);
    assert_eq!(post(&server.url("/"), &hosts(&[server.at.to_string()]), ATTEMPT).unwrap(), 200);
    // A name is only as good as who answers for it.
    assert!(post(&name, &hosts(&[format!("app.example:{port}")]), ATTEMPT).is_err());
    assert_eq!(post(&name, &hosts(&[server.at.to_string()]), ATTEMPT).unwrap(), 200);
    assert_eq!(server.count(), 2);
}

#[test]
fn redirects_are_not_followed() {
    let target = Server::saying(OK);
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let server = Server::saying(format!(
            "HTTP/1.1 {status}\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n",
            target.url("/")
        ));
        let hosts = allow(&[server.at.to_string(), target.at.to_string()]);
        let error = post(&server.url("/"), &hosts, ATTEMPT).unwrap_err();
        assert!(error.to_string().ends_with("give the URL where it ends") && !error.is_passing(), "{error}");
    }
    assert_eq!(target.count(), 0);
}

#[test]
fn what_may_pass_is_tried_again() {
    for (status, passing) in
        [("500 Oops", true), ("429 Slow down", true), ("404 No", true), ("410 Gone", false)]
    {
        let server = Server::saying(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        let error = post(&server.url("/"), &allow(&[server.at.to_string()]), ATTEMPT).unwrap_err();
        assert!(matches!(&error, DeliverError::Status { .. }) && error.is_passing() == passing, "{error}");
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(
        post(&format!("http://{nobody}/"), &allow(&[nobody.to_string()]), ATTEMPT).unwrap_err().is_passing()
    );
}

#[test]
fn receivers_that_stall_or_talk_forever_cost_no_time() {
    // The status is enough.
    let server = Server::new(|_, stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n"));
        while stream.write_all(&[0; 4096]).is_ok() {}
    });
    let started = Instant::now();
    assert_eq!(post(&server.url("/"), &allow(&[server.at.to_string()]), ATTEMPT).unwrap(), 200);
    assert!(started.elapsed() < Duration::from_secs(2));
    // Without a status there is a limit, or a stop before it.
    let server = Server::new(|_, stream| drop(stream.read(&mut [0])));
    let hosts = allow(&[server.at.to_string()]);
    let (started, limit) = (Instant::now(), Duration::from_millis(400));
    let error = post(&server.url("/"), &hosts, limit).unwrap_err();
    assert!(error.is_passing() && started.elapsed() < limit + SECOND, "{error}");
    let started = Instant::now();
    let error =
        deliver(&server.url("/"), &[], b"{}", &hosts, ATTEMPT, &|| started.elapsed() > limit).unwrap_err();
    assert!(
        matches!(error, DeliverError::Net(NetError::Stopped)) && started.elapsed() < limit + SECOND,
        "{error}"
    );
    // A body that nobody takes.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (url, started) = (format!("http://{at}/"), Instant::now());
    let error =
        deliver(&url, &[], &vec![0; 64 << 20], &allow(&[at.to_string()]), limit, &|| false).unwrap_err();
    assert!(error.is_passing() && started.elapsed() < limit + SECOND, "{error}");
}
