//! NaN and infinity end a run with the frame and the layer, in every mode and on every CPU path.

use crate::common::spoiled::{Spoil, bench};
use crate::common::{WHOLE, build};
use remaster_compute::{Backend, CpuPath, DType};
use remaster_engine::EngineError;
use remaster_model::vae::Direction;
use remaster_plan::{Bands, Candidate, Mode, Tiers, Tiling};

/// One of each mode.
fn ways() -> [Candidate; 4] {
    let blend = Mode::Blend(Tiling { tile: [32, 32], overlap: [16, 16] });
    let shared = Mode::SharedStats(Bands { level: 2, count: 2, halo: None, reduce: 1 });
    [
        WHOLE,
        Candidate { mode: Mode::Exact { stripes: 3 }, slice: 4, state: Tiers::file(0), ..WHOLE },
        Candidate { mode: blend, slice: 4, ..WHOLE },
        Candidate { mode: shared, ..WHOLE },
    ]
}

fn named(error: EngineError) -> (usize, String, DType) {
    match error {
        EngineError::NotFinite { frame, layer, dtype } => (frame, layer, dtype),
        other => panic!("{other}"),
    }
}

#[test]
fn a_bad_weight_in_the_last_layer_is_named_in_every_mode() {
    let cases = [(Direction::Decode, "decoder.conv_out"), (Direction::Encode, "encoder.conv_out")];
    for (direction, layer) in cases {
        let bench = bench(direction, DType::F32, Backend::cpu_with(2), Some(Spoil::nan(layer)));
        for how in ways() {
            let (frame, at, _) = named(bench.run(&bench.plan(how)).unwrap_err());
            assert_eq!((frame, at.as_str()), (0, layer), "{how:?}");
        }
    }
}

#[test]
fn a_bad_weight_in_the_middle_is_named_by_the_normalisation_behind_it_on_every_path() {
    let bad = "decoder.up_blocks.1.resnets.0.conv1";
    for path in CpuPath::all() {
        for dtype in [DType::F32, DType::Bf16, DType::F16] {
            let backend = Backend::Cpu { threads: 2, path };
            let bench = bench(Direction::Decode, dtype, backend, Some(Spoil::nan(bad)));
            // Every mode where it is fast, one elsewhere.
            let modes = if path == CpuPath::detect() && dtype == DType::F32 { 0..4 } else { 1..2 };
            for how in &ways()[modes] {
                let (frame, layer, _) = named(bench.run(&bench.plan(*how)).unwrap_err());
                let expected = "decoder.up_blocks.1.resnets.0.norm2";
                assert_eq!((frame, layer.as_str()), (0, expected), "{path} {dtype} {how:?}");
            }
        }
    }
}

#[test]
fn a_bad_value_of_the_input_is_the_inputs_fault_and_its_frame_is_named() {
    for direction in [Direction::Decode, Direction::Encode] {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut bench = bench(direction, DType::F32, Backend::cpu_with(2), None);
            let frame = bench.clip.data.len() / bench.clip.shape.t;
            bench.clip.data[2 * frame + 17] = value;
            for how in ways() {
                let error = bench.run(&bench.plan(how)).unwrap_err();
                assert!(matches!(error, EngineError::BadInput { frame: 2 }), "{how:?}: {error}");
            }
        }
    }
}

/// The third latent stands for frames 5 to 8.
#[test]
fn an_overflow_of_f16_names_its_frame_and_the_format_to_use() {
    let cases = [(Direction::Decode, "decoder.conv_in", 2), (Direction::Encode, "encoder.conv_in", 5)];
    for (direction, layer, from) in cases {
        let times = Spoil { layer: layer.into(), times: 64.0, nan: false };
        let mut bench = bench(direction, DType::F16, Backend::cpu_with(2), Some(times));
        let frame = bench.clip.data.len() / bench.clip.shape.t;
        bench.clip.data[from * frame..(from + 1) * frame].fill(60_000.0);
        for how in ways() {
            let error = bench.run(&bench.plan(how)).unwrap_err();
            let text = error.to_string();
            let (at, _, dtype) = named(error);
            assert_eq!((at, dtype), (5, DType::F16), "{how:?}");
            assert!(text.contains("--dtype bf16") && text.contains("frame 5"), "{text}");
        }
    }
}

#[test]
fn nothing_is_found_in_a_good_run() {
    for dtype in [DType::F32, DType::Bf16, DType::F16] {
        let bench = bench(Direction::Decode, dtype, Backend::cpu_with(2), None);
        assert_eq!(bench.task.settings.dtype, build(dtype, true).dtype);
        ways().into_iter().for_each(|how| drop(bench.run(&bench.plan(how)).unwrap()));
    }
}
