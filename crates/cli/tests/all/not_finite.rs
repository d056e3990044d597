//! Values that are NaN or infinite end a run with exit code 6 (weights) or 3 (input), name what is bad and leave no output.

use std::collections::BTreeMap;

use remaster_weights::{fill_uniform, read_tensors, write_tensors};

use crate::cli::desk;
use crate::desk::{Desk, testdata};

fn frames(desk: &Desk, bad: Option<f32>) {
    let mut data = vec![0.0; 3 * 5 * 32 * 32];
    fill_uniform("input/cli", 0, &mut data);
    if let Some(bad) = bad {
        // Channel 0, frame 3.
        data[3 * 32 * 32 + 7] = bad;
    }
    desk.tensor("x.safetensors", "x", &[1, 3, 5, 32, 32], data);
}

#[test]
fn a_poisoned_weight_ends_with_6_in_every_mode_and_leaves_no_output() {
    let (desk, nano) = (desk(), testdata("nano.safetensors"));
    frames(&desk, None);
    desk.works(&format!("vae encode x.safetensors -o z.safetensors --weights {}", nano.display()));
    let mut tensors = read_tensors(&nano).unwrap();
    let weight = tensors.iter_mut().find(|t| t.name == "decoder.conv_out.weight").unwrap();
    weight.data[3] = f32::NAN;
    let metadata = BTreeMap::from([("norm_num_groups".to_owned(), "4".to_owned())]);
    write_tensors(&desk.join("bad.safetensors"), &tensors, &metadata).unwrap();
    let modes =
        ["", "--mode exact --stripes 2", "--mode blend --tile 16 --overlap 8", "--dtype bf16", "--dtype f16"];
    for mode in modes {
        let line = format!("vae decode z.safetensors -o out.safetensors --weights bad.safetensors {mode}");
        let run = desk.run(&line);
        let words = &run.ends(6, &["frame 0", "decoder.conv_out", "remaster models verify"]).stderr;
        assert_eq!(words.contains("--dtype bf16"), mode == "--dtype f16", "{words}");
        let left = desk.names();
        assert!(!left.iter().any(|name| name.contains("out")), "{mode}: {left:?}");
    }
}

#[test]
fn a_bad_value_of_the_input_ends_with_3_and_names_its_frame() {
    let desk = desk();
    for bad in [f32::NAN, f32::INFINITY] {
        frames(&desk, Some(bad));
        let nano = testdata("nano.safetensors");
        let run =
            desk.run(&format!("vae encode x.safetensors -o out.safetensors --weights {}", nano.display()));
        run.ends(3, &["frame 3 of the input"]);
        assert!(!desk.join("out.safetensors").exists());
    }
}
