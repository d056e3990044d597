//! Files on disk made to do harm: opening and reading ends with values or a typed error, and holds no more than a small
//! multiple of the file.

use crate::support::{file_of, place, put};
use remaster_testkit::hostile::attack;
use remaster_weights::{Checkpoint, identify};

#[test]
fn no_file_panics_or_takes_memory_that_it_does_not_have() {
    let (_folder, path) = place("model.safetensors");
    let tensors = [
        put("encoder.conv_in.weight", "F32", &[2, 3], vec![1; 24]),
        put("decoder.conv_out.bias", "F16", &[5], vec![2; 10]),
        put("b", "BF16", &[2, 2], vec![3; 8]),
    ];
    let good = [file_of(&tensors, r#"{"format":"pt"}"#), file_of(&tensors[..1], "")];
    attack("weights", &good, 1 << 20, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        let Ok(checkpoint) = Checkpoint::open(&path) else { return };
        let _ = identify(&checkpoint);
        for tensor in checkpoint.tensors() {
            let mut values = vec![0.0; tensor.elements().min(1000)];
            let _ = checkpoint.read_f32(tensor, 0, &mut values);
        }
    });
}
