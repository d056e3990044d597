//! `remaster scenes` from files and pipes, and where its list goes.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::desk::{Desk, Run, ffmpeg, private};

const LIST: &str = "{\"version\":1,\"frames\":50,\"starts\":[0,20,32]}\n";

/// Three shots of 20, 12 and 18 frames; the second has a flash in it.
fn joined(desk: &Desk, name: &str) {
    let graph = "testsrc2=s=160x90:r=24:d=1,format=yuv420p,trim=end_frame=20[a];\
        mandelbrot=s=160x90:r=24:start_scale=0.3,format=yuv420p,trim=end_frame=12[b];\
        smptebars=s=160x90:r=24:d=1,format=yuv420p,trim=end_frame=18,drawbox=x=0:y=0:w=160:h=90:c=white:t=fill:enable='eq(n,9)'[c];\
        [a][b][c]concat=n=3";
    ffmpeg(desk, &format!("-f lavfi -i {graph} -fps_mode passthrough {name}"));
}

fn scenes(desk: &Desk, line: &str, input: &[u8]) -> Run {
    let mut command = desk.command(&format!("scenes {line}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Whoever does not read stdin closes it.
    let _ = child.stdin.take().unwrap().write_all(input);
    Run::new(&command, child.wait_with_output().unwrap())
}

#[test]
fn joined_clips_are_cut_where_they_were_joined() {
    let here = &Desk::with(private);
    joined(here, "in.y4m");
    let (out, json) = (scenes(here, "in.y4m", b""), scenes(here, "in.y4m --json", b""));
    assert_eq!(out.stdout, LIST, "{}", out.stderr);
    assert_eq!(out.stdout, json.stdout);
    let piped = scenes(here, "-", &fs::read(here.join("in.y4m")).unwrap());
    assert_eq!(piped.stdout, LIST, "{}", piped.stderr);

    joined(here, "in.mkv");
    let out = scenes(here, "in.mkv -o shots.json", b"");
    assert_eq!(out.ends(0, &[]).stdout, "wrote shots.json: 3 shots in 50 frames\n");
    assert_eq!(fs::read_to_string(here.join("shots.json")).unwrap(), LIST);
}

#[test]
fn a_list_replaces_nothing_by_accident() {
    let here = &Desk::with(private);
    joined(here, "in.y4m");
    here.put("there.json", "mine");
    let ends = |line: &str, code: i32, word: &str| {
        scenes(here, line, b"").ends(code, &[word]);
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
    scenes(here, "-", &half[..half.len() - 100]).ends(3, &[]);
}

/// Restores with a list of shots and says where they began.
fn shots(desk: &Desk, line: &str) -> Result<serde_json::Value, String> {
    let run = desk.run(&format!("{line} --model identity --resolution 1x --device cpu -y --json"));
    if run.code == Some(0) { Ok(run.json()["shots"].clone()) } else { Err(run.stderr) }
}

#[test]
fn a_list_of_the_film_is_cut_to_the_part_that_is_restored() {
    let here = &Desk::with(private);
    joined(here, "in.mkv");
    joined(here, "in.y4m");
    // A cut that a person added at 5.
    here.put("mine.json", "{\"version\":1,\"frames\":50,\"starts\":[0,5,20,32]}\n");
    here.put("part.json", "{\"version\":1,\"frames\":24,\"starts\":[0,7]}\n");
    here.put("short.json", "{\"version\":1,\"frames\":9,\"starts\":[0,7]}\n");
    for input in ["in.mkv", "in.y4m"] {
        let of = |rest: &str| shots(here, &format!("{input} -o out.mkv {rest}"));
        for (rest, starts) in [
            ("--scenes mine.json", &[0, 5, 20, 32][..]),
            ("--scenes mine.json --to 1", &[0, 5, 20]),
            ("--scenes mine.json --ss 0.5 --to 1.5", &[0, 8, 20]),
            // A list of the part itself counts from its first frame.
            ("--scenes part.json --ss 0.5 --to 1.5", &[0, 7]),
        ] {
            assert_eq!(of(rest), Ok(starts.to_vec().into()), "{input} {rest}");
        }
        let refused = of("--scenes short.json --ss 0.5 --to 1.5").unwrap_err();
        assert!(refused.contains("short.json lists the shots of 9 frames"), "{refused}");
    }
}
