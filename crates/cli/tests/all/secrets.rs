//! Programs that read strangers' files know no secret of the environment. Scripts stand in for them there, and reveal theirs.

use std::process::{Command, Stdio};

use crate::desk::{Desk, Run, bytes, quick_ffmpeg};

/// What must stay with the program, whatever it is called.
const HIDDEN: [&str; 12] = [
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "REMASTER_TOKEN",
    "HF_TOKEN",
    "GITHUB_TOKEN",
    "db_password",
    "MY_SECRETS",
    "Some_Api_Key",
    "https_proxy",
];

/// A value that is looked for. It is long enough for a token.
const SECRET: &str = "swordfish-swordfish";

/// A folder with a film and an ffmpeg, ffprobe and vspipe that write their environment down first.
fn desk() -> Desk {
    let desk = Desk::filmed("-f lavfi -i testsrc2=s=64x48:r=10:d=1 -c:v ffv1 film.mkv");
    let real = quick_ffmpeg().map_or_else(|| "ffmpeg".into(), |path| path.to_string_lossy().into_owned());
    let note = "#!/bin/sh\nenv > \"$(dirname \"$0\")/env.$$\"\n";
    desk.program("ffmpeg", &format!("{note}exec '{real}' \"$@\"\n"));
    desk.program("ffprobe", &format!("{note}exec ffprobe \"$@\"\n"));
    desk.program("vspipe", &format!("{note}echo Core R81\n"));
    desk
}

fn revealed(command: &mut Command) -> &mut Command {
    command.env_remove("REMASTER_FFMPEG").env("PLAIN", "plain").envs(HIDDEN.map(|name| (name, SECRET)))
}

/// How many were started since the last time. None of them knew a secret, and all knew the rest.
fn starts(desk: &Desk) -> usize {
    let names = desk.names().into_iter().filter(|name| name.starts_with("env."));
    let mut count = 0;
    for name in names {
        let text = String::from_utf8_lossy(&bytes(desk, &name)).into_owned();
        assert!(!text.contains("swordfish"), "{text}");
        assert!(text.contains("PLAIN=plain") && text.contains("PATH="), "{text}");
        std::fs::remove_file(desk.join(name)).unwrap();
        count += 1;
    }
    count
}

#[test]
fn no_command_tells_a_child_a_secret() {
    let desk = desk();
    let common = "--model identity --resolution 48 --device cpu";
    for (line, least) in [
        (format!("film.mkv -o out.mkv {common}"), 4),
        (format!("film.mkv -o units.mkv {} --unit-frames 4", common.replace("--device ", "--devices ")), 6),
        (format!("batch film.mkv -d done {common}"), 4),
        ("probe film.mkv".to_owned(), 2),
        ("scenes film.mkv".to_owned(), 3),
        (format!("preview film.mkv -o shown.png {common}"), 3),
        ("doctor --device cpu".to_owned(), 2),
    ] {
        let mut command = desk.command(&format!("{line} --ffmpeg ./ffmpeg"));
        let run = Run::of(revealed(&mut command));
        run.ends(0, &[]);
        let count = starts(&desk);
        assert!(count >= least, "{line}: {count}");
    }
    // Far from a script, but it was asked for its version.
    desk.put("film.vpy", "");
    let mut command = desk.command("probe film.vpy --ffmpeg ./ffmpeg --vspipe ./vspipe");
    assert!(!revealed(&mut command).stdin(Stdio::null()).output().unwrap().status.success());
    assert!(starts(&desk) >= 1);
}

#[test]
fn what_is_run_when_a_film_is_done_is_the_users_own_program() {
    let desk = desk();
    desk.program("tell", "#!/bin/sh\nenv > told\n");
    let line = "batch film.mkv -d done --model identity --resolution 48 --device cpu --on-done ./tell";
    Run::of(revealed(&mut desk.command(line))).ends(0, &[]);
    assert!(String::from_utf8_lossy(&bytes(&desk, "told")).contains("MY_SECRETS=swordfish"));
}

#[test]
#[cfg(feature = "serve")]
fn the_server_tells_a_child_no_secret() {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::time::Duration;

    use crate::desk::{ended, until};
    let desk = desk();
    let mut command = desk.command("serve --port 0 --state state --devices cpu --ffmpeg ./ffmpeg");
    let mut server = revealed(&mut command).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim().trim_start_matches("http://").to_owned();
    let ask = |line: &str, more: &str, body: &[u8]| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let head = format!(
            "{line} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {SECRET}\r\nConnection: close\r\nContent-Length: {}\r\n{more}\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    };
    let film = bytes(&desk, "film.mkv");
    let head = b"--x\r\nContent-Disposition: form-data; name=\"content\"; filename=\"film.mkv\"\r\n\r\n";
    let upload = [&head[..], &film, b"\r\n--x--\r\n"].concat();
    let kind = "Content-Type: multipart/form-data; boundary=x\r\n";
    let id = |text: &str| text.split("\"id\":\"").nth(1).unwrap_or_else(|| panic!("{text}"))[..25].to_owned();
    let file = id(&ask("POST /v1/files", kind, &upload));
    let input = format!(
        "{{\"version\":\"identity\",\"input\":{{\"media\":\"/v1/files/{file}\",\"resolution\":\"48\"}}}}"
    );
    for line in ["POST /v1/plans", "POST /v1/previews"] {
        let answer = ask(line, "", input.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 20"), "{line}: {answer}");
        assert!(starts(&desk) >= 2, "{line}");
    }
    let job = id(&ask("POST /v1/predictions", "", input.as_bytes()));
    until("the job ends", || {
        let answer = ask(&format!("GET /v1/predictions/{job}"), "", b"");
        assert!(!answer.contains("\"status\":\"failed\""), "{answer}");
        answer.contains("\"status\":\"succeeded\"")
    });
    assert!(starts(&desk) >= 4);
    server.kill().unwrap();
    assert!(ended(&mut server, Duration::from_secs(10)).is_some());
}
