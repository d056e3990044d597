//! The same with the system's resolver, a DNS server that lies, and public addresses: in a network of its own, where all of
//! them are this machine. Needs root on Linux; elsewhere it says that it was not run.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use remaster_serve::NetError;
use remaster_serve::fetch::{FetchError, Limits, fetch};
use remaster_serve::hosts::{AllowedHosts, Refusal};
use remaster_serve::webhooks::{ATTEMPT, DeliverError, deliver};
use remaster_testkit::{not_run, rooted};

use crate::server::Server;

/// Set in the process that has the network of its own.
const INSIDE: &str = "REMASTER_TEST_NAMESPACE";

/// Public addresses that are this machine; the second answers to no connection.
const PUBLIC: &str = "93.184.216.34";
const VOID: &str = "198.41.0.4";

/// Addresses that nothing may connect to, all of them this machine.
const FORBIDDEN: [&str; 4] = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1"];

const LIMITS: Limits = Limits { bytes: 1000, total: Duration::from_secs(20), idle: Duration::from_secs(10) };

const SETUP: &str = r#"
set -e
mount --bind "$1/resolv.conf" /etc/resolv.conf
mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf
ip link set lo up
for address in 93.184.216.34 198.41.0.4 10.0.0.1 169.254.169.254; do ip address add "$address/32" dev lo; done
exec "$2" --exact "$3" --nocapture
"#;

#[test]
fn answers_of_the_dns_lead_to_no_private_address() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let able = rooted("unshare").args(["--net", "--mount", "ip", "link"]).output();
    if !able.is_ok_and(|output| output.status.success()) {
        let name = "answers_of_the_dns_lead_to_no_private_address";
        return not_run(
            name,
            "a network of its own needs root or sudo without a password, `unshare` and `ip`",
        );
    }
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("resolv.conf"), "nameserver 127.0.0.1\noptions timeout:20 attempts:1\n")
        .unwrap();
    std::fs::write(files.path().join("nsswitch.conf"), "hosts: files dns\n").unwrap();
    // The namespaces end with the process: nothing is left behind, however it ends.
    // The variables go with the command, as sudo hands none on.
    let mut child = rooted("unshare");
    child.args(["--net", "--mount", "env"]).arg(format!("{INSIDE}=1"));
    // A proxy that is one of the forbidden addresses.
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.arg(format!("{name}=http://127.0.0.1:80"));
    }
    child.args(["sh", "-c", SETUP, "sh"]).arg(files.path());
    child
        .arg(std::env::current_exe().unwrap())
        .arg("namespace::answers_of_the_dns_lead_to_no_private_address");
    let output = child.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // A name that matches no test would be a success, too.
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn inside() {
    let dns = Dns::new();
    let answer = |request: &str, stream: &mut TcpStream| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let answer = match path.strip_prefix("/to/") {
            Some(name) => {
                format!("HTTP/1.1 302 Found\r\nLocation: http://{name}/\r\nContent-Length: 0\r\n\r\n")
            }
            None => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfilm".to_owned(),
        };
        drop(stream.write_all(answer.as_bytes()));
    };
    let public = Server::at((PUBLIC, 80), answer);
    let forbidden = FORBIDDEN.map(|address| Server::at((address, 80), answer));
    let names = [
        "films", "loop", "lan", "cloud", "six", "mapped", "nat64", "mixed", "last", "rebind", "silent",
        "void", "none",
    ];
    let hosts = AllowedHosts::new(names.map(|name| format!("{name}.example"))).unwrap();
    let get = |url: &str| {
        let mut into = Vec::new();
        fetch(url, &hosts, LIMITS, &|| false, &mut into).map(|fetched| (fetched.bytes, into))
    };
    let post = |url: &str| deliver(url, &[], b"{}", &AllowedHosts::new([""; 0]).unwrap(), ATTEMPT, &|| false);

    // A public address is reached, through the system's resolver and past the proxy of the environment.
    assert_eq!(get("http://films.example/tape.mkv").unwrap(), (4, b"film".to_vec()));
    assert_eq!(post("http://films.example/hook").unwrap(), 200);
    assert_eq!(public.count(), 2);

    let mut reached = 2;
    for name in ["loop", "lan", "cloud", "six", "mapped", "nat64", "mixed", "last"] {
        let error = get(&format!("http://{name}.example/")).unwrap_err();
        assert!(
            matches!(error, FetchError::Net(NetError::Refused(Refusal::Private { .. }))),
            "{name}: {error}"
        );
        let error = post(&format!("http://{name}.example/")).unwrap_err();
        assert!(
            matches!(error, DeliverError::Net(NetError::Refused(Refusal::Private { .. }))),
            "{name}: {error}"
        );
        assert_eq!(public.count(), reached, "{name}");
        let error = get(&format!("http://films.example/to/{name}.example")).unwrap_err();
        assert!(error.to_string().contains("which is not public"), "{name}: {error}");
        reached += 1;
        assert_eq!(public.count(), reached, "{name}");
    }
    let error = get("http://none.example/").unwrap_err();
    assert!(matches!(error, FetchError::Net(NetError::Refused(Refusal::Unknown { .. }))), "{error}");

    // The first answer is public, every other is not: one question, and the connection goes where its answer led.
    assert_eq!(get("http://rebind.example/").unwrap().0, 4);
    assert_eq!((dns.asked("rebind.example"), public.count()), (1, reached + 1));
    assert!(get("http://rebind.example/").is_err());

    let _void = void();
    // Neither a silent DNS server nor a connection into nothing keeps anybody waiting.
    for name in ["silent", "void"] {
        let (url, started) = (format!("http://{name}.example/"), Instant::now());
        let stop = || started.elapsed() > Duration::from_millis(300);
        let error = fetch(&url, &hosts, LIMITS, &stop, &mut io::sink()).unwrap_err();
        assert!(matches!(error, FetchError::Net(NetError::Stopped)), "{name}: {error}");
        let short = Limits { idle: Duration::from_millis(400), ..LIMITS };
        let error = fetch(&url, &hosts, short, &|| false, &mut io::sink()).unwrap_err();
        assert!(matches!(error, FetchError::Net(NetError::Silent { .. })), "{name}: {error}");
        assert!(started.elapsed() < Duration::from_millis(2700), "{name}: {:?}", started.elapsed());
    }
    for (server, address) in forbidden.iter().zip(FORBIDDEN) {
        assert_eq!(server.count(), 0, "{address}");
    }
}

