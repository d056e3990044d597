//! Films by units: killed and gone on with, done elsewhere and joined, on several devices, in batches.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use remaster_testkit::{Rng, says};

use crate::desk::{
    self, Desk, LIMIT, bytes, command, document, ended, ffmpeg, refused, remove, small_disk, until, works,
};

/// `film.mp4`: 97 frames in three shots, with sound.
fn three_shots(folder: &Path) {
    desk::three_shots(folder, [40, 27, 30], "silent.mp4");
    ffmpeg(
        folder,
        "-i silent.mp4 -f lavfi -i sine=frequency=440:duration=3.88 -c:v copy -c:a aac -metadata title=Holiday film.mp4",
    );
    remove(folder, "silent.mp4");
}

pub(crate) fn film() -> Desk {
    let desk = Desk::new();
    three_shots(&desk);
    desk
}

/// `tape.mkv`: 260 frames without a cut.
fn tape() -> Desk {
    Desk::filmed(
        "-f lavfi -i mandelbrot=s=64x48:r=25:start_scale=0.3 -frames:v 260 -c:v libx264 -crf 8 -pix_fmt yuv420p tape.mkv",
    )
}

/// What is in a folder beside what these tests put there.
fn names(folder: &Path) -> Vec<String> {
    let mut names = desk::names(folder);
    names.retain(|name| !["cache", "none", "said"].contains(&name.as_str()));
    names
}

/// Processes that were started by this one, and theirs.
fn descendants(of: u32) -> Vec<u32> {
    let parents = crate::tree::parents();
    let mut found = vec![of];
    let mut i = 0;
    while i < found.len() {
        let at = found[i];
        found.extend(parents.iter().filter(|(_, parent)| **parent == at).map(|(pid, _)| *pid));
        i += 1;
    }
    found.split_off(1)
}

