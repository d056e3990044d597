//! `remaster serve` over real sockets: films, queues, kills, and doors that stay shut.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::desk::{Desk, LIMIT, Run, bytes, ffmpeg};

#[cfg(target_os = "linux")]
mod browser;
#[cfg(target_os = "linux")]
mod disk;

/// A server, and where it listens.
struct Server {
    child: Child,
    address: String,
}

/// An answer: status, headers and body.
struct Answer(u16, String, Vec<u8>);

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.2)
            .unwrap_or_else(|_| panic!("{} {}", self.0, String::from_utf8_lossy(&self.2)))
    }

    fn is(self, status: u16) -> Value {
        assert_eq!(self.0, status, "{}", String::from_utf8_lossy(&self.2));
        self.json()
    }
}

impl Server {
    fn start(desk: &Desk, options: &str) -> Self {
        Self::of(&mut desk.command(&format!("serve --port 0 --state state --devices cpu {options}")))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let address =
            address.trim().strip_prefix("http://").unwrap_or_else(|| panic!("no address")).to_owned();
        Server { child, address }
    }

    /// Ends it as a power cut does.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends these bytes and reads what comes until the connection ends.
    fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        // A server that has read enough may close first.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        parsed(&answer)
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
            self.address,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.raw(&request)
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", b"")
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, "X-Remaster: 1\r\n", body.to_string().as_bytes())
    }

    /// Uploads a file and returns its address.
    fn upload(&self, name: &str, content: &[u8]) -> String {
        self.send(name, content).is(201)["urls"]["get"].as_str().unwrap().to_owned()
    }

    fn send(&self, name: &str, content: &[u8]) -> Answer {
        let head =
            format!("--x\r\nContent-Disposition: form-data; name=\"content\"; filename=\"{name}\"\r\n\r\n");
        let body = [head.as_bytes(), content, b"\r\n--x--\r\n"].concat();
        self.ask(
            "POST",
            "/v1/files",
            "X-Remaster: 1\r\nContent-Type: multipart/form-data; boundary=x\r\n",
            &body,
        )
    }

    fn create(&self, media: &str, more: &Value) -> Value {
        let mut input = json!({"media": media, "resolution": "2x"});
        more.as_object().unwrap().iter().for_each(|(name, value)| input[name] = value.clone());
        self.post("/v1/predictions", &json!({"version": "anime", "input": input})).is(201)
    }

    fn status(&self, id: &str) -> String {
        self.get(&format!("/v1/predictions/{id}")).is(200)["status"].as_str().unwrap().to_owned()
    }

    fn act(&self, id: &str, what: &str) -> Answer {
        self.ask("POST", &format!("/v1/predictions/{id}/{what}"), "X-Remaster: 1\r\n", b"")
    }

    /// Waits until a job is as wished.
    fn until(&self, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let job = self.get(&format!("/v1/predictions/{id}")).is(200);
            if wanted(&job) {
                return job;
            }
            assert!(begun.elapsed() < LIMIT, "{job}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn result(&self, id: &str) -> Vec<u8> {
        let job = self.until(id, |job| !matches!(job["status"].as_str(), Some("starting" | "processing")));
        assert_eq!(job["status"], "succeeded", "{job}");
        self.get(&format!("/v1/predictions/{id}/content")).2
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parsed(answer: &[u8]) -> Answer {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(answer.len());
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let body = answer.get(end + 4..).unwrap_or_default();
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    Answer(status, head, if chunked { joined(body) } else { body.to_vec() })
}

/// The pieces of a body.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(&String::from_utf8_lossy(&body[..end]), 16).unwrap_or(0);
        if length == 0 {
            break;
        }
        all.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 2 + length + 2..];
    }
    all
}

fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let sign = |bits: u32, place: u32| SIGNS[(bits >> (18 - 6 * place) & 63) as usize] as char;
    let four = |three: &[u8]| {
        let bits = (0..3).fold(0, |bits, i| bits << 8 | u32::from(three.get(i).copied().unwrap_or(0)));
        (0..4)
            .map(|place| if place as usize > three.len() { '=' } else { sign(bits, place) })
            .collect::<String>()
    };
    bytes.chunks(3).map(four).collect()
}

