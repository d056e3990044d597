//! A network of another kind: tokens instead of pixels, no time, no state. It is described, planned, measured, cut and
//! run by the same engine as the VAE.

use std::sync::Arc;

use remaster_compute::{
    AttentionDesc, Backend, ComputeError, DType, HostTensor, LinearDesc, Shape, Tensor, Weight, WeightSpec,
};
use remaster_engine::{EngineError, MemoryClip, Task};
use remaster_model::{Module, Network, Pass};
use remaster_plan::{Budget, Candidate, Cells, Mode, PlanError, Tiers, Wish, WishedMode};
use remaster_testkit::{Noise, Rng};

const WIDTH: usize = 32;

/// `x + out(attention(qkv(x)))` with two heads, then a projection: a transformer block in small. Tokens are rows.
struct Block {
    qkv: [Weight; 3],
    out: Weight,
    project: Weight,
}

impl Block {
    fn new() -> Self {
        let linear = |name: &str, seed, cout| {
            let spec = WeightSpec::Linear { cin: WIDTH, cout, dtype: DType::F32 };
            Weight::new(name, spec, Arc::new(Noise { seed, scale: 0.2, centre: 0.0 }))
        };
        let qkv = [("q", 1), ("k", 3), ("v", 5)].map(|(name, seed)| linear(name, seed, WIDTH));
        Block { qkv, out: linear("out", 7, WIDTH), project: linear("project", 9, 8) }
    }
}

impl Module for Block {
    fn weights(&self, f: &mut dyn FnMut(&Weight)) {
        self.qkv.iter().chain([&self.out, &self.project]).for_each(f);
    }
}

impl Network for Block {
    fn name(&self) -> &'static str {
        "tokens"
    }

    fn channels(&self) -> [usize; 2] {
        [WIDTH, 8]
    }

    fn scale(&self) -> [usize; 2] {
        [1, 1]
    }

    fn step(&self) -> Option<[usize; 2]> {
        None
    }

    /// `[windows, tokens, 1, c]` to `[windows, tokens, 1, 8]`.
    fn forward(&self, pass: &mut Pass<'_>, x: Tensor) -> Result<Tensor, ComputeError> {
        let [q, k, v] = &self.qkv;
        let (q, k, v) = (linear(pass, &x, q, None)?, linear(pass, &x, k, None)?, linear(pass, &x, v, None)?);
        let seen = pass.ops.alloc(x.shape(), x.dtype())?;
        let (qv, kv, vv, output) = (q.view(), k.view(), v.view(), seen.view());
        pass.ops.attention(&AttentionDesc { q: qv, k: kv, v: vv, heads: 2, scale: 0.25, output })?;
        drop((q, k, v));
        let x = linear(pass, &seen, &self.out, Some(x))?;
        linear(pass, &x, &self.project, None)
    }
}

/// Into a new tensor, or added to one.
fn linear(
    pass: &mut Pass<'_>,
    x: &Tensor,
    weight: &Weight,
    to: Option<Tensor>,
) -> Result<Tensor, ComputeError> {
    let shape = Shape { c: weight.spec().bias_len(), ..x.shape() };
    let accumulate = to.is_some();
    let y = to.map_or_else(|| pass.ops.alloc(shape, x.dtype()), Ok)?;
    let (input, output) = (x.view(), y.view());
    pass.ops.linear(&LinearDesc { input, weight, accumulate, sums: None, output })?;
    Ok(y)
}

fn task(cells: Cells) -> (Task, HostTensor) {
    let mut task = Task::new(Box::new(Block::new()), cells, Backend::cpu_with(2), DType::F32);
    task.settings.spill = Some(std::env::temp_dir());
    let mut x = HostTensor::zeros(task.input());
    x.data = Rng::new(11).values(x.data.len());
    (task, x)
}

#[test]
fn tokens_are_planned_cut_and_run_to_the_bit() {
    let (task, x) = task(Cells { steps: 3, rows: 517, columns: 1 });
    let run = |how: Candidate| {
        let plan = task.exactly(how).unwrap();
        let (mut source, mut sink) = (MemoryClip::source(x.clone()), MemoryClip::sink());
        let used = task.run(&plan, &mut source, &mut sink, &mut |_| ()).unwrap();
        assert_eq!(used.device_peak, plan.peaks.device, "{how:?}");
        (sink.clip, plan)
    };
    let (whole, plan) = run(Candidate::WHOLE);
    let (tokens, width) = (3 * 517, WIDTH as u64);
    assert_eq!(plan.work.macs, tokens * width * (4 * width + 8));
    assert_eq!(plan.work.attention_macs, 2 * tokens * 517 * width);
    for (stripes, activations) in [(1, Tiers::host(0)), (7, Tiers::host(1 << 16)), (64, Tiers::file(0))] {
        let mode = Mode::Exact { stripes };
        let how = Candidate { mode, activations, stream_weights: true, ..Candidate::WHOLE };
        let (cut, smaller) = run(how);
        assert_eq!(cut, whole, "{how:?}");
        assert!(smaller.peaks.device < plan.peaks.device, "{how:?}");
    }
    // Within less memory than the whole takes, the planner finds such a way itself.
    let budget = Budget::Apart { vram: plan.peaks.device / 3, ram: 1 << 30, disk: 1 << 30 };
    let found = task.planner().plan(&budget, &Wish::default()).unwrap();
    assert!(matches!(found.how.mode, Mode::Exact { .. }) && found.how.slice == 0);
    assert_eq!(run(found.how).0, whole);
}

#[test]
fn what_the_network_does_not_have_is_refused_by_name() {
    let (task, _) = task(Cells { steps: 1, rows: 64, columns: 1 });
    let budget = Budget::Shared { ram: 1 << 30, disk: 0 };
    let wish = Wish { mode: Some(WishedMode::SharedStats), slice: None };
    let refused = task.planner().plan(&budget, &wish);
    assert!(
        matches!(refused, Err(EngineError::Plan(PlanError::Mode { network, .. })) if network == "tokens")
    );
}
