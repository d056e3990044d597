//! Recognising a diffusion transformer, holding it against the network, and loading it: sparse files of the real sizes.

use std::path::{Path, PathBuf};

use crate::support::gguf::Gguf;
use crate::support::{Put, bytes_of, checkpoint as open, file, formula_f16, header, zeros};
use remaster_model::Param;
use remaster_model::dit::{self, DitConfig, Family};
use remaster_weights::{
    Checkpoint, DitDoubt, Kind, LoadError, SizeDoubt, Warning, check_dit, identify, open_dit, open_vae,
};

/// A tensor of a sparse file.
type Sparse = (String, &'static str, Vec<usize>);

/// The network's tensors and the tables that every file carries.
fn tensors(config: &DitConfig) -> Vec<Param> {
    let tables = (0..config.layers).map(|n| Param {
        name: format!("blocks.{n}.attn.rope.rope.freqs"),
        shape: vec![config.frequencies()],
    });
    dit::params(config).into_iter().chain(tables).collect()
}

/// Writes a header and zeros that take no place on disk; the small `data` of markers is written.
fn write(path: &Path, tensors: &[Sparse], data: &[(&str, Vec<u8>)]) -> u64 {
    // The order of the format's own writer: wide numbers first, then by name.
    const ORDER: [&str; 6] = ["F32", "BF16", "F16", "F8_E4M3", "I8", "U8"];
    let rank = |dtype: &str| ORDER.iter().position(|d| *d == dtype).unwrap();
    let mut tensors = tensors.to_vec();
    tensors.sort_by(|a, b| (rank(a.1), &a.0).cmp(&(rank(b.1), &b.0)));
    let sized =
        tensors.iter().map(|(name, dtype, shape)| (&**name, *dtype, &shape[..], bytes_of(dtype, shape)));
    let (json, end) = header(sized, "");
    let mut json = json.replace(", ", ",");
    json += &" ".repeat(json.len().next_multiple_of(8) - json.len());
    let head = file(&json, &[]);
    let file = crate::support::sparse(path, &head, end);
    let mut at = head.len() as u64;
    for (name, dtype, shape) in &tensors {
        if let Some((_, bytes)) = data.iter().find(|(marked, _)| name.ends_with(marked)) {
            remaster_disk::write_at(&file, bytes, at).unwrap();
        }
        at += bytes_of(dtype, shape);
    }
    at
}

fn sparse(folder: &Path, config: &DitConfig, dtype: impl Fn(&str) -> &'static str) -> PathBuf {
    let all: Vec<Sparse> =
        tensors(config).into_iter().map(|p| (p.name.clone(), dtype(&p.name), p.shape)).collect();
    let path = folder.join("x");
    write(&path, &all, &[]);
    path
}

fn is_block_matrix(p: &Param) -> bool {
    p.name.starts_with("blocks.") && p.shape.len() == 2
}

#[test]
fn the_lists_are_those_of_the_published_files() {
    let cases = [(DitConfig::dit_3b(), 635, 3_391_476_448u64), (DitConfig::dit_7b(), 1128, 8_239_608_232)];
    for (config, count, elements) in cases {
        let all = tensors(&config);
        assert_eq!(all.len(), count);
        let sum: u64 = all.iter().map(|p| p.shape.iter().map(|&n| n as u64).product::<u64>()).sum();
        assert_eq!(sum, elements);
    }
}

#[test]
fn f16_files_of_real_size_open_with_a_clean_report() {
    let folder = tempfile::tempdir().unwrap();
    for config in [
        DitConfig::dit_3b(),
        DitConfig::dit_7b(),
        DitConfig::tiny(Family::Shared),
        DitConfig::tiny(Family::Separate),
        DitConfig { width: 96, head: 48, layers: 3, separate: 1, ..DitConfig::tiny(Family::Shared) },
    ] {
        let path = sparse(folder.path(), &config, |_| "F16");
        let (found, _, report) = open_dit(&path).unwrap();
        assert_eq!(found, config);
        assert_eq!(report.ignored.len(), config.layers);
        assert!(report.warnings.is_empty());
        assert!(matches!(open_vae(&path), Err(LoadError::NotAVae { .. })));
    }
}

#[test]
fn the_plain_fp8_file_of_7b_is_warned_about_and_the_mixed_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let seven = DitConfig::dit_7b();
    let (_, _, report) = open_dit(&sparse(folder.path(), &seven, |_| "F8_E4M3")).unwrap();
    assert_eq!(report.warnings, [Warning::PlainFp8]);
    assert!(report.to_string().contains("seedvr2_ema_7b_fp8_e4m3fn_mixed_block35_fp16.safetensors"));
    let mixed = |name: &str| if name.starts_with("blocks.35.") { "F16" } else { "F8_E4M3" };
    assert!(open_dit(&sparse(folder.path(), &seven, mixed)).unwrap().2.warnings.is_empty());
    let three = sparse(folder.path(), &DitConfig::dit_3b(), |_| "F8_E4M3");
    assert_eq!(std::fs::metadata(&three).unwrap().len(), 3_391_544_696, "the published size");
    assert!(open_dit(&three).unwrap().2.warnings.is_empty());
}