/// Small films, and what the command line makes of them.
fn films(desk: &Desk, count: usize) -> Vec<(String, Vec<u8>)> {
    let name = |n: usize| format!("film{n}.mkv");
    (0..count)
        .map(|n| {
            let source = format!(
                "-f lavfi -i testsrc2=s=64x48:r=25:d={} -c:v ffv1 {}",
                0.4 + 0.04 * n as f64,
                name(n)
            );
            ffmpeg(desk, &source);
            desk.run(&format!("{} -o made.mkv -y --model anime --device cpu --resolution 2x", name(n)))
                .ends(0, &[]);
            (name(n), bytes(desk, "made.mkv"))
        })
        .collect()
}

#[test]
fn a_film_goes_in_and_comes_out_as_from_the_command_line() {
    let desk = Desk::new();
    let (name, made) = films(&desk, 1).remove(0);
    let folder = desk.canonicalize().unwrap();
    let server = Server::start(&desk, &format!("--allow-folder {}", folder.display()));
    assert_eq!(server.get("/healthz").2, b"ok");
    let page = server.get("/");
    assert!(
        page.0 == 200 && page.1.contains("content-security-policy: default-src 'none'; script-src 'self'"),
        "{}",
        page.1
    );
    let content = bytes(&desk, &name);
    let media = server.upload("Ünï x.mkv", &content);
    let input = json!({"version": "anime", "input": {"media": media, "resolution": "2x"}});
    let plan = server.post("/v1/plans", &input).is(200);
    assert_eq!((&plan["width"], &plan["frames"]), (&json!(128), &json!(10)), "{plan}");
    let mut preview = input.clone();
    preview["seconds"] = json!(0.2);
    let preview = server.post("/v1/previews", &preview).is(201);
    for side in ["before", "after"] {
        let path = format!("/v1/previews/{}/{side}", preview["id"].as_str().unwrap());
        assert_eq!(&server.get(&path).2[1..4], b"PNG");
    }
    // Uploaded, inside the request, and from a folder: the same film.
    let wait = "X-Remaster: 1\r\nPrefer: wait\r\nIdempotency-Key: one\r\n";
    let first = server.ask("POST", "/v1/predictions", wait, input.to_string().as_bytes()).is(201);
    assert_eq!(first["status"], "succeeded", "{first}");
    assert_eq!(
        (&first["metrics"]["frames"], &first["output_name"]),
        (&json!(10), &json!("Ünï x_restored.mkv")),
        "{first}"
    );
    let again = server.ask("POST", "/v1/predictions", wait, input.to_string().as_bytes()).is(201);
    assert_eq!(again["id"], first["id"]);
    // A film inside of a request is kept once, and its key knows the request again.
    let uploads = || server.get("/v1/files").is(200)["results"].as_array().unwrap().len();
    let data = format!("data:video/x-matroska;base64,{}", base64(&content));
    let data = json!({"version": "anime", "input": {"media": data, "resolution": "2x"}}).to_string();
    let key = "X-Remaster: 1\r\nPrefer: respond-async, wait=60\r\nIdempotency-Key: two\r\n";
    let before = uploads();
    let one = server.ask("POST", "/v1/predictions", key, data.as_bytes()).is(201);
    let two = server.ask("POST", "/v1/predictions", key, data.as_bytes()).is(201);
    assert_eq!((&one["id"], uploads()), (&two["id"], before + 1));
    assert!(server.result(one["id"].as_str().unwrap()) == made);
    server.ask("POST", "/v1/predictions", key, input.to_string().as_bytes()).is(409);
    let id = first["id"].as_str().unwrap();
    assert!(server.result(id) == made, "the film is another one");
    assert!(!first["logs"].as_str().unwrap().contains("state"), "{first}");
    let there = folder.join(&name).display().to_string();
    let probe = server.get(&format!("/v1/folders/probe?path={there}")).is(200);
    assert_eq!((&probe["width"], &probe["frames"]), (&json!(64), &json!(10)), "{probe}");
    assert_eq!(
        &server.get(&format!("/v1/folders/picture?path={there}&seconds=0.2&width=32")).2[1..4],
        b"PNG"
    );
    let from_folder = server.create(&there, &json!({}));
    assert!(server.result(from_folder["id"].as_str().unwrap()) == made);
    let part = server.ask("GET", &format!("/v1/predictions/{id}/content"), "Range: bytes=10-19\r\n", b"");
    assert_eq!((part.0, &part.2[..]), (206, &made[10..20]));
    for side in ["before", "after"] {
        let frame = server.get(&format!("/v1/predictions/{id}/frames/3?side={side}"));
        assert_eq!(&frame.2[1..4], b"PNG", "{side}");
    }
    assert_eq!(&server.get(&format!("/v1/predictions/{id}/picture")).2[..2], [0xff, 0xd8]);
    let events = String::from_utf8(server.get(&format!("/v1/predictions/{id}/events")).2).unwrap();
    assert!(events.contains("\"event\":\"progress\"") && events.contains("event: state"), "{events}");
    let stream = String::from_utf8(server.get(&format!("/v1/predictions/{id}/stream")).2).unwrap();
    assert!(stream.contains("event: output") && stream.trim_end().ends_with("data: {}"), "{stream}");
    // A picture becomes a picture.
    let still = server.upload("still", &server.get(&format!("/v1/predictions/{id}/frames/0")).2);
    let still = server.create(&still, &json!({}));
    let still = server.result(still["id"].as_str().unwrap());
    assert_eq!(&still[1..4], b"PNG");
}

