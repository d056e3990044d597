//! Which endings are written.

use super::*;

#[test]
fn endings_that_are_not_known_are_refused_before_the_work() {
    let desk = filmed("64x48", 5);
    desk.put("init-stream0.m4s", "mine");
    for output in ["o.mpd", "o.m3u8", "o.bmp", "o.gif", "o.h264", "o.avi", "o.sdp", "o.tee", "o."] {
        let run = desk.run(&format!("vae roundtrip in.mkv -o {output} --weights nowhere.safetensors"));
        run.ends(2, &[output, ".mkv, .mp4", "or name a folder"]);
    }
    assert_eq!(desk.names(), ["in.mkv", "init-stream0.m4s"]);
}

#[test]
fn every_ending_makes_one_file_with_all_frames_and_their_times() {
    let desk = desk();
    video(&desk, "in.mkv", "64x48", 7, Some("aac"));
    let times = |file: &str| {
        let entries = "-select_streams v:0 -show_entries frame=best_effort_timestamp_time -of csv=p=0";
        let text = ffprobe(entries, desk.join(file));
        let times: Vec<f64> = text.lines().filter_map(|l| l.trim_matches(',').parse().ok()).collect();
        times.iter().map(|t| t - times[0]).collect::<Vec<_>>()
    };
    let expected = times("in.mkv");
    for ending in ["mkv", "mp4", "m4v", "mov", "nut", "ts", "m2ts", "MKV"] {
        let output = format!("o%03d.{ending}");
        desk.works(&format!("vae roundtrip in.mkv -o {output} {IDENTITY}"));
        assert_eq!(desk.names(), ["in.mkv", &output]);
        let found = times(&output);
        let off = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(found.len() == expected.len() && off < 0.0011, "{ending}: {found:?}");
        fs::remove_file(desk.join(&output)).unwrap();
    }
    // WebM has sound of its own; frames as y4m and pictures have none.
    for output in ["o.webm", "o.y4m", "o", "o.d/"] {
        let flags = if output == "o.webm" { "--audio none" } else { "" };
        desk.works(&format!("vae roundtrip in.mkv -o {output} {flags} {IDENTITY}"));
        assert_eq!(desk.names(), ["in.mkv", output.trim_end_matches('/')]);
        if desk.join(output).is_dir() {
            assert_eq!(names(&desk.join(output)).len(), 7);
            fs::remove_dir_all(desk.join(output)).unwrap();
        } else {
            fs::remove_file(desk.join(output)).unwrap();
        }
    }
}

#[test]
fn several_frames_do_not_go_into_one_picture() {
    let desk = filmed("64x48", 5);
    // The container says how many: refused before weights are even looked at.
    let run = desk.run(&format!("vae roundtrip in.mkv -o o.png {IDENTITY}"));
    run.ends(2, &["more than one frame", "write to a folder or a video file"]);
    assert!(!run.stderr.contains("encoding"), "planned: {}", run.stderr);
    // A pipe does not: the second frame tells.
    y4m(&desk, "in.y4m", "64x48", 5);
    desk.run(&format!("vae roundtrip in.y4m -o o.png {IDENTITY}")).ends(2, &["more than one frame"]);
    assert_eq!(desk.names(), ["in.mkv", "in.y4m"]);
    y4m(&desk, "one.y4m", "64x48", 1);
    desk.works(&format!("vae roundtrip one.y4m -o o.png {IDENTITY}"));
}
