//! The VAE alone: video to latents, latents to video, or both.

mod report;
mod tensors;
pub(crate) mod video;

use std::path::PathBuf;

pub use report::{PhaseTook, VaeOutcome};

use crate::control::Control;
use crate::device::Device;
use crate::error::Error;
use crate::event::{About, Event, Reporter};
use crate::limits::{Limits, Room};
use crate::machine::host::Machine;
use crate::media::{Size, Source, Target};
use crate::network::Network;
use crate::site::Site;

/// What the VAE does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VaeWork {
    /// Video, images or tensors to latents.
    Encode,
    /// Latents to video, images or tensors.
    Decode,
    /// Both, one after the other.
    Roundtrip,
}

/// A clip for the VAE.
#[derive(Clone, Debug)]
pub struct VaeRequest {
    /// What is done.
    pub work: VaeWork,
    /// Video, image, folder of images, or `-` for y4m on stdin; latents to decode. Tensors work too: a .safetensors file.
    pub input: PathBuf,
    /// Model file, `nano`, `identity`, `formula:tiny` or `formula:full`.
    pub weights: String,
    /// How the input is read.
    pub source: Source,
    /// Video, image, folder, or `-` for y4m on stdout; latents and tensors: .safetensors.
    pub output: PathBuf,
    /// Replace an output that exists.
    pub overwrite: bool,
    /// How video is written.
    pub target: Target,
    /// The size the network works at.
    pub size: Size,
    /// Memory and disk.
    pub limits: Limits,
    /// What computes.
    pub device: Device,
}

/// Runs the VAE over a clip.
pub fn vae(
    request: &VaeRequest,
    machine: &Machine,
    control: &Control,
    events: &mut dyn FnMut(Event),
) -> Result<VaeOutcome, Error> {
    let report = &Reporter::new(events);
    let room = &Room::of_run(machine, Some(&request.output));
    let threads = match video::takes(request) {
        true => Some(video::check(request, room)?),
        false => tensors::check(request).map(|()| None)?,
    };
    report.started("frames", About::default());
    let site = Site::open(&request.device, &request.limits, room, control, Some(report))?;
    if let Some(note) = &site.spill.note {
        report.say(format_args!("note: {note}"));
    }
    let network = Network::of(&request.weights, &site)?;
    match threads {
        Some(threads) => video::run(request, network, threads, report),
        None => tensors::run(request, &network, report),
    }
}
