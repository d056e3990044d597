//! Quantised layers: values against an independent quantiser, and everything that can be wrong with one.

use crate::support::{Put, file_of, has_values, on_disk, put, read_ends, zeros};
use remaster_testkit::hostile::attack;
use remaster_weights::{Checkpoint, CheckpointError, LayerFault, StoredDtype, check};

const LAYERS: &[u8] = include_bytes!("../data/layers.safetensors");
const VALUES: &[u8] = include_bytes!("../data/layers.f32");

/// `tools/checkpoints/check_layers.py` made the file and its values.
#[test]
fn every_format_has_the_values_of_an_independent_quantiser() {
    let (_folder, path) = on_disk("layers", LAYERS);
    let ranges = [(1, 1), (15, 2), (31, 40), (77, 300), (81, 79), (5121, 3000), (10239, 161)];
    for checkpoint in [Checkpoint::from_bytes(LAYERS).unwrap(), Checkpoint::open(&path).unwrap()] {
        has_values(&checkpoint, VALUES, &ranges);
    }
}

#[test]
fn a_layer_is_one_tensor_and_its_scales_are_not_left_over() {
    let checkpoint = Checkpoint::from_bytes(LAYERS).unwrap();
    let nv = checkpoint.get("nv.weight").unwrap();
    assert_eq!((nv.dtype(), nv.shape()), (StoredDtype::Nvfp4, &[130, 80][..]));
    assert!(checkpoint.get("nv.weight_scale_2").unwrap().is_companion());
    let unused = check(&checkpoint, &[]).unused;
    let mut names: Vec<&str> = unused.iter().map(String::as_str).collect();
    names.sort_unstable();
    let expected = ["cast", "listed.weight", "mx.weight", "nv.weight", "nv_small.weight", "old.weight"];
    assert_eq!(names[..6], expected);
    assert_eq!(names[6..], ["plain8.weight", "rotated.weight", "rotated16.weight"]);
}

fn marker(json: &str) -> Put {
    put("l.comfy_quant", "U8", &[json.len()], json)
}

fn fault(tensors: &[Put], metadata: &str) -> LayerFault {
    match Checkpoint::from_bytes(file_of(tensors, metadata)).unwrap_err() {
        CheckpointError::Layer { fault, .. } => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_wrong_with_a_layer_is_named() {
    let weight = || zeros("l.weight", "I8", &[2, 256]);
    let int8 = || marker(r#"{"format":"int8_tensorwise","convrot":true}"#);
    let scale = |shape: &[usize]| zeros("l.weight_scale", "F32", shape);
    assert!(Checkpoint::from_bytes(file_of(&[int8(), weight(), scale(&[2, 1])], "")).is_ok());
    for format in ["asym_w4a8_int8", "convrot_w4a4", "int4"] {
        let wrong = fault(&[marker(&format!(r#"{{"format":"{format}"}}"#)), weight(), scale(&[2, 1])], "");
        assert_eq!(wrong, LayerFault::UnknownFormat(format.to_owned()));
    }
    let missing = |name: &str| LayerFault::Missing(name.to_owned());
    assert_eq!(fault(&[int8(), weight()], ""), missing("l.weight_scale"));
    assert_eq!(fault(&[int8(), scale(&[2, 1])], ""), missing("l.weight"));
    assert!(matches!(fault(&[int8(), weight(), scale(&[3, 1])], ""), LayerFault::Shape { .. }));
    let half = zeros("l.weight_scale", "F16", &[2, 1]);
    let expected = (StoredDtype::F16, StoredDtype::F32);
    assert!(matches!(fault(&[int8(), weight(), half], ""),
        LayerFault::Dtype { dtype, expected: e, .. } if (dtype, e) == expected));
    for group in ["0", "1", "2", "32", "1024", "18446744073709551615"] {
        let json = format!(r#"{{"format":"int8_tensorwise","convrot":true,"convrot_groupsize":{group}}}"#);
        let wrong = Checkpoint::from_bytes(file_of(&[marker(&json), weight(), scale(&[2, 1])], ""));
        assert_eq!(wrong.is_err(), group != "1", "{group}");
    }
    for json in ["", "{", "[]", r#"{"format":1}"#, &" ".repeat(5000)] {
        assert!(matches!(fault(&[marker(json), weight()], ""), LayerFault::Marker(_)), "{json}");
    }
    let nv = || marker(r#"{"format":"nvfp4"}"#);
    let packed = || zeros("l.weight", "U8", &[2, 32]);
    let tiles = || zeros("l.weight_scale", "F8_E4M3", &[128, 4]);
    assert_eq!(fault(&[nv(), packed(), tiles()], ""), missing("l.weight_scale_2"));
    let small = zeros("l.weight_scale", "F8_E4M3", &[2, 4]);
    assert!(matches!(fault(&[nv(), packed(), small], ""), LayerFault::Shape { .. }));
    let odd = zeros("l.weight", "U8", &[2, 7]);
    assert!(matches!(fault(&[nv(), odd, tiles()], ""), LayerFault::Shape { .. }));
    let listed = |json: &str| format!(r#"{{"_quantization_metadata":{json:?}}}"#);
    assert_eq!(fault(&[], &listed(r#"{"layers":{"x":{"format":"mxfp8"}}}"#)), missing("x.weight"));
    assert!(matches!(fault(&[], &listed("7")), LayerFault::Marker(_)));
    // Without a marker nobody knows what whole numbers mean.
    let checkpoint = Checkpoint::from_bytes(file_of(&[weight(), scale(&[2, 1])], "")).unwrap();
    assert!(checkpoint.read_f32(checkpoint.get("l.weight").unwrap(), 0, &mut [0.0]).is_err());
}

/// `REMASTER_HOSTILE_CASES=100000` for the long version.
#[test]
fn mutated_layers_give_a_checkpoint_or_a_typed_error() {
    let tensors = [
        marker(r#"{"format":"int8_tensorwise","convrot":true,"convrot_groupsize":16}"#),
        zeros("l.weight", "I8", &[2, 16]),
        zeros("l.weight_scale", "F32", &[2, 1]),
        zeros("m.weight", "F8_E4M3", &[1, 32]),
        zeros("m.weight_scale", "U8", &[128, 4]),
        zeros("o.weight", "F8_E4M3", &[2, 2]),
        zeros("o.scale_weight", "F32", &[]),
    ];
    let small =
        file_of(&tensors, r#"{"_quantization_metadata":"{\"layers\":{\"m\":{\"format\":\"mxfp8\"}}}"}"#);
    attack("layers", &[small, LAYERS.to_vec()], 1 << 20, |bytes| {
        let Ok(checkpoint) = Checkpoint::from_bytes(bytes.to_vec()) else { return };
        read_ends(&checkpoint);
    });
}
