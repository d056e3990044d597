//! Films behind URLs: real sockets on loopback, and servers that lie, stall, redirect and never end.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use remaster_serve::NetError;
use remaster_serve::fetch::{FetchError, Fetched, Limits, fetch};
use remaster_serve::hosts::{AllowedHosts, Refusal};

use crate::server::Server;

const LIMITS: Limits =
    Limits { bytes: 1 << 20, total: Duration::from_secs(20), idle: Duration::from_secs(10) };

fn allow<const N: usize>(hosts: [String; N]) -> AllowedHosts {
    AllowedHosts::new(hosts).unwrap()
}

/// Fetches with the server itself allowed.
fn get(server: &Server, limits: Limits) -> (Result<Fetched, FetchError>, Vec<u8>) {
    let mut into = Vec::new();
    let result = fetch(
        &server.url("/films/tape.mkv?x=1"),
        &allow([server.at.to_string()]),
        limits,
        &|| false,
        &mut into,
    );
    (result, into)
}

fn redirect(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
}

#[test]
fn a_film_arrives_with_its_name_and_type() {
    let film: Vec<u8> = (0..LIMITS.bytes).map(|i| (i / 7) as u8).collect();
    let (head, body) = ("HTTP/1.1 200 OK\r\nContent-Type: Video/MP4; x=y\r\nContent-Length: ", film.clone());
    let (heard, asked) = mpsc::channel();
    let server = Server::new(move |request, stream| {
        heard.send(request.to_owned()).unwrap();
        stream.write_all(format!("{head}{}\r\n\r\n", body.len()).as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
    });
    // As many bytes as the limit are allowed.
    let (result, into) = get(&server, LIMITS);
    let content_type = Some("video/mp4".to_owned());
    assert_eq!(result.unwrap(), Fetched { bytes: LIMITS.bytes, content_type, name: "tape.mkv".into() });
    assert!(into == film);
    let asked = asked.recv().unwrap().to_ascii_lowercase();
    assert!(asked.starts_with("get /films/tape.mkv?x=1 http/1.1\r\n"), "{asked}");
    assert!(asked.contains("accept-encoding: identity\r\n"), "{asked}");
    assert!(asked.contains(&format!("host: {}\r\n", server.at)), "{asked}");
}

#[test]
fn five_redirects_are_followed() {
    let server = Server::new(|request, stream| {
        let hops: u32 = request[5..6].parse().unwrap();
        let answer = match hops {
            0 => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(),
            hops => redirect(&format!("/{}", hops - 1)),
        };
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let hosts = allow([server.at.to_string()]);
    let mut into = Vec::new();
    assert_eq!(fetch(&server.url("/5"), &hosts, LIMITS, &|| false, &mut into).unwrap().bytes, 2);
    assert_eq!((into, server.count()), (b"ok".to_vec(), 6));
    let error = fetch(&server.url("/6"), &hosts, LIMITS, &|| false, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, FetchError::Redirects { .. }), "{error}");
    assert_eq!(server.count(), 12);
}

#[test]
fn redirects_lead_to_no_other_address() {
    // Every way to write loopback that a client could misread.
    let forbidden = Server::saying("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret");
    let port = forbidden.at.port();
    for to in [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "0.0.0.0",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "public.example@127.0.0.1",
        "private.example",
        "other.example",
        "%31%32%37.0.0.1",
    ] {
        for location in
            [format!("http://{to}:{port}/"), format!("//{to}:{port}/"), format!("HTTP://{to}:{port}/x")]
        {
            let server = Server::saying(redirect(&location));
            let (asked, lookup) = (server.at.ip(), |_: &str| Ok(vec!["127.0.0.1".parse().unwrap()]));
            assert!(asked.is_loopback());
            let hosts = allow([server.at.to_string(), format!("private.example:{port}")])
                .with_lookup(Arc::new(lookup));
            let mut into = Vec::new();
            let error = fetch(&server.url("/"), &hosts, LIMITS, &|| false, &mut into).unwrap_err();
            assert!(matches!(error, FetchError::Redirected { .. }), "{location}: {error}");
            assert_eq!((server.count(), into.len()), (1, 0), "{location}");
        }
    }
    for location in ["file:///etc/passwd", "gopher://127.0.0.1/x", "data:,x", "", "http://"] {
        let error = get(&Server::saying(redirect(location)), LIMITS).0.unwrap_err();
        assert!(matches!(error, FetchError::Redirected { .. }), "{location}: {error}");
    }
    assert_eq!(forbidden.count(), 0);
}

#[test]
fn hosts_that_are_not_allowed_and_private_answers_are_not_connected_to() {
    let forbidden = Server::saying("HTTP/1.1 200 OK\r\n\r\nsecret");
    let port = forbidden.at.port();
    let hosts = |answer: &'static [&'static str]| {
        let lookup = move |_: &str| Ok(answer.iter().map(|ip| ip.parse::<IpAddr>().unwrap()).collect());
        allow([format!("films.example:{port}"), "127.0.0.1".into()]).with_lookup(Arc::new(lookup))
    };
    for answer in [
        &["127.0.0.1"][..],
        &["::1"],
        &["::ffff:127.0.0.1"],
        &["0.0.0.0"],
        &["1.1.1.1", "127.0.0.1"],
        &["127.0.0.1", "1.1.1.1"],
        &["64:ff9b::7f00:1"],
    ] {
        let url = format!("http://films.example:{port}/");
        let error = fetch(&url, &hosts(answer), LIMITS, &|| false, &mut Vec::new()).unwrap_err();
        let private = matches!(error, FetchError::Net(NetError::Refused(Refusal::Private { .. })));
        assert!(private && error.to_string().contains("--allow-host "), "{error}");
    }
    // The address is allowed, with the usual port.
    let error = fetch(&forbidden.url("/"), &hosts(&[]), LIMITS, &|| false, &mut Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "127.0.0.1:{port} is not an allowed host; start the server with --allow-host 127.0.0.1:{port}"
        )
    );
    assert_eq!(forbidden.count(), 0);
}

