//! A network with one layer that does harm.

use std::sync::Arc;

use remaster_compute::{Backend, DType, SourceError};
use remaster_engine::Task;
use remaster_model::vae::{Direction, VaeConfig};
use remaster_model::{Params, Values, Wanted};
use remaster_plan::Clip;
use remaster_weights::FormulaParams;

use super::{Bench, build};

/// What is done to a layer: its values times a number, and one of them is none.
#[derive(Clone)]
pub(crate) struct Spoil {
    pub(crate) layer: String,
    pub(crate) times: f32,
    pub(crate) nan: bool,
}

impl Spoil {
    pub(crate) fn nan(layer: &str) -> Self {
        Spoil { layer: layer.into(), times: 1.0, nan: true }
    }
}

struct Bad {
    good: Arc<dyn Values>,
    how: Spoil,
}

impl Values for Bad {
    fn read(&self, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        self.good.read(start, out)?;
        out.iter_mut().for_each(|v| *v *= self.how.times);
        if self.how.nan && start <= 5 && 5 < start + out.len() {
            out[5 - start] = f32::NAN;
        }
        Ok(())
    }
}

struct Spoiled(Option<Spoil>);

impl Params for Spoiled {
    fn values(&mut self, wanted: &Wanted) -> Arc<dyn Values> {
        let good = FormulaParams.values(wanted);
        match &self.0 {
            Some(how) if wanted.param.name == format!("{}.weight", how.layer) => {
                Arc::new(Bad { good, how: how.clone() })
            }
            _ => good,
        }
    }
}

/// Nine frames of 48 x 32 through the small network.
pub(crate) fn bench(direction: Direction, dtype: DType, backend: Backend, spoil: Option<Spoil>) -> Bench {
    let clip = Clip::new(9, 48, 32).unwrap();
    let mut params = Spoiled(spoil);
    let network = direction.network(&VaeConfig::tiny(), &mut params, build(dtype, true));
    Bench::of(Task::new(network, clip.cells(), backend, dtype))
}
