//! `remaster models` on files of diffusion transformers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use remaster_model::Param;
use remaster_model::dit::{self, DitConfig, Family};
use remaster_weights::{NamedTensor, fill_formula, write_tensors};
use serde_json::Value;

fn tensors(family: Family) -> Vec<NamedTensor> {
    let made = |Param { name, shape }: Param| {
        let mut data = vec![0.0; shape.iter().product()];
        fill_formula(&name, &shape, 0, &mut data).unwrap();
        NamedTensor { name, shape, data }
    };
    dit::params(&DitConfig::tiny(family)).into_iter().map(made).collect()
}

fn write(path: &Path, tensors: &[NamedTensor]) {
    write_tensors(path, tensors, &BTreeMap::new()).unwrap();
}

fn remaster(folder: &Path, args: &str) -> (Option<i32>, Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remaster"));
    command.current_dir(folder).env("HOME", folder).env_remove("REMASTER_MODEL_DIR").env_remove("HF_HOME");
    let out = command.args(args.split(' ')).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let json = serde_json::from_str(&text).unwrap_or(Value::Null);
    (out.status.code(), json, text)
}

#[test]
fn a_transformer_is_inspected_listed_and_verified() {
    let desk = tempfile::tempdir().unwrap();
    let mut with_text = tensors(Family::Shared);
    with_text.push(NamedTensor {
        name: "positive_conditioning".to_owned(),
        shape: vec![2, 48],
        data: vec![0.5; 96],
    });
    write(&desk.path().join("a.safetensors"), &with_text);
    write(&desk.path().join("b.safetensors"), &tensors(Family::Separate));

    let (code, json, _) = remaster(desk.path(), "models inspect a.safetensors --json");
    assert_eq!(code, Some(0));
    assert_eq!((&json["kind"], &json["format"]), (&"dit_3b".into(), &"safetensors".into()));
    assert_eq!((&json["usable"], &json["text_embedding"]), (&true.into(), &true.into()));
    assert_eq!((&json["sizes"]["width"], &json["sizes"]["blocks"]), (&64.into(), &4.into()));
    assert_eq!(json["fit"]["ignored"][0], "positive_conditioning");
    let (_, _, text) = remaster(desk.path(), "models inspect b.safetensors");
    assert!(text.contains("like 7B with width 64 and 4 blocks"), "{text}");
    assert!(text.contains("pos_emb.pt"), "{text}");

    let (code, json, _) = remaster(desk.path(), "models list --model-dir . --json");
    assert_eq!((code, json["files"].as_array().unwrap().len()), (Some(0), 2));
    assert_eq!(json["files"][1]["kind"], "dit_7b");
    assert_eq!(json["files"][1]["usable"], true);
    // The text embedding is in ComfyUI's files alone, and those hold the newer weights.
    assert_eq!(
        (&json["files"][0]["revision"], &json["files"][1]["revision"]),
        (&"2025-06-22".into(), &Value::Null)
    );
    let (_, _, text) = remaster(desk.path(), "models list --model-dir .");
    assert!(text.contains("3B weights of 2025-06-22"), "{text}");

    let (code, json, _) = remaster(desk.path(), "models verify --model-dir . --json");
    assert_eq!((code, &json["files"][0]["verdict"]), (Some(0), &"complete".into()));

    let mut part = tensors(Family::Shared);
    part.retain(|t| t.name != "blocks.3.mlp.all.proj_out.weight");
    write(&desk.path().join("a.safetensors"), &part);
    let (code, json, _) = remaster(desk.path(), "models verify a.safetensors --json");
    assert_eq!((code, &json["files"][0]["verdict"]), (Some(6), &"damaged".into()));
    assert!(json["files"][0]["reason"].as_str().unwrap().contains("blocks.3.mlp.all.proj_out.weight"));
}
