//! NaN ends a run on the GPU with the frame and the layer, as on the CPU.

use crate::common::WHOLE;
use crate::common::spoiled::{Spoil, bench};
use crate::device;
use remaster_compute::{Backend, DType};
use remaster_engine::EngineError;
use remaster_model::vae::Direction;
use remaster_plan::{Candidate, Mode};

#[test]
fn the_frame_and_the_layer_are_named() {
    let Some(device) = device("the_frame_and_the_layer_are_named") else { return };
    let cases = [
        ("decoder.conv_out", "decoder.conv_out"),
        ("decoder.up_blocks.1.resnets.0.conv1", "decoder.up_blocks.1.resnets.0.norm2"),
    ];
    for (bad, expected) in cases {
        for (dtype, mode) in [(DType::F32, Mode::Whole), (DType::F16, Mode::Exact { stripes: 2 })] {
            let bench = bench(Direction::Decode, dtype, Backend::Gpu(device), Some(Spoil::nan(bad)));
            match bench.run(&bench.plan(Candidate { mode, ..WHOLE })).unwrap_err() {
                EngineError::NotFinite { frame, layer, .. } => {
                    assert_eq!((frame, layer.as_str()), (0, expected))
                }
                other => panic!("{other}"),
            }
        }
    }
}