fn kill(pid: u32) {
    let (program, words) =
        if cfg!(windows) { ("taskkill", ["/f", "/pid"].as_slice()) } else { ("kill", ["-9"].as_slice()) };
    let _ = Command::new(program)
        .args(words)
        .arg(pid.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// In a group of its own, so that what it starts can be told from others.
fn apart(command: &mut Command) -> &mut Command {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command
}

/// Ends the run at a random moment: itself, all of its processes, or one child. True if it made the film all the same.
fn end(child: &mut Child, dice: &mut Rng, longest: Duration) -> bool {
    if let Some(code) = ended(child, longest.mul_f64(dice.below(1000) as f64 / 1000.0)) {
        return code == 0;
    }
    let children = descendants(child.id());
    match (dice.below(4), children.len()) {
        (0, 1..) => {
            kill(dice.pick(&children));
            // It ends with an error, or it did not need that child any more.
            return ended(child, LIMIT).map(|code| code == 0).unwrap_or_else(|| {
                let left = descendants(child.id());
                left.iter().copied().chain([child.id()]).for_each(kill);
                panic!("a run without one of its children did not end in {LIMIT:?}; it had {left:?}")
            });
        }
        (1, _) => children.iter().copied().chain([child.id()]).for_each(kill),
        _ => kill(child.id()),
    }
    let _ = child.wait();
    // Children of a dead parent end by themselves; the next run must not care.
    false
}

/// Runs a command, which is killed `kills` times in all, as often as it takes; returns how often it was started.
fn with_kills(folder: &Path, line: &str, output: &str, expected: &[u8], kills: usize, seed: u64) -> usize {
    let mut dice = Rng::new(seed);
    let began = Instant::now();
    works(folder, line);
    let longest = began.elapsed().mul_f64(1.1);
    assert_eq!(bytes(folder, output), expected, "undisturbed");
    remove(folder, output);
    let mut starts = 0;
    let mut killed = 0;
    while killed < kills {
        // The machine may become slower while this runs: a run gets more time after each kill, so that the film is made.
        let mut most = longest;
        loop {
            starts += 1;
            let mut run = command(folder, line);
            let before = || String::from_utf8_lossy(&bytes(folder, "said")).into_owned();
            assert!(starts < 10 * kills + 10, "no run makes the film: {}", before());
            let said = std::fs::File::create(folder.join("said")).unwrap();
            let mut child = apart(run.stdout(Stdio::null()).stderr(said)).spawn().unwrap();
            if end(&mut child, &mut dice, most) || folder.join(output).exists() {
                break;
            }
            killed += 1;
            most = most.mul_f64(1.3);
        }
        // Whatever was the last thing that a killed run did, the film is whole, and it is the film.
        if !folder.join(output).exists() {
            works(folder, line);
        }
        assert_eq!(bytes(folder, output), expected, "after {killed} kills");
        remove(folder, output);
        let _ = std::fs::remove_dir_all(folder.join(format!("{output}.remaster")));
    }
    starts
}

/// How often runs are killed: REMASTER_KILLS in all, or a few.
fn kills() -> usize {
    std::env::var("REMASTER_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(4)
}

const THREE: &str = "film.mp4 -o out.mkv -q --model identity --vae identity --resolution 96 --unit-frames 50 --piece-frames 10 \
    --checkpoint 0s --no-manifest";
const ONE: &str = "tape.mkv -o out.mp4 -q --model identity --vae identity --resolution 48 --window 17 --unit-frames 100 --piece-frames 30 \
    --checkpoint 0s --no-manifest";
/// Frames of an upscaler are saved on their way.
const UPSCALED: &str = "film.mp4 -o out.mkv -q --model anime --resolution 2x --device cpu --unit-frames 50 --piece-frames 24 \
    --checkpoint 0s --no-manifest";

#[test]
fn a_film_that_is_killed_while_its_frames_are_saved_is_the_same_film() {
    let at = &film();
    works(at, &UPSCALED.replace("out.mkv", "ref.mkv"));
    let expected = bytes(at, "ref.mkv");
    with_kills(at, UPSCALED, "out.mkv", &expected, kills() / 2, 0xa11);
    let left = names(at);
    assert!(left.iter().all(|name| ["film.mp4", "ref.mkv"].contains(&name.as_str())), "{left:?}");
}

#[test]
fn a_film_that_is_killed_is_the_same_film() {
    let at = &film();
    works(at, &THREE.replace("out.mkv", "ref.mkv"));
    let expected = bytes(at, "ref.mkv");
    let starts = with_kills(at, THREE, "out.mkv", &expected, kills() / 2, 0x5eed);
    assert!(starts > kills() / 2);
    let left = names(at);
    assert!(left.iter().all(|name| ["film.mp4", "ref.mkv"].contains(&name.as_str())), "{left:?}");
}

#[test]
fn a_tape_without_cuts_that_is_killed_is_the_same_tape() {
    let at = &tape();
    works(at, &ONE.replace("out.mp4", "ref.mp4"));
    let expected = bytes(at, "ref.mp4");
    with_kills(at, ONE, "out.mp4", &expected, kills() / 2, 0xf11f);
}

/// Whether there is a file of this name below a folder.
fn holds(folder: &Path, name: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| entry.file_name() == name || holds(&entry.path(), name))
}

/// Another film under the name of the one that is restored: nothing of it gets into the result or into what is kept.
// Windows does not allow a film to be replaced while it is open.
#[test]
#[cfg(unix)]
fn a_film_that_is_replaced_meanwhile_is_noticed() {
    let at = &film();
    ffmpeg(at, "-i film.mp4 -vf negate -c:a copy other.mp4");
    let how = "-q --model formula:tiny-3b --resolution 32x32 --device cpu --dtype f32 --unit-frames 50 --piece-frames 10 \
        --checkpoint 0s --no-manifest";
    works(at, &format!("film.mp4 -o ref.mkv {how}"));
    // By units, in one go, and as raw frames: they would mix two films if the change were not noticed.
    for (option, output) in [("", "out.mkv"), ("--disk 0", "out.mkv"), ("", "out.y4m")] {
        let line = format!("film.mp4 -o {output} {how} {option}");
        let run = command(at, &line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let under_way = || match output {
            "out.mkv" => ["done.json", "piece-000000000.nut"].into_iter().any(|name| holds(at, name)),
            _ => holds(at, "output.y4m"),
        };
        until("no piece was done", under_way);
        // In one step: a moment without a film would be another error.
        std::fs::hard_link(at.join("film.mp4"), at.join("kept.mp4")).unwrap();
        std::fs::rename(at.join("other.mp4"), at.join("film.mp4")).unwrap();
        let out = run.wait_with_output().unwrap();
        desk::ends(&out, 3, &["film.mp4"]);
        let said = desk::said(&out);
        assert!(said.contains("is not the film that was planned") || said.contains("shrank"), "{said}");
        assert!(!at.join("out.mkv").exists());
        std::fs::rename(at.join("film.mp4"), at.join("other.mp4")).unwrap();
        std::fs::rename(at.join("kept.mp4"), at.join("film.mp4")).unwrap();
        if output == "out.mkv" {
            works(at, &line);
            assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"));
            remove(at, "out.mkv");
        }
    }
}

#[test]
fn units_of_a_tape_are_the_tape() {
    let at = &tape();
    // Lossless, so that only the frames count.
    let line = |cut: &str, to: &str| {
        format!(
            "tape.mkv -o {to} -q --model formula:tiny-3b --resolution 32x32 --window 17 --device cpu --dtype f32 \
             --lossless {cut}"
        )
    };
    works(at, &line("--unit-frames 100 --piece-frames 25", "cut.mkv"));
    works(at, &line("", "whole.mkv"));
    let frames =
        |name: &str| String::from_utf8(ffmpeg(at, &format!("-i {name} -map 0:v -f framemd5 -"))).unwrap();
    let (cut, whole) = (frames("cut.mkv"), frames("whole.mkv"));
    assert_eq!(cut.lines().filter(|line| !line.starts_with('#')).count(), 260);
    assert_eq!(cut, whole);
}

#[test]
fn unfinished_work_is_for_the_same_settings_only() {
    let at = &film();
    let line = "film.mp4 -o out.mkv --model identity --vae identity --resolution 96 --unit-frames 45";
    works(at, &format!("{line} --keep"));
    assert!(at.join("out.mkv.remaster").is_dir());
    remove(at, "out.mkv");
    refused(at, &format!("{line} --seed 7"), 2, &["out.mkv.remaster", "seed was 42, now 7", "--restart"]);
    refused(
        at,
        &line.replace("--model identity --vae identity", "--model formula:tiny-3b"),
        2,
        &["other models"],
    );
    assert!(works(at, line).contains("resuming at frame 97 of 97"));
    assert!(!at.join("out.mkv.remaster").exists());
    remove(at, "out.mkv");
    works(at, &format!("{line} --keep"));
    remove(at, "out.mkv");
    works(at, &format!("{line} --seed 7 --restart"));
    assert!(!at.join("out.mkv.remaster").exists());
    // What fails before there is work leaves nothing behind.
    refused(at, "film.mp4 -o no.mkv --model identity --video libnone", 2, &["libnone"]);
    assert!(!at.join("no.mkv.remaster").exists());
    refused(at, "film.mp4 -o no.png --model identity --devices cpu,cpu", 2, &["--devices"]);
    let encoder = "film.mp4 -o no.mkv --model identity --resolution 96 --video mpeg4";
    refused(at, encoder, 2, &["mpeg4", "--mix-devices"]);
    works(at, &format!("{encoder} --mix-devices"));
}

#[test]
#[cfg(target_os = "linux")]
fn several_devices_and_a_killed_child_make_the_same_film() {
    let at = &film();
    let how = "--model identity --resolution 96 --unit-frames 20 --piece-frames 10 --no-manifest -q";
    works(at, &format!("film.mp4 -o ref.mkv {how} --device cpu"));
    let line = format!("film.mp4 -o out.mkv {how} --devices cpu,cpu");
    let mut child = apart(&mut command(at, &line)).spawn().unwrap();
    // One child of the run, and not its ffmpegs.
    let is_worker = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).nth(1) == Some(b"unit"))
    };
    let mut worker = None;
    until("no child", || {
        worker = descendants(child.id()).into_iter().find(is_worker);
        worker.is_some()
    });
    kill(worker.unwrap());
    assert!(child.wait().unwrap().success());
    assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"));
}

