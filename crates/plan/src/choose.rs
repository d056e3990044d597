//! Finding the best way that fits. Pure: the caller says what a way takes, which it finds by running the network
//! on a meter. That is slow, so few ways are measured.

use crate::budget::{Budget, Memory, Peaks};
use crate::geometry::{PlanError, TIME};
use crate::plan::{Bands, Candidate, Cost, Direction, Job, Mode, Plan, Rejected, Rule, VERSION};
use crate::tiles::Tiling;

/// What a person may ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Only this way of cutting the frame.
    pub mode: Option<WishedMode>,
    /// Frames per slice, a multiple of 4; 0 for one piece.
    pub slice: Option<usize>,
}

/// A mode by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WishedMode {
    /// No cut.
    Whole,
    /// Stripes; how many, if that is asked for too.
    Exact {
        /// Number of stripes.
        stripes: Option<usize>,
    },
    /// Bands with statistics of the whole frame.
    SharedStats,
    /// Tiles.
    Blend(Tiling),
}

/// Frames per slice that are tried, the fastest first. More than 16 frames gain nothing measurable.
pub const SLICES: [usize; 3] = [16, 8, 4];

/// Stripes that are tried, the fastest first.
const STRIPES: [usize; 4] = [4, 16, 64, 256];

/// Which share of the largest tensor may stay on the device, the fastest first. Stages of the network
/// differ by factors of two and four.
const KEPT: [u64; 7] = [1, 2, 4, 8, 16, 64, u64::MAX];

/// What a way takes within a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// This much, which may still be too much.
    Takes(Cost),
    /// More than is allowed of this memory; how much more was not asked.
    Lacks(Memory),
}

/// Runs the network on a meter: without a budget to the end, else until a memory is too small.
pub(crate) type Meter<'a, E> = dyn FnMut(&Candidate, Option<&Budget>) -> Result<Measured, E> + 'a;

/// Ways from the most memory near the computation to the least: each one takes less there than the one before, and
/// more elsewhere.
type Chain = Vec<Candidate>;

/// Every way that is worth trying, the best first. `largest` is the largest tensor of a slice of 4 frames.
pub fn chains(job: &Job, budget: &Budget, wish: &Wish, largest: u64) -> Result<Vec<Chain>, PlanError> {
    let lengths = lengths(job, wish)?;
    let list = match wish.mode {
        None => {
            let (near, far) = exact(&lengths, &STRIPES, budget, largest);
            // Disk is the slowest: ways that need none come first.
            [whole_frames(&lengths), near, far].concat()
        }
        Some(WishedMode::Whole) => whole_frames(&lengths),
        Some(WishedMode::Exact { stripes }) => {
            let counts = stripes.map_or(STRIPES.to_vec(), |n| vec![n.max(1)]);
            let (near, far) = exact(&lengths, &counts, budget, largest);
            [near, far].concat()
        }
        Some(WishedMode::SharedStats) => shared_stats(job, &lengths, budget),
        Some(WishedMode::Blend(tiling)) => {
            let near: Chain =
                lengths.iter().map(|n| Candidate { mode: Mode::Blend(tiling), ..whole(*n) }).collect();
            let far = |home: Home| near.iter().map(|c| Candidate { state: home(0), ..*c }).collect();
            let far: Vec<Chain> = homes(budget).into_iter().map(far).collect();
            [vec![near], far].concat()
        }
    };
    for candidate in list.iter().flatten() {
        candidate.check(job)?;
    }
    Ok(list)
}

/// Frames per slice that are tried, the longest first.
fn lengths(job: &Job, wish: &Wish) -> Result<Vec<usize>, PlanError> {
    let lengths = match wish.slice {
        Some(n) if !n.is_multiple_of(TIME) => {
            let nearest = n.checked_next_multiple_of(TIME).unwrap_or(n / TIME * TIME);
            return Err(PlanError::Slice { frames: n, nearest });
        }
        Some(0) if job.open_ended => return Err(PlanError::OpenEnded),
        Some(n) => vec![n],
        None if job.open_ended => SLICES.to_vec(),
        // A clip of one slice has no state.
        None if job.clip.frames() <= SLICES[0] + 1 => [0].into_iter().chain(SLICES).collect(),
        None => SLICES.to_vec(),
    };
    let whole_clip = |n: usize| n != 0 && job.clip.frames() - 1 <= n && !job.open_ended;
    let mut lengths: Vec<usize> = lengths.into_iter().filter(|n| !whole_clip(*n)).collect();
    if lengths.is_empty() {
        lengths.push(0);
    }
    // Only what was asked for may be too long for any machine.
    if wish.slice.is_none() {
        let fits = |n: &usize| Candidate { slice: *n, ..Candidate::WHOLE }.check(job).is_ok();
        let shorter: Vec<usize> = lengths.iter().copied().filter(fits).collect();
        lengths = if shorter.is_empty() { lengths } else { shorter };
    }
    Ok(lengths)
}

