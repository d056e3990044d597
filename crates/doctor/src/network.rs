//! Whole encoder and decoder.

use remaster_compute::HostTensor;
use remaster_engine::{MemoryClip, Task};
use remaster_model::vae::{Direction, Gaussian};
use remaster_plan::{Candidate, Clip, Mode, TIME};
use remaster_weights::FormulaParams;

use crate::{DoctorError, DoctorSettings, Judge};

pub(crate) fn run(judge: &mut Judge<'_>) -> Result<(), DoctorError> {
    let golden = judge.golden;
    let x = golden.video("x")?;
    let z = golden.video("z")?;
    let sliced = |slice| Candidate { slice, ..Candidate::WHOLE };
    let cuts = if let Some(tiling) = golden.tiling() {
        let slice = if golden.name.contains("_sliced") { TIME } else { 0 };
        vec![("_tiled", Candidate { mode: Mode::Blend(tiling), ..sliced(slice) })]
    } else if golden.has("moments_sliced") {
        vec![("_unsliced", sliced(0)), ("_sliced", sliced(TIME))]
    } else {
        vec![("", sliced(0))]
    };
    for (how, cut) in cuts {
        let moments = judge.network(Direction::Encode, &x, cut)?;
        judge.check(&format!("moments{how}"), &moments)?;
        if how.is_empty() {
            let gaussian = Gaussian::new(&moments);
            judge.check("mean", &gaussian.mean)?;
            judge.check("logvar", &gaussian.logvar)?;
        }
        let decoded = judge.network(Direction::Decode, &z, cut)?;
        judge.check(&format!("decoded{how}"), &decoded)?;
    }
    Ok(())
}

impl Judge<'_> {
    /// Encoder or decoder over a clip, cut like `how`.
    fn network(
        &self,
        direction: Direction,
        input: &HostTensor,
        how: Candidate,
    ) -> Result<HostTensor, DoctorError> {
        let shape = input.shape;
        let clip = match direction {
            Direction::Encode => Clip::new(shape.t, shape.h, shape.w),
            Direction::Decode => Clip::of_latents(shape.t, shape.h, shape.w),
        };
        let clip = clip.map_err(|source| self.golden.failed(source))?;
        let DoctorSettings { backend, build, cancel } = self.settings;
        let network = direction.network(&self.golden.config(), &mut FormulaParams, *build);
        let mut task = Task::new(network, clip.cells(), *backend, build.dtype);
        task.settings.cancel = cancel.clone();
        let (mut source, mut sink) = (MemoryClip::source(input.clone()), MemoryClip::sink());
        let run = |plan| task.run(&plan, &mut source, &mut sink, &mut |_| ());
        task.exactly(how).and_then(run).map_err(|source| self.golden.failed(source))?;
        Ok(sink.clip)
    }
}
