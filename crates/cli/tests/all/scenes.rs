//! `remaster scenes` from files and pipes, and where its list goes.
#![allow(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const LIST: &str = "{\"version\":1,\"frames\":50,\"starts\":[0,20,32]}\n";

/// Three shots of 20, 12 and 18 frames; the second has a flash in it.
fn joined(folder: &Path, name: &str) {
    let graph = "testsrc2=s=160x90:r=24:d=1,format=yuv420p,trim=end_frame=20[a];\
        mandelbrot=s=160x90:r=24:start_scale=0.3,format=yuv420p,trim=end_frame=12[b];\
        smptebars=s=160x90:r=24:d=1,format=yuv420p,trim=end_frame=18,drawbox=x=0:y=0:w=160:h=90:c=white:t=fill:enable='eq(n,9)'[c];\
        [a][b][c]concat=n=3";
    let args = ["-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", graph];
    let made =
        Command::new("ffmpeg").args(args).args(["-fps_mode", "passthrough"]).arg(folder.join(name)).status();
    assert!(made.unwrap().success());
}

fn scenes(folder: &Path, line: &str, input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_remaster"))
        .current_dir(folder)
        .arg("scenes")
        .args(line.split_whitespace())
        .env("XDG_CONFIG_HOME", folder.join("none"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Whoever does not read stdin closes it.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

#[test]
fn joined_clips_are_cut_where_they_were_joined() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    joined(here, "in.y4m");
    let (out, json) = (scenes(here, "in.y4m", b""), scenes(here, "in.y4m --json", b""));
    assert_eq!(String::from_utf8_lossy(&out.stdout), LIST, "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.stdout, json.stdout);
    let piped = scenes(here, "-", &fs::read(here.join("in.y4m")).unwrap());
    assert_eq!(String::from_utf8_lossy(&piped.stdout), LIST, "{}", String::from_utf8_lossy(&piped.stderr));

    joined(here, "in.mkv");
    let out = scenes(here, "in.mkv -o shots.json", b"");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8_lossy(&out.stdout), "wrote shots.json: 3 shots in 50 frames\n");
    assert_eq!(fs::read_to_string(here.join("shots.json")).unwrap(), LIST);
}

#[test]
fn a_list_replaces_nothing_by_accident() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    joined(here, "in.y4m");
    fs::write(here.join("there.json"), "mine").unwrap();
    let ends = |line: &str, code: i32, word: &str| {
        let out = scenes(here, line, b"");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains(word), "{line}: {said}");
    };
    ends("in.y4m -o there.json", 2, "-y");
    assert_eq!(fs::read_to_string(here.join("there.json")).unwrap(), "mine");
    ends("in.y4m -o shots.txt", 2, ".json");
    ends("nowhere.mkv", 3, "nowhere.mkv");
    fs::rename(here.join("in.y4m"), here.join("in.json")).unwrap();
    ends("in.json -o in.json -y", 2, "in.json");
    fs::rename(here.join("in.json"), here.join("in.y4m")).unwrap();
    ends("in.y4m -o there.json -y", 0, "");
    assert_eq!(fs::read_to_string(here.join("there.json")).unwrap(), LIST);
    // A pipe that ends in the middle of a frame.
    let half = fs::read(here.join("in.y4m")).unwrap();
    let out = scenes(here, "-", &half[..half.len() - 100]);
    assert_eq!(out.status.code(), Some(3), "{}", String::from_utf8_lossy(&out.stderr));
}

/// Restores with a list of shots and says where they began.
fn shots(folder: &Path, line: &str) -> Result<serde_json::Value, String> {
    let out = Command::new(env!("CARGO_BIN_EXE_remaster"))
        .current_dir(folder)
        .args(line.split_whitespace())
        .args("--model identity --resolution 1x --device cpu -y --json".split_whitespace())
        .env("XDG_CONFIG_HOME", folder.join("none"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    match out.status.success() {
        true => Ok(serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap()["shots"].clone()),
        false => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
    }
}

#[test]
fn a_list_of_the_film_is_cut_to_the_part_that_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    joined(here, "in.mkv");
    joined(here, "in.y4m");
    // A cut that a person added at 5.
    fs::write(here.join("mine.json"), "{\"version\":1,\"frames\":50,\"starts\":[0,5,20,32]}\n").unwrap();
    fs::write(here.join("part.json"), "{\"version\":1,\"frames\":24,\"starts\":[0,7]}\n").unwrap();
    fs::write(here.join("short.json"), "{\"version\":1,\"frames\":9,\"starts\":[0,7]}\n").unwrap();
    for input in ["in.mkv", "in.y4m"] {
        let of = |rest: &str| shots(here, &format!("{input} -o out.mkv {rest}"));
        assert_eq!(of("--scenes mine.json"), Ok([0, 5, 20, 32].into_iter().collect()), "{input}");
        assert_eq!(of("--scenes mine.json --to 1"), Ok([0, 5, 20].into_iter().collect()), "{input}");
        assert_eq!(
            of("--scenes mine.json --ss 0.5 --to 1.5"),
            Ok([0, 8, 20].into_iter().collect()),
            "{input}"
        );
        // A list of the part itself counts from its first frame.
        assert_eq!(of("--scenes part.json --ss 0.5 --to 1.5"), Ok([0, 7].into_iter().collect()), "{input}");
        let refused = of("--scenes short.json --ss 0.5 --to 1.5").unwrap_err();
        assert!(refused.contains("short.json lists the shots of 9 frames"), "{refused}");
    }
}
