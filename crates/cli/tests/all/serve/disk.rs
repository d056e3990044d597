//! A server on a disk that is full.

use std::io::Write;

use super::*;
use crate::desk::small_disk;

const TEST: &str = "jobs_on_a_full_disk_can_be_canceled_paused_and_removed";

/// Fills a disk to its last byte.
fn fill(file: &std::path::Path) {
    let mut filler = std::fs::File::create(file).unwrap();
    for piece in [1 << 20, 4 << 10, 1] {
        while filler.write_all(&vec![1; piece]).is_ok() {}
    }
}

#[test]
fn jobs_on_a_full_disk_can_be_canceled_paused_and_removed() {
    let desk = Desk::new();
    ffmpeg(&desk, "-f lavfi -i testsrc2=s=320x240:r=25:d=40 -c:v libx264 -preset ultrafast long.mkv");
    let folder = desk.canonicalize().unwrap();
    let Some(disk) = small_disk(&folder.join("disk"), 24) else { return remaster_testkit::no_disk(TEST) };
    let options =
        format!("serve --port 0 --state disk/state --devices cpu --allow-folder {}", folder.display());
    let server = Server::of(&mut desk.command(&options));
    let media = folder.join("long.mkv").display().to_string();
    let [a, b, c] = [0, 1, 2].map(|_| server.create(&media, &json!({}))["id"].as_str().unwrap().to_owned());
    server.until(&a, |job| job["progress"]["done"].as_u64() > Some(0));
    let filler = disk.0.join("filler");
    fill(&filler);
    let begun = Instant::now();
    assert_eq!(server.act(&b, "cancel").is(200)["status"], "canceled");
    assert_eq!(server.act(&c, "pause").is(200)["paused"], true);
    assert_eq!(server.act(&a, "pause").is(200)["id"], a.as_str());
    server.until(&a, |job| job["paused"] == true);
    server.act(&a, "resume").is(200);
    server.act(&a, "cancel").is(200);
    server.until(&a, |job| job["expires_at"].is_string());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let new = server.post("/v1/predictions", &json!({"version": "anime", "input": {"media": media}}));
    assert_eq!(new.is(507)["kind"], "input-output");
    let listed = server.get("/v1/predictions").is(200)["results"].as_array().unwrap().len();
    assert_eq!(listed, 3, "a job that is not on the disk is in the list");
    for id in [&a, &b] {
        assert_eq!(server.ask("DELETE", &format!("/v1/predictions/{id}"), "X-Remaster: 1\r\n", b"").0, 204);
        assert!(!disk.0.join("state/jobs").join(id).exists());
    }
    // Once there is room, the disk hears of the pause, so that it outlives a kill.
    std::fs::remove_file(&filler).unwrap();
    let record = disk.0.join("state/jobs").join(&c).join("job.json");
    let begun = Instant::now();
    while !std::fs::read_to_string(&record).unwrap().contains("\"paused\":true") {
        assert!(begun.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(20));
    }
    server.kill();
    let server = Server::of(&mut desk.command(&options));
    let listed = server.get("/v1/predictions").is(200);
    assert_eq!(listed["results"].as_array().unwrap().len(), 1);
    assert_eq!((&listed["results"][0]["id"], &listed["results"][0]["paused"]), (&json!(c), &json!(true)));
}

/// Sends 20 MiB to the first who asks: half of it, and the rest once it is told to.
fn source() -> (String, std::sync::mpsc::Sender<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (goes_on, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 20 << 20);
        for _ in 0..2 {
            // A server that has no room leaves.
            let _ = stream.write_all(&vec![1; 10 << 20]);
            let _ = told.recv();
        }
    });
    (address, goes_on)
}

#[test]
fn a_film_from_a_host_and_an_upload_leave_the_reserve_free_together() {
    const RESERVE: u64 = 1 << 30;
    let desk = Desk::new();
    let name = "a_film_from_a_host_and_an_upload_leave_the_reserve_free_together";
    let Some(disk) = small_disk(&desk.join("disk"), 1024 + 24) else {
        return remaster_testkit::no_disk(name);
    };
    let (address, goes_on) = source();
    let options = format!("serve --port 0 --state disk/state --devices cpu --allow-host {address}");
    let server = Server::of(&mut desk.command(&options));
    let id =
        server.create(&format!("http://{address}/film.mkv"), &json!({}))["id"].as_str().unwrap().to_owned();
    let free = || remaster_disk::free_space(&disk.0).unwrap();
    let begun = Instant::now();
    while free() > RESERVE + (15 << 20) {
        assert!(begun.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(20));
    }
    // Each of them has room, and both together do not.
    let upload = server.send("film.mkv", &vec![1; 12 << 20]);
    assert!([413, 507].contains(&upload.0), "{} {}", upload.0, free());
    goes_on.send(()).unwrap();
    let job = server.until(&id, |job| job["expires_at"].is_string());
    assert_eq!(job["error_kind"], "not-a-video", "{job}");
    assert!(free() > RESERVE, "{}", free());
}
