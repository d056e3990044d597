//! Transformers of formula weights, and how one is run.

use remaster_compute::{Backend, DType, HostTensor};
use remaster_engine::{MemoryClip, Task};
use remaster_model::Scope;
use remaster_model::dit::{Dit, DitConfig, Text};
use remaster_plan::{Cells, Plan};
use remaster_testkit::Rng;
use remaster_weights::{FormulaParams, uniform};

/// A clip of `[t, h, w]` tokens.
pub(crate) fn task(config: &DitConfig, [t, h, w]: [usize; 3], backend: Backend, dtype: DType) -> Task {
    let mut params = FormulaParams;
    let scope = &mut Scope::root(&mut params, dtype);
    let text = Text::new(config, scope, 9, remaster_model::computed(|i| uniform("text", i as u64)));
    let network = Dit::new(config, scope, text, [h, w], DitConfig::STEP);
    let cells = Cells { steps: t, rows: h * w, columns: 1 };
    let mut task = Task::new(Box::new(network), cells, backend, dtype);
    task.settings.spill = Some(std::env::temp_dir());
    task
}

/// Runs it on random tokens; the arena must peak where the plan said.
pub(crate) fn run(task: &Task, plan: &Plan) -> HostTensor {
    let mut x = HostTensor::zeros(task.input());
    x.data = Rng::new(11).values(x.data.len());
    let (mut source, mut sink) = (MemoryClip::source(x), MemoryClip::sink());
    let used = task.run(plan, &mut source, &mut sink, &mut |_| ()).unwrap();
    assert_eq!(used.device_peak, plan.peaks.device, "{:?}", plan.how);
    sink.clip
}
