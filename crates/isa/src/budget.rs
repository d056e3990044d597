//! The ceilings of whole networks: each op at the ceiling of its fastest kernel, and each byte once.

use std::collections::BTreeMap;

use remaster_compute::WeightSpec;
use remaster_compute::gpu::LayerUse;

use crate::cards::Card;
use crate::ceiling::{Sizes, attention, mixed, normalised, product};
use crate::counts::Counts;
use crate::kernels::{Kernel, layer};
use crate::network::{Task, Workload};

/// A kernel and what a card's compiler makes of it.
pub(crate) type Found<'a> = (&'a Kernel, &'a Counts);

/// Ceiling of one kind of work: the fastest kernel for it, and multiply-adds a second by instructions, those of a pass before
/// it included.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Best {
    pub(crate) kernel: String,
    pub(crate) rate: f64,
    /// The pass that normalises its input first.
    pub(crate) pass: Option<Pass>,
    /// Seconds of a multiply-add, with those of the pass by instructions or by bytes.
    seconds: f64,
    /// Cycles of its loop as NVIDIA's compiler plans them.
    planned: f64,
}

/// A pass that normalises the input of a product, for each multiply-add of the product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pass {
    /// Seconds by instructions.
    issue: f64,
    /// Bytes that it reads and writes.
    bytes: f64,
}

impl Pass {
    /// Before a layer with so many channels of a shortcut; `None` if nothing is normalised or no kernel is known.
    fn of(card: &Card, all: &[Found<'_>], spec: &WeightSpec, shortcut: usize) -> Option<Self> {
        let WeightSpec::Conv { cin, cout, kernel, dtype, .. } = *spec else { return None };
        let taps: usize = kernel.iter().product();
        // With steps of 1 an input has as many pixels as the output.
        let each = cin as f64 / (cout * (cin * taps + shortcut)) as f64;
        let name = format!("norm {dtype}");
        let (kernel, counts) = all.iter().find(|(kernel, _)| kernel.key() == name)?;
        let rate = normalised(card, counts, kernel.text.normalises?);
        Some(Pass { issue: each / rate, bytes: each * (2 * dtype.bytes()) as f64 })
    }

    /// The slower of instructions and bytes.
    fn seconds(&self, card: &Card) -> f64 {
        self.issue.max(self.bytes / (card.bandwidth * 1e9))
    }
}

impl Best {
    /// Of a product by itself, or behind a pass.
    fn new(card: &Card, kernel: String, rate: f64, pass: Option<Pass>, planned: f64) -> Self {
        let alone = 1.0 / rate;
        let issue = alone + pass.map_or(0.0, |pass| pass.issue);
        let seconds = alone + pass.map_or(0.0, |pass| pass.seconds(card));
        Best { kernel, rate: 1.0 / issue, pass, seconds, planned }
    }

    /// The faster one. Where the tensor cores limit several kernels alike, the one whose loop leaves them waiting least.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        match (self.seconds / other.seconds - 1.0).abs() < 1e-3 {
            true => other.planned.total_cmp(&self.planned),
            false => other.seconds.total_cmp(&self.seconds),
        }
    }
}

/// Seconds per megapixel of the film.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    pub(crate) issue: f64,
    pub(crate) bandwidth: f64,
    /// The slower of both, op by op.
    pub(crate) both: f64,
    /// The parts, the slowest first.
    pub(crate) lines: Vec<Line>,
}

/// One kind of work in a network.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) issue: f64,
    pub(crate) bandwidth: f64,
    pub(crate) both: f64,
    pub(crate) best: Option<Best>,
}

/// Name of a task among layers.
fn name(task: &Task) -> String {
    match task {
        Task::Product { spec, used, .. } => layer(spec, *used),
        Task::Attention(width) => format!("attention {width} f16"),
        Task::WindowAttention(width) => format!("window attention {width} f16"),
        Task::Move(name) => (*name).to_owned(),
    }
}

