//! Plans for one job, found by measuring.

use std::collections::HashMap;

use remaster_compute::{ComputeError, DType, Sizing};
use remaster_model::Network;
use remaster_plan::{
    Budget, Candidate, Cost, Job, Measured, Memory, Peaks, Plan, VERSION, Wish, choose, choose_joint,
};

use crate::error::EngineError;
use crate::measure::{ENDLESS, FILE, HOST, caps_within, measure};
use crate::slice_loop::SliceLoop;

/// Makes plans for one job and remembers what it measured: the same job under another budget is then cheap.
pub struct Planner<'a> {
    network: &'a dyn Network,
    dtype: DType,
    sizing: Box<dyn Fn() -> Box<dyn Sizing> + 'a>,
    job: Job,
    measured: HashMap<Candidate, Cost>,
    /// Budgets that a way did not fit, and what it lacked.
    refused: HashMap<Candidate, Vec<(Budget, Memory)>>,
}

impl<'a> Planner<'a> {
    /// For `job` on a device of `sizing`.
    pub fn new(
        network: &'a dyn Network,
        dtype: DType,
        sizing: impl Fn() -> Box<dyn Sizing> + 'a,
        job: Job,
    ) -> Self {
        let (measured, refused) = (HashMap::new(), HashMap::new());
        Planner { network, dtype, sizing: Box::new(sizing), job, measured, refused }
    }

    /// What a way takes.
    pub fn cost(&mut self, how: &Candidate) -> Result<Cost, EngineError> {
        if let Some(cost) = self.measured.get(how) {
            return Ok(*cost);
        }
        self.measure(how, |_| ENDLESS)
    }

    fn measure(
        &mut self,
        how: &Candidate,
        caps: impl FnOnce(&SliceLoop) -> Peaks,
    ) -> Result<Cost, EngineError> {
        how.check(&self.job)?;
        let slice_loop = SliceLoop::new(&self.job, how, self.dtype);
        let cost = measure(self.network, &slice_loop, &self.sizing, &self.job, how, caps(&slice_loop))?;
        self.measured.insert(*how, cost);
        Ok(cost)
    }

    /// A plan that does exactly this, whatever it takes.
    pub fn exactly(&mut self, how: &Candidate) -> Result<Plan, EngineError> {
        let Cost { peaks, work, .. } = self.cost(how)?;
        Ok(Plan { version: VERSION, job: self.job.clone(), how: *how, peaks, work, better: None })
    }

    /// What a way takes, or which memory is too small for it: the meter stops there.
    fn within(&mut self, how: &Candidate, budget: &Budget) -> Result<Measured, EngineError> {
        if let Some(cost) = self.measured.get(how) {
            return Ok(Measured::Takes(*cost));
        }
        let known = self.refused.get(how).into_iter().flatten();
        if let Some((_, memory)) = known.into_iter().find(|(refused, _)| budget.is_within(refused)) {
            return Ok(Measured::Lacks(*memory));
        }
        match self.measure(how, |slice_loop| caps_within(budget, slice_loop)) {
            Ok(cost) => Ok(Measured::Takes(cost)),
            Err(EngineError::Compute(ComputeError::OutOfMemory { arena, .. })) => {
                let memory = match arena {
                    FILE => Memory::Disk,
                    HOST => Memory::Host,
                    _ if budget.is_apart() => Memory::Device,
                    _ => Memory::Host,
                };
                self.refused.entry(*how).or_default().push((*budget, memory));
                Ok(Measured::Lacks(memory))
            }
            Err(error) => Err(error),
        }
    }

    fn ask(&mut self, how: &Candidate, budget: Option<&Budget>) -> Result<Measured, EngineError> {
        match budget {
            Some(budget) => self.within(how, budget),
            None => self.cost(how).map(Measured::Takes),
        }
    }

    /// The best plan within a budget.
    pub fn plan(&mut self, budget: &Budget, wish: &Wish) -> Result<Plan, EngineError> {
        choose(self.job.clone(), budget, wish, &mut |how, budget| self.ask(how, budget))
    }

    /// The best plans for several networks within one budget: those of a turn are there at the same time, turns follow
    /// one another.
    pub fn joint(
        turns: &mut [&mut [&mut Planner<'_>]],
        budget: &Budget,
        wish: &Wish,
    ) -> Result<Vec<Plan>, EngineError> {
        let jobs: Vec<Vec<Job>> =
            turns.iter().map(|turn| turn.iter().map(|planner| planner.job.clone()).collect()).collect();
        let jobs: Vec<&[Job]> = jobs.iter().map(Vec::as_slice).collect();
        let mut planners: Vec<&mut Planner<'_>> =
            turns.iter_mut().flat_map(|turn| turn.iter_mut().map(|planner| &mut **planner)).collect();
        choose_joint(&jobs, budget, wish, &mut |i, how, budget| planners[i].ask(how, budget))
    }
}
