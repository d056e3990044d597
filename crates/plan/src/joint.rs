//! Several networks within one budget.
//!
//! Networks of one *turn* are there at the same time: what they take adds up. Turns follow one another, and each
//! has the whole budget.

use crate::budget::{Budget, Peaks};
use crate::choose::{Measured, Search, Wish, WishedMode, refusal};
use crate::geometry::PlanError;
use crate::plan::{Candidate, Job, Plan};

/// Parts of an even share that each network but the last is offered in turn. The first of two has a third of the
/// memory, as an encoder has a third of the work of encoder and decoder; more if that is too little.
const SHARES: [(u64, u64); 3] = [(2, 3), (1, 1), (4, 3)];

/// As the meter of one job, told which one it measures.
type Meters<'a, E> = dyn FnMut(usize, &Candidate, Option<&Budget>) -> Result<Measured, E> + 'a;

/// Plans for any number of networks within one budget, in the order of the jobs. `turns` has the jobs; `meter` is told
/// which of them it measures, counted through all turns. If several turns do not fit, the one that needs the most is named,
/// with budgets in which all of them fit.
pub fn choose_joint<E: From<PlanError>>(
    turns: &[&[Job]],
    budget: &Budget,
    wish: &Wish,
    meter: &mut Meters<'_, E>,
) -> Result<Vec<Plan>, E> {
    let (mut plans, mut refused): (Vec<Plan>, Option<PlanError>) = (Vec::new(), None);
    let mut first = 0;
    for jobs in turns {
        let mut meters = |i: usize, how: &Candidate, budget: Option<&Budget>| meter(first + i, how, budget);
        match (Turn { jobs, wish, meter: &mut meters }).plan(budget)? {
            Ok(found) => plans.extend(found),
            Err(error) => refused = Some(refused.map_or_else(|| error.clone(), |known| both(known, &error))),
        }
        first += jobs.len();
    }
    match refused {
        Some(error) => Err(error.into()),
        None => Ok(plans),
    }
}

/// Two turns that do not fit, as one refusal: the job that needs more, and budgets that are enough for both.
fn both(known: PlanError, other: &PlanError) -> PlanError {
    let (PlanError::Budget { job, allowed, needs }, PlanError::Budget { job: next, needs: more, .. }) =
        (&known, other)
    else {
        return known;
    };
    let bytes = |needs: &[Budget]| {
        needs.first().map_or(u64::MAX, |need| need.sizes().iter().fold(0, |sum, n| sum.saturating_add(*n)))
    };
    let job = if bytes(needs) < bytes(more) { next } else { job };
    // The nearest of both, and those that need least where it counts.
    let ends = |list: &[Budget]| list.first().copied().zip(list.last().copied());
    let mut joint = Vec::new();
    if let (Some((first, last)), Some((other_first, other_last))) = (ends(needs), ends(more)) {
        joint.push(first.most_of(&other_first));
        joint.push(last.most_of(&other_last));
    }
    joint.dedup();
    PlanError::Budget { job: job.clone(), allowed: *allowed, needs: joint }
}

/// Networks that are there at the same time.
struct Turn<'a, 'm, E> {
    jobs: &'a [Job],
    wish: &'a Wish,
    meter: &'a mut Meters<'m, E>,
}

impl<E: From<PlanError>> Turn<'_, '_, E> {
    /// Each network gets a share and the last what is left; if no share will do, all but one are held to as little as
    /// they can live with.
    fn plan(&mut self, budget: &Budget) -> Result<Result<Vec<Plan>, PlanError>, E> {
        let even = self.jobs.len() as u64;
        for (part, of) in SHARES {
            let share = budget.share(part, of * even);
            if let Some(plans) = self.within(budget, |_, left| left.least_of(&share))? {
                return Ok(Ok(plans));
            }
            if even == 1 {
                break;
            }
        }
        let part = budget.share(1, even);
        let mut least = Vec::new();
        for i in 0..self.jobs.len() {
            least.push(self.search(i, budget, |search| search.least(&part))?);
        }
        let sums = sums(&least);
        for chosen in sums.iter().filter(|chosen| budget.lack(&total(chosen)).is_none()) {
            let others = |i: usize, left: &Budget| left.less(&total(&chosen[i + 1..]));
            if let Some(plans) = self.within(budget, others)? {
                return Ok(Ok(plans));
            }
        }
        let sums: Vec<Peaks> = sums.iter().map(|chosen| total(chosen)).collect();
        Ok(Err(refusal(in_words(self.jobs), budget, &sums)))
    }