/// The fastest kernel for a task; `None` for one that multiplies nothing. An input that is normalised can be so on the way in or
/// by a pass before a kernel that does not normalise.
pub(crate) fn best(card: &Card, all: &[Found<'_>], task: &Task) -> Option<Best> {
    let alone = fastest(card, all, task, None);
    let passed = match *task {
        Task::Product { spec, used: LayerUse { prologue: true, shortcut: short }, shortcut } => {
            let used = LayerUse { prologue: false, shortcut: short };
            Pass::of(card, all, &spec, shortcut)
                .and_then(|pass| fastest(card, all, &Task::Product { spec, used, shortcut }, Some(pass)))
        }
        _ => None,
    };
    alone.into_iter().chain(passed).max_by(Best::order)
}

/// The fastest kernel for a task as it is, behind a pass if there is one.
fn fastest(card: &Card, all: &[Found<'_>], task: &Task, pass: Option<Pass>) -> Option<Best> {
    let wanted = name(task);
    // Attention has several kernels, told apart by what stands behind the name.
    let several = !matches!(task, Task::Product { .. });
    let is = |behind: &str| behind.is_empty() || (several && behind.starts_with([':', ',']));
    let serves = |layer: &String| layer.strip_prefix(&wanted).is_some_and(is);
    let rate = |(kernel, counts): &Found<'_>| {
        let rate = match (task, &kernel.variant) {
            (Task::Product { spec, shortcut, .. }, Some(variant)) => {
                product(card, counts, variant, Sizes::of(spec, *shortcut)?)
            }
            (Task::Attention(width) | Task::WindowAttention(width), _) => match kernel.text.attends {
                Some(sizes) => attention(card, counts, sizes, *width),
                None => mixed(card, counts),
            },
            _ => None,
        }?;
        let name = match (&kernel.variant, pass) {
            (Some(variant), Some(_)) => variant.after_a_pass().to_string(),
            (Some(variant), None) => variant.to_string(),
            (None, _) => kernel.key().to_owned(),
        };
        Some(Best::new(card, name, rate, pass, counts.inner.planned().unwrap_or(0.0)))
    };
    let rates = all.iter().filter(|(kernel, _)| kernel.layers.iter().any(serves)).filter_map(rate);
    rates.max_by(Best::order)
}

/// The ceiling of a network's work on a card.
pub(crate) fn budget(card: &Card, all: &[Found<'_>], work: &Workload) -> Result<Budget, String> {
    let mut lines: BTreeMap<String, Line> = BTreeMap::new();
    for job in &work.jobs {
        let name = name(&job.task);
        let line = match lines.entry(name.clone()) {
            std::collections::btree_map::Entry::Occupied(line) => line.into_mut(),
            std::collections::btree_map::Entry::Vacant(room) => {
                let best = best(card, all, &job.task);
                if job.macs > 0 && best.is_none() {
                    return Err(format!("no kernel for {name} has a ceiling on {}", card.name));
                }
                room.insert(Line { name, best, ..Line::default() })
            }
        };
        let (macs, memory) = (job.macs as f64 / work.megapixels, card.bandwidth * 1e9);
        let pass = line.best.as_ref().and_then(|best| best.pass);
        let [first, moved] = pass.map_or([0.0; 2], |pass| [macs * pass.issue, macs * pass.bytes / memory]);
        let issue = line.best.as_ref().map_or(0.0, |best| macs / best.rate) - first;
        let bandwidth = job.bytes as f64 / memory / work.megapixels;
        line.issue += issue + first;
        line.bandwidth += bandwidth + moved;
        line.both += issue.max(bandwidth) + first.max(moved);
    }
    let mut lines: Vec<Line> = lines.into_values().collect();
    lines.sort_by(|a, b| b.both.total_cmp(&a.both));
    let sum = |of: fn(&Line) -> f64| lines.iter().map(of).sum();
    let (issue, bandwidth, both) = (sum(|l| l.issue), sum(|l| l.bandwidth), sum(|l| l.both));
    Ok(Budget { issue, bandwidth, both, lines })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cards::named;
    use crate::network::Job;

    #[test]
    fn of_two_kernels_at_the_peak_the_better_planned_one_is_best() {
        let card = named(&["Ada"]).unwrap()[0];
        let best = |rate, planned| Best::new(card, String::new(), rate, None, planned);
        assert!(best(100.0, 20.0).order(&best(100.01, 30.0)).is_gt());
        assert!(best(100.0, 20.0).order(&best(110.0, 30.0)).is_lt());
    }

    /// A product behind a pass wins only if it saves more than the pass takes by its instructions and by its bytes.
    #[test]
    fn a_pass_counts_by_the_slower_of_instructions_and_bytes() {
        let card = named(&["Ada"]).unwrap()[0];
        let best = |rate, pass| Best::new(card, String::new(), rate, pass, 0.0);
        let pass = |issue, seconds| Some(Pass { issue, bytes: seconds * card.bandwidth * 1e9 });
        let alone = best(1.0, None);
        assert!(best(2.0, pass(0.3, 0.1)).order(&alone).is_gt());
        assert!(best(2.0, pass(0.6, 0.1)).order(&alone).is_lt());
        assert!(best(2.0, pass(0.1, 0.6)).order(&alone).is_lt());
        assert!((best(2.0, pass(0.3, 0.4)).rate - 1.25).abs() < 1e-9);
    }

    #[test]
    fn what_only_moves_takes_its_bytes() {
        let card = named(&["Ada"]).unwrap()[0];
        let job = |bytes| Job { task: Task::Move("copy"), macs: 0, bytes };
        let work = Workload { jobs: vec![job(504_000_000), job(504_000_000)], megapixels: 2.0 };
        let found = budget(card, &[], &work).unwrap();
        assert_eq!((found.issue, found.lines.len()), (0.0, 1));
        assert!((found.bandwidth - 0.0005).abs() < 1e-9, "{}", found.bandwidth);
        assert!((found.both - found.bandwidth).abs() < 1e-12);
    }

    #[test]
    fn work_without_a_kernel_is_an_error() {
        let card = named(&["Ada"]).unwrap()[0];
        let work =
            Workload { jobs: vec![Job { task: Task::Attention(512), macs: 1, bytes: 1 }], megapixels: 1.0 };
        assert!(budget(card, &[], &work).is_err());
    }
}
