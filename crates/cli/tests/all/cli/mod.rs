//! The binary as people and scripts use it: arguments in, files and exit codes out.

use std::collections::BTreeMap;
use std::fs;

use remaster_model::vae::{self, VaeConfig};
#[cfg(feature = "gpu")]
use remaster_testkit::no_gpu;
use remaster_testkit::says;
use remaster_weights::{NamedTensor, fill_uniform, read_tensors, write_tensors};
use serde_json::Value;

use crate::desk::{Desk, Run, bytes, formula, testdata};

/// Settings are in the folder itself.
pub(crate) fn desk() -> Desk {
    Desk::with(|command, folder| {
        command.env("XDG_CONFIG_HOME", folder);
    })
}

/// Frames `x` with the formula's noise.
fn frames(desk: &Desk, name: &str, t: usize, h: usize, w: usize) {
    let mut data = vec![0.0; 3 * t * h * w];
    fill_uniform("input/cli", 0, &mut data);
    desk.tensor(name, "x", &[1, 3, t, h, w], data);
}

/// Copies goldens of the repository.
fn goldens(desk: &Desk, names: &[&str]) {
    for name in names {
        let file = format!("{name}.safetensors");
        desk.put(&format!("goldens/{file}"), fs::read(testdata(&file)).unwrap());
    }
}

/// A picture of smooth ramps.
fn picture(width: u32, height: u32, colour: png::ColorType) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    let count = width as usize * height as usize * colour.samples();
    let data: Vec<u8> = (0..count).map(|i| (i * 5 % 251) as u8).collect();
    encoder.write_header().unwrap().write_image_data(&data).unwrap();
    bytes
}

pub(crate) fn tiny_weights() -> Vec<NamedTensor> {
    formula(vae::params(&VaeConfig::tiny()))
}

mod words;

mod habits;

mod doctor;

mod run_vae;

mod models;

mod bench;