/// 29.97 frames per second have none at 0.34 s: the first one is 27 ms later, nearly a frame.
#[test]
fn both_sides_show_the_same_frame_of_a_part() {
    let desk = Desk::new();
    ffmpeg(
        &desk,
        "-f lavfi -i nullsrc=s=64x48:r=30000/1001:d=1,format=gbrp,geq=r=8*N:g=N:b=0 -c:v ffv1 film.mkv",
    );
    let server = Server::start(&desk, "");
    let media = server.upload("film.mkv", &bytes(&desk, "film.mkv"));
    let input = json!({"media": media, "resolution": "48", "start": "0.34", "end": "0.9", "lossless": true});
    let job = server.post("/v1/predictions", &json!({"version": "identity", "input": input})).is(201);
    // It is no model to choose, but has its address.
    let models: Value = serde_json::from_slice(&server.get("/v1/models").2).unwrap();
    let names: Vec<&str> =
        models["results"].as_array().unwrap().iter().map(|model| model["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["3b", "7b", "7b-sharp", "3b-first", "anime"]);
    assert_eq!(server.get("/v1/models/remaster/identity").0, 200);
    let id = job["id"].as_str().unwrap();
    server.result(id);
    let frame = |n: usize, side: &str| {
        let answer = server.get(&format!("/v1/predictions/{id}/frames/{n}?side={side}"));
        assert_eq!(answer.0, 200, "{}", String::from_utf8_lossy(&answer.2));
        remaster_picture::still::decode(&answer.2, 1 << 30).unwrap().0.data
    };
    // Red goes up by 8 with each frame.
    let far = |a: Vec<f32>, b: Vec<f32>| {
        255.0 * remaster_testkit::largest(a.iter().zip(&b).map(|(a, b)| (a - b).abs()))
    };
    for n in [0, 1, 5, 12] {
        let off = far(frame(n, "before"), frame(n, "after"));
        assert!(off < 1.5, "frame {n}: {off}");
    }
    assert!(far(frame(0, "before"), frame(1, "before")) > 7.5);
}

/// A terminal sends Ctrl-C to all that was started in it.
#[test]
#[cfg(unix)]
fn ctrl_c_stops_the_server_and_its_film_goes_on_with_the_next() {
    use std::os::unix::process::CommandExt;
    let desk = Desk::new();
    ffmpeg(&desk, "-f lavfi -i testsrc2=s=64x48:r=25:d=4 -c:v ffv1 film.mkv");
    desk.run("film.mkv -o made.mkv --model anime --device cpu --resolution 2x").ends(0, &[]);
    let content = bytes(&desk, "film.mkv");
    for _ in 0..3 {
        let mut command = desk.command("serve --port 0 --state state --devices cpu");
        let server = Server::of(command.process_group(0));
        let id = match server.get("/v1/predictions").is(200)["results"][0]["id"].as_str() {
            Some(id) => id.to_owned(),
            None => {
                server.create(&server.upload("film.mkv", &content), &json!({}))["id"].as_str().unwrap().into()
            }
        };
        server.until(&id, |job| job["progress"]["done"].as_u64() > Some(0));
        let group = rustix::process::Pid::from_raw(server.child.id() as i32).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
        let mut server = server;
        assert!(server.child.wait().unwrap().code().is_some());
    }
    let server = Server::start(&desk, "");
    let list = server.get("/v1/predictions").is(200);
    let id = list["results"][0]["id"].as_str().unwrap();
    assert!(server.result(id) == bytes(&desk, "made.mkv"), "the film is another one");
}

#[test]
fn ten_jobs_survive_three_kills_with_the_same_films() {
    let desk = Desk::new();
    let films = films(&desk, 5);
    let mut server = Server::start(&desk, "");
    let media: Vec<String> = films.iter().map(|(name, _)| server.upload(name, &bytes(&desk, name))).collect();
    let ids = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..5 {
            let (server, media, ids) = (&server, &media, &ids);
            scope.spawn(move || {
                for n in [client, client + 1] {
                    let film = n % media.len();
                    let id = server.create(&media[film], &json!({}))["id"].as_str().unwrap().to_owned();
                    ids.lock().unwrap().push((id, film));
                }
            });
        }
    });
    let ids = ids.into_inner().unwrap();
    for kill in 1..=3 {
        let begun = Instant::now();
        let done = |server: &Server| ids.iter().filter(|(id, _)| server.status(id) == "succeeded").count();
        while done(&server) < kill * 2 && begun.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
        // In the middle of a film, sooner or later.
        std::thread::sleep(Duration::from_millis(70 * kill as u64));
        server.kill();
        server = Server::start(&desk, "");
    }
    for (id, film) in &ids {
        assert!(server.result(id) == films[*film].1, "another film than from the command line");
    }
    let listed = server.get("/v1/predictions").is(200);
    assert_eq!(listed["results"].as_array().unwrap().len(), ids.len());
    let restored =
        listed["results"].as_array().unwrap().iter().filter(|job| job["metrics"]["frames"].is_u64()).count();
    assert!(restored >= ids.len() - 3, "{restored} of {}: done twice", ids.len());
}

