//! The same film or an error: damaged work, edited inputs, lists of other films.

use std::path::Path;

use remaster_weights::sha256_of_bytes;

use crate::desk::{Desk, bytes, copied, document, ffmpeg, ffprobe, files, refused, remaster, remove, works};

/// 60 frames in three shots.
fn film(name: &str) -> Desk {
    Desk::of_shots([25, 20, 15], name)
}

/// Changes the byte in the middle of a file.
fn spoil(path: &Path) {
    let mut content = std::fs::read(path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    std::fs::write(path, content).unwrap();
}

/// The film of a command that keeps its work; the film itself is removed.
fn kept(at: &Path, line: &str) -> Vec<u8> {
    works(at, &format!("{line} --keep"));
    let film = bytes(at, "out.mkv");
    remove(at, "out.mkv");
    film
}

const IDENTITY: &str = "--model identity --vae identity --resolution 96 --unit-frames 30 --piece-frames 10 --checkpoint 0s --no-manifest";

#[test]
fn whatever_file_of_unfinished_work_is_damaged_the_same_command_makes_the_same_film() {
    let at = &film("film.mkv");
    let line = format!("film.mkv -o out.mkv {IDENTITY}");
    let expected = kept(at, &line);
    // Half done: the record that makes the second unit count is missing.
    let (state, spare) = (at.join("out.mkv.remaster"), at.join("spare"));
    std::fs::remove_file(state.join("store/units/000001/done.json")).unwrap();
    copied(&state, &spare);
    let all = files(&spare);
    assert!(all.len() >= 6, "{all:?}");
    let mut warned = 0;
    for (i, path) in all.iter().enumerate() {
        let _ = std::fs::remove_dir_all(&state);
        copied(&spare, &state);
        let path = state.join(path.strip_prefix(&spare).unwrap());
        let content = std::fs::read(&path).unwrap();
        match (i % 3, content.is_empty()) {
            (0, false) => spoil(&path),
            (1, false) => std::fs::write(&path, &content[..content.len() / 2]).unwrap(),
            _ => std::fs::remove_file(&path).unwrap(),
        }
        let said = works(at, &line);
        warned += usize::from(said.contains("again") || said.contains("starting over"));
        assert!(bytes(at, "out.mkv") == expected, "{}: {said}", path.display());
        remove(at, "out.mkv");
        assert!(!state.exists(), "{}: {said}", path.display());
    }
    assert!(warned >= 2, "{warned} of {} were said", all.len());
}

#[test]
fn a_damaged_plan_starts_over_and_says_so() {
    let at = &film("film.mkv");
    let line = format!("film.mkv -o out.mkv {IDENTITY}");
    let expected = kept(at, &line);
    let plan = at.join("out.mkv.remaster/store/plan.json");
    let text = std::fs::read(&plan).unwrap();
    // Also where it says its version.
    let version = text.windows(10).position(|word| word == b"\"version\":").unwrap() + 10;
    for at_byte in [version, text.len() / 2] {
        kept(at, &format!("{line} --restart"));
        let mut text = std::fs::read(&plan).unwrap();
        text[at_byte] ^= 3;
        std::fs::write(&plan, text).unwrap();
        assert!(works(at, &line).contains("starting over"));
        assert!(bytes(at, "out.mkv") == expected);
        remove(at, "out.mkv");
    }
}

#[test]
#[cfg(unix)]
fn a_plan_that_cannot_be_read_is_named_with_one_next_step() {
    let at = &film("film.mkv");
    let line = format!("film.mkv -o out.mkv {IDENTITY}");
    let expected = kept(at, &line);
    let plan = at.join("out.mkv.remaster/store/plan.json");
    // As a later version would write it, whole.
    let body = document(at, "out.mkv.remaster/store/plan.json")["body"].to_string();
    let hash = sha256_of_bytes(format!("remaster plan\n99\n{body}").as_bytes());
    let head = r#"{"format":"remaster plan","version":99,"sha256":"#;
    let newer = format!("{head}\"{hash}\",\"body\":{body}}}\n");
    std::fs::write(&plan, &newer).unwrap();
    let out = remaster(at, &line);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    for word in ["out.mkv.remaster", "plan.json", "version 99", "; use --restart"] {
        assert!(said.contains(word), "{said}");
    }
    assert!(!said.contains("settings") && said.matches("; ").count() == 1, "{said}");
    works(at, &format!("{line} --restart --keep"));
    assert!(bytes(at, "out.mkv") == expected);
    remove(at, "out.mkv");
    // What can be no plan is damage like any other.
    std::fs::remove_file(&plan).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&plan).status().unwrap().success());
    assert!(works(at, &line).contains("starting over"));
    assert!(bytes(at, "out.mkv") == expected);
}

