//! The VAE alone: video to latents, latents to video, or both.

mod report;
mod tensors;
pub(crate) mod video;

use std::path::PathBuf;

use remaster_media::Format;
pub use report::{PhaseTook, VaeOutcome};

use crate::device::Device;
use crate::error::Error;
use crate::event::About;
use crate::job::{Context, Job, Known, Prepare};
use crate::limits::{Limits, Room};
use crate::media::{Goal, Size, Source, Target};
use crate::network::Network;
use crate::plan::Total;
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
    /// Model file, `identity`, `formula:tiny` or `formula:full`.
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

/// Opens VAE and clip and plans both networks. The job runs them and writes what they make.
impl Prepare for VaeRequest {
    type Job = Job<VaeOutcome>;

    fn prepare(self, &Context { machine, control, report }: &Context<'_, '_>) -> Result<Self::Job, Error> {
        let room = &Room::of_run(machine, Some(&self.output));
        let threads = match video::takes(&self) {
            true => Some(video::check(&self, room)?),
            false => tensors::check(&self).map(|()| None)?,
        };
        report.started("frames", About::default());
        let site = Site::open(&self.device, &self.limits, room, control, Some((false, report)))?;
        if let Some(note) = &site.spill.note {
            report.say(format_args!("note: {note}"));
        }
        let network = Network::of(&self.weights, &site)?;
        match threads {
            Some(threads) => video::prepare(self, network, threads, report),
            None => tensors::prepare(self, network, report),
        }
    }
}

impl VaeRequest {
    /// Frames of this format are written to the output.
    fn goal<'a>(&'a self, format: &'a Format, counted: bool) -> Goal<'a> {
        Goal { path: &self.output, format, counted, overwrite: self.overwrite }
    }

    /// What is known when the networks are planned.
    fn known(&self, notes: &[String], total: Total) -> Known {
        Known { output: Some(self.output.clone()), notes: notes.to_vec(), total: Some(total) }
    }
}