#[test]
fn jobs_wait_pause_move_and_end_as_they_are_told() {
    let desk = Desk::new();
    ffmpeg(&desk, "-f lavfi -i testsrc2=s=320x240:r=25:d=40 -c:v libx264 -preset ultrafast long.mkv");
    let server = Server::start(&desk, "--jobs 3");
    let media = server.upload("long.mkv", &bytes(&desk, "long.mkv"));
    let id = |job: Value| job["id"].as_str().unwrap().to_owned();
    let [a, b, c] = [0, 1, 2].map(|_| id(server.create(&media, &json!({}))));
    server.until(&a, |job| job["progress"]["done"].as_u64().is_some_and(|done| done > 0));
    let busy = server.post("/v1/previews", &json!({"version": "anime", "input": {"media": media}}));
    assert_eq!(busy.is(503)["kind"], "device-busy");
    let d = id(server.create(&media, &json!({})));
    let full = server.post("/v1/predictions", &json!({"version": "anime", "input": {"media": media}}));
    assert_eq!(full.is(503)["kind"], "queue-full");
    let moved =
        server.ask("POST", &format!("/v1/predictions/{d}/move"), "X-Remaster: 1\r\n", b"{\"position\":0}");
    assert_eq!(moved.is(200)["position"], 0);
    // A paused film makes room for the next.
    server.act(&a, "pause").is(200);
    server.until(&a, |job| job["paused"] == true);
    server.until(&d, |job| job["status"] == "processing");
    let begun = Instant::now();
    assert_eq!(server.act(&d, "cancel").is(200)["status"], "canceled");
    server.until(&b, |job| job["status"] == "processing");
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(server.act(&c, "cancel").is(200)["status"], "canceled");
    server.act(&b, "cancel").is(200);
    server.until(&b, |job| job["expires_at"].is_string());
    assert_eq!(server.act(&b, "pause").is(409)["kind"], "conflict");
    server.act(&a, "resume").is(200);
    server.until(&a, |job| job["status"] == "processing");
    server.act(&a, "cancel").is(200);
    server.until(&a, |job| job["expires_at"].is_string());
    server.act(&a, "retry").is(200);
    server.act(&a, "cancel").is(200);
    server.until(&a, |job| job["expires_at"].is_string());
    let gone = |id: &str| server.ask("DELETE", &format!("/v1/predictions/{id}"), "X-Remaster: 1\r\n", b"").0;
    assert_eq!((gone(&a), gone(&a)), (204, 404));
    assert!(!desk.join("state/jobs").join(&a).exists());
    let file = format!("/v1/files/{}", media.rsplit('/').next().unwrap());
    assert_eq!(server.ask("DELETE", &file, "X-Remaster: 1\r\n", b"").0, 204);
    server.act(&b, "retry").is(200);
    let failed = server.until(&b, |job| job["status"] == "failed");
    assert!(failed["error"].as_str().unwrap().contains("no such file"), "{failed}");
}

