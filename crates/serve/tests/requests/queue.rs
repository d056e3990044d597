//! The queue over real sockets. A shell script does the work, so that jobs take no time and end as a test wants it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use remaster::{Restoration, WorkerProgram};
use remaster_serve::{AllowedHosts, Server, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::Server as Receiver;

/// A restoration writes its film, or fails if there is a file `fail`. A picture takes for ever.
const WORK: &str = r#"#!/bin/sh
read -r task
here=$(dirname "$0")
case "$task" in
  *'"still"'*) exec sleep 600 ;;
  *'"restore"'*)
    output=$(printf %s "$task" | sed 's/.*"output":"\([^"]*\)".*/\1/')
    while [ -e "$here/wait" ]; do sleep 0.02; done
    if [ -e "$here/fail" ]; then echo '{"error":"no","kind":"hdr"}'; exit 3; fi
    if [ -e "$here/other" ] && ! printf %s "$task" | grep -q '"restart":true'; then
      echo '{"error":"film.mkv was restored on another machine","kind":"other-machine"}'; exit 2
    fi
    echo film > "$output"
    echo '{"frames":1}' ;;
  *) echo '{"devices":[],"auto":"cpu"}' ;;
esac
"#;

/// A server, which stops when this is dropped.
struct Served {
    address: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn start(desk: &Path, change: impl FnOnce(&mut Settings)) -> Self {
        let program = desk.join("work");
        std::fs::write(&program, WORK).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut settings = Settings {
            listen: "127.0.0.1".parse().unwrap(),
            port: 0,
            state: desk.join("state"),
            jobs: 10_000,
            upload_limit: 1 << 30,
            keep: Settings::KEEP,
            preview_limit: Settings::PREVIEW_LIMIT,
            token: None,
            folders: Vec::new(),
            hosts: AllowedHosts::new(&[] as &[&str]).unwrap(),
            names: Vec::new(),
            proxies: Vec::new(),
            devices: vec!["cpu".into()],
            how: Restoration::default(),
        };
        change(&mut settings);
        let worker = WorkerProgram { program, without: Vec::new(), with: Vec::new() };
        let server = Server::bind(settings, worker).unwrap();
        let (address, stop) = (server.address().to_string(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&|| stopped.load(Ordering::SeqCst)).unwrap());
        Served { address, stop, thread: Some(thread) }
    }

