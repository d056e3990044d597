//! The formula weights, bit for bit: the stored checksums come from another implementation.

use std::path::Path;

use remaster_compute::{DType, WeightPart, WeightSpec};
use remaster_model::vae::{self, VaeConfig};
use remaster_model::{Param, Params};
use remaster_weights::{
    FormulaError, FormulaParams, checksum, fill_formula, fill_uniform, formula_value, uniform,
};

/// Lines `name [shape] first=... last=... sum=...`.
fn stored(file: &str) -> Vec<(Param, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(file);
    let parse = |line: &str| {
        let (name, rest) = line.split_once(" [").unwrap();
        let (shape, sums) = rest.split_once("] ").unwrap();
        let shape = shape.split(", ").map(|n| n.parse().unwrap()).collect();
        (Param { name: name.to_owned(), shape }, sums.to_owned())
    };
    std::fs::read_to_string(path).unwrap().lines().map(parse).collect()
}

const FULL: &str = "full_weights_checksum.txt";
const TINY: &str = "tiny_weights_checksum.txt";

#[test]
fn both_networks_have_the_stored_checksums() {
    let mut values = Vec::new();
    for file in [FULL, TINY] {
        for (Param { name, shape }, expected) in stored(file) {
            values.resize(shape.iter().product(), 0.0);
            fill_formula(&name, &shape, 0, &mut values).unwrap();
            assert_eq!(checksum(&values).to_string(), expected, "{file}: {name}");
        }
    }
}

/// By name: the order of execution and the order of the file need not be the same.
#[test]
fn both_networks_list_the_stored_names_and_shapes() {
    let by_name = |mut all: Vec<Param>| {
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    };
    for (config, file, count) in [(VaeConfig::full(), FULL, 250), (VaeConfig::tiny(), TINY, 246)] {
        let expected = by_name(stored(file).into_iter().map(|(param, _)| param).collect());
        assert_eq!(expected.len(), count, "{file}");
        assert_eq!(by_name(vae::params(&config)), expected, "{file}");
    }
}

#[test]
fn uniform_values_are_the_published_ones() {
    #[expect(clippy::excessive_precision, reason = "all digits of the value, as published")]
    let vectors: [(&str, [f32; 4]); 2] = [
        (
            "encoder.conv_in.weight",
            [-0.10803079605102539, -0.6390390396118164, 0.6124707460403442, 0.2698880434036255],
        ),
        ("a", [-0.25653815269470215, 0.8025014400482178, -0.3092048168182373, -0.38799917697906494]),
    ];
    for (name, expected) in vectors {
        let mut values = [0.0; 4];
        fill_uniform(name, 0, &mut values);
        assert_eq!(values, expected);
        for (i, value) in expected.into_iter().enumerate() {
            assert_eq!(uniform(name, i as u64), value);
        }
    }
}

#[test]
fn the_scale_of_a_convolution_is_the_published_one() {
    let name = "encoder.conv_in.weight";
    let scale = f32::from_bits(0x3e45_11a3);
    let value = formula_value(name, &[128, 3, 3, 3, 3], 7).unwrap();
    assert_eq!(value, scale * uniform(name, 7));
}

#[test]
fn the_first_rule_that_fits_is_taken() {
    let u = |name: &str| uniform(name, 5);
    let value = |name: &str, shape: &[usize]| formula_value(name, shape, 5).unwrap();
    assert_eq!(value("a.norm1.weight", &[8]), 1.0 + 0.1 * u("a.norm1.weight"));
    assert_eq!(value("a.norm1.weight", &[8, 3]), u("a.norm1.weight"));
    assert_eq!(value("a.norm1.bias", &[8]), 0.05 * u("a.norm1.bias"));
    assert_eq!(value("a.conv.bias", &[8]), 0.02 * u("a.conv.bias"));
    assert_eq!(value("b.ada.vid.attn_shift", &[8]), 0.2 * u("b.ada.vid.attn_shift"));
    assert_eq!(value("b.ada.vid.attn_scale", &[8]), 1.0 + 0.2 * u("b.ada.vid.attn_scale"));
    assert_eq!(value("b.ada.vid.attn_gate", &[8]), 0.5 * u("b.ada.vid.attn_gate"));
    let none = "blocks.0.attn.rope.rope.freqs";
    assert_eq!(formula_value(none, &[21], 0), Err(FormulaError { name: none.to_owned(), shape: vec![21] }));
}

#[test]
fn a_layer_read_in_pieces_is_the_tensor() {
    let spec = WeightSpec::conv([5, 7], [3; 3], DType::F32);
    let source = FormulaParams.source("decoder.conv_in", spec);
    for (part, name, shape) in [
        (WeightPart::Main, "decoder.conv_in.weight", vec![7, 5, 3, 3, 3]),
        (WeightPart::Bias, "decoder.conv_in.bias", vec![7]),
    ] {
        let whole = crate::support::formula(name, &shape);
        let mut pieces = vec![0.0; whole.len()];
        for (i, piece) in pieces.chunks_mut(11).enumerate() {
            source.read(part, i * 11, piece).unwrap();
        }
        assert_eq!(pieces, whole);
    }
}

#[test]
fn the_checksum_of_nothing_is_nothing() {
    assert_eq!(checksum(&[]).to_string(), "first=0x00000000 last=0x00000000 sum=0x0000000000000000");
}
