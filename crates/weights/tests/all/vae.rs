//! Recognising a VAE, holding it against the network, and loading it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{
    Put, bytes_of, checkpoint as open, file, file_of, formula_f16, header, on_disk, put, sparse, zeros,
};
use remaster_compute::{DType, WeightPart, WeightSpec};
use remaster_model::vae::{self, VaeConfig};
use remaster_model::{Param, Params};
use remaster_testkit::says;
use remaster_weights::{
    Checkpoint, CheckpointParams, Kind, LoadError, LoadReport, VaeDoubt, check, identify, open_vae,
};

fn tiny() -> Vec<Put> {
    vae::params(&VaeConfig::tiny()).iter().map(formula_f16).collect()
}

fn report(tensors: &[Put]) -> LoadReport {
    check(&open(tensors), &vae::params(&VaeConfig::tiny()))
}

fn find<'a>(tensors: &'a mut [Put], name: &str) -> &'a mut Put {
    tensors.iter_mut().find(|t| t.name == name).unwrap()
}

/// A checkpoint with these tensors whose values are all zero and take no place on disk.
fn hollow(folder: &Path, name: &str, tensors: &[(&str, &[usize])], metadata: &str) -> PathBuf {
    let f16 = tensors.iter().map(|&(name, shape)| (name, "F16", shape, bytes_of("F16", shape)));
    let (json, end) = header(f16, metadata);
    let path = folder.join(name);
    sparse(&path, &file(&json, &[]), end);
    path
}

fn hollow_vae(folder: &Path, config: &VaeConfig, metadata: &str) -> PathBuf {
    let params = vae::params(config);
    let tensors: Vec<(&str, &[usize])> =
        params.iter().map(|p| (p.name.as_str(), p.shape.as_slice())).collect();
    hollow(folder, "vae", &tensors, metadata)
}

#[test]
fn the_public_vae_and_the_tiny_one_are_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [(VaeConfig::full(), 250, 250_648_227), (VaeConfig::tiny(), 246, 4_222_723)];
    for (config, tensors, parameters) in cases {
        let identity = identify(&Checkpoint::open(&hollow_vae(folder.path(), &config, "")).unwrap());
        assert_eq!(identity.kind, Kind::Vae { config });
        assert_eq!(identity.tensors, tensors);
        assert_eq!(identity.parameters, parameters);
    }
}

