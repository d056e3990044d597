//! Config files, model files, progress and Ctrl-C, as people and scripts meet them.

use std::fs;

use remaster_testkit::says;
use remaster_weights::sha256_hex;
use serde_json::Value;

use crate::cli::tiny_weights;
use crate::desk::{Desk, Run, bytes, lives_in};

/// A folder that is also the home of the user.
fn desk() -> Desk {
    Desk::with(|command, folder| {
        lives_in(command.env("XDG_CONFIG_HOME", folder.join("config")), &folder.join("home"));
        for name in ["REMASTER_MODEL_DIR", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "REMASTER_CPU_PATH"] {
            command.env_remove(name);
        }
    })
}

mod config {
    use super::*;

    const LINE: &str = "vae encode in.safetensors -o out.safetensors -y --json";

    fn configured(config: &str) -> Desk {
        let desk = desk();
        desk.frames("in.safetensors", 1, 16, 16);
        desk.put("config/remaster/config.toml", config);
        desk
    }

    #[test]
    fn the_top_is_for_every_command_a_preset_wins_and_what_is_typed_wins_over_both() {
        let desk = configured(
            "weights = \"formula:tiny\"\ndtype = \"bf16\"\nthreads = 1\nsides = [64, 128]\n\
             [preset.half]\ndtype = \"f16\"\nram = \"-1K\"\nno-collapse = true\n",
        );
        for (flags, dtype) in [
            ("", "bf16"),
            ("--preset half", "f16"),
            ("--preset=half --dtype f32", "f32"),
            ("--dtype=f32", "f32"),
        ] {
            // Only the decoder has something to fold.
            let run = desk.works(&format!("{} {flags}", LINE.replace("encode", "roundtrip")));
            assert_eq!(run.json()["dtype"], dtype, "{flags}");
            let variant = if flags.contains("half") { "plain" } else { "folded" };
            assert_eq!(run.json()["plans"][1]["job"]["network"]["variant"], variant, "{flags}");
        }
        // A flag before the command is one that was typed, too.
        let run = desk.run(&format!("--preset half {LINE}"));
        assert_eq!(run.ends(0, &[]).json()["dtype"], "f16");
        // `sides` means nothing to this one, and that is fine at the top.
        desk.works("plan --network decode --height 64 --width 64");
    }

    #[test]
    fn another_file_can_be_named_and_the_environment_wins_over_a_file() {
        let desk = configured("dtype = \"bf16\"\n");
        desk.put("mine.toml", "weights = \"formula:tiny\"\ncpu-path = \"abacus\"\n");
        desk.run(&format!("{LINE} --config mine.toml")).ends(2, &["mine.toml", "abacus"]);
        let mut command = desk.command(&format!("{LINE} --config mine.toml"));
        let run = Run::of(command.env("REMASTER_CPU_PATH", "portable"));
        assert_eq!(run.ends(0, &[]).json()["dtype"], "f32");
    }

    #[test]
    fn a_flag_that_was_typed_pushes_out_what_it_cannot_go_with() {
        let desk = configured("stripes = 3\n");
        let line = "bench vae encode --frames 1 --height 64 --width 64 --repeat 1 --warmup 0 --json";
        let run = desk.run(&format!("{line} --tile 32"));
        assert!(run.ends(0, &[]).json()["cut"].as_str().unwrap().contains("tile"), "{}", run.stdout);
    }

    #[test]
    fn what_is_wrong_is_named_with_file_table_and_key() {
        for (text, flags, words) in [
            ("dtyp = \"bf16\"", "", ["config.toml", "unknown key `dtyp`; did you mean `dtype`?"]),
            ("[preset.a]\nwieghts = 1", "", ["[preset.a]", "did you mean `weights`?"]),
            ("qqqq = 1", "", ["unknown key `qqqq`", "accepts weights"]),
            ("dtype = \"f8\"", "", ["config.toml", "use f32, bf16 or f16"]),
            (
                "[preset.a]\nmarkdown = true",
                "--preset a",
                ["[preset.a]", "has no effect on `remaster vae encode`"],
            ),
            ("[preset.a]\ndtype = \"bf16\"", "--preset b", ["no [preset.b]", "known presets: a"]),
            ("yes = 1", "", ["`yes`", "true or false"]),
            ("dtype = { a = 1 }", "", ["`dtype`", "a string, a number"]),
            ("preset = \"a\"", "", ["`preset`", "--preset"]),
            ("config = \"a\"", "", ["`config`", "only allowed on the command line"]),
            ("[preset]\na = 1", "", ["`preset.a`", "must be a table"]),
            ("dtype = ", "", ["config.toml is not valid TOML", "line 1"]),
            ("threads = 0", "", ["config.toml", "--threads"]),
        ] {
            let run = configured(text).run(&format!("{LINE} --weights formula:tiny {flags}"));
            run.ends(2, &words);
            assert_eq!(run.json()["exit_code"], 2, "{text}");
            assert!(run.json()["error"].as_str().unwrap().contains(words[1]), "{}", run.stdout);
        }
        desk().run("doctor --preset fast").ends(2, &["--preset fast needs a config file", "config.toml"]);
        desk().run("doctor --config nowhere.toml").ends(2, &["nowhere.toml"]);
        // Help works whatever the file says.
        let run = configured("dtype = ").run("vae encode --help");
        assert!(run.ends(0, &[]).stdout.contains("--weights"));
    }
}

