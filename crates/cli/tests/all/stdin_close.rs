//! Closing stdin cancels where it was asked for, on every system.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::desk::{Desk, ffmpeg};

fn start(desk: &Desk, line: &str) -> Child {
    let mut command = desk.command(line);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn clip(seconds: u32) -> Desk {
    let desk = Desk::bare();
    let source = format!("testsrc2=s=640x360:r=25:d={seconds}");
    ffmpeg(&desk, &format!("-f lavfi -i {source} -c:v libx264 -preset ultrafast in.mkv"));
    desk
}

const LINE: &str =
    "vae roundtrip in.mkv -o out.mkv --weights identity --progress none -y --cancel-on-stdin-close";

#[test]
fn a_run_ends_when_stdin_does_and_leaves_nothing() {
    let desk = clip(30);
    for wait in [0, 300, 1500] {
        let mut child = start(&desk, LINE);
        std::thread::sleep(Duration::from_millis(wait));
        assert!(child.try_wait().unwrap().is_none(), "it ended while stdin was open");
        let asked = Instant::now();
        drop(child.stdin.take());
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(130), "{}", String::from_utf8_lossy(&out.stderr));
        // The promise is a second; starting up counts here, too.
        assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
        assert_eq!(desk.names(), ["in.mkv"]);
    }
}

#[test]
fn a_run_whose_stdin_stays_open_ends_by_itself() {
    let desk = clip(1);
    let mut child = start(&desk, LINE);
    // What is written to it does not matter.
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"go on\n").unwrap();
    let stdin = child.stdin.take();
    let out = child.wait_with_output().unwrap();
    drop(stdin);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(desk.join("out.mkv").exists());
}

#[test]
fn it_is_refused_where_stdin_is_the_input_or_nothing_would_stop() {
    let desk = Desk::bare();
    for line in [
        "vae roundtrip - -o out.mkv --weights identity --cancel-on-stdin-close",
        "compare a.mkv - --cancel-on-stdin-close",
        "scenes - --cancel-on-stdin-close",
        "plan --network decode --height 64 --width 64 --cancel-on-stdin-close",
    ] {
        let out = start(&desk, line).wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{line}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("--cancel-on-stdin-close"), "{line}");
    }
}