#[test]
fn doors_are_shut_to_pages_paths_scripts_and_hosts() {
    let desk = Desk::new();
    let (name, _) = films(&desk, 1).remove(0);
    let folder = desk.canonicalize().unwrap();
    std::fs::create_dir(folder.join("films")).unwrap();
    std::fs::rename(folder.join(&name), folder.join("films/film.mkv")).unwrap();
    desk.put("secret.mkv", "x");
    desk.put("films/film.vpy", "raise SystemExit(open('ran', 'w'))");
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.join("secret.mkv"), folder.join("films/link.mkv")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&folder, folder.join("films/up")).unwrap();
    let films = folder.join("films").display().to_string();
    let server = Server::start(&desk, &format!("--upload-limit 1M --allow-folder {films}"));
    let media = server.upload("film.mkv", &bytes(&desk, "films/film.mkv"));
    let input = |media: &str| json!({"version": "anime", "input": {"media": media}}).to_string();
    let good = input(&media);
    let create =
        |headers: &str, body: &str| server.ask("POST", "/v1/predictions", headers, body.as_bytes()).0;
    // Pages of others.
    assert_eq!(create("", &good), 403);
    assert_eq!(create("Content-Type: text/plain\r\n", &good), 403);
    assert_eq!(create("X-Remaster: 1\r\nOrigin: http://evil.example\r\n", &good), 403);
    assert_eq!(create("X-Remaster: 1\r\nOrigin: null\r\n", &good), 403);
    assert_eq!(create("X-Remaster: 1\r\nSec-Fetch-Site: cross-site\r\n", &good), 403);
    let rebound =
        server.raw(b"GET /v1/predictions HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert_eq!(rebound.0, 421);
    let cors = server.ask(
        "OPTIONS",
        "/v1/predictions",
        "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n",
        b"",
    );
    assert!(cors.0 == 403 && !cors.1.to_lowercase().contains("access-control-allow"), "{}", cors.1);
    // Paths, scripts and hosts.
    let refused = |media: &str| create("X-Remaster: 1\r\n", &input(media));
    for path in [
        "secret.mkv",
        "films/link.mkv",
        "films/up/secret.mkv",
        "films/../secret.mkv",
        "films",
        "films/none.mkv",
    ] {
        let path = folder.join(path).display().to_string();
        assert!((400..500).contains(&refused(&path)), "{path}");
        assert!((400..500).contains(&refused(&format!("file://{path}"))), "{path}");
    }
    for media in [
        "/etc/passwd",
        "film.mkv",
        "-",
        "",
        "\u{0}",
        "http://127.0.0.1:1/a.mkv",
        "https://films.example/a.mkv",
        "http://169.254.169.254/latest",
        "ftp://a/b",
        "data:video/mp4;base64,@@",
        "http://x/v1/files/aaaaaaaaaaaaaaaaaaaaaaaaa",
    ] {
        assert!((400..500).contains(&refused(media)), "{media}");
    }
    assert_eq!(refused(&format!("{films}/film.vpy")), 415);
    looks_stay_below_folders(&server, &films);
    assert_eq!(server.send("film.vpy", b"import os").0, 415);
    assert_eq!(server.send("film.mkv", &vec![0; 2 << 20]).0, 413);
    // What only claims to be a film fails with a sentence, and nothing of it is run.
    for text in [
        "raise SystemExit(open('ran', 'w'))",
        "ffconcat version 1.0\nfile '/etc/passwd'\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n/etc/passwd\n",
    ] {
        let media = server.upload("film.mkv", text.as_bytes());
        let job = server.create(&media, &json!({}));
        let job = server.until(job["id"].as_str().unwrap(), |job| job["status"] == "failed");
        let error = job["error"].as_str().unwrap();
        assert!(error.contains("film.mkv") && !error.contains("state/"), "{error}");
    }
    for target in [
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "http://0x7f000001/",
        "ftp://example.org/",
        "http://10.0.0.1/",
    ] {
        let body = json!({"version": "anime", "input": {"media": media}, "webhook": target}).to_string();
        assert_eq!(create("X-Remaster: 1\r\n", &body), 403, "{target}");
    }
    for path in [
        "/v1/files/..%2f..%2fetc",
        "/assets/..%2f..%2fCargo.toml",
        "/v1/predictions/%00",
        "/v1/previews/aaaaaaaaaaaaaaaaaaaaaaaaa/..%2fx",
        "/v1/folders?path=/etc",
        "/v1/folders?path=%00",
        "/v1/folders/probe?path=/etc/passwd",
        "/v1/folders/picture?path=/etc/passwd",
        "/v1/predictions?cursor=../../x",
    ] {
        assert!((400..500).contains(&server.get(path).0), "{path}");
    }
    assert!(!desk.join("ran").exists());
}