/// No cut, with weights that stay and with weights that come and go.
fn whole_frames(lengths: &[usize]) -> Vec<Chain> {
    let stay: Chain = lengths.iter().map(|slice| whole(*slice)).collect();
    let stream: Chain = lengths
        .iter()
        .filter(|slice| **slice != 0)
        .map(|slice| Candidate { stream_weights: true, ..whole(*slice) })
        .collect();
    [stay, stream].into_iter().filter(|chain| !chain.is_empty()).collect()
}

/// Everything on the device. Weights of a single slice are needed once: they come and go for free.
fn whole(slice: usize) -> Candidate {
    Candidate { slice, stream_weights: slice == 0, ..Candidate::WHOLE }
}

type Home = fn(u64) -> Rule;

/// Where tensors of more than some bytes can go.
fn homes(budget: &Budget) -> Vec<Home> {
    if budget.is_apart() { vec![Rule::host, Rule::file] } else { vec![Rule::file] }
}

/// Stripes, from the fastest: state leaves the device first, which is touched once per slice, then ever more
/// of the activations; stripes get thinner and weights stream only when that is not enough. First the ways that
/// need no disk, then the others.
fn exact(lengths: &[usize], counts: &[usize], budget: &Budget, largest: u64) -> (Vec<Chain>, Vec<Chain>) {
    let (host, file): (Home, Home) = (Rule::host, Rule::file);
    // Activations never live further away than the state.
    let (near, far) = match budget.is_apart() {
        true => (vec![(host, host)], vec![(file, host), (file, file)]),
        false => (vec![], vec![(file, file)]),
    };
    let order: Vec<(usize, bool)> = counts
        .chunks(2)
        .flat_map(|pair| [false, true].into_iter().flat_map(|stream| pair.iter().map(move |n| (*n, stream))))
        .collect();
    let chain = |(stripes, stream): (usize, bool), (state, activations): (Home, Home)| -> Chain {
        let candidate = |kept: u64, slice: usize| {
            let limit = largest / kept;
            Candidate {
                mode: Mode::Exact { stripes },
                slice,
                activations: if kept == 1 { Rule::DEVICE } else { activations(limit) },
                state: if slice == 0 { Rule::DEVICE } else { state(limit.min(largest / 64)) },
                stream_weights: stream || slice == 0,
            }
        };
        // Longer slices only while activations stay: they multiply what has to move.
        let short = lengths.last().copied().unwrap_or(0);
        let longer = lengths.iter().map(|slice| candidate(1, *slice));
        longer.chain(KEPT[1..].iter().map(|kept| candidate(*kept, short))).collect()
    };
    let all = |pairs: Vec<(Home, Home)>| -> Vec<Chain> {
        order.iter().flat_map(|o| pairs.iter().map(|pair| chain(*o, *pair))).collect()
    };
    (all(near), all(far))
}

/// Bands: as much of the network as fits runs whole. The estimate on the smaller frame is better the larger
/// that is.
fn shared_stats(job: &Job, lengths: &[usize], budget: &Budget) -> Vec<Chain> {
    // The stages of large frames are the last of the decoder and the first of the encoder.
    let stages = if job.direction == Direction::Decode { [3, 2, 1] } else { [1, 2, 3] };
    let slice = lengths.last().copied().unwrap_or(0);
    let mut list = Vec::new();
    for (reduce, stage, count) in [2, 4, 8]
        .into_iter()
        .flat_map(|r| stages.into_iter().flat_map(move |s| [4, 16, 64].map(|n| (r, s, n))))
    {
        let homes = if slice == 0 { vec![] } else { homes(budget) };
        let states = [Rule::DEVICE].into_iter().chain(homes.into_iter().map(|home| home(0)));
        list.extend(states.map(|state| {
            let mode = Mode::SharedStats(Bands { stage, count, halo: None, reduce });
            vec![Candidate { mode, slice, activations: Rule::DEVICE, state, stream_weights: true }]
        }));
    }
    list
}