#[test]
fn a_run_stops_at_the_time_of_day_and_goes_on() {
    let at = &film();
    let line = "film.mp4 -o out.mkv --model identity --vae identity --resolution 96 --unit-frames 20 --piece-frames 3 --no-manifest";
    works(at, &line.replace("out.mkv", "ref.mkv"));
    // Each slice takes a while, so that it is at work then.
    let until = (chrono::Local::now() + Duration::from_secs(4)).format("%H:%M:%S");
    let mut command = command(at, &format!("{line} --until {until}"));
    desk::ends(&command.env("REMASTER_TEST_UNIT", "slow:").output().unwrap(), 130, &["--until", "again"]);
    assert!(at.join("out.mkv.remaster").is_dir() && !at.join("out.mkv").exists());
    assert!(works(at, line).contains("resuming at frame "));
    assert_eq!(bytes(at, "out.mkv"), bytes(at, "ref.mkv"));
}

#[test]
fn films_that_are_done_are_skipped_without_a_look_at_the_machine() {
    let at = &film();
    std::fs::create_dir(at.join("films")).unwrap();
    for i in 0..6 {
        std::fs::copy(at.join("film.mp4"), at.join(format!("films/{i}.mp4"))).unwrap();
    }
    let line = "batch films --model identity --resolution 48";
    works(at, line);
    // No ffmpeg is asked, and results are not restored.
    let began = Instant::now();
    let said = works(at, &format!("{line} --ffmpeg /bin/false"));
    let took = began.elapsed();
    assert_eq!(said.matches("skipped, already restored").count(), 6, "{said}");
    assert!(said.contains("left out") && said.contains("and 5 others"), "{said}");
    assert!(took < Duration::from_secs(6), "{took:?}");
    // A film that was changed, and one of another input, are no longer done.
    let film = at.join("films/0_upscaled.mp4");
    let mut changed = std::fs::read(&film).unwrap();
    *changed.last_mut().unwrap() ^= 1;
    std::fs::write(&film, changed).unwrap();
    refused(at, line, 3, &["0_upscaled.mp4", "exists", "1 of 6 films failed"]);
    // A shell names results, too, and several films are a batch.
    let said = works(at, "films/1.mp4 films/1_upscaled.mp4 films/2.mp4 --model identity --resolution 48");
    let words = ["left out films/1_upscaled.mp4: made by an earlier run", "2 films: 0 restored, 2 skipped"];
    says(&said, &words);
}

