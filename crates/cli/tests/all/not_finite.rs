//! Values that are NaN or infinite end a run with exit code 6 (weights) or 3 (input), name what is bad and leave no output.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use remaster_weights::{NamedTensor, fill_uniform, read_tensors, write_tensors};

fn remaster(folder: &Path, line: &str) -> (i32, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_remaster"))
        .args(line.split_whitespace())
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (out.status.code().unwrap(), String::from_utf8(out.stderr).unwrap())
}

fn nano() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/nano.safetensors")
}

fn frames(path: &Path, bad: Option<f32>) {
    let mut data = vec![0.0; 3 * 5 * 32 * 32];
    fill_uniform("input/cli", 0, &mut data);
    if let Some(bad) = bad {
        // Channel 0, frame 3.
        data[3 * 32 * 32 + 7] = bad;
    }
    let x = NamedTensor { name: "x".into(), shape: vec![1, 3, 5, 32, 32], data };
    write_tensors(path, &[x], &BTreeMap::new()).unwrap();
}

#[test]
fn a_poisoned_weight_ends_with_6_in_every_mode_and_leaves_no_output() {
    let desk = tempfile::tempdir().unwrap();
    let folder = desk.path();
    frames(&folder.join("x.safetensors"), None);
    let good = nano();
    let good = good.display();
    let (code, words) =
        remaster(folder, &format!("vae encode x.safetensors -o z.safetensors --weights {good}"));
    assert_eq!(code, 0, "{words}");
    let mut tensors = read_tensors(&nano()).unwrap();
    let weight = tensors.iter_mut().find(|t| t.name == "decoder.conv_out.weight").unwrap();
    weight.data[3] = f32::NAN;
    let metadata = BTreeMap::from([("norm_num_groups".to_owned(), "4".to_owned())]);
    write_tensors(&folder.join("bad.safetensors"), &tensors, &metadata).unwrap();
    let modes =
        ["", "--mode exact --stripes 2", "--mode blend --tile 16 --overlap 8", "--dtype bf16", "--dtype f16"];
    for mode in modes {
        let line = format!("vae decode z.safetensors -o out.safetensors --weights bad.safetensors {mode}");
        let (code, words) = remaster(folder, &line);
        assert_eq!(code, 6, "{mode}: {words}");
        let told = ["frame 0", "decoder.conv_out", "remaster models verify"];
        assert!(told.iter().all(|w| words.contains(w)), "{mode}: {words}");
        assert_eq!(words.contains("--dtype bf16"), mode == "--dtype f16", "{words}");
        let left: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(!left.iter().any(|n| n.to_string_lossy().contains("out")), "{mode}: {left:?}");
    }
}

#[test]
fn a_bad_value_of_the_input_ends_with_3_and_names_its_frame() {
    let desk = tempfile::tempdir().unwrap();
    for bad in [f32::NAN, f32::INFINITY] {
        frames(&desk.path().join("x.safetensors"), Some(bad));
        let line = format!("vae encode x.safetensors -o out.safetensors --weights {}", nano().display());
        let (code, words) = remaster(desk.path(), &line);
        assert_eq!(code, 3, "{words}");
        assert!(words.contains("frame 3 of the input"), "{words}");
        assert!(!desk.path().join("out.safetensors").exists());
    }
}
