//! The networks with weights of a formula, which are as wide as the published ones.

use std::time::Instant;

use remaster_compute::DType;
use remaster_engine::Task;
use remaster_model::Build;
use remaster_model::dit::DitConfig;
use remaster_model::vae::{Direction, VaeConfig};
use remaster_plan::{Candidate, Clip, Plan, bytes};
use remaster_weights::{FormulaParams, fill_uniform};
use serde::Serialize;

use super::clock::Clock;
use super::excuse;
use crate::{Loaded, Samples, timed, weight_bytes};
use remaster::Error;
use remaster::machine::calibrate::subjects::Site;
use remaster::transformer::{Size, Transformer};

const DTYPE: DType = DType::F16;
const FRAMES: usize = 5;
/// Height and width of the frames that are tried.
const SIZES: [[usize; 2]; 8] =
    [[32, 32], [64, 64], [128, 128], [256, 256], [384, 640], [720, 1280], [1080, 1920], [2160, 3840]];
/// The first of them should not take longer.
const FIRST_SECONDS: f64 = 0.5;
/// Timed runs, and one before them.
const RUNS: u16 = 2;
/// Estimates are that much too low at worst.
const DOUBT: f64 = 1.5;
/// Blocks of the transformer that are measured: one of each kind of windows. All others are like these.
const BLOCKS: usize = 2;

/// A network to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Decoder,
    Encoder,
    Transformer,
}

impl Which {
    pub(crate) const ALL: [Which; 3] = [Which::Decoder, Which::Transformer, Which::Encoder];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Which::Decoder => "VAE decoder",
            Which::Encoder => "VAE encoder",
            Which::Transformer => "3B transformer",
        }
    }

    fn task(self, site: &Site, [height, width]: [usize; 2]) -> Result<Task, Error> {
        let build = Build { dtype: DTYPE, collapse: true };
        let half = |direction: Direction| -> Result<Task, Error> {
            let clip = Clip::new(FRAMES, height, width).map_err(|source| Error::Sizes { source })?;
            let network = direction.network(&VaeConfig::full(), &mut FormulaParams, build);
            Ok(Task::new(network, clip.cells(), site.backend, build.dtype))
        };
        let mut task = match self {
            Which::Encoder => half(Direction::Encode)?,
            Which::Decoder => half(Direction::Decode)?,
            Which::Transformer => {
                let size = Size::new(FRAMES, height, width)?;
                Transformer::open("formula:3b")?.cut(Some(BLOCKS)).task(&size, site.backend, build)
            }
        };
        task.settings.cancel = site.cancel.clone();
        Ok(task)
    }

    /// Blocks that were measured, and all of them.
    fn blocks(self) -> Option<[usize; 2]> {
        (self == Which::Transformer).then_some([BLOCKS, DitConfig::dit_3b().layers])
    }
}

/// What was measured.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct Network {
    pub network: &'static str,
    pub dtype: &'static str,
    pub frames: usize,
    pub height: usize,
    pub width: usize,
    /// Of a transformer: how many were measured, and how many it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<[usize; 2]>,
    pub load_seconds: f64,
    pub samples: Samples,
    /// Of the fastest run; for a transformer with all its blocks.
    pub seconds_per_megapixel: f64,
    /// The least that the card could reach, where it is known, and the share of it that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<f64>,
}

/// What estimates rest on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// Multiply-adds in a second.
    pub(crate) macs: f64,
    /// Weights made and loaded in a second.
    weights: f64,
}

impl Rates {
    /// With the rate at which this machine makes up values.
    pub(crate) fn new(macs: f64) -> Self {
        let mut values = vec![0.0; 1 << 20];
        let started = Instant::now();
        fill_uniform("input/bench", 0, &mut values);
        // Converting, laying out and sending them takes about as long again.
        let weights = values.len() as f64 / started.elapsed().as_secs_f64().max(1e-6) / 2.0;
        Rates { macs, weights }
    }