    /// The status and the body of an answer.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nX-Remaster: 1\r\nContent-Length: {}\r\n{headers}\r\n",
            self.address,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn get(&self, path: &str) -> Value {
        let (status, value) = self.ask("GET", path, "", b"");
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    fn post(&self, path: &str, value: &Value) -> (u16, Value) {
        self.ask("POST", path, "", value.to_string().as_bytes())
    }

    /// The address of a new upload.
    fn upload(&self) -> String {
        let body = "--x\r\nContent-Disposition: form-data; name=\"content\"; filename=\"film.mkv\"\r\n\r\nfilm\r\n--x--\r\n";
        let form = "Content-Type: multipart/form-data; boundary=x\r\n";
        let (status, file) = self.ask("POST", "/v1/files", form, body.as_bytes());
        assert_eq!(status, 201, "{file}");
        file["urls"]["get"].as_str().unwrap().to_owned()
    }

    /// The id of a new job.
    fn create(&self, media: &str, more: &Value) -> String {
        let mut asked = json!({"version": "anime", "input": {"media": media}});
        more.as_object().unwrap().iter().for_each(|(name, value)| asked[name] = value.clone());
        let (status, job) = self.post("/v1/predictions", &asked);
        assert_eq!(status, 201, "{job}");
        job["id"].as_str().unwrap().to_owned()
    }

    fn act(&self, id: &str, what: &str) -> (u16, Value) {
        self.post(&format!("/v1/predictions/{id}/{what}"), &json!({}))
    }

    fn remove(&self, id: &str) -> u16 {
        self.ask("DELETE", &format!("/v1/predictions/{id}"), "", b"").0
    }

    fn until(&self, id: &str, status: &str) -> Value {
        let begun = Instant::now();
        loop {
            let job = self.get(&format!("/v1/predictions/{id}"));
            if job["status"] == status {
                return job;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{job}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn desk() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_webhook_hears_of_each_end_of_a_job_that_is_retried_at_once() {
    const ENDS: usize = 7;
    let desk = desk();
    let (heard, asked) = mpsc::channel();
    let receiver = Receiver::new(move |request, stream| {
        // Slower than the job fails again.
        std::thread::sleep(Duration::from_millis(300));
        heard.send(request.to_owned()).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    std::fs::write(desk.path().join("fail"), "").unwrap();
    let at = receiver.at.to_string();
    let served = Served::start(desk.path(), |settings| settings.hosts = AllowedHosts::new(&[at]).unwrap());
    let webhook = json!({"webhook": receiver.url("/hook"), "webhook_events_filter": ["completed"]});
    let id = served.create(&served.upload(), &webhook);
    for _ in 1..ENDS {
        served.until(&id, "failed");
        assert_eq!(served.act(&id, "retry").0, 200);
    }
    served.until(&id, "failed");
    let mut numbers = std::collections::BTreeSet::new();
    for end in 0..ENDS {
        let request =
            asked.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| panic!("{end} of {ENDS} ends"));
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let number = head.lines().find_map(|line| line.strip_prefix("webhook-id: ")).unwrap();
        assert!(numbers.insert(number.to_owned()), "{number} came twice");
        let body: Value = serde_json::from_str(body).unwrap();
        assert!(body["status"] == "failed" && body["error"] == "no" && body["file"].is_null(), "{body}");
    }
    assert!(asked.recv_timeout(Duration::from_millis(700)).is_err(), "an end that never was");
}

/// The first end is delivered at its second attempt. The second one is not taken before another server tells it.
#[test]
fn an_end_that_was_delivered_late_does_not_stand_for_the_one_after_it() {
    let desk = desk();
    std::fs::write(desk.path().join("fail"), "").unwrap();
    let (heard, asked) = mpsc::channel();
    let is_other_server = Arc::new(AtomicBool::new(false));
    let is_other = Arc::clone(&is_other_server);
    let seen = Mutex::new(Vec::<String>::new());
    let receiver = Receiver::new(move |request, stream| {
        let number = request.lines().find_map(|line| line.strip_prefix("webhook-id: ")).unwrap().to_owned();
        let mut seen = seen.lock().unwrap();
        let is_first_end = seen.first().is_none_or(|first| *first == number);
        let takes = if is_first_end { !seen.is_empty() } else { is_other.load(Ordering::SeqCst) };
        seen.push(number.clone());
        let status = if takes { "200 OK" } else { "500 Oops" };
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
        if takes {
            heard.send(number).unwrap();
        }
    });
    let at = receiver.at.to_string();
    let hosts = || AllowedHosts::new([at.as_str()]).unwrap();
    let served = Served::start(desk.path(), |settings| settings.hosts = hosts());
    let webhook = json!({"webhook": receiver.url("/hook"), "webhook_events_filter": ["completed"]});
    let id = served.create(&served.upload(), &webhook);
    served.until(&id, "failed");
    while receiver.count() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(served.act(&id, "retry").0, 200);
    served.until(&id, "failed");
    let first = asked.recv_timeout(Duration::from_secs(30)).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    drop(served);
    is_other_server.store(true, Ordering::SeqCst);
    let _served = Served::start(desk.path(), |settings| settings.hosts = hosts());
    let second = asked.recv_timeout(Duration::from_secs(10)).expect("an end is lost");
    assert_ne!(first, second);
    assert!(asked.recv_timeout(Duration::from_millis(700)).is_err(), "an end is told twice");
}

#[test]
fn paths_of_the_server_are_for_clients_on_it() {
    let desk = desk();
    let served = Served::start(desk.path(), |_| ());
    let id = served.create(&served.upload(), &json!({}));
    let file = served.until(&id, "succeeded")["file"].as_str().unwrap().to_owned();
    assert!(Path::new(&file).is_file(), "{file}");
    let path = format!("/v1/predictions/{id}");
    for proxied in [
        "X-Forwarded-For: 203.0.113.9",
        "Forwarded: for=203.0.113.9",
        "X-Real-IP: 203.0.113.9",
        "Via: 1.1 proxy",
    ] {
        for path in [&path, "/v1/predictions"] {
            let (status, answer) = served.ask("GET", path, &format!("{proxied}\r\n"), b"");
            assert_eq!(status, 200);
            assert!(!answer.to_string().contains(&file), "{proxied}: {answer}");
        }
    }
}

#[test]
fn a_page_of_the_list_follows_the_one_before_also_if_its_last_job_is_gone() {
    let desk = desk();
    let served = Served::start(desk.path(), |_| ());
    let media = served.upload();
    let mut ids: Vec<String> = (0..5).map(|_| served.create(&media, &json!({}))).collect();
    ids.iter().for_each(|id| drop(served.until(id, "succeeded")));
    ids.reverse();
    let page = |path: &str| {
        let list = served.get(path);
        let ids: Vec<String> = list["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["id"].as_str().unwrap().to_owned())
            .collect();
        let next = list["next"].as_str().map(|next| next.split_once("/v1/").unwrap().1.to_owned());
        (ids, next.map(|next| format!("/v1/{next}")))
    };
    let (first, next) = page("/v1/predictions?limit=2");
    assert_eq!(first, ids[..2]);
    assert_eq!(served.remove(&first[1]), 204);
    let (second, next) = page(&next.unwrap());
    assert_eq!(second, ids[2..4]);
    assert_eq!(page(&next.unwrap()), (ids[4..].to_vec(), None));
    assert_eq!(served.ask("GET", &format!("/v1/predictions?cursor={}", ids[0]), "", b"").0, 400);
}

#[test]
fn a_preview_waits_for_jobs_and_ends_in_time() {
    let desk = desk();
    std::fs::write(desk.path().join("wait"), "").unwrap();
    let limit = Duration::from_secs(1);
    let served = Served::start(desk.path(), |settings| settings.preview_limit = limit);
    let media = served.upload();
    let preview = json!({"version": "anime", "input": {"media": media}});
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let long = scope.spawn(|| served.post("/v1/previews", &preview));
        while served.get("/v1/devices")["results"][0]["busy"] != "preview" {
            assert!(begun.elapsed() < Duration::from_secs(10));
        }
        let id = served.create(&media, &json!({}));
        let (status, problem) = long.join().unwrap();
        assert!(status == 422 && problem["kind"] == "too-slow", "{status} {problem}");
        assert!(begun.elapsed() < limit + Duration::from_secs(8), "{:?}", begun.elapsed());
        served.until(&id, "processing");
    });
    let (status, problem) = served.post("/v1/previews", &preview);
    assert!(status == 503 && problem["kind"] == "device-busy", "{status} {problem}");
    std::fs::remove_file(desk.path().join("wait")).unwrap();
}

#[test]
fn work_that_is_dropped_is_told_in_the_log() {
    let desk = desk();
    std::fs::write(desk.path().join("other"), "").unwrap();
    let served = Served::start(desk.path(), |_| ());
    let id = served.create(&served.upload(), &json!({}));
    let job = served.until(&id, "succeeded");
    let logs = job["logs"].as_str().unwrap();
    assert!(logs.contains("begins anew") && logs.contains("another machine"), "{job}");
}

#[test]
fn the_document_allows_what_the_server_takes() {
    let desk = desk();
    let served = Served::start(desk.path(), |_| ());
    let schema = served.get("/openapi.json")["components"]["schemas"]["Input"]["properties"].clone();
    let media = served.upload();
    for name in ["seed", "window", "output_quality"] {
        let [least, most] = ["minimum", "maximum"].map(|word| schema[name][word].as_u64().unwrap());
        for (value, status) in [(Some(least), 201), (Some(most), 201), (most.checked_add(1), 422)] {
            let Some(value) = value else { continue };
            let asked = json!({"version": "anime", "input": {"media": media, name: value}});
            assert_eq!(served.post("/v1/predictions", &asked).0, status, "{name} {value}");
        }
    }
    assert_eq!(schema["seed"]["maximum"], u64::MAX);
}

#[test]
fn an_address_that_never_was_has_not_expired() {
    let desk = desk();
    let served = Served::start(desk.path(), |_| ());
    for path in ["/v1/nothing", "/nothing", "/v1/predictions/x/y/z"] {
        let (status, problem) = served.ask("GET", path, "", b"");
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            status == 404 && !detail.contains("expired") && detail.contains("/openapi.json"),
            "{path}: {detail}"
        );
    }
    let (status, problem) = served.ask("GET", &format!("/v1/predictions/{}", "a".repeat(25)), "", b"");
    assert!(status == 404 && problem["detail"].as_str().unwrap().contains("expired"), "{problem}");
}

#[test]
fn metadata_of_an_upload_has_a_limit_of_values() {
    let desk = tempfile::tempdir().unwrap();
    let served = Served::start(desk.path(), |_| {});
    let send = |metadata: &str| {
        let body = format!(
            "--x\r\nContent-Disposition: form-data; name=\"content\"; filename=\"film.mkv\"\r\n\r\nfilm\r\n\
             --x\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n{metadata}\r\n--x--\r\n"
        );
        served.ask("POST", "/v1/files", "Content-Type: multipart/form-data; boundary=x\r\n", body.as_bytes())
    };
    let list = |length: usize| format!("{{\"a\":[{}]}}", vec!["[]"; length].join(","));
    let (status, file) = send(&list(999));
    assert!(status == 201 && file["metadata"]["a"].as_array().unwrap().len() == 999, "{status} {file}");
    for metadata in
        [list(1000), format!("{{{}}}", (0..1001).map(|n| format!("\"{n}\":0")).collect::<Vec<_>>().join(","))]
    {
        let (status, problem) = send(&metadata);
        assert!(status == 422 && problem.to_string().contains("1000 values"), "{status} {problem}");
    }
    assert_eq!(served.get("/v1/files")["results"].as_array().unwrap().len(), 1);
}

#[test]
fn an_upload_that_cannot_be_read_is_shown_and_can_be_removed() {
    let desk = desk();
    let served = Served::start(desk.path(), |_| ());
    let (first, second) = (served.upload(), served.upload());
    drop(served);
    let id = |media: &str| media.rsplit('/').next().unwrap().to_owned();
    let record = desk.path().join("state/files").join(id(&first)).join("file.json");
    let mut newer: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    assert_eq!(newer["version"], 1);
    newer["version"] = json!(2);
    newer["stored"] = json!({"another": "form"});
    std::fs::write(&record, newer.to_string()).unwrap();
    // A record without a version is of version 1.
    let record = desk.path().join("state/files").join(id(&second)).join("file.json");
    let mut old: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    old.as_object_mut().unwrap().remove("version");
    std::fs::write(&record, old.to_string()).unwrap();
    let served = Served::start(desk.path(), |_| ());
    let path = |media: &str| format!("/v1/files/{}", id(media));
    let shown = served.get(&path(&first));
    assert!(shown["error"].as_str().unwrap().contains("version 2") && shown["name"] == "film.mkv", "{shown}");
    let (status, problem) =
        served.post("/v1/predictions", &json!({"version": "anime", "input": {"media": path(&first)}}));
    assert!(status == 409 && problem["detail"].as_str().unwrap().contains("version 2"), "{problem}");
    assert!(served.get(&path(&second))["error"].is_null());
    let job = served.create(&path(&second), &json!({}));
    served.until(&job, "succeeded");
    assert_eq!(served.get("/v1/files")["results"].as_array().unwrap().len(), 2);
    assert_eq!(served.ask("DELETE", &path(&first), "", b"").0, 204);
    assert!(!desk.path().join("state/files").join(id(&first)).exists());
}
