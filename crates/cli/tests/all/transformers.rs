//! `remaster models` on files of diffusion transformers.

use remaster_model::dit::{self, DitConfig, Family};
use remaster_testkit::says;
use remaster_weights::NamedTensor;
use serde_json::Value;

use crate::desk::{Desk, formula, lives_in};

fn tensors(family: Family) -> Vec<NamedTensor> {
    formula(dit::params(&DitConfig::tiny(family)))
}

#[test]
fn a_transformer_is_inspected_listed_and_verified() {
    let desk = Desk::with(|command, folder| {
        lives_in(command.env_remove("REMASTER_MODEL_DIR").env_remove("HF_HOME"), folder);
    });
    let mut with_text = tensors(Family::Shared);
    let (name, shape, data) = ("positive_conditioning".to_owned(), vec![2, 48], vec![0.5; 96]);
    with_text.push(NamedTensor { name, shape, data });
    desk.tensors("a.safetensors", &with_text);
    desk.tensors("b.safetensors", &tensors(Family::Separate));

    let json = desk.json("models inspect a.safetensors --json");
    assert_eq!((&json["kind"], &json["format"]), (&"dit_3b".into(), &"safetensors".into()));
    assert_eq!((&json["usable"], &json["text_embedding"]), (&true.into(), &true.into()));
    assert_eq!((&json["sizes"]["width"], &json["sizes"]["blocks"]), (&64.into(), &4.into()));
    assert_eq!(json["fit"]["ignored"][0], "positive_conditioning");
    let text = desk.run("models inspect b.safetensors").stdout;
    says(&text, &["like 7B with width 64 and 4 blocks", "pos_emb.pt"]);

    let json = desk.json("models list --model-dir . --json");
    assert_eq!(json["files"].as_array().unwrap().len(), 2);
    assert_eq!(json["files"][1]["kind"], "dit_7b");
    assert_eq!(json["files"][1]["usable"], true);
    // The text embedding is in ComfyUI's files alone, and those hold the newer weights.
    assert_eq!(json["files"][0]["revision"], "2025-06-22");
    assert_eq!(json["files"][1]["revision"], Value::Null);
    let text = desk.run("models list --model-dir .").stdout;
    assert!(text.contains("3B weights of 2025-06-22"), "{text}");

    assert_eq!(desk.json("models verify --model-dir . --json")["files"][0]["verdict"], "complete");

    let mut part = tensors(Family::Shared);
    part.retain(|t| t.name != "blocks.3.mlp.all.proj_out.weight");
    desk.tensors("a.safetensors", &part);
    let json = desk.run("models verify a.safetensors --json").ends(6, &[]).json();
    assert_eq!(json["files"][0]["verdict"], "damaged");
    assert!(json["files"][0]["reason"].as_str().unwrap().contains("blocks.3.mlp.all.proj_out.weight"));
}