#[test]
fn other_widths_need_the_metadata_to_say_the_groups() {
    let folder = tempfile::tempdir().unwrap();
    let config = VaeConfig { colours: 4, latent: 8, channels: [16, 24, 48, 48], resnets: 3, groups: 4 };
    let kind = |metadata: &str| {
        identify(&Checkpoint::open(&hollow_vae(folder.path(), &config, metadata)).unwrap()).kind
    };
    let channels = config.channels;
    assert_eq!(kind(""), Kind::UnclearVae { doubt: VaeDoubt::GroupsUnknown { channels } });
    assert_eq!(kind(r#"{"norm_num_groups":"4"}"#), Kind::Vae { config: config.clone() });
    for said in ["0", "5", "many", "-1"] {
        let doubt = VaeDoubt::Groups { said: said.to_owned(), channels };
        assert_eq!(kind(&format!(r#"{{"norm_num_groups":"{said}"}}"#)), Kind::UnclearVae { doubt });
    }
    let error = open_vae(&hollow_vae(folder.path(), &config, "")).unwrap_err();
    assert!(error.to_string().contains("`norm_num_groups` in its metadata"), "{error}");
}

#[test]
fn a_vae_that_lacks_the_first_tensor_is_still_recognised() {
    for name in
        ["encoder.conv_in.weight", "decoder.conv_in.weight", "encoder.down_blocks.2.resnets.0.conv1.weight"]
    {
        let mut tensors = tiny();
        tensors.retain(|t| t.name != name);
        assert_eq!(identify(&open(&tensors)).kind, Kind::Vae { config: VaeConfig::tiny() });
        assert_eq!(report(&tensors).missing[0].name, name);
    }
}

#[test]
fn absurd_sizes_are_a_doubt_and_not_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let tensors: [(&str, &[usize]); 6] = [
        ("encoder.conv_in.weight", &[128, 0]),
        ("decoder.conv_in.weight", &[1, 16]),
        ("encoder.down_blocks.0.resnets.0.conv1.weight", &[128]),
        ("encoder.down_blocks.1.resnets.0.conv1.weight", &[1 << 40, 0]),
        ("encoder.down_blocks.2.resnets.0.conv1.weight", &[128]),
        ("encoder.down_blocks.3.resnets.0.conv1.weight", &[128]),
    ];
    let doubtful = |tensors: &[(&str, &[usize])]| {
        let checkpoint = Checkpoint::open(&hollow(folder.path(), "x", tensors, "")).unwrap();
        match identify(&checkpoint).kind {
            Kind::UnclearVae { doubt: VaeDoubt::Size { what, got, .. } } => (what, got),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(doubtful(&tensors), ("number of colours", 0));
    let mut wide = tensors;
    wide[0].1 = &[128, 3];
    assert_eq!(doubtful(&wide), ("largest number of channels", 1 << 40));
}

#[test]
fn the_transformers_are_recognised_and_refused_as_a_vae() {
    let folder = tempfile::tempdir().unwrap();
    let three: [(&str, &[usize]); 4] = [
        ("vid_in.proj.weight", &[2560, 132]),
        ("txt_in.weight", &[2560, 5120]),
        ("blocks.0.mlp.vid.proj_in_gate.weight", &[6912, 2560]),
        ("blocks.31.attn.proj_qkv.all.weight", &[7680, 2560]),
    ];
    let seven: [(&str, &[usize]); 4] = [
        ("model.diffusion_model.vid_in.proj.weight", &[3072, 132]),
        ("model.diffusion_model.txt_in.weight", &[3072, 5120]),
        ("model.diffusion_model.blocks.0.mlp.vid.proj_in.weight", &[12288, 3072]),
        ("model.diffusion_model.blocks.35.attn.proj_qkv.vid.weight", &[9216, 3072]),
    ];
    for (name, tensors) in [("3b", three), ("7b", seven)] {
        let path = hollow(folder.path(), name, &tensors, "");
        let error = open_vae(&path).unwrap_err().to_string();
        says(&error, &["diffusion transformer", "not a SeedVR2 video VAE"]);
    }
    let cut = hollow(folder.path(), "cut", &three[..3], "");
    assert_eq!(identify(&Checkpoint::open(&cut).unwrap()).kind, Kind::Unknown);
    assert!(matches!(open_vae(&cut), Err(LoadError::NotAVae { kind: Kind::Unknown, .. })));
}

#[test]
fn a_whole_file_is_complete() {
    let report = report(&tiny());
    assert!(report.is_complete());
    assert_eq!(report.applied.len(), 246);
    assert_eq!(report.to_string(), "246 of 246 tensors fit");
}

#[test]
fn a_misspelt_tensor_is_missing_and_its_neighbour_suggested() {
    let mut tensors = tiny();
    find(&mut tensors, "decoder.conv_norm_out.weight").name = "decoder.conv_norm_ou.weight".to_owned();
    let report = report(&tensors);
    assert!(!report.is_complete());
    assert_eq!(report.missing.len(), 1);
    assert_eq!(report.missing[0].near, ["decoder.conv_norm_ou.weight"]);
    assert_eq!(report.unused, ["decoder.conv_norm_ou.weight"]);
    let words = "decoder.conv_norm_out.weight [32] (in the file: decoder.conv_norm_ou.weight?)";
    says(&report.to_string(), &[words]);
}

#[test]
fn wrong_shapes_wrong_formats_and_leftovers_are_told_apart() {
    let mut tensors = tiny();
    find(&mut tensors, "encoder.conv_in.weight").shape = vec![32, 27, 3];
    let bias = find(&mut tensors, "encoder.conv_out.bias");
    (bias.dtype, bias.data) = ("F8_E5M2", vec![0; 32]);
    tensors.push(zeros("quant_conv.bias", "F32", &[1]));
    let report = report(&tensors);
    assert_eq!(report.applied.len(), 244);
    assert_eq!(report.wrong_shape[0].stored, [32, 27, 3]);
    assert_eq!(report.wrong_shape[0].expected, [32, 3, 3, 3, 3]);
    assert_eq!(report.wrong_dtype[0].name, "encoder.conv_out.bias");
    assert_eq!(report.unused, ["quant_conv.bias"]);
    assert!(report.missing.is_empty());
    let text = report.to_string();
    assert!(text.contains("encoder.conv_out.bias is F8_E5M2, expected F32, F16, BF16 or F8_E4M3"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(json["wrong_dtype"][0]["dtype"], "F8_E5M2");
    assert_eq!(json["unused"][0], "quant_conv.bias");
    assert_eq!(json["applied"].as_array().unwrap().len(), 244);
}

#[test]
fn a_report_on_a_foreign_file_stays_short_and_quick() {
    let name = |i| format!("encoder.down_blocks.0.resnets.{i}.other.weight");
    let tensors: Vec<Put> = (0..5000).map(|i| zeros(&name(i), "U8", &[0])).collect();
    let started = std::time::Instant::now();
    let report = report(&tensors);
    assert!(started.elapsed().as_secs() < 5);
    assert_eq!((report.missing.len(), report.unused.len()), (246, 5000));
    let text = report.to_string();
    assert!(text.lines().count() == 3 && text.len() < 1000, "{text}");
}

fn read_all(params: &mut CheckpointParams, prefix: &str, spec: WeightSpec) -> [Vec<f32>; 2] {
    let source = params.source(prefix, spec);
    let mut read = [vec![0.0; spec.main_len()], vec![0.0; spec.bias_len()]];
    for (part, values) in [WeightPart::Main, WeightPart::Bias].into_iter().zip(&mut read) {
        for (i, piece) in values.chunks_mut(1000).enumerate() {
            source.read(part, i * 1000, piece).unwrap();
        }
    }
    read
}

fn formula(param: &str, shape: &[usize]) -> Vec<f32> {
    let mut values = crate::support::formula(param, shape);
    DType::F16.round_all(&mut values);
    values
}

#[test]
fn a_layer_gets_the_values_of_the_file() {
    let (_folder, path) = on_disk("tiny", file_of(&tiny(), ""));
    let (config, mut params, report) = open_vae(&path).unwrap();
    assert_eq!(config, VaeConfig::tiny());
    assert_eq!(report.applied.len(), 246);
    let spec = WeightSpec::conv([3, 32], [3; 3], DType::F32);
    // Twice: a weight that was evicted is read again, from pages that were given back.
    for _ in 0..2 {
        let [main, bias] = read_all(&mut params, "encoder.conv_in", spec);
        assert_eq!(main, formula("encoder.conv_in.weight", &[32, 3, 3, 3, 3]));
        assert_eq!(bias, formula("encoder.conv_in.bias", &[32]));
    }
}

#[test]
fn a_source_that_cannot_be_read_says_why() {
    let mut params = CheckpointParams::new(Arc::new(open(&tiny())));
    let spec = WeightSpec::Norm { channels: 32 };
    let why = |params: &mut CheckpointParams, prefix| {
        params.source(prefix, spec).read(WeightPart::Main, 0, &mut [0.0]).unwrap_err().to_string()
    };
    assert_eq!(why(&mut params, "nothing"), "the checkpoint has no tensor `nothing.weight`");
    let expected = "tensor `encoder.conv_norm_out.weight` is [64], expected [32]";
    assert_eq!(why(&mut params, "encoder.conv_norm_out"), expected);
    let source = params.source("decoder.conv_norm_out", spec);
    let past = source.read(WeightPart::Bias, 30, &mut [0.0; 3]).unwrap_err().to_string();
    assert!(past.contains("has 32 values; 3 from 30 on were asked for"), "{past}");
}

#[test]
fn the_legacy_layout_loads_with_the_same_values() {
    let mut tensors = tiny();
    for t in &mut tensors {
        let cases = [("to_q", "query"), ("to_k", "key"), ("to_v", "value"), ("to_out.0", "proj_attn")];
        for (ours, theirs) in cases {
            t.name = t.name.replace(&format!(".{ours}."), &format!(".{theirs}."));
        }
        if t.shape.len() == 2 {
            t.shape.extend([1, 1]);
        }
        t.name.insert_str(0, "first_stage_model.");
    }
    let (_folder, path) = on_disk("legacy", file_of(&tensors, ""));
    let (config, mut params, report) = open_vae(&path).unwrap();
    assert_eq!(config, VaeConfig::tiny());
    let name = "encoder.mid_block.attentions.0.to_out.0";
    let applied = report.applied.iter().find(|a| a.name == format!("{name}.weight")).unwrap();
    let stored = applied.stored_as.as_deref();
    assert_eq!(stored, Some("first_stage_model.encoder.mid_block.attentions.0.proj_attn.weight"));
    let spec = WeightSpec::Linear { cin: 64, cout: 64, dtype: DType::F16 };
    let [main, bias] = read_all(&mut params, name, spec);
    assert_eq!(main, formula(&format!("{name}.weight"), &[64, 64]));
    assert_eq!(bias, formula(&format!("{name}.bias"), &[64]));
}

#[test]
fn of_two_names_for_one_tensor_ours_wins_and_the_other_is_left_over() {
    let param = Param { name: "encoder.conv_in.bias".to_owned(), shape: vec![1] };
    for names in [
        ["vae.encoder.conv_in.bias", "encoder.conv_in.bias"],
        ["encoder.conv_in.bias", "vae.encoder.conv_in.bias"],
    ] {
        let value = |name: &str| if name.starts_with("vae") { 2.0f32 } else { 1.0 };
        let checkpoint = open(&names.map(|name| put(name, "F32", &[1], value(name).to_le_bytes())));
        let report = check(&checkpoint, std::slice::from_ref(&param));
        assert_eq!(report.applied[0].stored_as, None);
        assert_eq!(report.unused, ["vae.encoder.conv_in.bias"]);
        let mut params = CheckpointParams::new(Arc::new(checkpoint));
        let mut read = [0.0];
        let spec = WeightSpec::Norm { channels: 1 };
        params.source("encoder.conv_in", spec).read(WeightPart::Bias, 0, &mut read).unwrap();
        assert_eq!(read, [1.0]);
    }
}

#[test]
fn an_incomplete_file_is_an_error_that_lists_it() {
    let (folder, path) = on_disk("partial", file_of(&tiny()[2..], ""));
    match open_vae(&path).unwrap_err() {
        error @ LoadError::Incomplete { .. } => {
            let words = ["244 of 246 tensors fit", "2 missing: encoder.conv_in.weight [32, 3, 3, 3, 3]"];
            says(&error.to_string(), &words);
        }
        other => panic!("{other}"),
    }
    let none = open_vae(&folder.path().join("none")).unwrap_err();
    assert!(matches!(none, LoadError::Checkpoint { .. }));
}