/// A file as ComfyUI publishes it: tensors, and its size.
fn comfy(folder: &Path, config: &DitConfig, format: &str) -> (PathBuf, u64) {
    let marker = match format {
        "int8" => r#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 256}"#,
        "nvfp4" => r#"{"format": "nvfp4"}"#,
        _ => r#"{"format": "mxfp8"}"#,
    };
    let mut all: Vec<Sparse> = Vec::new();
    for p in tensors(config) {
        let Some(layer) = p.name.strip_suffix(".weight").filter(|_| is_block_matrix(&p)) else {
            all.push((p.name, "F16", p.shape));
            continue;
        };
        let (n, k) = (p.shape[0], p.shape[1]);
        let tiles = |block: usize| vec![n.div_ceil(128) * 128, (k / block).div_ceil(4) * 4];
        let scale = format!("{layer}.weight_scale");
        match format {
            "int8" => {
                all.push((scale, "F32", vec![n, 1]));
                all.push((p.name.clone(), "I8", vec![n, k]));
            }
            "nvfp4" => {
                all.push((scale, "F8_E4M3", tiles(16)));
                all.push((format!("{layer}.weight_scale_2"), "F32", vec![]));
                all.push((p.name.clone(), "U8", vec![n, k / 2]));
            }
            _ => {
                all.push((scale, "U8", tiles(32)));
                all.push((p.name.clone(), "F8_E4M3", vec![n, k]));
            }
        }
        all.push((format!("{layer}.comfy_quant"), "U8", vec![marker.len()]));
    }
    all.push(("positive_conditioning".to_owned(), "BF16", vec![58, config.text]));
    all.push(("negative_conditioning".to_owned(), "BF16", vec![64, config.text]));
    let path = folder.join("comfy");
    let size = write(&path, &all, &[(".comfy_quant", marker.as_bytes().to_vec())]);
    (path, size)
}

#[test]
fn comfyuis_quantised_files_of_real_size_open_with_a_clean_report() {
    let folder = tempfile::tempdir().unwrap();
    for (config, format, count, published) in [
        (DitConfig::dit_3b(), "int8", 1057, 3_458_259_704u64),
        (DitConfig::dit_7b(), "int8", 1706, 8_334_897_976),
        (DitConfig::dit_7b(), "nvfp4", 1994, 4_759_694_792),
        (DitConfig::dit_3b(), "nvfp4", 1267, 1_996_687_726),
        (DitConfig::dit_3b(), "mxfp8", 1057, 3_557_857_550),
        (DitConfig::dit_7b(), "mxfp8", 1706, 8_581_725_960),
    ] {
        let (path, size) = comfy(folder.path(), &config, format);
        let checkpoint = Checkpoint::open(&path).unwrap();
        assert_eq!(checkpoint.tensors().len(), count);
        assert_eq!(size, published, "{format}");
        let (found, params, report) = open_dit(&path).unwrap();
        assert_eq!(found, config);
        assert_eq!(report.ignored.len(), config.layers + 2);
        let stream = if config.family == Family::Shared { "all" } else { "vid" };
        let last = format!("blocks.{}.mlp.{stream}.proj_out.weight", config.layers - 1);
        let tensor = params.checkpoint().get(&last).unwrap();
        assert_eq!(tensor.shape(), [config.width, config.hidden]);
        let mut end = [1.0; 5];
        checkpoint.read_f32(tensor, tensor.elements() - 5, &mut end).unwrap();
        assert_eq!(end, [0.0; 5]);
    }
}