mod models {
    use super::*;

    #[test]
    fn files_are_found_in_order_and_named_by_content() {
        let desk = desk();
        desk.tensors("named/sub/what.dat", &tiny_weights());
        desk.put("named/notes.txt", "not a model, and not called like one");
        desk.put("named/broken.safetensors", "<html>login</html>");
        desk.put("models/SEEDVR2/old.pth", b"PK\x03\x04\0\0\0\0archive/data.pkl");
        desk.frames("ComfyUI/models/vae/other.safetensors", 1, 8, 8);
        let hub = "home/.cache/huggingface/hub/models--numz--SeedVR2_comfyUI";
        desk.tensors(&format!("{hub}/snapshots/abc/vae.safetensors"), &tiny_weights());
        desk.put(&format!("{hub}/blobs/123.incomplete"), "GGUF");

        let json =
            desk.run("models list --model-dir named --json").ends(0, &["1 file of other networks"]).json();
        let files = json["files"].as_array().unwrap();
        let names: Vec<String> = files
            .iter()
            .map(|f| f["file"].as_str().unwrap().replace('\\', "/"))
            .map(|f| f.rsplit('/').next().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["broken.safetensors", "what.dat", "old.pth", "vae.safetensors"]);
        assert!(files[0]["reason"].as_str().unwrap().contains("web page"));
        assert_eq!((&files[1]["kind"], &files[1]["precision"]), (&"vae".into(), &"F32".into()));
        assert_eq!((&files[1]["usable"], &files[0]["usable"]), (&true.into(), &false.into()));
        assert_eq!(files[1]["bytes"], fs::metadata(desk.join("named/sub/what.dat")).unwrap().len());
        assert!(files[2]["reason"].as_str().unwrap().contains("pickle"));
        assert_eq!(files[3]["place"], "Hugging Face cache");
        assert_eq!(json["searched"][0]["why"], "--model-dir");

        let text = desk.run("models list --model-dir named --all");
        assert!(text.ends(0, &[]).stdout.contains("what.dat") && text.stdout.contains("other.safetensors"));

        let mut command = desk.command("models list --json");
        command.env("REMASTER_MODEL_DIR", desk.join("named")).env("HF_HOME", desk.join("elsewhere"));
        let json = Run::of(&mut command).json();
        assert_eq!(json["files"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn no_files_is_said_with_the_places_and_a_named_folder_must_be_there() {
        let desk = desk();
        let run = desk.run("models list --json");
        run.ends(0, &["no model files", "models pull 3b", "--model-dir", "-v lists them"]);
        assert_eq!(run.json()["files"].as_array().unwrap().len(), 0);
        assert_eq!(run.json()["built_in"][0]["model"], "anime");
        // The one that is there comes first; folders that are missing are shown if they are asked for.
        let run = desk.run("models list");
        assert!(run.stdout.starts_with("compact ") && run.stdout.contains("anime (inside the program"));
        assert!(!run.stderr.contains("models/SEEDVR2"), "{}", run.stderr);
        desk.run("models list -v").ends(0, &["models/SEEDVR2", "missing"]);
        desk.run("models list --model-dir nowhere").ends(3, &["nowhere"]);
        desk.run("models verify").ends(3, &["no model files"]);
        desk.run("models verify nowhere.safetensors").ends(3, &["nowhere.safetensors"]);
        desk.run("models verify x --model-dir y").ends(2, &["--model-dir"]);
    }

    #[test]
    fn a_complete_file_passes_and_a_damaged_one_fails_and_stays() {
        let desk = desk();
        desk.tensors("good/vae.safetensors", &tiny_weights());
        let run = desk.run("models verify good/vae.safetensors --json");
        let json = run.ends(0, &[]).json();
        assert_eq!((&json["passed"], &json["files"][0]["verdict"]), (&true.into(), &"complete".into()));
        says(json["files"][0]["reason"].as_str().unwrap(), &["all 246 tensors have the right shape"]);
        assert_eq!(json["files"][0]["sha256"], sha256_hex(&desk.join("good/vae.safetensors")).unwrap());

        // The name of a published file proves nothing.
        desk.tensors("good/ema_vae_fp16.safetensors", &tiny_weights());
        let run = desk.run("models verify --model-dir good --json");
        let json = run.ends(0, &[]).json();
        assert_eq!(json["files"].as_array().unwrap().len(), 2);
        assert!(json["files"][0]["reason"].as_str().unwrap().contains("but its content differs"));

        let whole = bytes(&desk, "good/vae.safetensors");
        desk.put("cut.safetensors", &whole[..whole.len() - 1000]);
        let mut nan = tiny_weights();
        nan[17].data[3] = f32::NAN;
        desk.tensors("nan.safetensors", &nan);
        let mut part = tiny_weights();
        part.retain(|t| t.name != "decoder.conv_in.bias");
        desk.tensors("part.safetensors", &part);
        desk.put("q.gguf", b"GGUF\x03\0\0\0\0\0\0\0");
        desk.put("old.gguf", b"GGUF\x01\0\0\0\0\0\0\0");
        desk.frames("frames.safetensors", 1, 8, 8);
        for (file, verdict, word) in [
            ("cut.safetensors", "damaged", "cut off"),
            ("nan.safetensors", "damaged", "NaN or infinite"),
            ("part.safetensors", "damaged", "decoder.conv_in.bias"),
            ("q.gguf", "damaged", "cut off"),
            ("old.gguf", "unverified", "GGUF file of version 1"),
            ("frames.safetensors", "unverified", "not a network that is known"),
        ] {
            let run = desk.run(&format!("models verify good/vae.safetensors {file} --json"));
            let json = run.ends(6, &["1 of 2 files", "nothing was changed"]).json();
            assert_eq!((&json["passed"], &json["files"][1]["verdict"]), (&false.into(), &verdict.into()));
            assert!(json["files"][1]["reason"].as_str().unwrap().contains(word), "{}", run.stdout);
            assert!(desk.join(file).exists());
        }
        let text = desk.run("models verify cut.safetensors");
        assert!(text.ends(6, &[]).stdout.starts_with("DAMAGED"), "{}", text.stdout);
    }
}

mod words {
    use super::*;

    #[test]
    fn completions_and_pages_come_out() {
        let desk = desk();
        for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
            let run = desk.works(&format!("completions {shell}"));
            says(&run.stdout, &["roundtrip", "verify", "completions", "cpu-path"]);
        }
        desk.run("completions tcsh").ends(2, &["tcsh", "bash"]);
        desk.run("completions bash --json").ends(2, &["--json"]);
        let page = desk.run("man");
        assert!(page.ends(0, &[]).stdout.contains("Exit codes"), "{}", page.stdout);
        let json = desk.json("man --dir pages --json");
        let files = json["files"].as_array().unwrap();
        assert!(files.len() > 15);
        for file in files {
            assert!(fs::metadata(desk.join(file.as_str().unwrap())).unwrap().len() > 100);
        }
        assert!(desk.join("pages/remaster-vae-encode.1").exists());
    }

    #[test]
    fn licences_go_with_the_program() {
        let desk = desk();
        let text = desk.works("licenses").stdout;
        assert!(text.starts_with("remaster: MIT OR Apache-2.0\n"), "{text}");
        let network = "Copyright (c) 2021, Xintao Wang\nAll rights reserved.";
        says(&text, &[network, "OF THE POSSIBILITY OF SUCH DAMAGE.", "DejaVu Sans", "Bitstream, Inc."]);
        let told = desk.json("licenses --json");
        assert_eq!(told["program"], "MIT OR Apache-2.0");
        assert!(told["inside"][0]["notice"].as_str().unwrap().contains(network), "{told}");
    }

    #[test]
    fn a_run_ends_with_a_summary_in_text_and_json() {
        let desk = desk();
        desk.frames("in.safetensors", 5, 16, 16);
        let line = "vae roundtrip in.safetensors -o out.safetensors -y --weights formula:tiny";
        // One line before, one behind.
        let run = desk.run(line);
        run.ends(0, &["encoding and decoding in.safetensors: 5 frames, 16 x 16, on cpu"]);
        assert_eq!((run.stderr.lines().count(), run.stdout.lines().count()), (1, 1), "{}", run.stderr);
        assert!(run.stdout.starts_with("wrote out.safetensors: 5 frames, 16 x 16, in "), "{}", run.stdout);
        let quiet = desk.run(&format!("{line} -q"));
        assert_eq!((quiet.code, &*quiet.stdout, &*quiet.stderr), (Some(0), "", ""));
        desk.run("vae encode none.png -o z.safetensors -q --weights formula:tiny").ends(3, &["none.png"]);

        let run = desk.run(&format!("{line} -v"));
        run.ends(0, &["encode of 5 x 16 x 16", "--ram"]);
        says(&run.stdout, &["remaster 0.", "device   cpu", "model    formula:tiny", "5 x 16 x 16"]);
        says(&run.stdout, &["encode", "decode", "total", "planned"]);
        let run = desk.run(&format!("{line} --json --progress json"));
        let summary = &run.ends(0, &[]).json()["summary"];
        assert_eq!(summary["frames"], 5);
        let names: Vec<&str> =
            summary["phases"].as_array().unwrap().iter().map(|p| p["phase"].as_str().unwrap()).collect();
        assert_eq!(names, ["load", "encode", "decode"]);
        assert!(summary["phases"][1]["fps"].as_f64().unwrap() > 0.0);
        // stderr: one object per line, the summary last and the same.
        let lines: Vec<Value> = run.stderr.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert!(lines.iter().all(|l| l["event"].is_string()), "{}", run.stderr);
        let last = lines.last().unwrap();
        assert_eq!((&last["event"], &last["phases"]), (&"summary".into(), &summary["phases"]));
        // Failures too.
        let run =
            desk.run("vae encode none.png -o out.safetensors -y --weights formula:tiny --progress json");
        let last: Value = serde_json::from_str(run.ends(3, &[]).stderr.lines().last().unwrap()).unwrap();
        assert_eq!(last["event"], "error");
        assert_eq!((&last["kind"], &last["exit_code"]), (&"image-file".into(), &3.into()));

        let run = desk.run(&format!("{line} --progress none"));
        assert_eq!(run.ends(0, &[]).stderr.lines().count(), 1, "{}", run.stderr);
    }
}

#[cfg(unix)]
mod interrupt {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::desk::{ended, signal};

    const LINE: &str = "vae roundtrip long.safetensors -o out.safetensors --weights formula:tiny --json";

    fn start(command: &mut Command) -> Child {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Stops what was started, which ends within a second, or is ended and fails.
    fn stop(command: &Command, mut child: Child, name: &str) -> Run {
        signal(&child, name);
        let limit = Duration::from_secs(1);
        if ended(&mut child, limit).is_none() {
            child.kill().unwrap();
            panic!("still there after {limit:?}: {:?}", child.wait_with_output().unwrap());
        }
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.signal(), None);
        Run::new(command, out)
    }

    /// A command that is stopped after a pause says so, and leaves the input alone.
    fn is_stopped(desk: &Desk, line: &str, name: &str, pause: u64) {
        let mut command = desk.command(line);
        let child = start(&mut command);
        std::thread::sleep(Duration::from_millis(pause));
        let run = stop(&command, child, name);
        assert_eq!(run.ends(130, &["stopped"]).json()["exit_code"], 130);
        assert_eq!(desk.names(), ["long.safetensors"], "{name} after {pause} ms");
    }

    #[test]
    fn the_work_stops_within_a_second_and_leaves_nothing() {
        let desk = desk();
        // Minutes of work, were it not stopped.
        desk.frames("long.safetensors", 65, 256, 256);
        for (name, pause) in [("INT", 1500), ("TERM", 700), ("INT", 2300), ("HUP", 1100), ("INT", 500)] {
            is_stopped(&desk, LINE, name, pause);
        }
    }

    #[test]
    fn what_does_not_ask_is_cut_off_in_a_second() {
        let desk = desk();
        desk.frames("long.safetensors", 1, 64, 64);
        // Making the weights of the full network does not ask whether it should stop.
        let line = "vae encode long.safetensors -o out.safetensors --weights formula:full --json";
        for pause in [100, 600] {
            is_stopped(&desk, line, "INT", pause);
        }
    }

    #[test]
    fn nohup_still_works() {
        let desk = desk();
        desk.frames("long.safetensors", 65, 256, 256);
        let mut command = Command::new("sh");
        let inner = format!("trap '' HUP; exec {} {LINE}", env!("CARGO_BIN_EXE_remaster"));
        command.args(["-c", &inner]).current_dir(&*desk).env("XDG_CONFIG_HOME", &*desk);
        let mut child = start(&mut command);
        std::thread::sleep(Duration::from_millis(800));
        signal(&child, "HUP");
        std::thread::sleep(Duration::from_millis(1200));
        assert!(child.try_wait().unwrap().is_none(), "a signal that was ignored ended it");
        stop(&command, child, "INT").ends(130, &[]);
    }
}
