//! Two halves of a network that are there at the same time.

use crate::budget::{Budget, Peaks};
use crate::choose::{Measured, Search, Wish, refusal};
use crate::geometry::PlanError;
use crate::plan::{Candidate, Job, Plan};

/// The encoder has a third of the work and of the memory; more of it if that is too little.
const SHARES: [(u64, u64); 3] = [(1, 3), (1, 2), (2, 3)];

/// As the meter of one job, told which of two it measures.
type Meters<'a, E> = dyn FnMut(usize, &Candidate, Option<&Budget>) -> Result<Measured, E> + 'a;

/// Plans for an encoder and a decoder within one budget. The encoder gets a share and the decoder what is left; if no
/// share will do, one of them gets as little as it can live with. `meter` is told which of the two it measures.
pub fn choose_both<E: From<PlanError>>(
    jobs: &[Job; 2],
    budget: &Budget,
    wish: &Wish,
    meter: &mut Meters<'_, E>,
) -> Result<[Plan; 2], E> {
    let mut within = |i: usize, budget: &Budget| {
        Search::new(&jobs[i], budget, wish, &mut |c: &Candidate, b: Option<&Budget>| meter(i, c, b))?
            .within(budget)
    };
    for (part, of) in SHARES {
        if let Some(encode) = within(0, &budget.share(part, of))?
            && let Some(decode) = within(1, &budget.less(&encode.peaks))?
        {
            return Ok([encode, decode]);
        }
    }
    let half = budget.share(1, 2);
    let mut least = |i: usize| {
        Search::new(&jobs[i], budget, wish, &mut |c: &Candidate, b: Option<&Budget>| meter(i, c, b))?
            .least(&half)
    };
    let (encoder, decoder) = (least(0)?, least(1)?);
    let pairs = || encoder.iter().flat_map(|e| decoder.iter().map(move |d| (e, d)));
    for (_, d) in pairs().filter(|(e, d)| budget.lack(&e.with(d)).is_none()) {
        let mut within = |i: usize, budget: &Budget| {
            Search::new(&jobs[i], budget, wish, &mut |c: &Candidate, b: Option<&Budget>| meter(i, c, b))?
                .within(budget)
        };
        if let Some(encode) = within(0, &budget.less(d))?
            && let Some(decode) = within(1, &budget.less(&encode.peaks))?
        {
            return Ok([encode, decode]);
        }
    }
    let sums: Vec<Peaks> = pairs().map(|(e, d)| e.with(d)).collect();
    let Job { clip, dtype, .. } = &jobs[0];
    let (frames, height, width) = (clip.frames(), clip.height(), clip.width());
    let job = format!("a round trip of {frames} x {height} x {width} in {dtype}");
    Err(refusal(job, budget, &sums).into())
}

/// What each of two halves may use when it is planned anew: what it has, and half of what is left.
pub fn divide(budget: &Budget, [encode, decode]: &[Plan; 2]) -> [Budget; 2] {
    let left = budget.less(&encode.peaks).less(&decode.peaks).share(1, 2);
    [left.plus(&encode.peaks), left.plus(&decode.peaks)]
}