fn looks_stay_below_folders(server: &Server, films: &str) {
    for what in ["probe", "picture"] {
        let look = |name: &str| server.get(&format!("/v1/folders/{what}?path={films}/{name}")).0;
        assert_eq!((look("film.mkv"), look("film.vpy")), (200, 415), "{what}");
        assert!(
            (400..500).contains(&look("link.mkv")) && (400..500).contains(&look("up/secret.mkv")),
            "{what}"
        );
    }
}

#[test]
fn requests_that_are_none_do_no_harm() {
    let desk = Desk::new();
    let server = Server::start(&desk, "");
    for raw in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"POST /v1/predictions HTTP/1.1\r\nHost: localhost\r\nX-Remaster: 1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"] {
        assert!(server.raw(raw).0 < 500);
    }
    let deep = format!("{{\"version\":\"anime\",\"input\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(server.ask("POST", "/v1/predictions", "X-Remaster: 1\r\n", deep.as_bytes()).0, 400);
    // Of each value in memory gigabytes would be taken.
    let wide = format!("{{\"version\":\"anime\",\"input\":{{\"x\":[{}0]}}}}", "{\"a\":0},".repeat(2_000_000));
    assert_eq!(server.ask("POST", "/v1/predictions", "X-Remaster: 1\r\n", wide.as_bytes()).0, 400);
    assert_eq!(server.get("/healthz").0, 200);
}