#[test]
fn a_farm_names_damaged_units_and_they_are_done_again() {
    let at = &film("film.mkv");
    let how = IDENTITY.replace("--checkpoint 0s --no-manifest", "");
    works(at, &format!("plan film.mkv -o out.mkv --store store {how}"));
    works(at, "unit run --plan store --input film.mkv --index 0-2");
    works(at, "assemble --plan store --input film.mkv -o out.mkv --no-manifest");
    let expected = bytes(at, "out.mkv");
    spoil(&files(&at.join("store/units/000001/attempts")).pop().unwrap());
    let join = "assemble --plan store --input film.mkv -o out.mkv -y";
    refused(at, join, 3, &["unit run --index 1", "content has changed"]);
    refused(at, join, 3, &["1 of 3 units are not done"]);
    works(at, "unit run --plan store --input film.mkv --index 1");
    works(at, "assemble --plan store --input film.mkv -o out.mkv --no-manifest -y");
    assert!(bytes(at, "out.mkv") == expected);
}

#[test]
fn a_list_of_shots_of_another_length_is_refused_for_raw_frames_too() {
    let at = &film("film.y4m");
    for (name, frames) in [("short", 50), ("long", 70), ("right", 60)] {
        let list = format!(r#"{{"version": 1, "frames": {frames}, "starts": [0, 25, 45]}}"#);
        at.put(&format!("{name}.json"), list);
    }
    // Also by networks for which a cut is no more than a place to begin a unit.
    for (name, model) in
        [("short", "identity"), ("long", "anime"), ("short", "anime"), ("long", "formula:tiny-3b")]
    {
        let how = format!("--scenes {name}.json --model {model} --resolution 96");
        for line in ["film.y4m", &format!("plan film.y4m --store {name}-{model}")] {
            let said = ["60", "remaster scenes", &format!("{name}.json")];
            refused(at, &format!("{line} -o {name}.mkv {how}"), 2, &said);
        }
        assert!(!at.join(format!("{name}.mkv")).exists());
    }
    works(at, "film.y4m -o right.mkv --scenes right.json --model identity --resolution 96 --no-manifest");
    let entries = "-count_frames -show_entries stream=nb_read_frames -of csv=p=0";
    assert_eq!(ffprobe(entries, at.join("right.mkv")).trim(), "60");
}

/// Changes some bytes of a file and sets its time back, as an editor with good manners would.
fn retouch(path: &Path, at: usize) {
    let mut content = std::fs::read(path).unwrap();
    let time = path.metadata().unwrap().modified().unwrap();
    content[at..at + 3000].iter_mut().for_each(|byte| *byte ^= 64);
    std::fs::write(path, content).unwrap();
    std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Raw frames of 14 MB: more than what samples read.
fn large() -> Desk {
    Desk::filmed("-f lavfi -i testsrc2=s=640x480:r=25:d=4,format=yuv420p,trim=end_frame=30 film.y4m")
}

/// A place of that file between two samples, in the luma of a frame.
const BETWEEN: usize = 6 * (640 * 480 * 3 / 2 + 6) + 130_000;

#[test]
fn an_edit_between_all_samples_is_never_resumed_to_the_old_film() {
    let at = &large();
    let line =
        "film.y4m -o out.mkv --model identity --resolution 48 --unit-frames 20 --no-manifest --video ffv1";
    let old = kept(at, line);
    retouch(&at.join("film.y4m"), BETWEEN);
    refused(at, line, 2, &["the input has changed", "--restart"]);
    assert!(!at.join("out.mkv").exists());
    // Back to what it was: the same film, though its times are others.
    retouch(&at.join("film.y4m"), BETWEEN);
    assert!(works(at, &format!("{line} --keep")).contains("resuming"));
    assert!(bytes(at, "out.mkv") == old);
    remove(at, "out.mkv");
    retouch(&at.join("film.y4m"), BETWEEN);
    works(at, &format!("{line} --restart"));
    assert!(bytes(at, "out.mkv") != old);
}

#[test]
fn joining_reads_all_of_an_input_that_was_touched() {
    let at = &large();
    works(at, "plan film.y4m -o out.mkv --store store --model identity --resolution 48 --video ffv1");
    works(at, "unit run --plan store --index 0 --input film.y4m");
    retouch(&at.join("film.y4m"), BETWEEN);
    let join = "assemble --plan store --input film.y4m -o out.mkv";
    refused(at, join, 3, &["film.y4m", "not the film that was planned"]);
    retouch(&at.join("film.y4m"), BETWEEN);
    works(at, join);
}

#[test]
fn a_retouched_picture_of_a_folder_is_never_resumed_to_the_old_film() {
    let at = &Desk::new();
    std::fs::create_dir(at.join("frames")).unwrap();
    ffmpeg(
        at,
        "-f lavfi -i testsrc2=s=640x480:r=25:d=1,format=rgb24,trim=end_frame=3 -compression_algo raw frames/%03d.tiff",
    );
    let line = "frames -o out.mkv --model identity --resolution 48 --no-manifest --video ffv1";
    kept(at, line);
    at.put("frames/.DS_Store", "a file browser was here");
    retouch(&at.join("frames/002.tiff"), 150_000);
    refused(at, line, 2, &["the input has changed", "--restart"]);
    retouch(&at.join("frames/002.tiff"), 150_000);
    assert!(works(at, line).contains("resuming"));
}

#[test]
fn a_batch_skips_a_film_only_if_all_of_its_input_is_the_same() {
    let at = &large();
    ffmpeg(at, "-i film.y4m -c:v rawvideo film.mkv");
    let line = "batch film.mkv --model identity --resolution 48 --json";
    let status =
        |line: &str| -> String { at.run(line).json()["films"][0]["status"].as_str().unwrap().to_owned() };
    assert_eq!([status(line), status(line)], ["done", "skipped"]);
    retouch(&at.join("film.mkv"), BETWEEN);
    assert_eq!(status(line), "failed", "the result is of another input, and stays");
    retouch(&at.join("film.mkv"), BETWEEN);
    assert_eq!(status(line), "skipped");
}

#[test]
fn an_option_that_changes_bits_changes_the_class_of_results() {
    let at = &Desk::filmed("-f lavfi -i testsrc2=s=64x48:r=25:d=1,trim=end_frame=9 film.mkv");
    let made = |name: &str, option: &str| {
        let film = format!("{name}.mkv");
        let how = "SMALL --resolution 1x --video ffv1 --device cpu";
        works(at, &format!("film.mkv -o {film} {how} {option}"));
        let manifest = document(at, &format!("{film}.manifest.json"));
        (bytes(at, &film), manifest["settings"]["numerics"].clone())
    };
    let (film, class) = made("plain", "");
    let program = class["program"].as_str().unwrap();
    assert!(program.len() > 30 && program.starts_with(env!("CARGO_PKG_VERSION")), "{program}");
    // Every option that decides how the machine computes and not what.
    let options = "--stripes 3, --slice 4, --threads 1, --threads 3, --cpu-path portable, --no-tune, \
        --no-collapse, --ram 700M, --disk 300M, --spill ., --checkpoint 0s, --stall-seconds 60";
    for (i, option) in options.split(", ").enumerate() {
        let (other, its) = made(&i.to_string(), option);
        assert!(other == film || its != class, "{option} changes frames and not the class: {class}");
    }
    let (_, unfolded) = made("steps", "--no-collapse");
    assert_ne!(unfolded, class);
}