/// A listener whose queue is full, so that who comes now is not answered, and those who wait in it.
fn void() -> (TcpListener, Vec<TcpStream>) {
    std::fs::write("/proc/sys/net/core/somaxconn", "0").unwrap();
    let listener = TcpListener::bind((VOID, 80)).unwrap();
    let at = listener.local_addr().unwrap();
    let wait = || TcpStream::connect_timeout(&at, Duration::from_millis(200)).ok();
    let waiting: Vec<_> = std::iter::from_fn(wait).take(100).collect();
    assert!(waiting.len() < 100);
    (listener, waiting)
}

/// A DNS server that counts the questions for IPv4 addresses.
struct Dns {
    asked: Arc<Mutex<HashMap<String, usize>>>,
}

impl Dns {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
        let asked: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let counts = Arc::clone(&asked);
        thread::spawn(move || {
            let mut packet = [0; 512];
            loop {
                let (length, from) = socket.recv_from(&mut packet).unwrap();
                let (name, kind, end) = question(&packet[..length]);
                let before = {
                    let mut counts = counts.lock().unwrap();
                    let count = counts.entry(name.clone()).or_default();
                    *count += usize::from(kind == 1);
                    *count - usize::from(kind == 1)
                };
                if name != "silent.example" {
                    let all = addresses(&name, before);
                    socket.send_to(&response(&packet[..end], kind, &all), from).unwrap();
                }
            }
        });
        Dns { asked }
    }

    fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

fn addresses(name: &str, before: usize) -> Vec<IpAddr> {
    let all: Vec<String> = match name.split('.').next().unwrap_or_default() {
        "films" => vec![PUBLIC.into()],
        "loop" => vec!["127.0.0.1".into()],
        "lan" => vec!["10.0.0.1".into()],
        "cloud" => vec!["169.254.169.254".into()],
        "six" => vec!["::1".into()],
        "mapped" => vec!["::ffff:127.0.0.1".into()],
        "nat64" => vec!["64:ff9b::a00:1".into()],
        "mixed" => vec![PUBLIC.into(), "10.0.0.1".into()],
        // More than the client keeps.
        "last" => (1..=20).map(|i| format!("93.184.216.{i}")).chain(["127.0.0.1".into()]).collect(),
        "rebind" => vec![if before == 0 { PUBLIC } else { "127.0.0.1" }.into()],
        "void" => vec![VOID.into()],
        _ => vec![],
    };
    all.iter().map(|address| address.parse().unwrap()).collect()
}

/// Name, kind (1 is IPv4, 28 is IPv6) and end of the first question.
fn question(packet: &[u8]) -> (String, u8, usize) {
    let (mut labels, mut at) = (Vec::new(), 12);
    while packet[at] != 0 {
        let end = at + 1 + usize::from(packet[at]);
        labels.push(String::from_utf8_lossy(&packet[at + 1..end]).to_ascii_lowercase());
        at = end;
    }
    (labels.join("."), packet[at + 2], at + 5)
}

/// The question with its answers, none of which may be kept.
fn response(question: &[u8], kind: u8, all: &[IpAddr]) -> Vec<u8> {
    let records: Vec<Vec<u8>> = all
        .iter()
        .filter_map(|address| match address {
            IpAddr::V4(address) => (kind == 1).then(|| address.octets().to_vec()),
            IpAddr::V6(address) => (kind == 28).then(|| address.octets().to_vec()),
        })
        .collect();
    let mut packet = question.to_vec();
    packet[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    for record in records {
        packet.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, record.len() as u8]);
        packet.extend(record);
    }
    packet
}
