//! Whole encoder and decoder.

use remaster_compute::HostTensor;
use remaster_engine::{EngineError, MemoryClip, Task};
use remaster_model::vae::{Direction, Gaussian};
use remaster_plan::{Candidate, Clip, Mode, TIME};
use remaster_weights::FormulaParams;

use crate::{DoctorError, Judge};

pub(crate) fn run(judge: &mut Judge<'_>) -> Result<(), DoctorError> {
    let golden = judge.golden;
    let x = golden.video("x")?;
    let z = golden.video("z")?;
    let sliced = |slice| Candidate { slice, ..Candidate::WHOLE };
    if let Some(tiling) = golden.tiling() {
        let slice = if golden.name.contains("_sliced") { TIME } else { 0 };
        let how = Candidate { mode: Mode::Blend(tiling), ..sliced(slice) };
        let moments = judge.network(Direction::Encode, &x, how)?;
        judge.compare("moments_tiled", &moments, &golden.video("moments_tiled")?);
        let decoded = judge.network(Direction::Decode, &z, how)?;
        judge.compare("decoded_tiled", &decoded, &golden.video("decoded_tiled")?);
    } else if golden.has("moments_sliced") {
        for (how, length) in [("unsliced", 0), ("sliced", TIME)] {
            let moments = judge.network(Direction::Encode, &x, sliced(length))?;
            judge.compare(&format!("moments_{how}"), &moments, &golden.video(&format!("moments_{how}"))?);
            let decoded = judge.network(Direction::Decode, &z, sliced(length))?;
            judge.compare(&format!("decoded_{how}"), &decoded, &golden.video(&format!("decoded_{how}"))?);
        }
    } else {
        let moments = judge.network(Direction::Encode, &x, sliced(0))?;
        judge.compare("moments", &moments, &golden.video("moments")?);
        let gaussian = Gaussian::new(&moments);
        judge.compare("mean", &gaussian.mean, &golden.video("mean")?);
        judge.compare("logvar", &gaussian.logvar, &golden.video("logvar")?);
        let decoded = judge.network(Direction::Decode, &z, sliced(0))?;
        judge.compare("decoded", &decoded, &golden.video("decoded")?);
    }
    Ok(())
}

impl Judge<'_> {
    /// Encoder or decoder over a clip, cut like `how`.
    fn network(
        &self,
        direction: Direction,
        clip: &HostTensor,
        how: Candidate,
    ) -> Result<HostTensor, DoctorError> {
        self.compute(direction, clip, how)
            .map_err(|source| DoctorError::Compute { golden: self.golden.name.clone(), source })
    }

    fn compute(
        &self,
        direction: Direction,
        input: &HostTensor,
        how: Candidate,
    ) -> Result<HostTensor, EngineError> {
        let shape = input.shape;
        let clip = match direction {
            Direction::Encode => Clip::new(shape.t, shape.h, shape.w)?,
            Direction::Decode => Clip::of_latents(shape.t, shape.h, shape.w)?,
        };
        let settings = self.settings;
        let config = self.golden.config();
        let (backend, build) = (settings.backend, settings.build);
        let network = direction.network(&config, &mut FormulaParams, build);
        let mut task = Task::new(network, clip.cells(), backend, build.dtype);
        task.settings.cancel = settings.cancel.clone();
        let plan = task.exactly(how)?;
        let (mut source, mut sink) = (MemoryClip::source(input.clone()), MemoryClip::sink());
        task.run(&plan, &mut source, &mut sink, &mut |_| ())?;
        Ok(sink.clip)
    }
}
