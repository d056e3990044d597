//! VapourSynth scripts: run only where they were typed, refused everywhere else, and read with suspicion.
//!
//! A stand-in for vspipe is enough for what goes wrong. What goes right is shown with the real one.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::desk::{Desk, Run, bytes, ended, files, refused, signal, testdata, times, until, works};

/// What the stand-in says of a clip.
const INFO: &str = "printf 'Output Index: 0\\nType: Video\\nWidth: 16\\nHeight: 16\\nFrames: 4\\nFPS: 25/1 (25.000 fps)\\n\
    Format Name: Gray8\\nColor Family: Gray\\nAlpha: No\\nSample Type: Integer\\nBits: 8\\nSubSampling W: 0\\nSubSampling H: 0\\n'";

/// Four grey frames of 16 x 16.
const FRAMES: &str = "printf 'YUV4MPEG2 Cmono W16 H16 F25:1 Ip A0:0 XLENGTH=4\\n'; \
    for i in 1 2 3 4; do echo FRAME; printf '%256s' ''; done";

/// What the first frame says.
const SAID: &str = "printf '[{\"_Range\": 0}]' > \"$6\"";

/// A folder with `film.vpy` and a vspipe that does as told and notes that it was run.
fn desk([version, info, said, frames]: [&str; 4]) -> Desk {
    let desk = Desk::new();
    desk.put("film.vpy", "# nothing that the stand-in reads\n");
    let text = format!(
        "#!/bin/sh\necho \"$*\" >> \"$(dirname \"$0\")/ran\"\ncase \"$1 $5\" in\n\
         --version*) {version} ;;\n--info*) {info} ;;\n*-j) {said} ;;\n*) {frames} ;;\nesac\n"
    );
    desk.program("vspipe", &text);
    desk
}

fn run(desk: &Desk, line: &str) -> Run {
    let mut command = desk.command(&format!("{line} --vspipe ./vspipe"));
    Run::of(command.env("REMASTER_STALL_SECONDS", "2"))
}

const VERSION: &str = "echo Core R81";

#[test]
fn a_script_runs_where_it_was_typed() {
    let desk = desk([VERSION, INFO, SAID, FRAMES]);
    let probe = run(&desk, "probe film.vpy --json");
    probe.ends(0, &[]);
    let probe = probe.json();
    assert_eq!((&probe["format"], &probe["video"]["frames"]), (&"vapoursynth".into(), &4.into()));
    let frames = |run: Run| run.ends(0, &[]).json()["frames"].as_u64();
    assert_eq!(frames(run(&desk, "scenes film.vpy --json")), Some(4));
    assert_eq!(frames(run(&desk, "compare film.vpy film.vpy --quick --json")), Some(4));
    assert_eq!(
        frames(run(&desk, "restore film.vpy -o out.mkv --model identity --resolution 16 --json")),
        Some(4)
    );
    // A part of it is asked for and nothing else.
    std::fs::remove_file(desk.join("ran")).unwrap();
    run(&desk, "scenes film.vpy --ss 0.04 --to 0.12").ends(3, &["another clip"]);
    let ran = String::from_utf8(bytes(&desk, "ran")).unwrap();
    assert!(ran.contains("-c y4m -s 1 -e 2 /"), "{ran}");
    // What the script does itself is not asked of ffmpeg.
    for option in ["--vf hflip", "--fps 25", "--deinterlace on", "--damaged keep", "--exr"] {
        run(&desk, &format!("scenes film.vpy {option}")).ends(2, &["script"]);
    }
}

