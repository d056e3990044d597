//! Whole encoder and decoder.

use remaster_compute::meter::Meter;
use remaster_compute::{ComputeError, HostTensor, Ops};
use remaster_model::Scope;
use remaster_model::vae::{Decoder, Encoder, Gaussian, Half, dry_run, load, run_clip};
use remaster_plan::slices;
use remaster_weights::FormulaParams;

use crate::{DoctorError, Judge, Settings};

pub(crate) fn run(judge: &mut Judge<'_>) -> Result<(), DoctorError> {
    let golden = judge.golden;
    let x = golden.video("x")?;
    let z = golden.video("z")?;
    if golden.has("moments_sliced") {
        for (how, length) in [("unsliced", 0), ("sliced", 4)] {
            let moments = judge.half("encoder", &x, length)?;
            judge.compare(&format!("moments_{how}"), &moments, &golden.video(&format!("moments_{how}"))?);
            let decoded = judge.half("decoder", &z, length)?;
            judge.compare(&format!("decoded_{how}"), &decoded, &golden.video(&format!("decoded_{how}"))?);
        }
    } else {
        let moments = judge.half("encoder", &x, 0)?;
        judge.compare("moments", &moments, &golden.video("moments")?);
        let gaussian = Gaussian::new(&moments);
        judge.compare("mean", &gaussian.mean, &golden.video("mean")?);
        judge.compare("logvar", &gaussian.logvar, &golden.video("logvar")?);
        let decoded = judge.half("decoder", &z, 0)?;
        judge.compare("decoded", &decoded, &golden.video("decoded")?);
    }
    Ok(())
}

impl Judge<'_> {
    /// One half over a clip, in slices of `length` frames (0 for uncut), in an arena as large as the
    /// meter says it must be.
    fn half(&self, which: &str, clip: &HostTensor, length: usize) -> Result<HostTensor, DoctorError> {
        let golden = &self.golden.name;
        let cut = if which == "encoder" { slices::frames } else { slices::latents };
        let lengths = cut(clip.shape.t, length).map_err(|_| crate::GoldenError::Shape {
            name: golden.clone(),
            tensor: which.to_owned(),
            shape: vec![clip.shape.t, clip.shape.h, clip.shape.w, clip.shape.c],
        })?;
        self.compute(which, clip, &lengths)
            .map_err(|source| DoctorError::Compute { golden: golden.clone(), source })
    }

    fn compute(&self, which: &str, clip: &HostTensor, lengths: &[usize]) -> Result<HostTensor, ComputeError> {
        let Settings { backend, build, cancel } = self.settings;
        let dtype = build.dtype;
        let config = self.golden.config();
        let half_of = || -> Box<dyn Half> {
            let mut params = FormulaParams;
            let mut scope = Scope::root(&mut params, *build);
            match which {
                "encoder" => Box::new(Encoder::new(&config, &mut scope.at("encoder"))),
                _ => Box::new(Decoder::new(&config, &mut scope.at("decoder"))),
            }
        };
        let mut meter = Meter::endless(backend.sizing());
        let half = half_of();
        dry_run(&mut meter, half.as_ref(), dtype, clip.shape, lengths)?;

        let half = half_of();
        let mut ops = backend.open(meter.arena().peak(), cancel.clone())?;
        load(ops.as_mut(), half.as_ref())?;
        run_clip(ops.as_mut(), half.as_ref(), dtype, clip, lengths)
    }
}
