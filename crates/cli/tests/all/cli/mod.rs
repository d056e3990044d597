//! The binary as people and scripts use it: arguments in, files and exit codes out.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use remaster_model::vae::{self, VaeConfig};
#[cfg(feature = "gpu")]
use remaster_testkit::no_gpu;
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
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_remaster"));
        command.args(line.split_whitespace()).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("XDG_CONFIG_HOME", self.0.path());
        command
    }

    fn run(&self, line: &str) -> Run {
        let out = self.command(line).output().unwrap();
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

mod words;

mod habits;

mod doctor;

mod run_vae;

mod models;

mod bench;