#[test]
fn a_script_runs_through_no_other_door() {
    let desk = desk([VERSION, INFO, SAID, FRAMES]);
    let film = bytes(&testdata("media"), "vfr.mkv");
    // A film by its bytes, so that a plan of it fits; a script by its name.
    desk.put("film.mkv", &film);
    desk.put("other.mkv", &film);
    desk.put("script/film.vpy", &film);
    desk.put("list", "film.vpy\n");
    let how = "--model identity --resolution 16";
    let out = works(&desk, &format!("plan film.mkv -o out.mkv --store store {how}"));
    assert!(!out.contains("script"), "{out}");
    let refused = |line: String, code| {
        let run = run(&desk, &line);
        run.ends(code, &["film.vpy"]);
        assert!(run.stderr.contains("script") && run.stderr.contains("program"), "{line}: {}", run.stderr);
    };
    for films in ["batch film.vpy", "batch *.vpy", "batch --list list", "film.vpy other.mkv"] {
        refused(format!("{films} {how} -d made"), 3);
    }
    refused(format!("plan film.vpy -o out.mkv --store other {how}"), 2);
    refused("unit run --plan store --input script/film.vpy --index missing".into(), 2);
    refused("assemble --plan store --input script/film.vpy -o out.mkv".into(), 2);
    refused("vae roundtrip film.vpy -o out.mkv --weights identity".into(), 2);
    for command in ["restore HOW", "preview HOW", "plan HOW", "probe", "scenes", "compare film.vpy"] {
        refused(format!("{} film.vpy --no-scripts", command.replace("HOW", how)), 2);
    }
    // A folder of films has no script in it.
    run(&desk, &format!("batch script {how}")).ends(2, &["script"]);
    // `--script` is for worker processes alone: a command line and a config file cannot set it.
    let line = "unit run --plan store --input script/film.vpy --index 0 --script";
    run(&desk, line).ends(2, &["--obey-stdin"]);
    desk.put("config.toml", "script = true\n");
    run(&desk, "unit run --plan store --index 0 --input script/film.vpy --config config.toml")
        .ends(2, &["script", "command line"]);
    assert!(!desk.join("ran").exists(), "{}", String::from_utf8_lossy(&bytes(&desk, "ran")));
}

#[test]
fn what_vspipe_says_is_not_believed() {
    let four = |script: &'static str| [VERSION, INFO, SAID, script];
    for (stand_in, words) in [
        (["exit 1", INFO, SAID, FRAMES], &["cannot run ./vspipe", "pip install vapoursynth"][..]),
        (["echo hello", INFO, SAID, FRAMES], &["which version"]),
        ([VERSION, "echo Python exception: boom >&2; exit 1", SAID, FRAMES], &["film.vpy", "boom"]),
        ([VERSION, "echo nothing", SAID, FRAMES], &["no output 0", "set_output"]),
        ([VERSION, "yes | head -c 20000000", SAID, FRAMES], &["more than"]),
        ([VERSION, "sleep 60", SAID, FRAMES], &["gave nothing for 2 s"]),
        ([VERSION, INFO, "echo '[' > \"$6\"", FRAMES], &["--json"]),
        ([VERSION, INFO, "true", FRAMES], &["vspipe says"]),
        (four("true"), &["film.vpy", "no frames"]),
        (four("echo x"), &["film.vpy", "no frames"]),
        (four("yes"), &["prints more"]),
        (four("printf 'YUV4MPEG2 Cmono W32 H16 F25:1 XLENGTH=4\\n'"), &["another clip"]),
        (four("printf 'YUV4MPEG2 Cmono W16 H16 F25:1 XLENGTH=3\\n'"), &["another clip"]),
        (four("printf 'YUV4MPEG2 Cmono W16 H16 F50:1 XLENGTH=4\\n'"), &["another clip"]),
        (four("printf 'YUV4MPEG2 C420 W16 H16 F25:1 XLENGTH=4\\n'"), &["another clip"]),
        (four("printf 'YUV4MPEG2 Cmono W16 H16 F25:1 XLENGTH=4\\nFRAME\\n123'"), &["within frame 0"]),
        (four("printf 'YUV4MPEG2 Cmono W16 H16 F25:1 XLENGTH=4\\nFRAME\\n%256s' ''"), &["ends after 1"]),
        (four("printf 'YUV4MPEG2 Cmono W16 H16 F25:1 XLENGTH=4\\nFRAME\\n%256shello\\n' ''"), &["FRAME"]),
        (four("printf 'YUV4MPEG2 Cmono W16 H16 F25:1 XLENGTH=4\\nFRAME\\n'; sleep 60"), &["gave nothing"]),
        (
            four(
                "printf 'YUV4MPEG2 Cmono W16 H16 F25:1 XLENGTH=4\\nFRAME\\n%256s' ''; echo ValueError: five >&2; exit 1",
            ),
            &["ValueError: five"],
        ),
    ] {
        let desk = desk(stand_in);
        let began = std::time::Instant::now();
        run(&desk, "scenes film.vpy").ends(3, words);
        assert!(began.elapsed().as_secs() < 30, "{stand_in:?}");
    }
    // What it prints before is no harm, nor is what it does behind the last frame.
    for frames in [format!("echo hello; {FRAMES}"), format!("{FRAMES}; echo bye; sleep 60; exit 1")] {
        run(&desk(four(frames.leak())), "scenes film.vpy").ends(0, &[]);
    }
    let desk = Desk::new();
    desk.put("film.vpy", "");
    desk.put("old.avs", "AviSource(\"a.avi\")\n");
    refused(&desk, "scenes film.vpy --vspipe ./none", 3, &["cannot run", "--vspipe"]);
    refused(&desk, "scenes missing.vpy --vspipe ./none", 3, &["missing.vpy"]);
    for command in ["scenes", "probe", "restore --model identity"] {
        refused(&desk, &format!("{command} old.avs"), 2, &["AviSynth", "AVISource"]);
    }
}

