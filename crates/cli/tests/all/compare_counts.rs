//! A comparison of clips that do not match is no proof.

use serde_json::Value;

use crate::desk::{Desk, ffmpeg};

fn clip(desk: &Desk, name: &str, source: &str) {
    ffmpeg(desk, &format!("-f lavfi -i {source} -c:v ffv1 {name}"));
}

fn judged(desk: &Desk, line: &str, code: i32, mismatches: &[&str], words: &[&str]) -> Value {
    let run = desk.run(&format!("compare {line} --json --quick --progress none"));
    let report = run.ends(code, words).json();
    assert_eq!(report["mismatches"], Value::from(mismatches.to_vec()), "{line}");
    report
}

#[test]
fn clips_of_other_lengths_sizes_or_rates_fail_the_check() {
    let here = &Desk::bare();
    clip(here, "a.mkv", "testsrc2=s=64x48:r=24:d=1");
    clip(here, "cut.mkv", "testsrc2=s=64x48:r=24:d=1,trim=end_frame=5");
    clip(here, "small.mkv", "testsrc2=s=64x48:r=24:d=1,scale=32x24");
    clip(here, "fast.mkv", "testsrc2=s=64x48:r=27:d=1,trim=end_frame=24");
    judged(here, "a.mkv a.mkv --min-psnr 90", 0, &[], &[]);
    for order in ["a.mkv cut.mkv", "cut.mkv a.mkv"] {
        let report = judged(here, &format!("{order} --min-psnr 30"), 6, &["frames"], &["24", "5"]);
        let mut counts = [0, 1].map(|i| report["clips"][i]["frames"].as_u64().unwrap());
        counts.sort_unstable();
        assert_eq!(counts, [5, 24]);
        assert_eq!(report["frames"], 5);
        // Without a limit it is a warning.
        judged(here, order, 0, &["frames"], &["warning: ", "24", "5"]);
    }
    // As many frames as were asked for are all that count.
    judged(here, "a.mkv cut.mkv --frames 5 --min-psnr 90", 0, &[], &[]);
    judged(here, "a.mkv cut.mkv --frames 9 --min-psnr 90", 6, &["frames"], &["9", "5"]);
    judged(here, "a.mkv small.mkv --min-psnr 1", 6, &["size"], &["64 x 48", "32 x 24"]);
    // The larger clip keeps its pixels, whichever comes first.
    for (order, clip) in [("a.mkv small.mkv", "b"), ("small.mkv a.mkv", "a")] {
        let report = judged(here, &format!("{order} --sheet s.png -y"), 0, &["size"], &["64 x 48"]);
        assert_eq!((&report["width"], &report["height"]), (&64.into(), &48.into()), "{order}");
        assert_eq!(report["resized"], serde_json::json!({"clip": clip, "filter": "bicubic"}), "{order}");
        let note = report["notes"][0].as_str().unwrap();
        assert!(note.contains("from 32 x 24 to 64 x 48 (bicubic)"), "{note}");
    }
    assert_eq!(judged(here, "a.mkv a.mkv", 0, &[], &[])["resized"], Value::Null);
    judged(here, "a.mkv fast.mkv --min-psnr 30", 6, &["rate"], &["frame rates differ"]);
    // Pictures have no clock that could differ.
    std::fs::create_dir(here.join("pictures")).unwrap();
    ffmpeg(here, "-i a.mkv pictures/%03d.png");
    judged(here, "a.mkv pictures --min-psnr 20", 0, &[], &[]);
}
