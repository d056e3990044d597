//! Frames of an upscaler that are saved while their piece is encoded: what a kill, a stop or a full folder costs, and that the
//! film is the same.

use std::path::Path;
use std::process::{Child, Stdio};

use crate::desk::{
    Desk, bytes, command, document, ends, ffmpeg, files, refused, remove, said, told, until, works,
};

const HOW: &str = "--model anime --device cpu --resolution 1x --unit-frames 30 --piece-frames 30";

/// `film.mkv`: 40 frames of 48 x 32 at 2 frames a second.
fn film() -> Desk {
    let source = "mandelbrot=s=48x32:r=2:start_scale=0.3";
    Desk::filmed(&format!("-f lavfi -i {source} -frames:v 40 -c:v libx264 -crf 8 -pix_fmt yuv420p film.mkv"))
}

/// Frames in checkpoints below a folder.
fn saved(folder: &Path) -> usize {
    let names = |path: &std::path::PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix("frames-")?.to_owned();
        let (start, end) = name.split_once('-')?;
        Some(end.parse::<usize>().ok()? - start.parse::<usize>().ok()?)
    };
    match folder.is_dir() {
        true => files(folder).iter().filter_map(names).sum(),
        false => 0,
    }
}

/// A run whose frames take a while.
fn slow(at: &Path, line: &str) -> Child {
    let mut command = command(at, line);
    command.env("REMASTER_TEST_UNIT", "slow").stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Kills a run when it has saved so many frames below `state`.
fn killed(at: &Path, line: &str, state: &str, frames: usize) {
    let mut run = slow(at, line);
    until("frames are saved", || saved(&at.join(state)) >= frames || run.try_wait().unwrap().is_some());
    assert!(run.try_wait().unwrap().is_none(), "{line}: it ended too early");
    run.kill().unwrap();
    run.wait().unwrap();
}

/// The frame that a run went on from.
fn resumed(said: &str) -> usize {
    let (_, frame) = said.split_once("resuming at frame ").unwrap_or_else(|| panic!("{said}"));
    frame.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn frames_that_were_saved_are_not_made_again_and_the_film_is_the_same() {
    let at = &film();
    ffmpeg(at, "-f lavfi -i testsrc2=s=64x48:r=25:d=1,format=yuva444p10 -c:v prores_ks alpha.mov");
    ffmpeg(
        at,
        "-f lavfi -i testsrc2=s=64x48:r=50:d=1,interlace=scan=tff -flags +ilme+ildct -c:v mpeg2video tape.mpg",
    );
    let colours = "--color lab --strength 0.7 --dither --input-noise 0.3 --softness 0.2";
    for (input, output, how) in [
        ("film.mkv", "out.mkv", "--no-manifest"),
        ("film.mkv", "out.mp4", "--no-manifest --pixel-format yuv420p10le"),
        ("film.mkv", "out.mkv", &format!("--no-manifest --vf hqdn3d {colours}")),
        ("film.mkv", "out.mkv", "--no-manifest --lossless-units --crf 30"),
        ("alpha.mov", "out.mov", "--no-manifest"),
        ("tape.mpg", "out.mkv", "--no-manifest --deinterlace double"),
    ] {
        let how = format!("{how} {HOW} --checkpoint 0s");
        works(at, &format!("{input} -o ref-{output} -y {how}"));
        let line = format!("{input} -o {output} {how}");
        let state = format!("{output}.remaster");
        killed(at, &line, &state, 5);
        let text = works(at, &line);
        assert!(resumed(&text) >= 5, "{line}: {text}");
        assert!(bytes(at, output) == bytes(at, &format!("ref-{output}")), "{line}");
        assert!(!at.join(state).exists(), "{line}");
        remove(at, output);
    }
}

#[test]
fn a_pool_of_whole_shots_is_the_same_film() {
    let at = &Desk::of_shots([12, 9, 7], "film.mkv");
    let how = format!("--no-manifest {HOW} --color lab --color-pool shot --checkpoint 0s");
    works(at, &format!("film.mkv -o ref.mkv {how}"));
    let line = format!("film.mkv -o out.mkv {how}");
    killed(at, &line, "out.mkv.remaster", 5);
    assert!(resumed(&works(at, &line)) >= 5);
    assert!(bytes(at, "out.mkv") == bytes(at, "ref.mkv"));
}

#[test]
#[cfg(unix)]
fn ctrl_c_loses_no_frame_and_says_what_is_saved() {
    use crate::desk::signal;
    let at = &film();
    let how = format!("--no-manifest {HOW}");
    works(at, &format!("film.mkv -o ref.mkv {how}"));
    let line = format!("film.mkv -o out.mkv {how} --progress json");
    let mut run = slow(at, &line);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(run.stderr.take().unwrap()));
    let done = |line: &str| -> Option<u64> {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        (line["event"] == "progress" && line["phase"] == "restore").then(|| line["done"].as_u64())?
    };
    let made = lines.find_map(|line| done(&line.unwrap()).filter(|done| *done >= 5)).unwrap();
    signal(&run, "INT");
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let text = rest.join("\n");
    assert!(text.contains("saved up to 0:0") && text.contains("of 0:20"), "{text}");
    let text = works(at, &line.replace("--progress json", ""));
    // The frame that was told last may have been on its way to the encoder.
    assert!(resumed(&text) as u64 + 2 >= made, "{made}: {text}");
    assert!(bytes(at, "out.mkv") == bytes(at, "ref.mkv"));
}

#[test]
fn damaged_checkpoints_are_told_of_and_strangers_stay() {
    let at = &film();
    let how = format!("--no-manifest {HOW} --checkpoint 0s");
    works(at, &format!("film.mkv -o ref.mkv {how}"));
    let line = format!("film.mkv -o out.mkv {how}");
    killed(at, &line, "out.mkv.remaster", 6);
    let kept = at.join("out.mkv.remaster/store/units/000000/kept");
    let third = kept.join("frames-2-3");
    let mut content = std::fs::read(&third).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    std::fs::write(&third, content).unwrap();
    std::fs::copy(kept.join("frames-0-1"), kept.join("frames-6-7")).unwrap();
    let text = works(at, &line);
    assert!(
        text.contains("checkpoint frames-2-3 of unit 0: it is damaged or gone; it is made again"),
        "{text}"
    );
    assert!(bytes(at, "out.mkv") == bytes(at, "ref.mkv"));
    assert!(!at.join("out.mkv.remaster").exists());
}

#[test]
fn units_of_a_farm_and_of_several_devices_go_on_from_saved_frames() {
    let at = &film();
    works(at, &format!("film.mkv -o ref.mkv --no-manifest {HOW}"));
    works(at, &format!("plan film.mkv -o out.mkv --store store {HOW}"));
    let run = "unit run --plan store --input film.mkv --index 0 --device cpu";
    killed(at, &format!("{run} --checkpoint 0s"), "store", 5);
    let status = works(at, "unit status --plan store --json");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert!(status["frames_done"].as_u64() >= Some(5), "{status}");
    let done = told(at, &format!("{run} --json -q"));
    assert!(done["frames"].as_u64() <= Some(25), "{done}");
    works(at, "unit run --plan store --input film.mkv --index 1 --device cpu");
    works(at, "assemble --plan store --input film.mkv -o out.mkv --no-manifest");
    assert!(bytes(at, "out.mkv") == bytes(at, "ref.mkv"));
    let line = format!(
        "film.mkv -o two.mkv --no-manifest {} --devices cpu,cpu --checkpoint 0s",
        HOW.replace("--device cpu", "")
    );
    killed(at, &line, "two.mkv.remaster", 5);
    let text = works(at, &line);
    assert!(resumed(&text) >= 5, "{text}");
    assert!(bytes(at, "two.mkv") == bytes(at, "ref.mkv"));
}

#[test]
fn without_room_nothing_is_saved_and_the_run_says_what_a_stop_costs() {
    // Long enough for an estimate, which takes longer than small films do.
    let source = "testsrc2=s=96x64:r=25:d=4";
    let at = &Desk::filmed(&format!("-f lavfi -i {source} -c:v ffv1 film.mkv"));
    let how = "--model anime --device cpu --resolution 4x --checkpoint 0s --no-manifest";
    let note = |disk: &str| {
        let text = works(at, &format!("film.mkv -o out.mkv -y {how} --to 3 --disk {disk}"));
        text.lines().find(|line| line.contains("a stop may lose")).map(str::to_owned)
    };
    let nothing = note("0").unwrap();
    assert!(
        nothing.contains("room to save 0 of the 75 frames") && nothing.contains("lose 75 frames, about "),
        "{nothing}"
    );
    // 384 x 256 in 4:2:0 is 147,456 bytes.
    let some = note("1500K").unwrap();
    assert!(some.contains("room to save 10 of the 75 frames") && some.contains("lose 65 frames"), "{some}");
    let (_, enough) = some.split_once("--disk ").unwrap();
    let (_, enough) = enough.split_once("; --disk ").unwrap();
    assert_eq!(note(enough.split(' ').next().unwrap()), None);
    let plan: serde_json::Value = serde_json::from_str(&works(
        at,
        "plan film.mkv --model anime --device cpu --resolution 4x --json --disk 1500K",
    ))
    .unwrap();
    assert_eq!(plan["checkpoint_bytes"], 1_536_000);
}

/// One entry of the wrong kind in the folder of unfinished work costs what it stood for.
#[test]
fn an_entry_of_the_wrong_kind_is_damage_of_its_unit() {
    let at = &film();
    let how =
        format!("--no-manifest --checkpoint 0s {}", HOW.replace("--piece-frames 30", "--piece-frames 10"));
    let line = format!("film.mkv -o out.mkv {how}");
    works(at, &format!("film.mkv -o ref.mkv {how}"));
    let unit = "out.mkv.remaster/store/units/000000";
    for (entry, kind) in [
        ("kept", "file"),
        ("kept", "link"),
        ("kept", "empty file"),
        ("attempts", "file"),
        ("done.json", "folder"),
        ("kept/piece-000000", "folder"),
        ("", "file"),
    ] {
        for option in ["", "--restart"] {
            killed(at, &line, &format!("{unit}/kept"), 2);
            let place = if entry.is_empty() { at.join(unit) } else { at.join(unit).join(entry) };
            let _ = std::fs::remove_file(&place).or_else(|_| std::fs::remove_dir_all(&place));
            match kind {
                "folder" => std::fs::create_dir(&place).unwrap(),
                #[cfg(unix)]
                "link" => std::os::unix::fs::symlink(at.as_ref() as &Path, &place).unwrap(),
                "file" => std::fs::write(&place, "theirs").unwrap(),
                _ => std::fs::write(&place, "").unwrap(),
            }
            let text = works(at, &format!("{line} {option}"));
            assert!(bytes(at, "out.mkv") == bytes(at, "ref.mkv"), "{entry} {kind} {option}: {text}");
            remove(at, "out.mkv");
            let _ = std::fs::remove_dir_all(at.join("out.mkv.remaster"));
        }
    }
}

#[test]
fn a_restart_that_cannot_empty_the_folder_names_what_is_in_the_way() {
    let at = &film();
    let line = format!("film.mkv -o out.mkv --no-manifest --checkpoint 0s {HOW}");
    for entry in ["store/plan.json", "store"] {
        killed(at, &line, "out.mkv.remaster", 2);
        let place = at.join("out.mkv.remaster").join(entry);
        let _ = std::fs::remove_file(&place).or_else(|_| std::fs::remove_dir_all(&place));
        match entry {
            "store" => std::fs::write(&place, "theirs").unwrap(),
            _ => std::fs::create_dir(&place).unwrap(),
        }
        let name = Path::new("out.mkv.remaster").join(entry).display().to_string();
        refused(
            at,
            &format!("{line} --restart"),
            3,
            &[&format!("cannot remove {name} to start over"), "remove it, then"],
        );
        let _ = std::fs::remove_file(&place).or_else(|_| std::fs::remove_dir_all(&place));
        works(at, &format!("{line} --restart"));
        remove(at, "out.mkv");
    }
}

#[test]
fn options_of_unfinished_work_are_named_as_they_are_typed() {
    let at = &film();
    let line = |size: &str| {
        format!("film.mkv -o out.mkv --no-manifest --checkpoint 0s {HOW} --resolution {size}")
            .replace("--resolution 1x ", "")
    };
    killed(at, &line("64"), "out.mkv.remaster", 2);
    refused(at, &line("2x"), 2, &["--resolution was 64, now 2x", "--restart"]);
}

#[test]
fn the_last_line_names_the_manifest() {
    let at = &film();
    let run = crate::desk::remaster(at, &format!("film.mkv -o out.mkv {HOW} --to 2"));
    ends(&run, 0, &["wrote out.mkv", "; out.mkv.manifest.json beside it says how it was made"]);
    let outcome: serde_json::Value = serde_json::from_str(&said(&crate::desk::remaster(
        at,
        &format!("film.mkv -o out.mkv -y {HOW} --to 2 --json -q"),
    )))
    .unwrap();
    assert_eq!(outcome["manifest"], "out.mkv.manifest.json");
    assert!(document(at, "out.mkv.manifest.json").is_object());
    let text = works(at, &format!("film.mkv -o out.mkv -y {HOW} --to 2 --no-manifest"));
    assert!(!text.contains("manifest"), "{text}");
}