/// The best way that fits.
pub fn choose<E: From<PlanError>>(
    job: Job,
    budget: &Budget,
    wish: &Wish,
    meter: &mut Meter<'_, E>,
) -> Result<Plan, E> {
    let mut search = Search::new(&job, budget, wish, meter)?;
    if let Some(plan) = search.within(budget)? {
        return Ok(plan);
    }
    let least = search.least(budget)?;
    Err(refusal(job.to_string(), budget, &least).into())
}

/// Looks for a way to do one job.
pub(crate) struct Search<'a, 'm, E> {
    job: &'a Job,
    chains: Vec<Chain>,
    meter: &'a mut Meter<'m, E>,
}

impl<'a, 'm, E: From<PlanError>> Search<'a, 'm, E> {
    pub(crate) fn new(
        job: &'a Job,
        budget: &Budget,
        wish: &Wish,
        meter: &'a mut Meter<'m, E>,
    ) -> Result<Self, E> {
        // Numbers that nothing can hold are refused before the meter sees them.
        chains(job, budget, wish, 0)?;
        let smallest = Candidate { slice: TIME.min(job.clip.frames() - 1), ..whole(0) };
        let largest = match meter(&smallest, None)? {
            Measured::Takes(cost) => cost.largest,
            Measured::Lacks(_) => u64::MAX,
        };
        Ok(Search { job, chains: chains(job, budget, wish, largest)?, meter })
    }

    /// The best way within `budget`, if there is one.
    pub(crate) fn within(&mut self, budget: &Budget) -> Result<Option<Plan>, E> {
        for i in 0..self.chains.len() {
            if let Some((j, cost)) = self.first_that_fits(i, budget)? {
                let how = self.chains[i][j];
                let better = self.before(i, j, budget)?;
                let Cost { peaks, work, .. } = cost;
                return Ok(Some(Plan { version: VERSION, job: self.job.clone(), how, peaks, work, better }));
            }
        }
        Ok(None)
    }

    /// The first way of a chain that fits. The ways before it lack what is near and the ways behind it what is
    /// far, so half of them are left out at a time; the last one goes first, as most chains fail as a whole.
    fn first_that_fits(&mut self, i: usize, budget: &Budget) -> Result<Option<(usize, Cost)>, E> {
        let (mut from, mut to) = (0, self.chains[i].len());
        let mut found = None;
        let mut next = to.saturating_sub(1);
        while from < to {
            match self.fits(i, next, budget)? {
                Ok(cost) => {
                    found = Some((next, cost));
                    to = next;
                }
                Err(memory) if memory == near(budget) => from = next + 1,
                Err(_) => to = next,
            }
            next = from + (to - from) / 2;
        }
        Ok(found)
    }

    /// What a way takes, or the memory that is too small for it.
    fn fits(&mut self, i: usize, j: usize, budget: &Budget) -> Result<Result<Cost, Memory>, E> {
        Ok(match (self.meter)(&self.chains[i][j], Some(budget))? {
            Measured::Lacks(memory) => Err(memory),
            Measured::Takes(cost) => match budget.lack(&cost.peaks) {
                Some(lack) => Err(lack.memory),
                None => Ok(cost),
            },
        })
    }

    /// The way before this one, and what it lacked.
    fn before(&mut self, i: usize, j: usize, budget: &Budget) -> Result<Option<Rejected>, E> {
        let before = match (i, j) {
            (0, 0) => None,
            (i, 0) => self.chains[i - 1].last().copied(),
            (i, j) => Some(self.chains[i][j - 1]),
        };
        let Some(candidate) = before else { return Ok(None) };
        let lack = match (self.meter)(&candidate, None)? {
            Measured::Takes(cost) => budget.lack(&cost.peaks),
            Measured::Lacks(_) => None,
        };
        Ok(lack.map(|lack| Rejected { candidate, lack }))
    }

    /// What the ways take that take the least: near the computation, and within the disk (and host memory) that
    /// is allowed.
    pub(crate) fn least(&mut self, budget: &Budget) -> Result<Vec<Peaks>, E> {
        let thrifty: Vec<usize> = (0..self.chains.len()).filter(|i| self.is_thrifty(*i)).collect();
        let mut least = Vec::new();
        for i in thrifty {
            let last = self.chains[i].len() - 1;
            let peaks = self.peaks(i, last)?;
            least.push(peaks);
            if !far_fits(budget, &peaks) {
                // The last of the chain whose far memory is enough.
                let (mut from, mut to) = (0, last);
                while from < to {
                    let next = from + (to - from) / 2;
                    let peaks = self.peaks(i, next)?;
                    match far_fits(budget, &peaks) {
                        true => {
                            least.push(peaks);
                            from = next + 1;
                        }
                        false => to = next,
                    }
                }
            }
        }
        Ok(least)
    }