#[test]
fn a_batch_goes_on_skips_what_is_done_and_reports() {
    let at = &Desk::new();
    let films = at.join("films");
    std::fs::create_dir(&films).unwrap();
    three_shots(&films);
    std::fs::write(films.join("broken.mkv"), b"no film").unwrap();
    std::fs::write(films.join("notes.txt"), b"no film").unwrap();
    #[cfg(unix)]
    at.program("hook", "#!/bin/sh\necho \"$1 $2 $3\" >> hooked\n");
    #[cfg(windows)]
    at.put("hook.cmd", "@echo %1 %2 %3 >> hooked\r\n");
    let hook = if cfg!(windows) { r".\hook.cmd" } else { "./hook" };
    let line = &format!(
        "batch films -d out --model identity --vae identity --resolution 96 --report report.json --on-done {hook}"
    );
    refused(at, line, 3, &["1 of 2 films failed", "broken.mkv"]);
    let report = document(at, "report.json");
    assert_eq!((&report["done"], &report["failed"]), (&json!(1), &json!(1)));
    let film = at.join("out/film_upscaled.mp4");
    let first = std::fs::read(&film).unwrap();
    // Once more: what is done is skipped, whatever else failed.
    std::fs::remove_file(films.join("broken.mkv")).unwrap();
    let said = works(at, line);
    assert!(said.contains("film 1 of 1: films/film.mp4: skipped, already restored"), "{said}");
    let report = document(at, "report.json");
    assert_eq!((&report["done"], &report["skipped"]), (&json!(0), &json!(1)));
    assert_eq!(std::fs::read(&film).unwrap(), first);
    let hooked = String::from_utf8(bytes(at, "hooked")).unwrap();
    let statuses: Vec<&str> = hooked.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(statuses, ["failed", "done", "skipped"]);
    // With other settings it is another film, and nothing is overwritten unasked.
    refused(at, &format!("{line} --seed 3"), 3, &["exists"]);
    works(at, &format!("{line} --seed 3 -y"));
    // A list, with outputs of its own.
    at.put("list.txt", "# films\nfilms/film.mp4\tlisted.mkv\n\n");
    works(at, "batch --list list.txt --model identity --resolution 96 -q");
    assert!(at.join("listed.mkv").is_file());
    refused(at, "batch --model identity", 2, &["name at least one film or folder"]);
    at.put("list.txt", "a\tb\tc\n");
    refused(at, "batch --list list.txt", 2, &["list.txt", "line 1"]);
}

