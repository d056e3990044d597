//! Real-ESRGAN's networks as files: recognising them, checking them against the network, loading them.

use crate::support::pth::pth_of;
use crate::support::{Put, bits, checkpoint, file_of, on_disk, put, uniform, uniform_f16, zeros};
use remaster_model::compact::{self, CompactConfig};
use remaster_model::rrdb::{self, RrdbConfig};
use remaster_model::vae::{self, VaeConfig};
use remaster_model::{Param, Params, Wanted};
use remaster_testkit::says;
use remaster_weights::{
    Checkpoint, CheckpointError, Kind, LoadError, SizeDoubt, TorchFault, Upscaler, UpscalerDoubt, ZipFault,
    check_upscaler, identify, open_upscaler, open_vae, upscaler_from_bytes, vae_from_bytes,
};

/// The network that is inside the program.
pub(crate) const ANIME: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../anime/realesr-animevideov3.safetensors");

const COMPACT: CompactConfig = CompactConfig { width: 4, depth: 2, scale: 2 };

fn tensors(params: &[Param]) -> Vec<Put> {
    params.iter().map(uniform_f16).collect()
}

fn kind(tensors: &[Put]) -> Kind {
    identify(&checkpoint(tensors)).kind
}

fn doubt(tensors: &[Put]) -> UpscalerDoubt {
    let found = kind(tensors);
    let Kind::UnclearUpscaler { doubt } = &found else { panic!("{found:?}") };
    assert!(found.to_string().starts_with("a Real-ESRGAN upscaler, but "));
    doubt.clone()
}

fn values(params: &mut impl Params, param: &Param) -> Vec<f32> {
    let mut values = vec![0.0; param.shape.iter().product()];
    params.values(&Wanted::from(param.clone())).read(0, &mut values).unwrap();
    values
}