    /// Whether no other chain of its kind takes less.
    fn is_thrifty(&self, i: usize) -> bool {
        let Some(last) = self.chains[i].last() else { return false };
        let most = |c: &Candidate| if let Mode::Exact { stripes } = c.mode { stripes } else { 0 };
        let stripes = self.chains.iter().flatten().map(most).max().unwrap_or(0);
        let streams = self.chains.iter().flatten().any(|c| c.stream_weights);
        let thinnest = most(last) == stripes || most(last) == 0;
        thinnest && (last.stream_weights || !streams || matches!(last.mode, Mode::Blend(_)))
    }

    fn peaks(&mut self, i: usize, j: usize) -> Result<Peaks, E> {
        Ok(match (self.meter)(&self.chains[i][j], None)? {
            Measured::Takes(cost) => cost.peaks,
            Measured::Lacks(_) => Peaks { device: u64::MAX, host: u64::MAX, disk: u64::MAX },
        })
    }
}

/// The memory that the computation needs: the device's, or the host's if it computes there.
fn near(budget: &Budget) -> Memory {
    if budget.is_apart() { Memory::Device } else { Memory::Host }
}

/// Whether everything fits but what is near.
fn far_fits(budget: &Budget, peaks: &Peaks) -> bool {
    let far = match *budget {
        Budget::Shared { disk, .. } => Budget::Shared { ram: u64::MAX, disk },
        Budget::Apart { ram, disk, .. } => Budget::Apart { vram: u64::MAX, ram, disk },
    };
    far.lack(peaks).is_none()
}

