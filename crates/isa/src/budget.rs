//! The ceilings of whole networks: each op at the ceiling of its fastest kernel, and each byte once.

use std::collections::BTreeMap;

use crate::cards::Card;
use crate::ceiling::{Sizes, attention, mixed, product};
use crate::counts::Counts;
use crate::kernels::{Kernel, layer};
use crate::network::{Task, Workload};

/// A kernel and what a card's compiler makes of it.
pub(crate) type Found<'a> = (&'a Kernel, &'a Counts);

/// Ceiling of one kind of work: the fastest kernel for it, and multiply-adds a second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Best {
    pub(crate) kernel: String,
    pub(crate) rate: f64,
    /// Cycles of its loop as NVIDIA's compiler plans them.
    planned: f64,
}

impl Best {
    /// The faster one. Where the tensor cores limit several kernels alike, the one whose loop leaves them waiting least.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        match (self.rate / other.rate - 1.0).abs() < 1e-3 {
            true => other.planned.total_cmp(&self.planned),
            false => self.rate.total_cmp(&other.rate),
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

/// The fastest kernel for a task; `None` for one that multiplies nothing.
pub(crate) fn best(card: &Card, all: &[Found<'_>], task: &Task) -> Option<Best> {
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
        let name = kernel.variant.map_or_else(|| kernel.key().to_owned(), |variant| variant.to_string());
        Some(Best { kernel: name, rate, planned: counts.inner.planned().unwrap_or(0.0) })
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
        let issue = line.best.as_ref().map_or(0.0, |best| job.macs as f64 / best.rate) / work.megapixels;
        let bandwidth = job.bytes as f64 / (card.bandwidth * 1e9) / work.megapixels;
        line.issue += issue;
        line.bandwidth += bandwidth;
        line.both += issue.max(bandwidth);
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
        let best = |rate, planned| Best { kernel: String::new(), rate, planned };
        assert!(best(100.0, 20.0).order(&best(100.01, 30.0)).is_gt());
        assert!(best(100.0, 20.0).order(&best(110.0, 30.0)).is_lt());
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