#[test]
fn a_stream_has_as_many_frames_as_its_header_says() {
    let desk = Desk::new();
    let stream = |length: &str, frames: usize| {
        format!("YUV4MPEG2 Cmono W16 H16 F25:1{length}\n{}", format!("FRAME\n{:256}", "").repeat(frames))
    };
    for (length, frames, code, words) in [
        ("", 3, 0, &[][..]),
        (" XLENGTH=3", 3, 0, &[]),
        (" XLENGTH=0", 3, 0, &[]),
        (" XLENGTH=99999999999999999999", 3, 0, &[]),
        (" XLENGTH=4", 3, 3, &["announces 4 frames", "ends after 3"]),
        (" XLENGTH=2", 3, 3, &["announces 2 frames", "goes on"]),
    ] {
        desk.put("a.y4m", stream(length, frames));
        desk.run("scenes a.y4m").ends(code, words);
    }
    // A film with a known number of frames is planned with that number.
    desk.put("a.y4m", stream(" XLENGTH=3", 3));
    let plan = desk.json("plan a.y4m --model anime --json");
    let source = &plan["source"];
    assert_eq!((&source["frames"], &source["frames_estimated"]), (&3.into(), &false.into()), "{plan}");
}

/// A moving picture of 500 frames.
const MOVING: &str = "\
import vapoursynth as vs
from vapoursynth import core
base = core.std.BlankClip(width=64, height=48, format=vs.YUV420P8, length=500, fpsnum=24000, fpsden=1001, color=[60, 110, 140])
bar = core.std.BlankClip(base, width=16, color=[200, 90, 160])
def frame(n):
    left = 2 * (n % 25)
    parts = [base.std.Crop(right=64 - left)] if left else []
    parts += [bar, base.std.Crop(left=left + 16)] if left < 48 else [bar]
    return core.std.StackHorizontal(parts)
clip = core.std.FrameEval(base, frame)
clip = core.std.SetFrameProps(clip, _Matrix=1, _Range=0, _Transfer=1, _Primaries=1, _SARNum=16, _SARDen=15)
clip.set_output()
";

/// Runs a command and kills it, with all that it started, once so many files of `out.mkv` are kept.
fn killed(desk: &Desk, line: &str, kept: usize) {
    let mut command = desk.command(line);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
    let units = desk.join("out.mkv.remaster/store/units");
    until("files of units", || {
        assert_eq!(ended(&mut child, Duration::ZERO), None, "it was over before it was killed");
        units.is_dir() && files(&units).len() >= kept
    });
    signal(&child, "KILL");
    child.wait().unwrap();
}

#[test]
#[ignore = "vapoursynth: needs the real vspipe, at REMASTER_VSPIPE"]
fn a_script_that_is_killed_and_resumed_has_the_same_bytes() {
    let desk = &Desk::new();
    desk.put("film.vpy", MOVING);
    let how = "--model identity --vae identity --resolution 96 --unit-frames 120 --piece-frames 40 --checkpoint 0s --no-manifest";
    works(desk, &format!("film.vpy -o whole.mkv {how}"));
    for kept in [3, 9] {
        killed(desk, &format!("film.vpy -o out.mkv {how}"), kept);
        assert!(!desk.join("out.mkv").exists());
    }
    let said = works(desk, &format!("film.vpy -o out.mkv {how}"));
    assert!(said.contains("resuming at frame"), "{said}");
    assert_eq!(bytes(desk, "out.mkv"), bytes(desk, "whole.mkv"));
    // Workers get it from the run that was allowed to run it.
    works(desk, &format!("film.vpy -o two.mkv {how} --devices cpu,cpu"));
    assert_eq!(bytes(desk, "two.mkv"), bytes(desk, "whole.mkv"));
    // Another clip is no reason to go on.
    killed(desk, &format!("film.vpy -o out.mkv -y {how}"), 3);
    desk.put("film.vpy", MOVING.replace("_Matrix=1", "_Matrix=6"));
    refused(desk, &format!("film.vpy -o out.mkv -y {how}"), 2, &["input has changed", "--restart"]);
}