#[test]
fn a_model_that_is_not_installed_is_refused_at_once() {
    let desk = Desk::new();
    let server = Server::start(&desk, "");
    let media = server.upload("film.mkv", b"not looked at");
    let refused =
        server.post("/v1/predictions", &json!({"version": "7b", "input": {"media": media}})).is(422);
    let detail = refused["detail"].as_str().unwrap();
    assert!(refused["kind"] == "model-not-installed" && detail.contains("models pull 7b"), "{refused}");
    assert_eq!(server.get("/v1/predictions").is(200)["results"], json!([]));
}

#[test]
fn large_requests_that_never_end_keep_no_other_waiting() {
    let desk = Desk::new();
    let server = Server::start(&desk, "");
    let data = format!("data:video/mp4;base64,{}", "A".repeat(20 << 20));
    let body = json!({"version": "anime", "input": {"media": data}}).to_string();
    let head = format!(
        "POST /v1/predictions HTTP/1.1\r\nHost: {}\r\nX-Remaster: 1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        server.address,
        body.len()
    );
    let begun = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let before = resident(server.child.id());
    let held = [(); 4].map(|()| begun(&body.as_bytes()[..19 << 20]));
    let mut whole = begun(body.as_bytes());
    whole.set_read_timeout(Some(LIMIT)).unwrap();
    let mut answer = Vec::new();
    whole.read_to_end(&mut answer).unwrap();
    assert_eq!(parsed(&answer).0, 201);
    if let (Some(before), Some(now)) = (before, resident(server.child.id())) {
        assert!(now < before + (64 << 20), "{before} {now}");
    }
    drop(held);
}

/// Bytes of memory of a process, where the system says it.
fn resident(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
}

/// A clock of the system that shows 1899, for a program that is started with it.
#[cfg(target_os = "linux")]
const CLOCK: &str = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <time.h>\n\
    int clock_gettime(clockid_t id, struct timespec *t) {\n\
      int (*real)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, \"clock_gettime\");\n\
      int done = real(id, t);\n\
      if (id == CLOCK_REALTIME) t->tv_sec -= 4000000000L;\n\
      return done;\n\
    }\n";

#[test]
#[cfg(target_os = "linux")]
fn a_clock_before_1970_is_refused_at_the_start() {
    let desk = Desk::new();
    desk.put("clock.c", CLOCK);
    let cc = Command::new("cc")
        .current_dir(&*desk)
        .args(["-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl"])
        .status();
    if !cc.is_ok_and(|status| status.success()) {
        remaster_testkit::not_run("a clock before 1970", "there is no C compiler");
        return;
    }
    let mut command = desk.command("serve --port 0 --state state --devices cpu");
    command.env("LD_PRELOAD", desk.canonicalize().unwrap().join("clock.so"));
    Run::of(&mut command).ends(5, &["the clock", "before 1970", "start the server again"]);
    assert!(!desk.join("state").exists());
}

#[test]
fn a_token_is_required_beyond_loopback_and_a_folder_has_one_server() {
    let desk = Desk::new();
    desk.run("serve --listen 0.0.0.0 --port 0 --state state").ends(2, &["token is needed", "--token-file"]);
    desk.put("token", "too short\n");
    desk.run("serve --port 0 --state state --token-file token").ends(2, &["16 to 512"]);
    desk.put("token", "0123456789abcdef\n");
    let server = Server::start(&desk, "--token-file token");
    desk.run("serve --port 0 --state state").ends(3, &["another server uses"]);
    let port = server.address.rsplit(':').next().unwrap();
    desk.run(&format!("serve --port {port} --state other")).ends(3, &["--port"]);
    assert_eq!((server.get("/").0, server.get("/healthz").0), (200, 200));
    for path in ["/v1/predictions", "/v1/session", "/metrics", "/openapi.json", "/v1/events"] {
        assert_eq!(server.get(path).0, 401, "{path}");
    }
    let with = |token: &str| {
        server.ask("GET", "/v1/predictions", &format!("Authorization: Bearer {token}\r\n"), b"").0
    };
    assert_eq!((with("0123456789abcdef"), with("0123456789abcdeF"), with("")), (200, 401, 401));
    let wrong = server.post("/v1/session", &json!({"token": "x"}));
    assert_eq!(wrong.0, 401);
    let right = server.post("/v1/session", &json!({"token": "0123456789abcdef"}));
    let cookie = right.1.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(server.ask("GET", "/v1/predictions", &format!("Cookie: {pair}\r\n"), b"").0, 200);
}

#[test]
fn every_operation_of_the_document_is_there() {
    let desk = Desk::new();
    let server = Server::start(&desk, "");
    let document = server.get("/openapi.json").is(200);
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 30, "{}", paths.len());
    for (path, operations) in paths {
        // Streams do not end.
        if path == "/v1/events" {
            continue;
        }
        let filled = path
            .replace("{id}", "aaaaaaaaaaaaaaaaaaaaaaaaa")
            .replace("{owner}", "remaster")
            .replace("{name}", "anime");
        let filled = filled.replace("{version}", "1").replace("{n}", "0").replace("{side}", "before");
        for method in operations.as_object().unwrap().keys() {
            let answer = server.ask(&method.to_uppercase(), &filled, "X-Remaster: 1\r\n", b"{}");
            let text = String::from_utf8_lossy(&answer.2).into_owned();
            assert!(
                answer.0 != 405 && !text.contains("no such address"),
                "{method} {path}: {} {text}",
                answer.0
            );
            assert!(answer.0 < 500, "{method} {path}: {} {text}", answer.0);
        }
    }
    let other = PathBuf::from("/v1/nothing");
    assert_eq!(server.get(other.to_str().unwrap()).0, 404);
    assert_eq!(server.ask("PUT", "/v1/predictions", "X-Remaster: 1\r\n", b"{}").0, 405);
}

