//! What a steady slice of the full network costs, as the meter counts it.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use remaster_compute::meter::{Counts, Meter};
use remaster_compute::{Backend, DType, Ops, Shape};
use remaster_model::vae::{Decoder, Encoder, VaeConfig};
use remaster_model::{Build, Network, Pass, Scope, State, load};
use remaster_weights::FormulaParams;

/// Counts of the second slice of a clip, and state bytes behind it.
fn steady(half: &dyn Network, first: Shape, second: Shape) -> (Counts, u64) {
    let mut meter = Meter::endless(Backend::cpu_with(2).sizing());
    load(&mut meter, half).unwrap();
    let mut state = State::new();
    for shape in [first, second] {
        meter.reset_counts();
        let x = meter.alloc(shape, DType::Bf16).unwrap();
        half.forward(&mut Pass { ops: &mut meter, state: &mut state }, x).unwrap();
    }
    (meter.counts(), state.bytes())
}

/// Multiply-adds per pixel and frame, and bytes of state per pixel, are those that are expected.
fn takes(what: &str, (macs, state): (f64, f64), expected: (f64, f64)) {
    println!("{what}: {:.3} M multiply-adds per pixel and frame, {state:.1} B", macs / 1e6);
    let near = |got: f64, expected: f64| (got / expected - 1.0).abs() < 0.005;
    assert!(near(macs, expected.0), "{macs}");
    assert!(near(state, expected.1), "{state}");
}

#[test]
fn encoding_takes_4_46_million_multiply_adds_and_3884_bytes_of_state_per_pixel() {
    let mut params = FormulaParams;
    let encoder = Encoder::new(&VaeConfig::full(), &mut Scope::root(&mut params, DType::Bf16).at("encoder"));
    let (h, w) = (96, 128);
    let (counts, state) = steady(&encoder, Shape::new(5, h, w, 3), Shape::new(4, h, w, 3));
    let pixels = (h * w) as f64;
    let macs = (counts.conv_macs + counts.linear_macs) as f64 / pixels / 4.0;
    takes("encode", (macs, state as f64 / pixels), (4.46e6, 3884.0));
    // Two products of n tokens by n tokens by 512 for one latent frame.
    let tokens = (h / 8 * w / 8) as u64;
    assert_eq!(counts.attention_macs, 2 * tokens * tokens * 512);
}

/// Multiply-adds per output pixel and frame, and state bytes per output pixel, of a steady slice.
fn decoding(collapse: bool) -> (f64, f64) {
    let mut params = FormulaParams;
    let build = Build { dtype: DType::Bf16, collapse };
    let decoder = Decoder::new(&VaeConfig::full(), &mut Scope::root(&mut params, build).at("decoder"));
    let (h, w) = (12, 16);
    let (counts, state) = steady(&decoder, Shape::new(2, h, w, 16), Shape::new(1, h, w, 16));
    let pixels = (64 * h * w) as f64;
    assert_eq!(counts.attention_macs, 2 * ((h * w) as u64).pow(2) * 512);
    ((counts.conv_macs + counts.linear_macs) as f64 / pixels / 4.0, state as f64 / pixels)
}

#[test]
fn decoding_takes_11_78_million_multiply_adds_and_8641_bytes_of_state_per_pixel() {
    takes("decode", decoding(false), (11.78e6, 8641.0));
}

#[test]
fn folded_upsamplers_save_a_fifth_of_the_work_and_a_sixth_of_the_state() {
    takes("decode, folded", decoding(true), (9.254e6, 7313.0));
}
