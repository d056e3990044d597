//! `remaster vae`: the network alone, on tensors and stills.

use std::path::Path;
use std::time::Instant;

use remaster_compute::meter::Meter;
use remaster_compute::{Backend, CancelToken, HostTensor, Ops};
use remaster_model::vae::{Decoder, Encoder, Gaussian, Half, VaeConfig, dry_run, load, run_clip};
use remaster_model::{Params, Scope};
use remaster_plan::{Clip, SPACE, TIME, slices};
use remaster_weights::{FormulaParams, open_vae};
use serde::Serialize;

use crate::args::{VaeArgs, VaeCommand};
use crate::error::CliError;
use crate::output::Output;
use crate::tensors::{self, FRAMES, LATENT};

/// What one half of the network took.
#[derive(Debug, Serialize)]
struct Phase {
    phase: &'static str,
    load_seconds: f64,
    seconds: f64,
    /// Bytes of the arena, as the meter said before the run.
    planned_bytes: u64,
    /// Bytes of it that were used.
    peak_bytes: u64,
    /// Multiply-adds of convolutions and linear layers.
    macs: u64,
    /// Multiply-adds of attention.
    attention_macs: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    input: String,
    output: String,
    backend: &'static str,
    dtype: &'static str,
    frames: usize,
    height: usize,
    width: usize,
    phases: Vec<Phase>,
    /// Round trip only: dB against the input, for values in [-1, 1]; absent if equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    psnr: Option<f64>,
}

pub(crate) fn run(command: &VaeCommand, out: &Output) -> Result<(), CliError> {
    let (VaeCommand::Encode(args) | VaeCommand::Decode(args) | VaeCommand::Roundtrip(args)) = command;
    let written = if matches!(command, VaeCommand::Encode(_)) { LATENT } else { FRAMES };
    tensors::check_output(&args.output, written)?;
    if args.output.exists() && !args.yes {
        return Err(CliError::Exists { path: args.output.clone() });
    }
    let mut network = Network::open(args)?;
    let latent = network.config.latent;
    let mut phases = Vec::new();
    let (clip, psnr) = match command {
        VaeCommand::Encode(_) => {
            let x = tensors::read(&args.input, FRAMES, network.config.colours)?;
            let clip = frames_of(&args.input, &x)?;
            let z = network.encode(&x, &mut phases)?;
            tensors::write(&args.output, LATENT, &z)?;
            (clip, None)
        }
        VaeCommand::Decode(_) => {
            let z = tensors::read(&args.input, LATENT, latent)?;
            let y = network.decode(&z, &mut phases)?;
            tensors::write(&args.output, FRAMES, &y)?;
            (frames_of(&args.input, &y)?, None)
        }
        VaeCommand::Roundtrip(_) => {
            let x = tensors::read(&args.input, FRAMES, network.config.colours)?;
            let clip = frames_of(&args.input, &x)?;
            tensors::check_frames(&args.output, clip.frames())?;
            let z = network.encode(&x, &mut phases)?;
            let y = network.decode(&z, &mut phases)?;
            tensors::write(&args.output, FRAMES, &y)?;
            (clip, Some(x.difference(&y).psnr(2.0)).filter(|p| p.is_finite()))
        }
    };
    let report = Report {
        input: args.input.display().to_string(),
        output: args.output.display().to_string(),
        backend: network.backend.name(),
        dtype: args.device.dtype.name(),
        frames: clip.frames(),
        height: clip.height(),
        width: clip.width(),
        phases,
        psnr,
    };
    out.result(&report, || describe(&report));
    Ok(())
}

/// The frames a tensor must have to go through the network.
fn frames_of(path: &Path, x: &HostTensor) -> Result<Clip, CliError> {
    Clip::new(x.shape.t, x.shape.h, x.shape.w)
        .map_err(|source| CliError::Size { path: path.to_owned(), source })
}

fn describe(report: &Report) -> String {
    let mut text = format!(
        "{} x {} x {} ({}, {}) -> {}\n",
        report.frames, report.height, report.width, report.backend, report.dtype, report.output
    );
    for p in &report.phases {
        let rate = 2.0 * (p.macs + p.attention_macs) as f64 / p.seconds / 1e9;
        text += &format!(
            "{:8} {:8.2} s  {:7.2} fps  {:7.1} GFLOP/s  peak {:7.1} MiB (planned {:.1})\n",
            p.phase,
            p.seconds,
            report.frames as f64 / p.seconds,
            rate,
            p.peak_bytes as f64 / 1048576.0,
            p.planned_bytes as f64 / 1048576.0,
        );
    }
    if let Some(psnr) = report.psnr {
        text += &format!("psnr     {psnr:8.2} dB against the input\n");
    }
    text
}

