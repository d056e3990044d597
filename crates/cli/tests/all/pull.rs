//! `remaster models pull` from a hub in this process. The text embedding is the published file that can be real here.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::desk::{Desk, Run, lives_in, names};

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

fn desk() -> Desk {
    Desk::with(|command, folder| {
        lives_in(command.env_clear(), &folder.join("home"));
        // Without it Windows has no sockets.
        command.envs(std::env::var_os("SystemRoot").map(|path| ("SystemRoot", path)));
    })
}

fn run(desk: &Desk, line: &str, environment: &[(&str, &str)]) -> Run {
    Run::of(desk.command(line).arg("--json").envs(environment.iter().copied()))
}

fn cache(desk: &Desk) -> PathBuf {
    desk.join("home/.cache/huggingface/hub/models--ByteDance-Seed--SeedVR2-3B")
}

/// The published embedding, which is not ours to hand on: whoever has it names it in `REMASTER_POS_EMB`.
fn embedding() -> Vec<u8> {
    std::fs::read(std::env::var_os("REMASTER_POS_EMB").unwrap()).unwrap()
}

#[test]
#[ignore = "published: needs the embedding, at REMASTER_POS_EMB"]
fn a_file_is_downloaded_once_and_is_there_offline() {
    let embedding = embedding();
    let desk = desk();
    let (url, log) = hub("pos_emb.pt", embedding.clone());
    let pulled = run(&desk, "models pull text --progress plain", &[("HF_ENDPOINT", &url)]);
    pulled.ends(0, &["downloading pos_emb.pt of ByteDance-Seed/SeedVR2-3B: 581.16 KiB"]);
    let file = &pulled.json()["files"][0];
    let path = cache(&desk).join("snapshots").join(COMMIT).join("pos_emb.pt");
    assert_eq!(file["file"].as_str().unwrap(), path.display().to_string());
    assert_eq!((&file["downloaded"], &file["bytes"]), (&true.into(), &595_100.into()));
    assert!(std::fs::read(&path).unwrap() == embedding);
    assert_eq!(log.lock().unwrap().len(), 2);

    let again = run(&desk, "models pull text", &[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(again.ends(0, &["is installed"]).json()["files"][0]["downloaded"], false);

    // The cache can be elsewhere, and a link there serves as well.
    let hub = desk.join("elsewhere");
    let elsewhere = [("HF_HUB_CACHE", hub.to_str().unwrap()), ("HF_HUB_OFFLINE", "true")];
    run(&desk, "models pull text", &elsewhere).ends(3, &["HF_HUB_OFFLINE", "pos_emb.pt"]);
    let dir = format!("models pull text --model-dir {}", path.parent().unwrap().display());
    run(&desk, &dir, &elsewhere).ends(0, &[]);
}

#[test]
fn wrong_bytes_end_with_6_and_are_kept_aside() {
    let desk = desk();
    let (url, _) = hub("pos_emb.pt", vec![7; 595_100]);
    let pulled = run(&desk, "models pull text", &[("HF_ENDPOINT", &url)]);
    pulled.ends(6, &["SHA-256", "wrong-sha256", "is not used"]);
    assert_eq!(pulled.json()["exit_code"], 6);
    assert_eq!(names(&cache(&desk).join("blobs")), ["ce013625030ba8dba906f756967f9e9ca394464a.wrong-sha256"]);

    // A file of another size is not even begun.
    let (url, log) = hub("ema_vae_fp16.safetensors", vec![7; 5000]);
    run(&desk, "models pull vae", &[("HF_ENDPOINT", &url)])
        .ends(6, &["5000 bytes, expected 501324814 bytes"]);
    assert!(log.lock().unwrap().iter().all(|line| line.starts_with("HEAD")));
}

#[test]
fn what_cannot_be_pulled_is_said_with_what_can() {
    let desk = desk();
    let (url, log) = hub("nothing", Vec::new());
    let hub = [("HF_ENDPOINT", url.as_str())];
    run(&desk, "models pull 4b", &hub).ends(2, &["4b", "3b, 3b-first, 7b, 7b-sharp, vae, text"]);
    run(&desk, "models pull 3b --quant int8", &hub).ends(2, &["int8", "fp16, fp8, q8_0, q4_k_m"]);
    run(&desk, "models pull 7b-sharp --quant q8_0", &hub).ends(2, &["q8_0", "fp16, fp8, q4_k_m"]);
    run(&desk, "models pull text", &[("HF_ENDPOINT", "nonsense")]).ends(2, &["HF_ENDPOINT", "nonsense"]);
    assert!(log.lock().unwrap().is_empty());
    // The newer weights come with the text embedding inside, the first ones without.
    let newer = run(&desk, "models pull 3b", &hub);
    newer.ends(3, &["downloading the VAE", "has no diffusion_models/seedvr2_3b_fp16.safetensors"]);
    assert!(!newer.stderr.contains("text embedding"), "{}", newer.stderr);
    let words =
        ["downloading the VAE", "downloading the text embedding", "has no seedvr2_ema_3b_fp16.safetensors"];
    run(&desk, "models pull 3b-first", &hub).ends(3, &words);
    let asked = log.lock().unwrap().join("\n");
    assert!(asked.contains("/Comfy-Org/SeedVR2/resolve/main/diffusion_models/seedvr2_3b_fp16"), "{asked}");
}