    /// Plans one network after the other. All but the last get what `share` gives them of what is left.
    fn within(
        &mut self,
        budget: &Budget,
        share: impl Fn(usize, &Budget) -> Budget,
    ) -> Result<Option<Vec<Plan>>, E> {
        let (mut left, mut plans) = (*budget, Vec::new());
        for i in 0..self.jobs.len() {
            let own = if i + 1 == self.jobs.len() { left } else { share(i, &left) };
            let Some(plan) = self.search(i, budget, |search| search.within(&own))? else { return Ok(None) };
            left = left.less(&plan.peaks);
            plans.push(plan);
        }
        Ok(Some(plans))
    }

    fn search<T>(
        &mut self,
        i: usize,
        budget: &Budget,
        f: impl FnOnce(&mut Search<'_, '_, E>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut meter = |how: &Candidate, budget: Option<&Budget>| (self.meter)(i, how, budget);
        f(&mut Search::new(&self.jobs[i], budget, &wish_for(&self.jobs[i], self.wish), &mut meter)?)
    }
}

/// What is wished of one of several networks. A mode that changes the result is for frames; what sees tokens runs exactly.
fn wish_for(job: &Job, wish: &Wish) -> Wish {
    match wish.mode {
        Some(WishedMode::Blend(_) | WishedMode::SharedStats) if job.network.groups => {
            Wish { mode: None, ..*wish }
        }
        _ => *wish,
    }
}

/// Networks of one clip are named together.
fn in_words(jobs: &[Job]) -> String {
    let all = |jobs: &[Job]| jobs.iter().map(Job::to_string).collect::<Vec<_>>().join(" and ");
    let Some((first, rest)) = jobs.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return all(jobs);
    };
    match rest.iter().all(|job| (job.picture(), &job.dtype) == (first.picture(), &first.dtype)) {
        true => {
            let names: Vec<&str> = jobs.iter().map(|job| job.network.name.as_str()).collect();
            let [frames, height, width] = first.picture();
            format!("running {} of {frames} x {height} x {width} in {}", names.join(" and "), first.dtype)
        }
        false => format!("running {}", all(jobs)),
    }
}

/// Ways to pick one of the least peaks per network, without those that take more of everything than another.
fn sums(least: &[Vec<Peaks>]) -> Vec<Vec<Peaks>> {
    let mut picked = vec![Vec::new()];
    for choices in least {
        let more = |before: &Vec<Peaks>, next: &Peaks| [before.as_slice(), &[*next]].concat();
        let all: Vec<Vec<Peaks>> =
            picked.iter().flat_map(|before| choices.iter().map(move |next| more(before, next))).collect();
        picked = Vec::new();
        for chosen in all {
            let peaks = total(&chosen);
            if !picked.iter().any(|known: &Vec<Peaks>| total(known).is_within(&peaks)) {
                picked.retain(|known| !peaks.is_within(&total(known)));
                picked.push(chosen);
            }
        }
    }
    picked
}

fn total(peaks: &[Peaks]) -> Peaks {
    peaks.iter().fold(Peaks::default(), |sum, p| sum.with(p))
}

/// What each network of a turn may use when it is planned anew: what it has, and an even part of what is left.
pub fn divide(budget: &Budget, plans: &[Plan]) -> Vec<Budget> {
    let left = plans.iter().fold(*budget, |left, plan| left.less(&plan.peaks));
    let part = left.share(1, plans.len() as u64);
    plans.iter().map(|plan| part.plus(&plan.peaks)).collect()
}