    fn run_seconds(&self, plan: &Plan) -> f64 {
        (plan.work.macs + plan.work.attention_macs) as f64 / self.macs
    }

    fn load_seconds(&self, task: &Task) -> f64 {
        weight_bytes(task) as f64 / DTYPE.bytes() as f64 / self.weights
    }
}

/// A network at some size.
struct Fit {
    task: Task,
    plan: Plan,
    size: [usize; 2],
}

impl Fit {
    fn new(which: Which, site: &Site, size: [usize; 2]) -> Result<Self, Error> {
        let task = which.task(site, size)?;
        let plan = task.exactly(Candidate::WHOLE)?;
        Ok(Fit { task, plan, size })
    }
}

/// What a network may take.
#[derive(Clone, Copy)]
pub(crate) struct Allowed {
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
}

/// Measures a small clip, then the largest that memory and time allow. Says why not if none of them does.
pub(crate) fn measure(
    which: Which,
    site: &Site,
    clock: &Clock,
    rates: Rates,
    allowed: Allowed,
) -> Result<Result<Network, String>, Error> {
    let started = clock.seconds();
    let [smallest, larger @ ..] = SIZES;
    let mut fit = Fit::new(which, site, smallest)?;
    for size in larger {
        let next = Fit::new(which, site, size)?;
        if rates.run_seconds(&next.plan) > FIRST_SECONDS || next.plan.peaks.device > allowed.bytes {
            break;
        }
        fit = next;
    }
    if fit.plan.peaks.device > allowed.bytes {
        let (needed, free) = (bytes(fit.plan.peaks.device), bytes(allowed.bytes));
        return Ok(Err(format!("needs {needed} of memory, {free} are there for it")));
    }
    let runs = f64::from(1 + RUNS);
    let needed = DOUBT * (rates.load_seconds(&fit.task) + runs * rates.run_seconds(&fit.plan));
    if needed > allowed.seconds {
        return Ok(Err(format!("may take {needed:.0} s, {:.0} s are left for it", allowed.seconds.max(0.0))));
    }
    let small = run(which, fit)?;
    // By what was measured now, loading included.
    let (load, macs) = (small.0.load_seconds, small.1 as f64 / small.0.samples.min);
    let rates = Rates { macs, ..rates };
    let left = || allowed.seconds - (clock.seconds() - started) - DOUBT * load;
    let area = |size: [usize; 2]| size[0] * size[1];
    for size in SIZES.into_iter().rev().filter(|s| area(*s) > small.0.height * small.0.width) {
        let fit = Fit::new(which, site, size)?;
        let seconds = runs * rates.run_seconds(&fit.plan);
        if fit.plan.peaks.device > allowed.bytes || DOUBT * seconds > left() {
            continue;
        }
        match run(which, fit) {
            Ok((network, _)) => return Ok(Ok(network)),
            // The small clip was measured. Where it was memory, a smaller one than this may do.
            Err(error) => drop(excuse(error)?),
        }
        if clock.left(1.0) <= 0.0 {
            break;
        }
    }
    Ok(Ok(small.0))
}

/// What was measured, and the multiply-adds of a run.
fn run(which: Which, Fit { task, plan, size: [height, width] }: Fit) -> Result<(Network, u64), Error> {
    let mut loaded = Loaded::new(&task, &plan)?;
    // The first run also compiles kernels.
    let load_seconds = loaded.seconds + loaded.pass()?;
    let samples = timed(0, RUNS, false, &|_| (), || loaded.pass())?;
    let blocks = which.blocks();
    let all = blocks.map_or(1.0, |[measured, all]| all as f64 / measured as f64);
    let megapixels = (FRAMES * height * width) as f64 / 1e6;
    let network = Network {
        network: which.name(),
        dtype: DTYPE.name(),
        frames: FRAMES,
        height,
        width,
        blocks,
        load_seconds,
        seconds_per_megapixel: samples.min * all / megapixels,
        samples,
        ceiling: None,
        reached: None,
    };
    Ok((network, plan.work.macs + plan.work.attention_macs))
}
