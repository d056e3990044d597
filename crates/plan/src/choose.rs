//! Finding the best way that fits. Pure: what a way takes is asked of whoever can run the network on a
//! meter.

use crate::budget::{Budget, Peaks};
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
const SLICES: [usize; 3] = [16, 8, 4];

/// Stripes that are tried, the fastest first.
const STRIPES: [usize; 4] = [4, 16, 64, 256];

/// Which share of the largest tensor may stay on the device, the fastest first. Stages of the network
/// differ by factors of two and four.
const KEPT: [u64; 7] = [1, 2, 4, 8, 16, 64, u64::MAX];

/// Every way that is worth trying, the best first. `largest` is the largest tensor of a slice of 4 frames.
pub fn candidates(
    job: &Job,
    budget: &Budget,
    wish: &Wish,
    largest: u64,
) -> Result<Vec<Candidate>, PlanError> {
    let lengths = match wish.slice {
        Some(n) if !n.is_multiple_of(TIME) => {
            return Err(PlanError::Slice { frames: n, nearest: n.next_multiple_of(TIME) });
        }
        Some(0) if job.open_ended => return Err(PlanError::OpenEnded),
        Some(n) => vec![n],
        None if job.open_ended => SLICES.to_vec(),
        // A clip of one slice has no state.
        None if job.clip.frames() <= SLICES[0] + 1 => [0].into_iter().chain(SLICES).collect(),
        None => SLICES.to_vec(),
    };
    let whole_clip = |n: usize| n != 0 && job.clip.frames() <= n + 1 && !job.open_ended;
    let lengths: Vec<usize> = lengths.into_iter().filter(|n| !whole_clip(*n)).collect();
    let lengths = if lengths.is_empty() { vec![0] } else { lengths };
    let mut list = Vec::new();
    if let None | Some(WishedMode::Whole) = wish.mode {
        list.extend(lengths.iter().map(|slice| whole(*slice)));
        list.extend(
            lengths.iter().filter(|s| **s != 0).map(|s| Candidate { stream_weights: true, ..whole(*s) }),
        );
    }
    if let None | Some(WishedMode::Exact { .. }) = wish.mode {
        let counts = match wish.mode {
            Some(WishedMode::Exact { stripes: Some(n) }) => vec![n.max(1)],
            _ => STRIPES.to_vec(),
        };
        list.extend(exact(&lengths, &counts, budget, largest));
    }
    if let None | Some(WishedMode::SharedStats) = wish.mode {
        list.extend(shared_stats(job, &lengths, budget));
    }
    if let Some(WishedMode::Blend(tiling)) = wish.mode {
        let modes = lengths.iter().map(|slice| Candidate { mode: Mode::Blend(tiling), ..whole(*slice) });
        let near: Vec<Candidate> = modes.collect();
        let far = near
            .iter()
            .flat_map(|c| homes(budget).into_iter().map(|home| Candidate { state: home(0), ..*c }));
        list.extend(near.iter().copied().chain(far));
    }
    Ok(list)
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
/// of the activations; stripes get thinner and weights stream only when that is not enough.
fn exact(lengths: &[usize], counts: &[usize], budget: &Budget, largest: u64) -> Vec<Candidate> {
    let homes = homes(budget);
    // Activations never live further away than the state.
    let pairs: Vec<(Home, Home)> = (0..homes.len())
        .flat_map(|s| (0..=s).map(move |a| (s, a)))
        .map(|(s, a)| (homes[s], homes[a]))
        .collect();
    let mut list = Vec::new();
    for (stripes, stream) in counts.chunks(2).flat_map(|pair| {
        [false, true].into_iter().flat_map(move |stream| pair.iter().map(move |n| (*n, stream)))
    }) {
        for kept in KEPT {
            // Longer slices only while activations stay: they multiply what has to move.
            let lengths = if kept == 1 { lengths } else { &lengths[lengths.len() - 1..] };
            for (slice, (state, activations)) in
                lengths.iter().flat_map(|n| pairs.iter().map(move |p| (*n, *p)))
            {
                let limit = largest / kept;
                list.push(Candidate {
                    mode: Mode::Exact { stripes },
                    slice,
                    activations: if kept == 1 { Rule::DEVICE } else { activations(limit) },
                    state: if slice == 0 { Rule::DEVICE } else { state(limit.min(largest / 64)) },
                    stream_weights: stream || slice == 0,
                });
            }
        }
    }
    list
}

/// Bands: as much of the network as fits runs whole. The estimate on the smaller frame is better the larger
/// that is.
fn shared_stats(job: &Job, lengths: &[usize], budget: &Budget) -> Vec<Candidate> {
    // The stages of large frames are the last of the decoder and the first of the encoder.
    let stages = if job.direction == Direction::Decode { [3, 2, 1] } else { [1, 2, 3] };
    let slice = lengths.last().copied().unwrap_or(0);
    let mut list = Vec::new();
    for (reduce, stage, count) in [2, 4, 8]
        .into_iter()
        .flat_map(|r| stages.into_iter().flat_map(move |s| [4, 16, 64].map(|n| (r, s, n))))
    {
        for home in homes(budget) {
            list.push(Candidate {
                mode: Mode::SharedStats(Bands { stage, count, halo: None, reduce }),
                slice,
                activations: Rule::DEVICE,
                state: if slice == 0 { Rule::DEVICE } else { home(0) },
                stream_weights: true,
            });
        }
    }
    list
}

/// The first way that fits. `cost` runs the network on a meter; it may remember what it measured.
pub fn choose<E: From<PlanError>>(
    job: Job,
    budget: &Budget,
    wish: &Wish,
    cost: &mut dyn FnMut(&Candidate) -> Result<Cost, E>,
) -> Result<Plan, E> {
    let smallest = Candidate { slice: TIME.min(job.clip.frames() - 1), ..whole(0) };
    let largest = cost(&smallest)?.largest;
    let mut better = None;
    let mut least: Option<(Peaks, Rejected)> = None;
    for candidate in candidates(&job, budget, wish, largest)? {
        let Cost { peaks, work, .. } = cost(&candidate)?;
        let Some(lack) = budget.lack(&peaks) else {
            return Ok(Plan { version: VERSION, job, how: candidate, peaks, work, better });
        };
        let rejected = Rejected { candidate, lack };
        better = Some(rejected);
        let weight = |p: &Peaks| p.device.saturating_add(p.host);
        if least.as_ref().is_none_or(|(p, _)| weight(&peaks) < weight(p)) {
            least = Some((peaks, rejected));
        }
    }
    let (lack, smallest) = match least {
        Some((peaks, rejected)) => (rejected.lack.to_string(), budget.describe(&peaks)),
        None => ("nothing was tried".into(), "another mode".into()),
    };
    Err(PlanError::Budget { job: job.to_string(), lack, smallest }.into())
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
    fn cost(c: &Candidate) -> Result<Cost, PlanError> {
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
        Ok(Cost { peaks, largest, ..Cost::default() })
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
            match choose(job(4 * n + 1), &budget, &Wish::default(), &mut cost) {
                Ok(plan) => {
                    prop_assert_eq!(budget.lack(&plan.peaks), None);
                    prop_assert_eq!(plan.peaks, cost(&plan.how).unwrap().peaks);
                }
                Err(error) => {
                    let refused = matches!(error, PlanError::Budget { .. });
                    prop_assert!(refused);
                }
            }
        }

        #[test]
        fn more_memory_never_gives_a_later_candidate(vram in 0u64..6000, more in 0u64..2000) {
            let wish = Wish::default();
            let place = |vram| {
                let budget = Budget::Apart { vram, ram: 9000, disk: 9000 };
                let plan = choose(job(65), &budget, &wish, &mut cost).ok()?;
                candidates(&job(65), &budget, &wish, 1000).unwrap().iter().position(|c| *c == plan.how)
            };
            if let Some(before) = place(vram) {
                prop_assert!(place(vram + more).unwrap() <= before);
            }
        }
    }

    #[test]
    fn whole_comes_first_then_exact_and_blend_only_when_asked() {
        let budget = Budget::Shared { ram: 1, disk: 1 };
        let all = candidates(&job(65), &budget, &Wish::default(), 1000).unwrap();
        let first_exact = all.iter().position(|c| matches!(c.mode, Mode::Exact { .. })).unwrap();
        assert!(all[..first_exact].iter().all(|c| c.mode == Mode::Whole));
        let first_shared = all.iter().position(|c| matches!(c.mode, Mode::SharedStats(_))).unwrap();
        assert!(all[first_exact..first_shared].iter().all(|c| matches!(c.mode, Mode::Exact { .. })));
        assert!(all[first_shared..].iter().all(|c| matches!(c.mode, Mode::SharedStats(_))));
        let tiling = Tiling::new([64, 64], [16, 16]).unwrap();
        let wish = Wish { mode: Some(WishedMode::Blend(tiling)), slice: Some(8) };
        let all = candidates(&job(65), &budget, &wish, 1000).unwrap();
        assert!(all.iter().all(|c| c.mode == Mode::Blend(tiling) && c.slice == 8));
    }

    #[test]
    fn a_plan_survives_its_stored_form() {
        let budget = Budget::Apart { vram: 900, ram: 9000, disk: 9000 };
        let plan = choose(job(65), &budget, &Wish::default(), &mut cost).unwrap();
        assert!(plan.better.is_some());
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}
