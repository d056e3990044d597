//! The binary as people and scripts use it: arguments in, files and exit codes out.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use remaster_model::vae::{self, VaeConfig};
use remaster_testkit::{NO_GPU, not_run};
use remaster_weights::{NamedTensor, fill_formula, fill_uniform, read_tensors, write_tensors};
use serde_json::Value;
use tempfile::TempDir;

/// What a run of the binary left.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Run {
    /// stdout as the one JSON document it must be.
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }

    /// Ended with `code`, no panic, and each of `words` in its error.
    #[track_caller]
    fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in: {}", self.stderr);
        }
    }

    #[track_caller]
    fn succeeds(&self) {
        assert_eq!(self.code, 0, "{}", self.stderr);
    }
}

/// A folder of its own for one test, and the binary run in it.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        Desk(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Words are split at spaces.
    fn run(&self, line: &str) -> Run {
        let out = Command::new(env!("CARGO_BIN_EXE_remaster"))
            .args(line.split_whitespace())
            .current_dir(self.0.path())
            .env("XDG_CONFIG_HOME", self.0.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Run {
            code: out.status.code().unwrap(),
            stdout: String::from_utf8(out.stdout).unwrap(),
            stderr: String::from_utf8(out.stderr).unwrap(),
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// A picture of smooth ramps.
    fn picture(&self, name: &str, width: u32, height: u32, colour: png::ColorType) {
        self.put(name, picture(width, height, colour));
    }

    /// Frames `x` with the formula's noise.
    fn frames(&self, name: &str, t: usize, h: usize, w: usize) {
        let mut data = vec![0.0; 3 * t * h * w];
        fill_uniform("input/cli", 0, &mut data);
        self.tensors(name, &[NamedTensor { name: "x".into(), shape: vec![1, 3, t, h, w], data }]);
    }

    fn tensors(&self, name: &str, tensors: &[NamedTensor]) {
        write_tensors(&self.path(name), tensors, &BTreeMap::new()).unwrap();
    }

    /// Copies goldens of the repository.
    fn goldens(&self, folder: &str, names: &[&str]) {
        fs::create_dir(self.path(folder)).unwrap();
        for name in names {
            let file = format!("{name}.safetensors");
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(&file);
            fs::copy(from, self.path(folder).join(file)).unwrap();
        }
    }
}

fn picture(width: u32, height: u32, colour: png::ColorType) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    let count = width as usize * height as usize * colour.samples();
    let data: Vec<u8> = (0..count).map(|i| (i * 5 % 251) as u8).collect();
    encoder.write_header().unwrap().write_image_data(&data).unwrap();
    bytes
}

fn tiny_weights() -> Vec<NamedTensor> {
    let values = |name: &str, shape: &[usize]| {
        let mut data = vec![0.0; shape.iter().product()];
        fill_formula(name, shape, 0, &mut data).unwrap();
        data
    };
    let tensor = |p: remaster_model::Param| NamedTensor {
        data: values(&p.name, &p.shape),
        name: p.name,
        shape: p.shape,
    };
    vae::params(&VaeConfig::tiny()).into_iter().map(tensor).collect()
}

mod words {
    use super::*;

    #[test]
    fn no_arguments_show_the_help_and_are_wrong_usage() {
        let run = Desk::new().run("");
        run.fails(2, &["Usage: remaster", "doctor", "vae", "models"]);
        assert_eq!(run.stdout, "");
    }

    #[test]
    fn help_goes_to_stdout_and_names_the_exit_codes() {
        let run = Desk::new().run("--help");
        run.succeeds();
        assert!(run.stdout.contains("Exit codes:\n  0    done\n  2    wrong usage"), "{}", run.stdout);
        for line in ["doctor --help", "vae roundtrip --help", "models inspect --help"] {
            let run = Desk::new().run(line);
            run.succeeds();
            assert!(run.stdout.contains("--json"), "{line}");
        }
    }

    #[test]
    fn the_version_is_the_packages() {
        let run = Desk::new().run("--version");
        assert_eq!(run.stdout.trim(), concat!("remaster ", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn wrong_usage_is_one_json_document_too() {
        let desk = Desk::new();
        for line in [
            "--json vae encode",
            "doctor --json --dtype f8",
            "doctor --json --markdown",
            "models --json",
            "nonsense --json",
            "--json doctor --threads 0",
        ] {
            let run = desk.run(line);
            run.fails(2, &[]);
            let json = run.json();
            assert_eq!(json["exit_code"], 2, "{line}");
            assert!(!json["error"].as_str().unwrap().is_empty(), "{line}");
        }
        let run = desk.run("--json doctor --dtype f8");
        assert!(run.json()["error"].as_str().unwrap().contains("use f32, bf16 or f16"), "{}", run.stdout);
    }

    #[test]
    fn a_flag_that_could_do_nothing_is_refused() {
        Desk::new().run("doctor --backend reference --threads 2").fails(2, &["--threads", "reference"]);
    }
}

mod doctor {
    use super::*;

    const SMALL: [&str; 3] = ["tiny_mod_gaussian", "tiny_mod_norm", "tiny_sliced_21x16x24"];

    #[test]
    fn goldens_of_a_folder_pass_and_every_comparison_is_listed() {
        let desk = Desk::new();
        desk.goldens("goldens", &SMALL);
        desk.put("goldens/README.txt", "not a golden");
        let run = desk.run("doctor --goldens goldens --json");
        run.succeeds();
        let json = run.json();
        assert_eq!(json["passed"], true);
        assert_eq!(json["backend"], "cpu");
        assert_eq!(json["dtype"], "f32");
        assert_eq!(json["tolerance"], 5e-5);
        let stages = json["stages"].as_array().unwrap();
        assert_eq!(stages.len(), 4 + 6 + 4);
        for stage in stages {
            assert!(SMALL.contains(&stage["golden"].as_str().unwrap()));
            assert!(stage["stage"].is_string() && stage["passed"] == true);
            assert!(stage["max_abs"].as_f64().unwrap() <= 5e-5);
        }
        assert!(run.stderr.contains("running tiny_mod_norm"), "words for people go to stderr");
    }

    #[test]
    fn one_file_text_and_markdown_say_the_same() {
        let desk = Desk::new();
        desk.goldens("goldens", &SMALL[..1]);
        let text = desk.run("doctor --goldens goldens/tiny_mod_gaussian.safetensors");
        text.succeeds();
        assert!(text.stdout.contains("healthy: f32 on cpu, 4 comparisons"), "{}", text.stdout);
        let table = desk.run("doctor --goldens goldens --markdown");
        table.succeeds();
        assert_eq!(table.stdout.lines().filter(|l| l.starts_with("| tiny_mod_gaussian |")).count(), 4);
    }

    #[test]
    fn sixteen_bit_storage_is_judged_by_its_noise() {
        let desk = Desk::new();
        desk.goldens("goldens", &SMALL[2..]);
        for dtype in ["bf16", "f16"] {
            let run = desk.run(&format!("doctor --goldens goldens --json --dtype {dtype}"));
            run.succeeds();
            let json = run.json();
            assert_eq!(json["dtype"], dtype);
            assert!(json["stages"][0]["max_abs"].as_f64().unwrap() > 5e-5, "it is not f32");
        }
    }

    #[test]
    fn a_wrong_number_ends_with_6_and_one_document_that_says_where() {
        let desk = Desk::new();
        desk.goldens("goldens", &SMALL[..2]);
        let path = desk.path("goldens/tiny_mod_norm.safetensors");
        let mut tensors = read_tensors(&path).unwrap();
        let wrong = tensors.iter_mut().find(|t| t.name == "encoder.conv_norm_out/out").unwrap();
        wrong.data[7] += 1e-3;
        write_tensors(&path, &tensors, &BTreeMap::new()).unwrap();

        let run = desk.run("doctor --goldens goldens --json");
        run.fails(6, &["1 of 10 comparisons"]);
        let json = run.json();
        assert_eq!(json["passed"], false);
        let failed: Vec<&Value> =
            json["stages"].as_array().unwrap().iter().filter(|s| s["passed"] == false).collect();
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0]["stage"], "encoder.conv_norm_out/out");
        desk.run("doctor --goldens goldens").fails(6, &["1 of 10"]);
    }

    #[test]
    fn a_folder_without_goldens_and_goldens_without_sense_are_bad_input() {
        let desk = Desk::new();
        desk.run("doctor --goldens nowhere").fails(3, &["nowhere"]);
        fs::create_dir(desk.path("empty")).unwrap();
        desk.run("doctor --goldens empty").fails(3, &["no golden in empty"]);

        let tensor = |name: &str, shape: &[usize]| NamedTensor {
            name: name.into(),
            shape: shape.to_vec(),
            data: vec![0.5; shape.iter().product()],
        };
        let norm = "encoder.conv_norm_out";
        for (name, tensors) in [
            ("tiny_mod_nothing", vec![tensor("unknown", &[1])]),
            (
                "tiny_mod_rank",
                vec![tensor(&format!("{norm}/in"), &[1]), tensor(&format!("{norm}/out"), &[1])],
            ),
            ("tiny_mod_odd", ["params", "noise"].map(|n| tensor(n, &[1, 3, 1, 2, 2])).to_vec()),
            // More frames in the slices than there are in the input.
            (
                "tiny_mod_long",
                [("in", 2), ("out", 2), ("out_slice0", 2), ("out_slice1", 1)]
                    .map(|(n, t)| tensor(&format!("{norm}/{n}"), &[1, 64, t, 2, 2]))
                    .to_vec(),
            ),
            ("tiny_image_none", vec![tensor("x", &[1, 3, 0, 8, 8]), tensor("z", &[1, 16, 0, 1, 1])]),
        ] {
            desk.tensors(&format!("{name}.safetensors"), &tensors);
            desk.run(&format!("doctor --goldens {name}.safetensors")).fails(3, &[name]);
        }
    }
}

mod run_vae {
    use super::*;

    const TINY: &str = "--weights formula:tiny";

    #[test]
    fn a_still_of_any_size_goes_through_and_keeps_its_size_and_depth() {
        let desk = Desk::new();
        desk.picture("in.png", 23, 17, png::ColorType::Rgb);
        let run = desk.run(&format!("vae roundtrip in.png -o out.png {TINY} --json"));
        run.succeeds();
        let json = run.json();
        assert_eq!(json["frames"], 1);
        assert_eq!(json["geometry"]["shown"], serde_json::json!([23, 17]));
        assert_eq!(json["geometry"]["padded"], serde_json::json!([48, 48]));
        assert_eq!(json["summary"]["phases"][0]["phase"], "encode");
        let file = std::io::BufReader::new(fs::File::open(desk.path("out.png")).unwrap());
        let reader = png::Decoder::new(file).read_info().unwrap();
        let info = reader.info();
        assert_eq!((info.width, info.height, info.bit_depth), (23, 17, png::BitDepth::Eight));
        assert_eq!(desk.names(), ["in.png", "out.png"]);
    }

    #[test]
    fn encode_then_decode_is_the_round_trip_to_the_bit() {
        let desk = Desk::new();
        desk.frames("in.safetensors", 5, 16, 24);
        desk.run(&format!("vae encode in.safetensors -o z.safetensors {TINY}")).succeeds();
        let z = &read_tensors(&desk.path("z.safetensors")).unwrap()[0];
        assert_eq!((z.name.as_str(), &z.shape[..]), ("latent", &[1, 16, 2, 2, 3][..]));
        desk.run(&format!("vae decode z.safetensors -o two.safetensors {TINY}")).succeeds();
        desk.run(&format!("vae roundtrip in.safetensors -o one.safetensors {TINY}")).succeeds();
        assert!(
            fs::read(desk.path("one.safetensors")).unwrap()
                == fs::read(desk.path("two.safetensors")).unwrap()
        );
    }

    #[test]
    fn slices_and_threads_change_no_byte_of_the_result() {
        let desk = Desk::new();
        desk.frames("in.safetensors", 13, 16, 24);
        for (out, flags) in [("whole", "--slice 0"), ("cut", "--slice 4"), ("one", "--slice 8 --threads 1")] {
            let run = desk.run(&format!("vae roundtrip in.safetensors -o {out}.safetensors {TINY} {flags}"));
            run.succeeds();
        }
        let whole = fs::read(desk.path("whole.safetensors")).unwrap();
        for other in ["cut", "one"] {
            assert!(fs::read(desk.path(&format!("{other}.safetensors"))).unwrap() == whole, "{other}");
        }
    }

    #[test]
    fn a_checkpoint_gives_what_its_formula_gives() {
        let desk = Desk::new();
        desk.picture("in.png", 16, 8, png::ColorType::Grayscale);
        desk.tensors("tiny.weights", &tiny_weights());
        desk.run("vae encode in.png -o file.safetensors --weights tiny.weights").succeeds();
        desk.run(&format!("vae encode in.png -o formula.safetensors {TINY}")).succeeds();
        // The headers name different networks.
        let latents = |name: &str| {
            let file = fs::read(desk.path(name)).unwrap();
            let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
            file[8 + header..].to_vec()
        };
        assert!(latents("file.safetensors") == latents("formula.safetensors"));
    }

    #[test]
    fn an_existing_file_is_only_replaced_when_asked_to() {
        let desk = Desk::new();
        desk.picture("in.png", 16, 8, png::ColorType::Rgb);
        desk.put("out.png", "precious");
        let line = format!("vae roundtrip in.png -o out.png {TINY}");
        desk.run(&line).fails(2, &["out.png", "-y"]);
        assert_eq!(fs::read(desk.path("out.png")).unwrap(), b"precious");
        desk.run(&format!("{line} -y")).succeeds();
        assert!(fs::read(desk.path("out.png")).unwrap().starts_with(b"\x89PNG"));
    }

    #[test]
    fn wrong_sizes_are_named_with_sizes_that_would_do() {
        let desk = Desk::new();
        desk.frames("six.safetensors", 6, 16, 16);
        desk.frames("clip.safetensors", 5, 16, 16);
        let run = desk.run(&format!("vae encode six.safetensors -o out.safetensors {TINY} --json"));
        run.fails(3, &["six.safetensors", "6 frames", "use 5 or 9"]);
        let json = run.json();
        assert_eq!(json["exit_code"], 3);
        assert!(json["error"].as_str().unwrap().contains("6 frames"));
        for (flags, words) in [
            ("--slice 6", ["6 frames", "use 8"]),
            ("--mode blend --tile 64 --overlap 64", ["tile of 64", "overlap"]),
            ("--mode whole --stripes 3", ["--stripes", "exact"]),
            ("--vram 4G", ["cpu", "--ram"]),
            ("--ram 8X", ["8X", "80%"]),
        ] {
            desk.run(&format!("vae encode clip.safetensors -o out.safetensors {TINY} {flags}"))
                .fails(2, &words);
        }
        assert_eq!(desk.names(), ["clip.safetensors", "six.safetensors"]);
    }

    #[test]
    fn a_small_budget_takes_another_plan_and_gives_the_same_bytes_or_says_what_would_do() {
        let desk = Desk::new();
        desk.frames("in.safetensors", 9, 64, 64);
        let line =
            |out: &str, flags: &str| format!("vae encode in.safetensors -o {out} {TINY} --json {flags}");
        let run = desk.run(&line("whole.safetensors", ""));
        run.succeeds();
        assert!(run.json()["phases"][0]["plan"]["how"]["mode"] == "whole");
        for (out, flags) in [
            ("one.safetensors", "--ram 100M"),
            ("two.safetensors", "--stripes 5"),
            ("three.safetensors", "--mode exact --slice 4"),
        ] {
            let run = desk.run(&line(out, flags));
            run.succeeds();
            let phase = &run.json()["phases"][0];
            assert!(phase["peak_bytes"].as_u64() <= phase["planned_bytes"].as_u64());
            assert_eq!(fs::read(desk.path(out)).unwrap(), fs::read(desk.path("whole.safetensors")).unwrap());
        }
        let run = desk.run(&line("none.safetensors", "--ram 70M"));
        run.fails(4, &["does not fit", "it needs at least --ram"]);
        assert!(!desk.path("none.safetensors").exists());
    }

    #[test]
    fn devices_are_a_document_and_gpus_have_a_memory() {
        let run = Desk::new().run("devices --json");
        run.succeeds();
        let json = run.json();
        let devices = json["devices"].as_array().unwrap();
        assert!(devices.iter().any(|d| d["device"] == "cpu" && d["usable"] == true));
        for gpu in devices.iter().filter(|d| d["device"].as_str().unwrap().starts_with("vulkan")) {
            let memory = &gpu["memory"];
            let free = memory["free_bytes"].as_u64();
            assert!(memory["bytes"].as_u64().unwrap() > 0 && free.is_none_or(|f| f > 0), "{gpu}");
            assert_eq!(memory["shared"], gpu["kind"] == "software" || gpu["kind"] == "integrated");
        }
    }

    /// On the first GPU of this machine, a software one included.
    #[test]
    fn a_gpu_is_examined_stage_by_stage() {
        let desk = Desk::new();
        let found = desk.run("devices --json").json();
        if !found["devices"].as_array().unwrap().iter().any(|d| d["device"] == "vulkan:0") {
            not_run("a_gpu_is_examined_stage_by_stage", NO_GPU);
            return;
        }
        desk.goldens("goldens", &["tiny_mod_conv", "tiny_image_64x64"]);
        let run = desk.run("doctor --device vulkan:0 --no-tune --goldens goldens --json");
        run.succeeds();
        let json = run.json();
        assert_eq!((json["passed"].as_bool(), json["backend"].as_str()), (Some(true), Some("gpu")));
        let stages = json["stages"].as_array().unwrap();
        assert_eq!(stages.len(), 18 + 4);
        assert!(stages.iter().all(|s| s["max_abs"].as_f64().unwrap() <= 5e-5), "{json}");
    }

    #[test]
    fn a_plan_is_a_document_and_a_refusal_names_a_budget() {
        let desk = Desk::new();
        let run = desk.run("plan decode --height 1088 --width 1920 --dtype bf16 --vram 6G --ram 32G --json");
        run.succeeds();
        let json = run.json();
        assert!(json["peaks"]["device"].as_u64().unwrap() <= 6 << 30);
        assert!(json["how"]["mode"]["exact"]["stripes"].as_u64().unwrap() > 1);
        assert_eq!(json["version"], 1);
        desk.run("plan decode --height 1088 --width 1920 --vram 100M")
            .fails(4, &["it needs at least --vram"]);
        desk.run("plan encode --height 64 --width 64 --vram 10%").fails(2, &["--vram", "8G"]);
    }

    #[test]
    fn files_that_are_no_frames_are_named_and_leave_nothing_behind() {
        let desk = Desk::new();
        let whole = picture(64, 48, png::ColorType::Rgb);
        desk.put("cut.png", &whole[..whole.len() / 2]);
        desk.put("head.png", &whole[..8]);
        desk.put("empty.png", "");
        desk.put("page.png", "<!DOCTYPE html><html><body>404</body></html>");
        desk.put("photo.jpg", [0xff, 0xd8, 0xff, 0xe0, 0, 16, b'J', b'F', b'I', b'F', 0, 1]);
        desk.tensors(
            "other.safetensors",
            &[NamedTensor { name: "y".into(), shape: vec![2], data: vec![0.0; 2] }],
        );
        fs::create_dir(desk.path("nothing")).unwrap();
        let before = desk.names();
        for (input, words) in [
            ("nowhere.png", ["nowhere.png", "cannot"]),
            ("empty.png", ["empty.png", "get it again"]),
            ("page.png", ["page.png", "get it again"]),
            ("cut.png", ["cut.png", "get it again"]),
            ("head.png", ["head.png", "get it again"]),
            ("photo.jpg", ["photo.jpg", "get it again"]),
            ("other.safetensors", ["no tensor `x`", "it has `y` [2]"]),
            ("nothing", ["nothing", "without a PNG"]),
        ] {
            let run = desk.run(&format!("vae encode {input} -o out.safetensors {TINY} --json"));
            run.fails(3, &words);
            assert_eq!(run.json()["exit_code"], 3);
        }
        assert_eq!(desk.names(), before);
    }

    #[test]
    fn a_picture_that_claims_more_than_it_holds_asks_for_no_memory() {
        let desk = Desk::new();
        let mut bytes = picture(16, 16, png::ColorType::Rgb);
        // Width and height of the header, then its checksum.
        bytes[16..24].copy_from_slice(&[0x00, 0x00, 0x08, 0x00, 0x7f, 0xff, 0xff, 0xf8]);
        let crc = crc32(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&crc.to_be_bytes());
        desk.put("bomb.png", bytes);
        desk.run(&format!("vae encode bomb.png -o out.safetensors {TINY}")).fails(3, &["2048 x 2147483640"]);
    }

    /// As PNG wants it; bit by bit, for seventeen bytes.
    fn crc32(bytes: &[u8]) -> u32 {
        let step = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        !bytes.iter().fold(!0, |crc, b| (0..8).fold(crc ^ u32::from(*b), |c, _| step(c)))
    }

    #[test]
    fn latents_of_no_size_are_refused() {
        let desk = Desk::new();
        for shape in [[1, 16, 0, 2, 2], [1, 16, 1, 0, 2], [1, 16, 0, 1 << 60, 1 << 60]] {
            let latent = NamedTensor { name: "latent".into(), shape: shape.to_vec(), data: Vec::new() };
            // By hand: the writer would refuse the last shape.
            let json = format!(
                "{{\"latent\":{{\"dtype\":\"F32\",\"shape\":{:?},\"data_offsets\":[0,0]}}}}",
                latent.shape
            );
            let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
            bytes.extend(json.as_bytes());
            desk.put("z.safetensors", bytes);
            desk.run(&format!("vae decode z.safetensors -o out.safetensors {TINY}"))
                .fails(3, &["z.safetensors"]);
        }
    }

    #[test]
    fn an_output_that_cannot_hold_the_result_is_refused_before_the_work() {
        let desk = Desk::new();
        desk.picture("in.png", 16, 8, png::ColorType::Rgb);
        desk.frames("clip.safetensors", 5, 8, 8);
        desk.tensors(
            "z.safetensors",
            &[NamedTensor { name: "latent".into(), shape: vec![1, 16, 2, 1, 1], data: vec![0.0; 32] }],
        );
        let before = desk.names();
        for (line, words) in [
            ("encode in.png -o z.png", ["z.png", "ends in .safetensors"]),
            ("roundtrip clip.safetensors -o out.png", ["out.png", "ends in .safetensors"]),
            ("decode z.safetensors -o out.png", ["out.png", "ends in .safetensors"]),
            ("roundtrip clip.safetensors -o out.safetensors --lossless", ["--lossless", "tensors"]),
        ] {
            desk.run(&format!("vae {line} {TINY}")).fails(2, &words);
        }
        for (from, out) in [("in.png", "nowhere/out.png"), ("clip.safetensors", "nowhere/out.safetensors")] {
            desk.run(&format!("vae roundtrip {from} -o {out} {TINY}")).fails(3, &["cannot write", out]);
        }
        assert_eq!(desk.names(), before);
    }

    #[test]
    fn weights_that_are_none_are_refused() {
        let desk = Desk::new();
        desk.picture("in.png", 16, 8, png::ColorType::Rgb);
        desk.put("weights.pth", b"PK\x03\x04\0\0\0\0archive/data.pkl");
        let mut tensors = tiny_weights();
        tensors.retain(|t| t.name != "decoder.conv_in.bias");
        desk.tensors("part.safetensors", &tensors);
        for (word, code, said) in [
            ("formula:huge", 2, "formula:tiny or formula:full"),
            ("nowhere.safetensors", 3, "nowhere.safetensors"),
            ("weights.pth", 3, "PyTorch pickle"),
            ("in.png", 3, "not a safetensors file"),
            ("part.safetensors", 3, "decoder.conv_in.bias"),
        ] {
            let run = desk.run(&format!("vae encode in.png -o out.safetensors --weights {word} --json"));
            run.fails(code, &[said]);
            assert_eq!(run.json()["exit_code"], code);
        }
        assert_eq!(desk.names(), ["in.png", "part.safetensors", "weights.pth"]);
    }
}

mod models {
    use super::*;

    #[test]
    fn a_whole_checkpoint_is_usable_whatever_it_is_called() {
        let desk = Desk::new();
        desk.tensors("vae.bin", &tiny_weights());
        let run = desk.run("models inspect vae.bin --json --tensors");
        run.succeeds();
        let json = run.json();
        assert_eq!(json["kind"], "vae");
        assert_eq!(json["usable"], true);
        assert_eq!(json["tensors"], 246);
        assert_eq!(json["parameters"], 4_222_723);
        assert_eq!(json["dtypes"]["F32"], 246);
        assert_eq!(json["bytes"], fs::metadata(desk.path("vae.bin")).unwrap().len());
        assert_eq!(json["sha256"].as_str().unwrap().len(), 64);
        assert_eq!(json["fit"]["applied"].as_array().unwrap().len(), 246);
        assert_eq!(json["list"].as_array().unwrap().len(), 246);
        assert_eq!(json["list"][0]["shape"], serde_json::json!([32, 3, 3, 3, 3]));

        let text = desk.run("models inspect vae.bin");
        text.succeeds();
        assert!(text.stdout.contains("246 of 246 tensors fit"), "{}", text.stdout);
    }

    #[test]
    fn a_checkpoint_that_lacks_a_tensor_ends_with_6_and_one_document() {
        let desk = Desk::new();
        let mut tensors = tiny_weights();
        tensors.iter_mut().find(|t| t.name == "encoder.conv_out.bias").unwrap().name =
            "encoder.conv_out.bia".into();
        desk.tensors("vae.safetensors", &tensors);
        let run = desk.run("models inspect vae.safetensors --json");
        run.fails(6, &["encoder.conv_out.bias"]);
        let json = run.json();
        assert_eq!(json["usable"], false);
        assert_eq!(json["fit"]["missing"][0]["name"], "encoder.conv_out.bias");
        assert_eq!(json["fit"]["missing"][0]["near"][0], "encoder.conv_out.bia");
        assert_eq!(json["fit"]["unused"][0], "encoder.conv_out.bia");
    }

    #[test]
    fn a_file_of_something_else_is_described() {
        let desk = Desk::new();
        desk.frames("x.safetensors", 1, 8, 8);
        let run = desk.run("models inspect x.safetensors --json");
        run.succeeds();
        let json = run.json();
        assert_eq!((&json["kind"], &json["usable"]), (&Value::from("unknown"), &Value::from(false)));
        assert!(json.get("fit").is_none() && json.get("list").is_none());
    }

    #[test]
    fn what_is_no_checkpoint_is_named() {
        let desk = Desk::new();
        desk.put("model.safetensors", b"PK\x03\x04\0\0\0\0archive/data.pkl");
        desk.put("old.safetensors", b"\x80\x02}q\0.");
        desk.put("empty.safetensors", "");
        desk.put("page.safetensors", "<html>login</html>");
        desk.frames("x.safetensors", 1, 8, 8);
        let whole = fs::read(desk.path("x.safetensors")).unwrap();
        desk.put("cut.safetensors", &whole[..whole.len() - 1]);
        for (file, word) in [
            ("model.safetensors", "PyTorch pickle"),
            ("old.safetensors", "PyTorch pickle"),
            ("empty.safetensors", "empty"),
            ("page.safetensors", "web page"),
            ("cut.safetensors", "cut off"),
            ("nowhere.safetensors", "nowhere.safetensors"),
        ] {
            let run = desk.run(&format!("models inspect {file} --json"));
            run.fails(3, &[file, word]);
            let json = run.json();
            assert_eq!(json["exit_code"], 3);
            assert!(json["error"].as_str().unwrap().contains(word));
        }
    }
}

mod bench {
    use super::*;

    #[test]
    fn every_sample_of_a_timed_run_is_kept() {
        let desk = Desk::new();
        let run = desk.run("bench vae encode --frames 1 --height 8 --width 16 --repeat 2 --warmup 0 --json");
        run.succeeds();
        let json = run.json();
        assert_eq!([&json["frames"], &json["height"], &json["width"]], [1, 8, 16]);
        let seconds = json["samples"]["seconds"].as_array().unwrap();
        assert_eq!(seconds.len(), 2);
        assert!(seconds.iter().all(|s| s.as_f64().unwrap() >= json["samples"]["min"].as_f64().unwrap()));
        assert!(json["arena_bytes"].as_u64().unwrap() > 0);
        assert!(desk.names().is_empty());
    }

    #[test]
    fn what_cannot_be_timed_is_wrong_usage() {
        let desk = Desk::new();
        for (line, word) in [
            ("bench vae encode --frames 2", "use 1 or 5"),
            ("bench vae decode --width 20", "pad it to 24"),
            ("bench vae decode --slice 3", "use 4"),
            ("bench vae encode --backend reference", "only the cpu backend"),
            ("bench kernels --cpu-path abacus", "abacus"),
        ] {
            let run = desk.run(&format!("{line} --json"));
            run.fails(2, &[word]);
            assert_eq!(run.json()["exit_code"], 2);
        }
    }
}