#[test]
#[ignore = "vapoursynth: needs the real vspipe, at REMASTER_VSPIPE"]
fn every_command_reads_a_script_and_its_parts() {
    let desk = &Desk::new();
    desk.put("film.vpy", MOVING);
    let probe = desk.json("probe film.vpy --json");
    assert_eq!(probe["video"]["sample_aspect"], serde_json::json!([16, 15]));
    assert_eq!(probe["video"]["colour"]["matrix"]["value"], "bt709");
    assert_eq!(desk.json("scenes film.vpy --json")["frames"], 500);
    assert_eq!(desk.json("plan film.vpy --model anime --json")["source"]["frames"], 500);
    desk.works("preview film.vpy -o sheet.png --model anime --resolution 96");
    // The same frames as from a pipe, whole and in part. A pipe says nothing of colours.
    desk.put("plain.vpy", MOVING.replace("_Matrix=1", "_Matrix=6"));
    let mut vspipe = Command::new(std::env::var_os("REMASTER_VSPIPE").unwrap());
    vspipe.current_dir(&**desk).args(["-c", "y4m", "plain.vpy", "pipe.y4m"]);
    assert!(vspipe.output().unwrap().status.success());
    for (span, frames) in [("", 500), ("--ss 10 --to 12.5", 60)] {
        let compared = desk.json(&format!("compare plain.vpy pipe.y4m --quick --json {span}"));
        assert_eq!(
            (&compared["identical"], &compared["frames"]),
            (&true.into(), &frames.into()),
            "{compared}"
        );
    }
    // Times that are not even.
    desk.put(
        "uneven.vpy",
        "import vapoursynth as vs\nfrom vapoursynth import core\n\
         clip = lambda fps: core.std.BlankClip(width=64, height=48, length=30, fpsnum=fps, format=vs.YUV420P8)\n\
         core.std.Splice([clip(25), clip(50)]).set_output()\n",
    );
    works(desk, "uneven.vpy -o uneven.mkv --model identity --resolution 48");
    let times = times(desk.join("uneven.mkv"));
    assert_eq!(times.len(), 60);
    assert!((times[30] - 1.2).abs() < 0.002 && (times[59] - 1.78).abs() < 0.002, "{times:?}");
    // What a pipe cannot carry, and the line that helps: with it, it works.
    for (format, line) in [
        ("RGB24", r#"clip = core.resize.Bicubic(clip, format=vs.YUV444P16, matrix_s="709")"#),
        ("RGBS", r#"clip = core.resize.Bicubic(clip, format=vs.YUV444P16, matrix_s="709")"#),
        ("YUV444PS", "clip = core.resize.Bicubic(clip, format=vs.YUV444P16)"),
        ("YUV420PH", "clip = core.resize.Bicubic(clip, format=vs.YUV444P16)"),
        ("YUV410P8", "clip = core.resize.Bicubic(clip, format=vs.YUV444P16)"),
    ] {
        let head = format!(
            "import vapoursynth as vs\nfrom vapoursynth import core\n\
             clip = core.std.BlankClip(width=64, height=48, length=3, format=vs.{format})\n"
        );
        desk.put("odd.vpy", format!("{head}clip.set_output()\n"));
        desk.run("scenes odd.vpy").ends(3, &[line]);
        desk.put("odd.vpy", format!("{head}{line}\nclip.set_output()\n"));
        desk.works("scenes odd.vpy");
    }
    desk.put("fields.vpy", MOVING.replace("clip.set_output", "clip.std.SetFieldBased(2).set_output"));
    desk.run("scenes fields.vpy").ends(3, &["fields (top first)", "SetFieldBased"]);
    desk.works("scenes fields.vpy --deinterlace off");
}

#[test]
#[ignore = "vapoursynth: needs the real vspipe, at REMASTER_VSPIPE"]
fn the_scripts_of_the_documents_work() {
    let text = std::fs::read_to_string(testdata("../docs/restorers.md")).unwrap();
    let blocks: Vec<&str> =
        text.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 2);
    // A tape without a plugin that reads it.
    let tape = "core.std.BlankClip(width=720, height=576, format=vs.YUV422P8, length=50, fpsnum=25)";
    for block in blocks {
        let desk = Desk::new();
        desk.put("tape.vpy", block.replace("core.bs.VideoSource(\"tape.mkv\")", tape));
        assert_eq!(desk.json("scenes tape.vpy --json")["frames"], 100, "{block}");
    }
}
