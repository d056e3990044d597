//! Unfinished outputs.

use super::*;

#[test]
fn an_interrupted_run_leaves_the_parts_of_others_alone() {
    let desk = filmed("640x360", 150);
    // By the old rule the name of one part matched the pattern of the other.
    let mut other = under_way(&desk, "in.mkv", "a.b.mp4");
    let mut child = under_way(&desk, "in.mkv", "a.mp4");
    signal(&child, "INT");
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(part(&desk, "a.mp4").is_none(), "{:?}", desk.names());
    assert!(other.try_wait().unwrap().is_none(), "the other run was over too early to tell");
    assert!(part(&desk, "a.b.mp4").is_some(), "{:?}", desk.names());
    assert!(other.wait().unwrap().success());
    assert_eq!(desk.names(), ["a.b.mp4", "in.mkv"]);
}

#[test]
fn what_a_killed_run_left_goes_away_with_the_next_and_nothing_else_does() {
    let desk = filmed("640x360", 150);
    let mut killed = under_way(&desk, "in.mkv", "out.mkv");
    signal(&killed, "KILL");
    killed.wait().unwrap();
    let left = part(&desk, "out.mkv").unwrap();
    // A folder of that form that is not ours, and a run with the same output that lives.
    fs::create_dir(desk.join(".out.mkv.abcdefgh.part")).unwrap();
    desk.put(".out.mkv.abcdefgh.part/lock", "mine");
    video(&desk, "small.mkv", "64x48", 3, None);
    desk.works(&format!("vae roundtrip small.mkv -o b.mkv {IDENTITY}"));
    assert!(left.exists(), "a run with another output has no business there");
    let mut living = under_way(&desk, "in.mkv", "out.mkv");
    until("the dead part to go", || !left.exists());
    let of_living: Vec<String> = desk.names().into_iter().filter(|n| n.ends_with(".part")).collect();
    desk.works(&format!("vae roundtrip small.mkv -o out.mkv {IDENTITY}"));
    assert!(living.try_wait().unwrap().is_none(), "the other run was over too early to tell");
    for name in of_living {
        assert!(desk.join(&name).exists(), "{name}");
    }
    // The first to finish has the name: the other one fails and leaves nothing.
    assert_eq!(living.wait().unwrap().code(), Some(3));
    assert_eq!(desk.names(), [".out.mkv.abcdefgh.part", "b.mkv", "in.mkv", "out.mkv", "small.mkv"]);
}

#[test]
fn a_forced_end_leaves_no_folder_of_pictures() {
    let desk = filmed("640x360", 150);
    for output in ["frames", "frames.v2/"] {
        let mut child = under_way(&desk, "in.mkv", output);
        signal(&child, "TERM");
        signal(&child, "TERM");
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(desk.names(), ["in.mkv"], "{output}");
    }
}