struct Network<'a> {
    config: VaeConfig,
    params: Box<dyn Params>,
    backend: Backend,
    args: &'a VaeArgs,
}

impl<'a> Network<'a> {
    fn open(args: &'a VaeArgs) -> Result<Self, CliError> {
        let backend = args.device.backend()?;
        let (config, params): (_, Box<dyn Params>) = match args.weights.as_str() {
            "formula:tiny" => (VaeConfig::tiny(), Box::new(FormulaParams)),
            "formula:full" => (VaeConfig::full(), Box::new(FormulaParams)),
            word if word.starts_with("formula:") => return Err(CliError::Weights { word: word.to_owned() }),
            file => {
                let (config, params, _) = open_vae(Path::new(file))?;
                (config, Box::new(params))
            }
        };
        Ok(Network { config, params, backend, args })
    }

    fn size<T>(&self, result: Result<T, remaster_plan::PlanError>) -> Result<T, CliError> {
        result.map_err(|source| CliError::Size { path: self.args.input.clone(), source })
    }

    fn encode(&mut self, x: &HostTensor, phases: &mut Vec<Phase>) -> Result<HostTensor, CliError> {
        let lengths = self.size(slices::frames(x.shape.t, self.args.slice))?;
        let config = self.config.clone();
        let build = |scope: &mut Scope<'_>| -> Box<dyn Half> {
            Box::new(Encoder::new(&config, &mut scope.at("encoder")))
        };
        let moments = self.half("encode", &build, x, &lengths, phases)?;
        Ok(Gaussian::new(&moments).mean)
    }

    fn decode(&mut self, z: &HostTensor, phases: &mut Vec<Phase>) -> Result<HostTensor, CliError> {
        // Saturating: an empty tensor may claim any size.
        let t = z.shape.t.checked_sub(1).map_or(0, |n| n.saturating_mul(TIME).saturating_add(1));
        let (h, w) = (z.shape.h.saturating_mul(SPACE), z.shape.w.saturating_mul(SPACE));
        let clip = self.size(Clip::new(t, h, w))?;
        tensors::check_frames(&self.args.output, clip.frames())?;
        let lengths = self.size(slices::latents(z.shape.t, self.args.slice))?;
        let config = self.config.clone();
        let build = |scope: &mut Scope<'_>| -> Box<dyn Half> {
            Box::new(Decoder::new(&config, &mut scope.at("decoder")))
        };
        self.half("decode", &build, z, &lengths, phases)
    }

    /// Meters the run, then does it in an arena of exactly the size the meter found.
    fn half(
        &mut self,
        phase: &'static str,
        build: &dyn Fn(&mut Scope<'_>) -> Box<dyn Half>,
        clip: &HostTensor,
        lengths: &[usize],
        phases: &mut Vec<Phase>,
    ) -> Result<HostTensor, CliError> {
        let (backend, form) = (self.backend, self.args.device.build());
        let dtype = form.dtype;
        let mut meter = Meter::endless(backend.sizing());
        let half = build(&mut Scope::root(self.params.as_mut(), form));
        dry_run(&mut meter, half.as_ref(), dtype, clip.shape, lengths)?;
        let planned_bytes = meter.arena().peak();

        let half = build(&mut Scope::root(self.params.as_mut(), form));
        let started = Instant::now();
        let mut ops = backend.open(planned_bytes, CancelToken::default())?;
        load(ops.as_mut(), half.as_ref())?;
        let load_seconds = started.elapsed().as_secs_f64();
        let started = Instant::now();
        let result = run_clip(ops.as_mut(), half.as_ref(), dtype, clip, lengths)?;
        phases.push(Phase {
            phase,
            load_seconds,
            seconds: started.elapsed().as_secs_f64(),
            planned_bytes,
            peak_bytes: ops.arena().peak(),
            macs: meter.counts().conv_macs + meter.counts().linear_macs,
            attention_macs: meter.counts().attention_macs,
        });
        Ok(result)
    }
}