/// The disk is full from the beginning or in the midst of the work, on one device and on two.
#[test]
#[cfg(unix)]
fn a_full_disk_is_waited_for() {
    let at = &film();
    let Some(disk) = small_disk(&at.join("disk"), 64) else {
        return remaster_testkit::no_disk("a_full_disk_is_waited_for");
    };
    let how = "--model identity --vae identity --resolution 96 --unit-frames 30 --piece-frames 10 --no-manifest --lossless \
        --checkpoint 0s --disk 4G --spill .";
    works(at, &format!("film.mp4 -o ref.mkv {how} -q"));
    let two = "--devices cpu,cpu";
    for (left, devices) in [(0, ""), (64 << 10, ""), (256 << 10, ""), (0, two), (256 << 10, two)] {
        let about = format!("{left} bytes left {devices}");
        let ballast = disk.0.join("ballast");
        // As much as fits, then less: folders take a page of their own.
        let mut file = std::fs::File::create(&ballast).unwrap();
        while std::io::Write::write(&mut file, &[0; 4096]).is_ok_and(|n| n > 0) {}
        file.set_len(file.metadata().unwrap().len() - left).unwrap();
        drop(file);
        let line = format!("film.mp4 -o disk/out.mkv {how} {devices} --wait-disk");
        let words = ["the disk of", "is full", "nothing is lost", "free some space", "same command again"];
        refused(at, &format!("{line} 0s"), 4, &words);
        let mut child = command(at, &format!("{line} 2m"))
            .stderr(std::fs::File::create(at.join("said")).unwrap())
            .spawn()
            .unwrap();
        let said = || String::from_utf8_lossy(&bytes(at, "said")).into_owned();
        while !said().contains("waiting") && ended(&mut child, Duration::from_millis(100)).is_none() {}
        std::fs::remove_file(&ballast).unwrap();
        assert_eq!(ended(&mut child, LIMIT), Some(0), "{about}: {}", said());
        let said = said();
        assert!(said.contains("waiting up to 2 min"), "{about}: {said}");
        assert_eq!(bytes(at, "disk/out.mkv"), bytes(at, "ref.mkv"), "{about}");
        std::fs::remove_file(disk.0.join("out.mkv")).unwrap();
        assert_eq!(names(&disk.0), [""; 0], "{about}");
    }
}