/// A refusal that names budgets which would do: the one that raises the fewest figures, and the one that needs least
/// memory if that saves a tenth.
pub(crate) fn refusal(job: String, budget: &Budget, least: &[Peaks]) -> PlanError {
    let raised = |p: &Peaks| {
        let (from, to) = (budget.sizes(), budget.raised(p).sizes());
        let more = from.iter().zip(&to).filter(|(a, b)| a < b).count();
        (more, to[0].saturating_add(to[1]), to[2])
    };
    let near = |p: &Peaks| if budget.is_apart() { p.device } else { p.device.saturating_add(p.host) };
    let mut needs = Vec::new();
    if let Some(first) = least.iter().min_by_key(|p| raised(p)) {
        needs.push(budget.raised(first));
        let smallest = least.iter().min_by_key(|p| (near(p), raised(p)));
        needs.extend(smallest.filter(|p| near(p) < near(first) / 10 * 9).map(|p| {
            // What is near may shrink to what this way takes.
            let kind = match *budget {
                Budget::Shared { disk, .. } => Budget::Shared { ram: 0, disk },
                Budget::Apart { ram, disk, .. } => Budget::Apart { vram: 0, ram, disk },
            };
            kind.raised(p)
        }));
    }
    PlanError::Budget { job, allowed: *budget, needs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Clip;
    use proptest::prelude::*;

    fn job(frames: usize) -> Job {
        Job {
            direction: Direction::Decode,
            clip: Clip::new(frames, 480, 864).unwrap(),
            start: 0,
            open_ended: false,
            dtype: "bf16".into(),
            collapse: true,
            numerics: "test".into(),
        }
    }

    /// A cost that falls as more is cut off, like the real one.
    fn cost(c: &Candidate) -> Cost {
        let largest = 1000;
        let frames = if c.slice == 0 { 17 } else { c.slice as u64 };
        let kept = c.activations.device.map_or(largest, |n| n.min(largest));
        let state = if c.slice == 0 { 0 } else { 2000 };
        let stripes = if let Mode::Exact { stripes } = c.mode { stripes as u64 } else { 1 };
        let weights = if c.stream_weights { 50 } else { 500 };
        let staged = if kept < largest { largest / stripes } else { 0 };
        let near = c.state.device.is_none();
        let device = weights + kept * frames / 4 + staged + if near { state } else { 0 };
        let far = 3 * largest + state;
        let host = if c.state.host.is_none() && !near { far } else { 0 };
        let peaks = Peaks { device, host, disk: if c.state.host.is_some() { far } else { 0 } };
        Cost { peaks, largest, ..Cost::default() }
    }

    fn meter(c: &Candidate, within: Option<&Budget>) -> Result<Measured, PlanError> {
        let cost = cost(c);
        Ok(match within.and_then(|budget| budget.lack(&cost.peaks)) {
            Some(lack) => Measured::Lacks(lack.memory),
            None => Measured::Takes(cost),
        })
    }

    proptest! {
        #[test]
        fn a_plan_fits_its_budget_and_a_refusal_names_one_that_does(
            vram in 0u64..6000, ram in 0u64..9000, disk in 0u64..9000, n in 0usize..30, apart: bool,
        ) {
            let budget = match apart {
                true => Budget::Apart { vram, ram, disk },
                false => Budget::Shared { ram, disk },
            };
            match choose(job(4 * n + 1), &budget, &Wish::default(), &mut meter) {
                Ok(plan) => {
                    prop_assert_eq!(budget.lack(&plan.peaks), None);
                    prop_assert_eq!(plan.peaks, cost(&plan.how).peaks);
                    // Ways that need no disk come first.
                    let dry = match budget {
                        Budget::Shared { ram, .. } => Budget::Shared { ram, disk: 0 },
                        Budget::Apart { vram, ram, .. } => Budget::Apart { vram, ram, disk: 0 },
                    };
                    let without = choose(job(4 * n + 1), &dry, &Wish::default(), &mut meter);
                    prop_assert!(without.is_err() || plan.peaks.disk == 0);
                }
                Err(PlanError::Budget { needs, allowed, .. }) => {
                    prop_assert_eq!(allowed, budget);
                    prop_assert!(!needs.is_empty());
                    for need in needs {
                        let plan = choose(job(4 * n + 1), &need, &Wish::default(), &mut meter);
                        prop_assert!(plan.is_ok(), "{need}: {plan:?}");
                    }
                }
                Err(error) => prop_assert!(false, "{error}"),
            }
        }

        #[test]
        fn halves_that_run_together_fit_together(
            vram in 0u64..12000, ram in 0u64..18000, disk in 0u64..18000, n in 0usize..30, apart: bool,
        ) {
            let budget = match apart {
                true => Budget::Apart { vram, ram, disk },
                false => Budget::Shared { ram, disk },
            };
            let both = |budget: &Budget| {
                let jobs = [job(4 * n + 1), job(4 * n + 1)];
                crate::choose_both(&jobs, budget, &Wish::default(), &mut |_, c, within| meter(c, within))
            };
            match both(&budget) {
                Ok([a, b]) => prop_assert_eq!(budget.lack(&a.peaks.with(&b.peaks)), None),
                Err(PlanError::Budget { needs, .. }) => {
                    prop_assert!(!needs.is_empty());
                    for need in needs {
                        prop_assert!(both(&need).is_ok(), "{need}");
                    }
                }
                Err(error) => prop_assert!(false, "{error}"),
            }
        }

        #[test]
        fn more_memory_never_gives_a_worse_way(vram in 0u64..6000, more in 0u64..2000) {
            let wish = Wish::default();
            let place = |vram| {
                let budget = Budget::Apart { vram, ram: 9000, disk: 9000 };
                let plan = choose(job(65), &budget, &wish, &mut meter).ok()?;
                chains(&job(65), &budget, &wish, 1000).unwrap().concat().iter().position(|c| *c == plan.how)
            };
            if let Some(before) = place(vram) {
                prop_assert!(place(vram + more).unwrap() <= before);
            }
        }
    }

    #[test]
    fn whole_comes_first_then_exact_and_what_changes_the_result_only_when_asked() {
        let budget = Budget::Shared { ram: 1, disk: 1 };
        let all = chains(&job(65), &budget, &Wish::default(), 1000).unwrap().concat();
        let first_exact = all.iter().position(|c| matches!(c.mode, Mode::Exact { .. })).unwrap();
        assert!(all[..first_exact].iter().all(|c| c.mode == Mode::Whole));
        assert!(all[first_exact..].iter().all(|c| matches!(c.mode, Mode::Exact { .. })));
        let wish = Wish { mode: Some(WishedMode::SharedStats), slice: None };
        let all = chains(&job(65), &budget, &wish, 1000).unwrap().concat();
        assert!(all.iter().all(|c| matches!(c.mode, Mode::SharedStats(_))));
        let tiling = Tiling::new([64, 64], [16, 16]).unwrap();
        let wish = Wish { mode: Some(WishedMode::Blend(tiling)), slice: Some(8) };
        let all = chains(&job(65), &budget, &wish, 1000).unwrap().concat();
        assert!(all.iter().all(|c| c.mode == Mode::Blend(tiling) && c.slice == 8));
    }

    #[test]
    fn a_plan_survives_its_stored_form() {
        let budget = Budget::Apart { vram: 900, ram: 9000, disk: 9000 };
        let plan = choose(job(65), &budget, &Wish::default(), &mut meter).unwrap();
        assert!(plan.better.is_some());
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}