/// The same tensors as `.pth` files have them.
fn widened(checkpoint: &Checkpoint) -> Vec<Put> {
    let wide = |t: &remaster_weights::TensorInfo| {
        let values = checkpoint.values(t).unwrap();
        put(t.name(), "F32", t.shape(), values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    };
    checkpoint.tensors().map(wide).collect()
}

#[test]
fn the_published_network_is_the_same_from_every_file() {
    let (config, mut ours, report) = open_upscaler(ANIME.as_ref()).unwrap();
    assert_eq!(config, Upscaler::Compact(CompactConfig::anime()));
    assert_eq!((report.applied.len(), report.is_complete()), (53, true));
    assert_eq!(config.to_string(), "a Real-ESRGAN upscaler (Compact, width 64, depth 16, x4)");
    assert_eq!(config.scale(), 4);
    let wide = widened(ours.checkpoint());
    for inside in ["", "params", "params_ema", "state_dict"] {
        let (_folder, path) = on_disk("model.pth", pth_of(&wide, inside));
        let (same, mut theirs, report) = open_upscaler(&path).unwrap();
        assert_eq!((same, report.applied.len()), (config, 53));
        for param in config.params() {
            assert_eq!(
                bits(&values(&mut theirs, &param)),
                bits(&values(&mut ours, &param)),
                "{}",
                param.name
            );
        }
    }
}

#[test]
fn compact_networks_of_any_size_are_recognised() {
    for (width, depth, scale) in [(1, 0, 1), (3, 0, 4), (8, 1, 3), (64, 32, 2), (24, 256, 1), (1024, 0, 1)] {
        let config = CompactConfig { width, depth, scale };
        let params = compact::params(&config);
        let hollow: Vec<Put> = params.iter().map(|p| zeros(&p.name, "F16", &p.shape)).collect();
        let checkpoint = checkpoint(&hollow);
        assert_eq!(identify(&checkpoint).kind, Kind::Compact { config });
        assert!(check_upscaler(&checkpoint, &Upscaler::Compact(config)).is_complete());
    }
}

#[test]
fn a_compact_network_that_lacks_a_tensor_is_still_recognised() {
    let all = tensors(&compact::params(&COMPACT));
    for missing in &all {
        let left: Vec<Put> = all.iter().filter(|t| t.name != missing.name).cloned().collect();
        assert_eq!(kind(&left), Kind::Compact { config: COMPACT }, "{}", missing.name);
        let error = upscaler_from_bytes("x", file_of(&left, "")).unwrap_err();
        let LoadError::Incomplete { report, .. } = error else { panic!("{error}") };
        assert_eq!(report.missing[0].name, missing.name);
    }
    let mut more = all.clone();
    more.push(zeros("extra", "F32", &[1]));
    more[0].shape = vec![4, 27];
    let error = upscaler_from_bytes("x", file_of(&more, "")).unwrap_err();
    says(
        &error.to_string(),
        &["10 of 11 tensors fit", "extra", "body.0.weight is [4, 27], expected [4, 3, 3, 3]"],
    );
}

#[test]
fn files_without_slopes_are_refused_with_the_reason() {
    let mut without = tensors(&compact::params(&COMPACT));
    without.retain(|t| !["body.1.weight", "body.3.weight", "body.5.weight"].contains(&&*t.name));
    assert_eq!(doubt(&without), UpscalerDoubt::NoSlopes);
    let error = upscaler_from_bytes("x", file_of(&without, "")).unwrap_err();
    assert!(matches!(error, LoadError::UpscalerDoubt { .. }));
    says(
        &error.to_string(),
        &["x looks like a Real-ESRGAN upscaler, but it has no PReLU slopes", "LeakyReLU"],
    );
}

#[test]
fn sizes_that_cannot_be_used_are_a_doubt_that_names_the_range() {
    let compact = |first: &[usize], last: usize, made: usize| {
        doubt(&[
            zeros("body.0.weight", "U8", first),
            zeros("body.1.weight", "U8", &[1]),
            zeros(&format!("body.{last}.weight"), "U8", &[made, 1, 1, 1]),
        ])
    };
    let size = |what, got, min, max| UpscalerDoubt::Size(SizeDoubt::Range { what, got, min, max });
    assert_eq!(compact(&[1025, 1, 1, 1], 2, 48), size("width", 1025, 1, 1024));
    assert_eq!(compact(&[0, 1, 1, 1], 2, 48), size("width", 0, 1, 1024));
    assert_eq!(compact(&[1, 1, 1, 1], 516, 48), size("depth", 257, 0, 256));
    for got in [0, 4, 24, 75, 192] {
        assert_eq!(compact(&[1, 1, 1, 1], 2, got), UpscalerDoubt::Factor { got });
    }
    let hidden = [zeros("body.0.weight", "U8", &[1, 1, 1, 1]), zeros("body.3.weight", "U8", &[1])];
    assert_eq!(doubt(&hidden), SizeDoubt::Hidden { what: "factor" }.into());

    let rrdb = |first: &[usize], block: usize, growth: usize| {
        doubt(&[
            zeros("conv_first.weight", "U8", first),
            zeros(&format!("body.{block}.rdb1.conv1.weight"), "U8", &[growth]),
        ])
    };
    assert_eq!(rrdb(&[1025, 3], 0, 1), size("width", 1025, 1, 1024));
    assert_eq!(rrdb(&[1, 3], 0, 0), size("growth", 0, 1, 1024));
    assert_eq!(rrdb(&[1, 3], 256, 1), size("number of blocks", 257, 1, 256));
    assert_eq!(rrdb(&[1, 3], usize::MAX, 1), size("number of blocks", usize::MAX, 1, 256));
    assert_eq!(rrdb(&[1, 4], 0, 1), UpscalerDoubt::Inputs { got: 4 });
    says(&size("width", 1025, 1, 1024).to_string(), &["its width is 1025, but must be 1 to 1024"]);
}

#[test]
fn other_networks_with_a_body_are_not_ours() {
    for tensors in [
        vec![zeros("body.0.weight", "F16", &[4, 4]), zeros("body.1.weight", "F16", &[4])],
        vec![zeros("body.0.weight", "F16", &[4, 3, 3, 3])],
        vec![zeros("body.0.body.0.weight", "F16", &[4, 3, 3, 3])],
        vec![zeros("body.x.rdb1.conv1.weight", "F16", &[1])],
        vec![zeros("body.18446744073709551615.weight", "F16", &[1]), zeros("body.0.weight", "F16", &[1; 4])],
        vec![zeros("model.0.weight", "F16", &[4, 3, 3, 3]), zeros("model.1.sub.0.weight", "F16", &[1; 4])],
    ] {
        assert_eq!(kind(&tensors), Kind::Unknown);
    }
}

/// `params` under the names of older files.
fn old(params: &[Param], blocks: usize, steps: usize) -> Vec<Put> {
    let behind = [("conv_up1", 3), ("conv_up2", 6), ("conv_hr", 3 * steps + 2), ("conv_last", 3 * steps + 4)];
    let name = |name: &str| {
        let (layer, part) = name.rsplit_once('.').unwrap();
        let layer = match layer {
            "conv_first" => "model.0".to_owned(),
            "conv_body" => format!("model.1.sub.{blocks}"),
            _ => match behind.iter().find(|known| known.0 == layer) {
                Some((_, place)) => format!("model.{place}"),
                None => format!("model.1.sub.{}.0", layer.trim_start_matches("body.").replace("rdb", "RDB")),
            },
        };
        format!("{layer}.{part}")
    };
    tensors(params).into_iter().map(|t| Put { name: name(&t.name), ..t }).collect()
}

/// Places of the convolutions in older files.
fn places(tensors: &[Put]) -> Vec<&str> {
    let weights = tensors.iter().filter_map(|t| t.name.strip_suffix(".weight"));
    weights.filter(|name| name.matches('.').count() == 1).collect()
}

#[test]
fn rrdb_networks_are_recognised_in_both_spellings() {
    let base = RrdbConfig { width: 4, growth: 2, blocks: 2, scale: 4, unshuffle: 1 };
    for (scale, unshuffle) in [(4, 1), (2, 2), (1, 4)] {
        let config = RrdbConfig { scale, unshuffle, ..base };
        let params = rrdb::params(&config);
        assert_eq!(params.len(), 2 * (1 + 2 * 15 + 1 + 2 + 2));
        assert_eq!(params[0].shape, [4, 3 * unshuffle * unshuffle, 3, 3]);
        let (found, _, report) = upscaler_from_bytes("x", file_of(&tensors(&params), "")).unwrap();
        assert_eq!((found, report.applied.len()), (Upscaler::Rrdb(config), params.len()));
        let mut wrapped = tensors(&params);
        wrapped.iter_mut().for_each(|t| t.name.insert_str(0, "model."));
        assert_eq!(kind(&wrapped), Kind::Rrdb { config });
    }
    let expected = [
        (1, &["model.0", "model.2", "model.4"][..]),
        (2, &["model.0", "model.3", "model.5", "model.7"]),
        (4, &["model.0", "model.3", "model.6", "model.8", "model.10"]),
    ];
    for (steps, (scale, convolutions)) in expected.into_iter().enumerate() {
        let config = RrdbConfig { scale, unshuffle: 1, ..base };
        let params = rrdb::params(&config);
        let older = old(&params, 2, steps);
        assert_eq!(places(&older), convolutions);
        for bytes in [file_of(&older, ""), pth_of(&older, ""), pth_of(&older, "params_ema")] {
            let (found, mut theirs, report) = upscaler_from_bytes("x", bytes).unwrap();
            assert_eq!((found, report.applied.len()), (Upscaler::Rrdb(config), params.len()));
            assert_eq!(report.applied[0].stored_as.as_deref(), Some("model.0.weight"));
            for param in &params {
                assert_eq!(values(&mut theirs, param), uniform(param), "{}", param.name);
            }
        }
        for missing in &older {
            let left: Vec<Put> = older.iter().filter(|t| t.name != missing.name).cloned().collect();
            assert_eq!(kind(&left), Kind::Rrdb { config }, "{}", missing.name);
        }
    }
    let eight = old(&rrdb::params(&base), 2, 3);
    let factor = UpscalerDoubt::Size(SizeDoubt::Range { what: "factor", got: 8, min: 1, max: 4 });
    assert_eq!(doubt(&eight), factor);
}

#[test]
fn an_rrdb_network_that_lacks_a_tensor_is_still_recognised() {
    let config = RrdbConfig { width: 3, growth: 5, blocks: 1, scale: 4, unshuffle: 1 };
    let all = tensors(&rrdb::params(&config));
    for missing in &all {
        let left: Vec<Put> = all.iter().filter(|t| t.name != missing.name).cloned().collect();
        assert_eq!(kind(&left), Kind::Rrdb { config }, "{}", missing.name);
    }
    assert_eq!(Kind::Rrdb { config }.to_string(), "a Real-ESRGAN upscaler (RRDB, width 3, 1 block, x4)");
}

#[test]
fn networks_of_other_kinds_are_named_with_what_to_use() {
    let upscaler = tensors(&compact::params(&COMPACT));
    let error = vae_from_bytes("film.pth", pth_of(&upscaler, "params")).unwrap_err();
    let expected = "film.pth is a Real-ESRGAN upscaler (Compact, width 4, depth 2, x2), not a SeedVR2 video VAE; \
        use `ema_vae_fp16.safetensors`";
    assert_eq!(error.to_string(), expected);
    let vae = tensors(&vae::params(&VaeConfig::tiny()));
    let error = upscaler_from_bytes("x", file_of(&vae, "")).unwrap_err();
    assert!(matches!(error, LoadError::NotAnUpscaler { .. }));
    says(
        &error.to_string(),
        &["x is a SeedVR2 video VAE with channels", "not an upscaler", ".pth or .safetensors"],
    );
    let error = upscaler_from_bytes("x", file_of(&[], "")).unwrap_err();
    says(&error.to_string(), &["x is of an unknown kind, not an upscaler"]);
    let error = upscaler_from_bytes("x", b"<html>".to_vec()).unwrap_err();
    assert!(matches!(error, LoadError::Checkpoint { source: CheckpointError::Html, .. }));
}

#[test]
fn a_vae_as_a_pth_file_is_one_too() {
    let (_folder, path) = on_disk("vae.pth", pth_of(&tensors(&vae::params(&VaeConfig::tiny())), ""));
    let (config, _, report) = open_vae(&path).unwrap();
    assert_eq!((config, report.applied.len()), (VaeConfig::tiny(), 246));
}

#[test]
fn damaged_values_are_found_when_a_network_is_loaded() {
    let mut bytes = pth_of(&tensors(&compact::params(&COMPACT)), "params");
    let good = uniform_f16(&compact::params(&COMPACT)[0]).data;
    let at = bytes.windows(good.len()).position(|w| w == good).unwrap();
    bytes[at] ^= 1;
    let error = upscaler_from_bytes("x", bytes).unwrap_err();
    let LoadError::Checkpoint { source: CheckpointError::Torch { fault }, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(fault, TorchFault::Zip(ZipFault::Checksum { name: "archive/data/0".to_owned() }));
}

#[test]
fn formats_that_are_no_weights_are_reported_by_name() {
    let mut all = tensors(&compact::params(&COMPACT));
    let last = all.last_mut().unwrap();
    (last.dtype, last.data) = ("F64", vec![0; last.shape[0] * 8]);
    let name = last.name.clone();
    let error = upscaler_from_bytes("x", pth_of(&all, "params")).unwrap_err();
    let LoadError::Incomplete { report, .. } = error else { panic!("{error}") };
    assert_eq!(report.wrong_dtype[0].name, name);
}