/// A pause and a cancellation lose no frame, and a film of which nothing was made has nothing saved.
#[test]
fn a_pause_and_a_cancellation_save_the_frames_and_say_how_many() {
    let desk = Desk::new();
    ffmpeg(&desk, "-f lavfi -i testsrc2=s=64x48:r=10:d=4 -c:v ffv1 film.mkv");
    desk.run("film.mkv -o made.mkv --model anime --device cpu --resolution 2x").ends(0, &[]);
    let mut command = desk.command("serve --port 0 --state state --devices cpu");
    let server = Server::of(command.env("REMASTER_TEST_UNIT", "slow"));
    let media = server.upload("film.mkv", &bytes(&desk, "film.mkv"));
    let id = server.create(&media, &json!({}))["id"].as_str().unwrap().to_owned();
    let mut before = 0;
    for (act, status, again) in [("pause", "starting", "resume"), ("cancel", "canceled", "retry")] {
        let job = server.until(&id, |job| job["progress"]["done"].as_u64() >= Some(before + 5));
        let done = job["progress"]["done"].as_u64().unwrap();
        server.act(&id, act).is(200);
        // What is canceled says so before its process has ended.
        let job = server
            .until(&id, |job| job["status"] == status && job["saved"]["frames"].as_u64() > Some(before));
        let saved = &job["saved"];
        before = saved["frames"].as_u64().unwrap();
        assert!(before + 2 >= done && saved["of"] == 40, "{done}: {saved}");
        assert_eq!(
            (saved["seconds"].as_f64(), &saved["of_seconds"]),
            (Some(before as f64 / 10.0), &json!(4.0))
        );
        let begun = Instant::now();
        while server.act(&id, again).0 != 200 {
            assert!(begun.elapsed() < LIMIT, "{act} does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
        let resumed = format!("resuming at frame {before} of 40");
        server.until(&id, |job| job["logs"].as_str().unwrap_or_default().contains(&resumed));
    }
    assert!(server.result(&id) == bytes(&desk, "made.mkv"));
    assert_eq!(server.get(&format!("/v1/predictions/{id}")).is(200)["saved"], Value::Null);
    let text = server.upload("bad.mp4", b"this is no film");
    let id = server.create(&text, &json!({}))["id"].as_str().unwrap().to_owned();
    let job = server.until(&id, |job| job["status"] == "failed");
    assert_eq!(job["saved"], Value::Null, "{job}");
}
