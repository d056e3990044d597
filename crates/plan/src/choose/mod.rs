//! Finding the best way that fits. Pure: the caller says what a way takes, which it finds by running the network
//! on a meter. That is slow, so few ways are measured.

use std::mem::discriminant;

use crate::budget::{Budget, Memory, Peaks};
use crate::description::{INPUT, OUTPUT};
use crate::geometry::PlanError;
use crate::plan::{Bands, Candidate, Cost, Job, Mode, Plan, Rejected, Tiers, VERSION};
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

/// Bands that are tried of a network that can be cut into them, the fastest first.
const BANDS: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// Which share of the largest tensor may stay on the device, the fastest first. Stages of the network
/// differ by factors of two and four.
const KEPT: [u64; 7] = [1, 2, 4, 8, 16, 64, u64::MAX];

/// Tokens of a group that are tried, the fastest first: products of fewer than 2,048 rows read their weights more often
/// than they use them. The last one stands for one window at a time.
const GROUPS: [usize; 4] = [8192, 4096, 2048, 1];

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

/// Every way that is worth trying, the best first. `largest` is the largest tensor of the shortest slice.
pub fn chains(job: &Job, budget: &Budget, wish: &Wish, largest: u64) -> Result<Vec<Chain>, PlanError> {
    let lengths = lengths(job, wish)?;
    let list = match wish.mode {
        None if job.network.reach.is_some() => {
            [whole_frames(job, &lengths), bands(job, &lengths, &BANDS)].concat()
        }
        Some(WishedMode::Exact { stripes }) if job.network.reach.is_some() => {
            bands(job, &lengths, &stripes.map_or(BANDS.to_vec(), |n| vec![n.max(1)]))
        }
        None => {
            let (near, far) = exact(job, &lengths, &STRIPES, budget, largest);
            // Disk is the slowest: ways that need none come first.
            [whole_frames(job, &lengths), near, far].concat()
        }
        Some(WishedMode::Whole) => whole_frames(job, &lengths),
        Some(WishedMode::Exact { stripes }) => {
            let counts = stripes.map_or(STRIPES.to_vec(), |n| vec![n.max(1)]);
            let (near, far) = exact(job, &lengths, &counts, budget, largest);
            [near, far].concat()
        }
        Some(WishedMode::SharedStats) if job.network.levels < 2 => {
            return Err(PlanError::Mode { network: job.network.name.clone(), mode: "shared-stats" });
        }
        Some(WishedMode::SharedStats) => shared_stats(job, &lengths, budget),
        Some(WishedMode::Blend(tiling)) => {
            let near: Chain =
                lengths.iter().map(|n| Candidate { mode: Mode::Blend(tiling), ..whole(job, *n) }).collect();
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
    if job.network.step.is_none() {
        return Ok(vec![0]);
    }
    let [frames, ..] = job.picture();
    if let Some(n) = wish.slice {
        job.network.lengths(job.cells, n, 0)?;
    }
    let lengths = match wish.slice {
        Some(0) if job.open_ended => return Err(PlanError::OpenEnded),
        Some(n) => vec![n],
        // Frames that do not see each other gain nothing from company.
        None if job.network.unit() == 1 => vec![1],
        None if job.open_ended => SLICES.to_vec(),
        // A clip of one slice has no state.
        None if frames <= SLICES[0] + 1 => [0].into_iter().chain(SLICES).collect(),
        None => SLICES.to_vec(),
    };
    let whole_clip = |n: usize| n != 0 && frames.saturating_sub(1) <= n && !job.open_ended;
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

/// No cut, with weights that stay and with weights that come and go, read ahead or not.
fn whole_frames(job: &Job, lengths: &[usize]) -> Vec<Chain> {
    let grouped = |c: Candidate| groups(job).iter().map(move |group| Candidate { group: *group, ..c });
    let stay: Chain = lengths.iter().flat_map(|slice| grouped(whole(job, *slice))).collect();
    let stream = |read_ahead: bool| -> Chain {
        let stay = stay.iter().filter(|c| !c.stream_weights);
        stay.map(|c| Candidate { stream_weights: true, read_ahead, ..*c }).collect()
    };
    let (ahead, behind) = (stream(true), stream(false));
    [stay, ahead, behind].into_iter().filter(|chain| !chain.is_empty()).collect()
}

/// Groups that are tried; 0 for a network without.
fn groups(job: &Job) -> &'static [usize] {
    if job.network.groups { &GROUPS } else { &[0] }
}

/// Everything on the device. Weights of a single slice are needed once, so they come and go; without reading ahead,
/// which would take 14 % more memory for 17 frames of 256 x 256. A network without time sees clip after clip.
fn whole(job: &Job, slice: usize) -> Candidate {
    Candidate { slice, stream_weights: is_once(job, slice), group: groups(job)[0], ..Candidate::WHOLE }
}

/// Whether every weight is used once in a run.
fn is_once(job: &Job, slice: usize) -> bool {
    slice == 0 && job.network.step.is_some()
}

/// Bands of rows, one after the other through the whole network, with everything on the device.
fn bands(job: &Job, lengths: &[usize], counts: &[usize]) -> Vec<Chain> {
    let slice = lengths.last().copied().unwrap_or(0);
    let band = |stripes: &usize| Candidate { mode: Mode::Exact { stripes: *stripes }, ..whole(job, slice) };
    vec![counts.iter().map(band).collect()]
}

type Home = fn(u64) -> Tiers;

/// Where tensors of more than some bytes can go.
fn homes(budget: &Budget) -> Vec<Home> {
    if budget.is_apart() { vec![Tiers::host, Tiers::file] } else { vec![Tiers::file] }
}

/// Stripes, from the fastest: state leaves the device first, which is touched once per slice, then ever more
/// of the activations; stripes get thinner and weights stream only when that is not enough. First the ways that
/// need no disk, then the others.
fn exact(
    job: &Job,
    lengths: &[usize],
    counts: &[usize],
    budget: &Budget,
    largest: u64,
) -> (Vec<Chain>, Vec<Chain>) {
    let (host, file): (Home, Home) = (Tiers::host, Tiers::file);
    // Activations never live further away than the state.
    let (near, far) = match budget.is_apart() {
        true => (vec![(host, host)], vec![(file, host), (file, file)]),
        false => (vec![], vec![(file, file)]),
    };
    let order: Vec<(usize, bool)> = counts
        .chunks(2)
        .flat_map(|pair| [false, true].into_iter().flat_map(|stream| pair.iter().map(move |n| (*n, stream))))
        .collect();
    // The tokens themselves are the first that leave; groups get small last.
    let (middle, smallest) = match job.network.groups {
        true => (GROUPS[2], GROUPS[3]),
        false => (0, 0),
    };
    let chain = |(stripes, stream): (usize, bool), (state, activations): (Home, Home)| -> Chain {
        let candidate = |kept: u64, slice: usize| {
            let limit = largest / kept;
            Candidate {
                mode: Mode::Exact { stripes },
                slice,
                activations: if kept == 1 { Tiers::DEVICE } else { activations(limit) },
                state: if slice == 0 { Tiers::DEVICE } else { state(limit.min(largest / 64)) },
                stream_weights: stream || is_once(job, slice),
                // Stripes are for memory that holds nothing larger than a layer.
                read_ahead: false,
                group: if kept == u64::MAX { smallest } else { middle },
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
    // The levels of large frames are the last of a network that grows and the first of one that shrinks.
    let grows = job.network.scale[OUTPUT] > job.network.scale[INPUT];
    let mut levels: Vec<usize> = (1..job.network.levels).collect();
    if grows {
        levels.reverse();
    }
    let slice = lengths.last().copied().unwrap_or(0);
    let mut list = Vec::new();
    let levels = &levels;
    for (reduce, level, count) in
        [2, 4, 8].into_iter().flat_map(|r| levels.iter().flat_map(move |l| [4, 16, 64].map(|n| (r, *l, n))))
    {
        let homes = if slice == 0 { vec![] } else { homes(budget) };
        let states = [Tiers::DEVICE].into_iter().chain(homes.into_iter().map(|home| home(0)));
        list.extend(states.map(|state| {
            let mode = Mode::SharedStats(Bands { level, count, halo: None, reduce });
            vec![Candidate { mode, slice, state, stream_weights: true, ..Candidate::WHOLE }]
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
        let unit = job.network.unit();
        let smallest = Candidate { slice: if job.picture()[0] > unit { unit } else { 0 }, ..whole(job, 0) };
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
        // Neither tiles nor bands stream.
        let alike = |c: &&Candidate| discriminant(&c.mode) == discriminant(&last.mode);
        let streams = self.chains.iter().flatten().filter(alike).any(|c| c.stream_weights);
        let thinnest = most(last) == stripes || most(last) == 0;
        thinnest && !last.read_ahead && (last.stream_weights || !streams)
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
    budget.with_near(u64::MAX).lack(peaks).is_none()
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
        let smallest = smallest.filter(|p| near(p) < near(first) / 10 * 9);
        // What is near may shrink to what this way takes.
        needs.extend(smallest.map(|p| budget.with_near(0).raised(p)));
    }
    PlanError::Budget { job, allowed: *budget, needs }
}

#[cfg(test)]
mod tests;