// macOS has no 127.0.0.2.
#[cfg(not(target_os = "macos"))]
#[test]
fn a_name_that_changes_its_address_is_looked_up_once_and_checked_every_time() {
    let forbidden =
        Server::at("127.0.0.2:0", |_, stream| drop(stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nsecret")));
    let port = forbidden.at.port();
    // The same port, so that nothing but the address keeps them apart.
    let good = Server::at(("127.0.0.1", port), move |request, stream| {
        let again = redirect(&format!("http://films.example:{port}/x"));
        let answer = if request.starts_with("GET /again") {
            &again
        } else {
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
        };
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    // The first answer of every two is harmless.
    let lookup = move |_: &str| {
        let address =
            if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) { "127.0.0.1" } else { "127.0.0.2" };
        Ok(vec![address.parse().unwrap()])
    };
    let hosts =
        allow([format!("films.example:{port}"), format!("127.0.0.1:{port}")]).with_lookup(Arc::new(lookup));
    let mut into = Vec::new();
    fetch(&format!("http://films.example:{port}/"), &hosts, LIMITS, &|| false, &mut into).unwrap();
    assert_eq!((into, asked.swap(0, Ordering::SeqCst)), (b"good".to_vec(), 1));
    let again = format!("http://films.example:{port}/again");
    let error = fetch(&again, &hosts, LIMITS, &|| false, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("has the address 127.0.0.2, which is not public"), "{error}");
    assert_eq!((good.count(), asked.load(Ordering::SeqCst), forbidden.count()), (2, 2, 0));
}

#[test]
fn more_addresses_than_fit_are_all_checked() {
    let server = Server::saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let port = server.at.port();
    let fetched = |last: &'static str| {
        let lookup = move |_: &str| {
            let many = std::iter::repeat_n("127.0.0.1", 40).chain([last]);
            Ok(many.map(|ip| ip.parse().unwrap()).collect())
        };
        let hosts =
            allow([format!("films.example:{port}"), server.at.to_string()]).with_lookup(Arc::new(lookup));
        fetch(&format!("http://films.example:{port}/"), &hosts, LIMITS, &|| false, &mut Vec::new())
    };
    assert_eq!(fetched("127.0.0.1").unwrap().bytes, 2);
    assert!(fetched("10.0.0.1").is_err());
    assert_eq!(server.count(), 1);
}

#[test]
fn lies_about_the_size_change_nothing() {
    let small = Limits { bytes: 1000, ..LIMITS };
    let body = "x".repeat(5000);
    // Announced too much: nothing is read. Announced too little: no more is read. Not announced: counted.
    for (head, refused, most) in [
        ("Content-Length: 5000", true, 0),
        ("Content-Length: 18446744073709551615", true, 0),
        ("Content-Length: 10", false, 10),
        ("Connection: close", true, 1000),
        ("Transfer-Encoding: chunked\r\nContent-Length: 10", true, 1000),
        ("Content-Length: 10\r\nContent-Length: 5000", true, 1000),
        ("Content-Length: -1", true, 1000),
        ("Content-Length: 99999999999999999999", true, 1000),
    ] {
        let body =
            if head.contains("chunked") { format!("1388\r\n{body}\r\n0\r\n\r\n") } else { body.clone() };
        let (result, into) = get(&Server::saying(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}")), small);
        assert!(result.is_err() == refused && into.len() <= most, "{head}: {result:?}, {}", into.len());
    }
    let error = get(&dripping("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\nx", ""), small).0.unwrap_err();
    assert!(matches!(error, FetchError::Large { limit: 1000, .. }), "{error}");
    // A film that ends early is none.
    for head in ["Content-Length: 900", "Transfer-Encoding: chunked"] {
        let body = if head.contains("chunked") { "384\r\nabc" } else { "abc" };
        let error =
            get(&Server::saying(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}")), small).0.unwrap_err();
        assert!(matches!(error, FetchError::Net(NetError::Network { .. })), "{head}: {error}");
    }
}

#[test]
fn endless_bodies_and_heads_end() {
    for head in ["Connection: close", "Transfer-Encoding: chunked"] {
        let chunked = head.contains("chunked");
        let server = Server::new(move |_, stream| {
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").as_bytes()).unwrap();
            let piece =
                if chunked { [&b"1000\r\n"[..], &[0; 4096], b"\r\n"].concat() } else { vec![0; 4096] };
            while stream.write_all(&piece).is_ok() {}
        });
        let (result, into) = get(&server, LIMITS);
        assert!(
            matches!(result, Err(FetchError::Large { limit, .. }) if limit == LIMITS.bytes),
            "{result:?}"
        );
        assert!(into.len() as u64 <= LIMITS.bytes);
    }
    for endless in ["X: y\r\n", "x", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let server = Server::new(move |_, stream| {
            drop(stream.write_all(b"HTTP/1.1 100 Continue\r\n"));
            while stream.write_all(endless.repeat(100).as_bytes()).is_ok() {}
        });
        let (start, limits) = (Instant::now(), Limits { total: Duration::from_secs(2), ..LIMITS });
        let (result, into) = get(&server, limits);
        assert!(result.is_err() && into.is_empty() && start.elapsed() < Duration::from_secs(3), "{result:?}");
    }
}

/// Sends `start`, then `drip` every 50 ms for as long as somebody listens.
fn dripping(start: &'static str, drip: &'static str) -> Server {
    Server::new(move |_, stream| {
        stream.write_all(start.as_bytes()).unwrap();
        if drip.is_empty() {
            // Until the other end leaves.
            drop(stream.read(&mut [0]));
        }
        while stream.write_all(drip.as_bytes()).is_ok() && !drip.is_empty() {
            thread::sleep(Duration::from_millis(50));
        }
    })
}

#[test]
fn slow_servers_are_left() {
    let ms = Duration::from_millis;
    let limits = Limits { total: ms(2000), idle: ms(1000), ..LIMITS };
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    for (start, drip, silent) in [
        ("", "", true),
        ("HTTP/1.1 200", "", true),
        (ok, "", true),
        (ok, "x", false),
        ("HTTP/1.1 200 OK\r\n", "X: y\r\n", true),
    ] {
        let started = Instant::now();
        let (result, _) = get(&dripping(start, drip), limits);
        let error = result.unwrap_err();
        let (found, limit) = match &error {
            FetchError::Net(NetError::Silent { .. }) => (true, limits.idle),
            FetchError::Net(NetError::Slow { .. }) => (false, limits.total),
            other => panic!("{start:?}: {other}"),
        };
        assert_eq!(found, silent, "{start:?} {drip:?}: {error}");
        let took = started.elapsed();
        assert!(took >= limit && took < limit + ms(1000), "{start:?}: {took:?}");
    }
}

#[test]
fn redirects_share_one_limit() {
    let server = Server::new(|_, stream| {
        thread::sleep(Duration::from_millis(400));
        drop(stream.write_all(redirect("/again").as_bytes()));
    });
    let limits = Limits { total: Duration::from_millis(900), ..LIMITS };
    let error = get(&server, limits).0.unwrap_err();
    assert!(matches!(error, FetchError::Net(NetError::Slow { .. })), "{error}");
    assert!(server.count() <= 3, "{}", server.count());
}

/// How long it takes from `stop` to the end.
fn stopped(url: &str, hosts: &AllowedHosts) -> Duration {
    let started = Instant::now();
    let stop = || started.elapsed() > Duration::from_millis(300);
    let error = fetch(url, hosts, LIMITS, &stop, &mut io::sink()).unwrap_err();
    assert!(matches!(error, FetchError::Net(NetError::Stopped)), "{error}");
    started.elapsed() - Duration::from_millis(300)
}

#[test]
fn stop_ends_every_wait_and_the_connection() {
    let second = Duration::from_secs(1);
    for start in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
    ] {
        let (left, gone) = mpsc::channel();
        let server = Server::new(move |_, stream: &mut TcpStream| {
            stream.write_all(start.as_bytes()).unwrap();
            // The end of the connection, not of the patience of this server.
            left.send(stream.read(&mut [0]).map_err(|error| error.kind())).unwrap();
        });
        assert!(stopped(&server.url("/"), &allow([server.at.to_string()])) < second, "{start:?}");
        let seen = gone.recv_timeout(second).unwrap();
        assert!(matches!(seen, Ok(0) | Err(io::ErrorKind::ConnectionReset)), "{start:?}: {seen:?}");
    }
    // A resolver that hangs; what it finds in the end is not connected to.
    let server = Server::saying("");
    let lookup = |_: &str| {
        thread::sleep(Duration::from_millis(1500));
        Ok(vec!["127.0.0.1".parse().unwrap()])
    };
    let port = server.at.port();
    let hosts = allow([format!("films.example:{port}"), server.at.to_string()]).with_lookup(Arc::new(lookup));
    assert!(stopped(&format!("http://films.example:{port}/"), &hosts) < second);
    thread::sleep(Duration::from_secs(2));
    assert_eq!(server.count(), 0);
}

#[test]
fn other_answers_are_errors_with_a_next_step() {
    for (answer, says) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP 404"),
        ("HTTP/1.1 204 No Content\r\n\r\n", "HTTP 204"),
        ("HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n\r\nx", "HTTP 206"),
        ("HTTP/1.1 300 Multiple Choices\r\nContent-Length: 0\r\n\r\n", "HTTP 300"),
        ("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "compressed"),
        ("", "ended early"),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "the connection to"),
        ("\0\0\0\0", "the connection to"),
    ] {
        let server = Server::saying(answer);
        let (result, into) = get(&server, LIMITS);
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains(says) && error.contains(&server.at.to_string()) && error.contains("; "),
            "{answer}: {error}"
        );
        assert!(into.is_empty());
    }
    // No certificate at all.
    let server = Server::saying("HTTP/1.1 200 OK\r\n\r\n");
    let url = format!("https://{}/", server.at);
    let error = fetch(&url, &allow([server.at.to_string()]), LIMITS, &|| false, &mut io::sink()).unwrap_err();
    assert!(matches!(error, FetchError::Net(NetError::Insecure { .. })), "{error}");
    // Nobody there.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{nobody}/");
    let error = fetch(&url, &allow([nobody.to_string()]), LIMITS, &|| false, &mut io::sink()).unwrap_err();
    assert!(matches!(error, FetchError::Net(NetError::Network { .. })), "{error}");
}

#[test]
fn a_full_disk_ends_the_transfer() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let server = Server::saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let error =
        fetch(&server.url("/"), &allow([server.at.to_string()]), LIMITS, &|| false, &mut Full).unwrap_err();
    assert!(matches!(error, FetchError::Write(_)), "{error}");
}