#[test]
fn files_that_are_no_manifest_and_no_report_of_ours_stay() {
    let at = &film();
    let how = "--model identity --resolution 48";
    for mine in ["{\"mine\": 1}", "no JSON", "", "{\"films\":[],\"done\":1,\"skipped\":0,\"failed\":0}"] {
        at.put("out.mkv.manifest.json", mine);
        refused(at, &format!("film.mp4 -o out.mkv {how}"), 2, &["out.mkv.manifest.json", "exists", "-y"]);
        at.put("report.json", mine);
        refused(at, &format!("batch film.mp4 -d out --report report.json {how}"), 2, &["report.json", "-y"]);
        assert_eq!(bytes(at, "out.mkv.manifest.json"), mine.as_bytes());
        assert_eq!(bytes(at, "report.json"), mine.as_bytes());
    }
    assert!(!at.join("out.mkv").exists() && !at.join("out").exists());
    works(at, &format!("film.mp4 -o out.mkv {how} -y"));
    works(at, "verify out.mkv");
    // Ours are replaced unasked: they belong to the film.
    remove(at, "out.mkv");
    remove(at, "out.mkv.manifest.json");
    works(at, &format!("film.mp4 -o out.mkv {how}"));
    remove(at, "out.mkv");
    works(at, &format!("film.mp4 -o out.mkv {how} --strength 0.9"));
    works(at, "verify out.mkv");
}

#[test]
#[cfg(unix)]
fn pipes_and_links_are_no_manifest_and_no_report() {
    let at = &film();
    let how = "--model identity --resolution 48";
    // A pipe there is no manifest either, and is not waited for.
    assert!(Command::new("mkfifo").arg(at.join("out.mkv.manifest.json")).status().unwrap().success());
    refused(at, &format!("film.mp4 -o out.mkv {how}"), 2, &["out.mkv.manifest.json", "exists"]);
    refused(at, &format!("batch film.mp4 -d out --report out.mkv.manifest.json {how}"), 2, &["exists"]);
    at.put("out.mkv", b"some film");
    refused(at, "verify out.mkv", 3, &["out.mkv.manifest.json"]);
    // Nor is what a link points at, whoever allows to overwrite the film.
    remove(at, "out.mkv.manifest.json");
    at.put("victim", b"precious");
    std::os::unix::fs::symlink("victim", at.join("out.mkv.manifest.json")).unwrap();
    works(at, &format!("film.mp4 -o out.mkv {how} -y"));
    assert_eq!(bytes(at, "victim"), b"precious");
    works(at, "verify out.mkv");
}

/// Names that are no UTF-8 have work of their own, which is found again.
#[test]
#[cfg(unix)]
fn a_film_whose_name_is_not_utf8_is_resumed() {
    use std::os::unix::ffi::OsStrExt;
    let at = &film();
    let how = "film.mp4 --model identity --vae identity --resolution 96 --unit-frames 20 --piece-frames 3 --no-manifest --checkpoint 0s";
    works(at, &format!("{how} -o ref.mkv"));
    // Two names that look alike once they are made readable.
    let outputs = [&b"na\xefve.mkv"[..], &b"na\xeeve.mkv"[..]].map(std::ffi::OsStr::from_bytes);
    let state = |output: &std::ffi::OsStr| {
        let mut name = output.to_owned();
        name.push(".remaster");
        at.join(name)
    };
    for output in outputs {
        let mut run = command(at, how).arg("-o").arg(output).stderr(Stdio::null()).spawn().unwrap();
        until("no unit was done", || {
            assert!(run.try_wait().unwrap().is_none(), "it ended too early");
            holds(&state(output), "done.json")
        });
        run.kill().unwrap();
        run.wait().unwrap();
    }
    for output in outputs {
        let out = command(at, how).arg("-o").arg(output).output().unwrap();
        desk::ends(&out, 0, &["resuming at frame"]);
        assert!(std::fs::read(at.join(output)).unwrap() == bytes(at, "ref.mkv"));
        assert!(!state(output).exists());
    }
}
