//! What a layer can be made of: a matrix without bias, rows of a shared tensor, plain vectors, computed values.

use std::sync::Arc;

use remaster_compute::{DType, Weight, WeightPart, WeightSpec};
use remaster_model::{Origin, Param, Params, Scope, computed, listed};
use remaster_weights::{Checkpoint, CheckpointParams, FormulaParams, check, formula_value};

use crate::support::{Put, checkpoint};

const DIM: usize = 4;

fn linear(cout: usize) -> WeightSpec {
    WeightSpec::Linear { cin: DIM, cout, dtype: DType::F32 }
}

fn rows(name: &str, n: usize, all: usize) -> Origin {
    Origin::Rows(name.into(), n * DIM..(n + 1) * DIM, all)
}

/// A block as transformers have them.
fn block(params: &mut dyn Params, all: usize) -> Vec<Weight> {
    let mut root = Scope::root(params, DType::F32);
    let mut scope = root.at("blocks.0");
    let mut made: Vec<Weight> = (0..3)
        .map(|n| {
            let bias = rows("qkv.bias", n, all);
            scope.made_of(&format!("qkv.{n}"), linear(DIM), rows("qkv.weight", n, all), Some(bias))
        })
        .collect();
    made.push(scope.made_of("out", linear(DIM), Origin::Tensor("out.weight".into()), None));
    made.push(scope.vector("ada.vid.attn_shift", 6));
    let table = Origin::Computed(computed(|i| i as f32 * 0.5));
    made.push(scope.made_of("table", WeightSpec::Vector { len: 5 }, table, None));
    made
}

fn read(weight: &Weight, part: WeightPart) -> Vec<f32> {
    let spec = weight.spec();
    let mut out = vec![9.0; if part == WeightPart::Main { spec.main_len() } else { spec.bias_len() }];
    weight.read(part, 0, &mut out).unwrap();
    out
}

fn expected() -> Vec<Param> {
    let param = |name: &str, shape: &[usize]| Param { name: format!("blocks.0.{name}"), shape: shape.into() };
    vec![
        param("qkv.weight", &[12, 4]),
        param("qkv.bias", &[12]),
        param("out.weight", &[4, 4]),
        param("ada.vid.attn_shift", &[6]),
    ]
}

/// A checkpoint that holds these tensors, whose values count from 0.
fn file(tensors: &[Param]) -> Checkpoint {
    let put = |Param { name, shape }: &Param| {
        let data = (0..shape.iter().product::<usize>()).flat_map(|i| (i as f32).to_le_bytes()).collect();
        Put { name: name.clone(), dtype: "F32", shape: shape.clone(), data }
    };
    checkpoint(&tensors.iter().map(put).collect::<Vec<_>>())
}

#[test]
fn a_tensor_that_weights_share_is_listed_once_and_computed_values_not_at_all() {
    assert_eq!(listed(|params| drop(block(params, 12))), expected());
    assert!(check(&file(&expected()), &expected()).is_complete());
}

#[test]
fn each_weight_gets_its_own_rows() {
    let made = block(&mut CheckpointParams::new(Arc::new(file(&expected()))), 12);
    let from = |start: usize, n: usize| (start..start + n).map(|i| i as f32).collect::<Vec<_>>();
    for (n, weight) in made[..3].iter().enumerate() {
        assert_eq!(weight.name(), format!("blocks.0.qkv.{n}"));
        assert_eq!(read(weight, WeightPart::Main), from(16 * n, 16));
        assert_eq!(read(weight, WeightPart::Bias), from(4 * n, 4));
        // A piece from the middle, and one that would reach into the next weight's rows.
        let mut piece = [0.0; 3];
        weight.read(WeightPart::Main, 5, &mut piece).unwrap();
        assert_eq!(piece[..], from(16 * n + 5, 3)[..]);
        assert!(weight.read(WeightPart::Main, 14, &mut piece).is_err());
    }
    let both = |n: usize| [WeightPart::Main, WeightPart::Bias].map(|part| read(&made[n], part));
    assert_eq!((both(3), both(4)), ([from(0, 16), vec![0.0; 4]], [from(0, 6), vec![]]));
    assert_eq!(read(&made[5], WeightPart::Main), [0.0, 0.5, 1.0, 1.5, 2.0]);
}

#[test]
fn the_formula_gives_rows_the_values_of_the_whole_tensor() {
    let made = block(&mut FormulaParams, 12);
    for (n, weight) in made[..3].iter().enumerate() {
        let value = |i| formula_value("blocks.0.qkv.weight", &[12, 4], i).unwrap();
        assert_eq!(read(weight, WeightPart::Main), (16 * n..16 * n + 16).map(value).collect::<Vec<_>>());
    }
    let shift = |i| formula_value("blocks.0.ada.vid.attn_shift", &[6], i).unwrap();
    assert_eq!(read(&made[4], WeightPart::Main), (0..6).map(shift).collect::<Vec<_>>());
}

#[test]
fn rows_outside_a_tensor_are_in_the_report_and_an_error_when_read() {
    // The network thinks of a tensor of 9 rows and takes 12.
    let wanted = listed(|params| drop(block(params, 9)));
    let stored: Vec<Param> = expected()
        .into_iter()
        .map(|mut param| {
            param.shape[0] = if param.name.contains("qkv") { 9 } else { param.shape[0] };
            param
        })
        .collect();
    let checkpoint = file(&stored);
    let report = check(&checkpoint, &wanted);
    assert!(!report.is_complete());
    let wrong: Vec<_> =
        report.wrong_shape.iter().map(|w| (w.name.as_str(), w.stored[0], w.expected[0])).collect();
    assert_eq!(wrong, [("blocks.0.qkv.weight", 9, 12), ("blocks.0.qkv.bias", 9, 12)]);

    let checkpoint = Arc::new(checkpoint);
    for params in [&mut CheckpointParams::new(checkpoint) as &mut dyn Params, &mut FormulaParams] {
        let made = block(params, 9);
        assert!(made[0].read(WeightPart::Main, 0, &mut [0.0]).is_ok());
        let error = made[2].read(WeightPart::Main, 0, &mut [0.0]).unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(why, "tensor `blocks.0.qkv.weight` has 9 rows; 8..12 were asked for");
    }
}