#[test]
fn a_q4_k_file_of_7b_opens_with_a_clean_report() {
    let folder = tempfile::tempdir().unwrap();
    let config = DitConfig::dit_7b();
    let (mut gguf, mut end, mut matrices) = (Gguf::default(), 0u64, 0);
    for p in tensors(&config) {
        let axes: Vec<u64> = p.shape.iter().rev().map(|&n| n as u64).collect();
        let elements: u64 = axes.iter().product();
        let quantised = is_block_matrix(&p);
        matrices += usize::from(quantised);
        let name = format!("model.diffusion_model.{}", p.name);
        gguf.describe(&name, &axes, if quantised { 12 } else { 1 }, end);
        end = (end + if quantised { elements / 256 * 144 } else { 2 * elements }).next_multiple_of(32);
    }
    assert_eq!(matrices, 288);
    let (path, head) = (folder.path().join("7b.gguf"), gguf.header());
    crate::support::sparse(&path, &head, end);
    let (found, params, report) = open_dit(&path).unwrap();
    assert_eq!((found, report.applied.len()), (config, 1128 - 36));
    let last = params.checkpoint().get("model.diffusion_model.blocks.35.mlp.txt.proj_out.weight").unwrap();
    let mut values = [1.0; 3];
    params.checkpoint().read_f32(last, last.elements() - 3, &mut values).unwrap();
    assert_eq!(values, [0.0; 3]);
}

fn tiny(family: Family) -> Vec<Put> {
    dit::params(&DitConfig::tiny(family)).iter().map(formula_f16).collect()
}

#[test]
fn missing_renamed_and_reshaped_tensors_are_named_whichever_they_are() {
    for family in [Family::Shared, Family::Separate] {
        let config = DitConfig::tiny(family);
        let all = tiny(family);
        for gone in 0..all.len() {
            let mut fewer = all.clone();
            let lost = fewer.remove(gone);
            // The width of the text is seen in one tensor only; the public one is assumed then.
            let kind = identify(&open(&fewer)).kind;
            let Kind::Dit { config: found } = kind else { panic!("{}: {kind}", lost.name) };
            let report = check_dit(&open(&fewer), &found);
            assert!(report.missing.iter().any(|m| m.name == lost.name), "{}", lost.name);
            assert!(found == config || lost.name == "txt_in.weight");
        }
        let mut renamed = all.clone();
        renamed[20].name.push('s');
        let report = check_dit(&open(&renamed), &config);
        assert_eq!(report.missing[0].near, [renamed[20].name.clone()]);
        assert_eq!(report.unused, [renamed[20].name.clone()]);
        let mut reshaped = all;
        let last = reshaped.last_mut().unwrap();
        last.shape = vec![8, 8];
        assert_eq!(check_dit(&open(&reshaped), &config).wrong_shape[0].stored, [8, 8]);
    }
}

#[test]
fn absurd_sizes_are_a_doubt_and_not_a_network() {
    let put = |name: &str, shape: &[usize]| zeros(name, "F16", shape);
    let doubt = |width: &[usize], head: usize, number: &str| {
        let tensors = [
            put("vid_in.proj.weight", width),
            put(&format!("blocks.{number}.attn.proj_qkv.vid.weight"), &[1, 1]),
            put("blocks.0.attn.norm_q.vid.weight", &[head]),
            put("blocks.0.mlp.vid.proj_in.weight", &[4, 1]),
        ];
        match identify(&open(&tensors)).kind {
            Kind::UnclearDit { doubt } => doubt,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(
        doubt(&[0, 132], 32, "0"),
        DitDoubt::Size(SizeDoubt::Range { what: "width", got: 0, .. })
    ));
    assert!(matches!(doubt(&[1 << 40, 0], 32, "0"), DitDoubt::Size(SizeDoubt::Range { what: "width", .. })));
    assert!(matches!(doubt(&[64, 1], 24, "0"), DitDoubt::Heads { head: 24, width: 64 }));
    assert!(matches!(doubt(&[64, 1], 4, "0"), DitDoubt::Size(SizeDoubt::Range { got: 4, .. })));
    for number in ["256", "4294967296", "18446744073709551615"] {
        assert!(matches!(
            doubt(&[64, 1], 32, number),
            DitDoubt::Size(SizeDoubt::Range { what: "number of blocks", .. })
        ));
    }
    let few = [put("vid_in.proj.weight", &[64, 1]), put("blocks.0.attn.proj_qkv.vid.weight", &[1, 1])];
    assert!(matches!(
        identify(&open(&few)).kind,
        Kind::UnclearDit { doubt: DitDoubt::Size(SizeDoubt::Hidden { .. }) }
    ));
}
