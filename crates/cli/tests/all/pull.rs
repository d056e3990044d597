//! `remaster models pull` from a hub in this process. The text embedding is the published file that can be real here.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A hub that has `bytes` under every name with this ending, and nothing else. Ends with the test.
fn hub(ending: &'static str, bytes: Vec<u8>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let log = Arc::<Mutex<Vec<String>>>::default();
    let seen = log.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (bytes, seen) = (bytes.clone(), seen.clone());
            std::thread::spawn(move || answer(&mut stream.unwrap(), ending, &bytes, &seen));
        }
    });
    (url, log)
}

fn answer(stream: &mut TcpStream, ending: &str, bytes: &[u8], log: &Mutex<Vec<String>>) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
    log.lock().unwrap().push(line.clone());
    let (status, length) = match line.contains(&format!("{ending} ")) {
        true => ("200 OK", bytes.len()),
        false => ("404 Not Found", 0),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\nX-Repo-Commit: {COMMIT}\r\n\
         ETag: \"ce013625030ba8dba906f756967f9e9ca394464a\"\r\n\r\n"
    );
    let _ = stream.write_all(head.as_bytes());
    if line.starts_with("GET") && length > 0 {
        let _ = stream.write_all(bytes);
    }
}

struct Desk(TempDir);

struct Run {
    code: Option<i32>,
    json: Value,
    stderr: String,
}

impl Desk {
    fn new() -> Self {
        Desk(tempfile::tempdir().unwrap())
    }

    fn cache(&self) -> PathBuf {
        self.0.path().join("home/.cache/huggingface/hub")
    }

    fn run(&self, line: &str, environment: &[(&str, &str)]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_remaster"));
        command.args(line.split_whitespace()).arg("--json").current_dir(self.0.path()).stdin(Stdio::null());
        command.env_clear().env("HOME", self.0.path().join("home")).envs(environment.iter().copied());
        let out = command.output().unwrap();
        let stdout = String::from_utf8(out.stdout).unwrap();
        Run {
            code: out.status.code(),
            json: serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{line}: {e}: {stdout}")),
            stderr: String::from_utf8(out.stderr).unwrap(),
        }
    }
}

impl Run {
    #[track_caller]
    fn ends(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in: {}", self.stderr);
        }
        self
    }
}

/// The published embedding, which is not ours to hand on: whoever has it names it in `REMASTER_POS_EMB`.
fn embedding() -> Option<Vec<u8>> {
    std::fs::read(std::env::var_os("REMASTER_POS_EMB")?).ok()
}

#[test]
fn a_file_is_downloaded_once_and_is_there_offline() {
    let Some(embedding) = embedding() else {
        let name = "a_file_is_downloaded_once_and_is_there_offline";
        return remaster_testkit::not_run(name, "REMASTER_POS_EMB names no file");
    };
    let desk = Desk::new();
    let (url, log) = hub("pos_emb.pt", embedding.clone());
    let run = desk.run("models pull text --progress plain", &[("HF_ENDPOINT", &url)]);
    run.ends(0, &["downloading pos_emb.pt of ByteDance-Seed/SeedVR2-3B: 581.16 KiB"]);
    let file = &run.json["files"][0];
    let path =
        desk.cache().join("models--ByteDance-Seed--SeedVR2-3B/snapshots").join(COMMIT).join("pos_emb.pt");
    assert_eq!(file["file"].as_str().unwrap(), path.display().to_string());
    assert_eq!((&file["downloaded"], &file["bytes"]), (&true.into(), &595_100.into()));
    assert!(std::fs::read(&path).unwrap() == embedding);
    assert_eq!(log.lock().unwrap().len(), 2);

    let again = desk.run("models pull text", &[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(again.ends(0, &["is installed"]).json["files"][0]["downloaded"], false);

    // The cache can be elsewhere, and a link there serves as well.
    let hub = desk.0.path().join("elsewhere");
    let elsewhere = [("HF_HUB_CACHE", hub.to_str().unwrap()), ("HF_HUB_OFFLINE", "true")];
    desk.run("models pull text", &elsewhere).ends(3, &["HF_HUB_OFFLINE", "pos_emb.pt"]);
    let dir = format!("models pull text --model-dir {}", path.parent().unwrap().display());
    desk.run(&dir, &elsewhere).ends(0, &[]);
}

#[test]
fn wrong_bytes_end_with_6_and_are_kept_aside() {
    let desk = Desk::new();
    let (url, _) = hub("pos_emb.pt", vec![7; 595_100]);
    let run = desk.run("models pull text", &[("HF_ENDPOINT", &url)]);
    run.ends(6, &["SHA-256", "wrong-sha256", "is not used"]);
    assert_eq!(run.json["exit_code"], 6);
    let blobs = desk.cache().join("models--ByteDance-Seed--SeedVR2-3B/blobs");
    let names: Vec<_> = std::fs::read_dir(blobs).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["ce013625030ba8dba906f756967f9e9ca394464a.wrong-sha256"]);

    // A file of another size is not even begun.
    let (url, log) = hub("ema_vae_fp16.safetensors", vec![7; 5000]);
    desk.run("models pull vae", &[("HF_ENDPOINT", &url)]).ends(6, &["5000 bytes, expected 501324814 bytes"]);
    assert!(log.lock().unwrap().iter().all(|line| line.starts_with("HEAD")));
}

#[test]
fn what_cannot_be_pulled_is_said_with_what_can() {
    let desk = Desk::new();
    let (url, log) = hub("nothing", Vec::new());
    let hub = [("HF_ENDPOINT", url.as_str())];
    desk.run("models pull 4b", &hub).ends(2, &["4b", "3b, 3b-first, 7b, 7b-sharp, vae, text"]);
    desk.run("models pull 3b --quant int8", &hub).ends(2, &["int8", "fp16, fp8, q8_0, q4_k_m"]);
    desk.run("models pull 7b-sharp --quant q8_0", &hub).ends(2, &["q8_0", "fp16, fp8, q4_k_m"]);
    desk.run("models pull text", &[("HF_ENDPOINT", "nonsense")]).ends(2, &["HF_ENDPOINT", "nonsense"]);
    assert!(log.lock().unwrap().is_empty());
    // The newer weights come with the text embedding inside, the first ones without.
    let newer = desk.run("models pull 3b", &hub);
    newer.ends(3, &["downloading the VAE", "has no diffusion_models/seedvr2_3b_fp16.safetensors"]);
    assert!(!newer.stderr.contains("text embedding"), "{}", newer.stderr);
    let words =
        ["downloading the VAE", "downloading the text embedding", "has no seedvr2_ema_3b_fp16.safetensors"];
    desk.run("models pull 3b-first", &hub).ends(3, &words);
    let asked = log.lock().unwrap().join("\n");
    assert!(asked.contains("/Comfy-Org/SeedVR2/resolve/main/diffusion_models/seedvr2_3b_fp16"), "{asked}");
}
