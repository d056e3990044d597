//! Choosing over a cost that falls as more is cut off, like the real one.

use super::*;
use crate::geometry::Clip;
use proptest::prelude::*;

fn job(frames: usize) -> Job {
    Job {
        network: crate::description::tests::vae(false),
        cells: Clip::new(frames, 480, 864).unwrap().cells(),
        start: 0,
        open_ended: false,
        dtype: "bf16".into(),
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
    let weights = match (c.stream_weights, c.read_ahead) {
        (false, _) => 500,
        (true, false) => 50,
        (true, true) => 100,
    };
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
    fn networks_of_a_turn_fit_together_and_turns_have_all_of_it(
        vram in 0u64..18000, ram in 0u64..27000, disk in 0u64..27000, n in 0usize..30, apart: bool,
        turns in proptest::collection::vec(1usize..4, 1..4),
    ) {
        let budget = match apart {
            true => Budget::Apart { vram, ram, disk },
            false => Budget::Shared { ram, disk },
        };
        let jobs: Vec<Vec<Job>> = turns.iter().map(|count| vec![job(4 * n + 1); *count]).collect();
        let turns: Vec<&[Job]> = jobs.iter().map(Vec::as_slice).collect();
        let all = |budget: &Budget| {
            crate::choose_joint(&turns, budget, &Wish::default(), &mut |_, c, within| meter(c, within))
        };
        match all(&budget) {
            Ok(plans) => {
                let mut plans = plans.iter();
                for turn in &turns {
                    let of = plans.by_ref().take(turn.len());
                    let sum = of.fold(Peaks::default(), |sum, plan| sum.with(&plan.peaks));
                    prop_assert_eq!(budget.lack(&sum), None);
                }
                prop_assert!(plans.next().is_none());
            }
            Err(PlanError::Budget { needs, .. }) => {
                prop_assert!(!needs.is_empty());
                for need in needs {
                    prop_assert!(all(&need).is_ok(), "{need}");
                }
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn what_is_left_is_divided(ram in 4000u64..27000, disk in 9000u64..27000, count in 1usize..4) {
        let budget = Budget::Shared { ram, disk };
        let jobs = vec![job(65); count];
        let plans = crate::choose_joint(&[&jobs], &budget, &Wish::default(), &mut |_, c, within| meter(c, within));
        if let Ok(plans) = plans {
            let parts = crate::divide(&budget, &plans);
            let sum = |f: fn(&Budget) -> u64| parts.iter().map(f).sum::<u64>();
            prop_assert!(sum(|b| b.sizes()[1]) <= ram && sum(|b| b.sizes()[2]) <= disk);
            for (part, plan) in parts.iter().zip(&plans) {
                prop_assert_eq!(part.lack(&plan.peaks), None);
            }
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

/// What two turns lack may be of two kinds: the budget that one of them needs is then not enough for the other.
#[test]
fn a_refusal_of_several_turns_names_budgets_for_all_of_them() {
    let budget = Budget::Apart { vram: 106, ram: 0, disk: 0 };
    let jobs = [2, 3].map(|count| vec![job(9); count]);
    let turns: Vec<&[Job]> = jobs.iter().map(Vec::as_slice).collect();
    let all = |budget: &Budget| {
        crate::choose_joint(&turns, budget, &Wish::default(), &mut |_, c, within| meter(c, within))
    };
    let Err(PlanError::Budget { needs, .. }) = all(&budget) else { panic!("it fits") };
    assert!(!needs.is_empty() && needs.iter().all(|need| all(need).is_ok()), "{needs:?}");
}

/// Bands take less as they get thinner; whole frames with weights that come and go take less than with weights that stay.
#[test]
fn a_refusal_of_a_network_that_is_cut_into_bands_names_what_the_thinnest_take() {
    let mut job = job(9);
    job.network.reach = Some(2);
    let mut meter = |c: &Candidate, within: Option<&Budget>| {
        let near = match c.mode {
            Mode::Exact { stripes } => 500 + 4000 / stripes as u64,
            _ if c.stream_weights => 4000,
            _ => 4500,
        };
        let cost = Cost { peaks: Peaks { device: near, host: 0, disk: 0 }, largest: 1000, ..Cost::default() };
        Ok::<_, PlanError>(match within.and_then(|budget| budget.lack(&cost.peaks)) {
            Some(lack) => Measured::Lacks(lack.memory),
            None => Measured::Takes(cost),
        })
    };
    let budget = Budget::Shared { ram: 100, disk: 0 };
    let refused = choose(job.clone(), &budget, &Wish::default(), &mut meter).unwrap_err();
    let PlanError::Budget { needs, .. } = refused else { panic!("{refused}") };
    let enough = needs.iter().min_by_key(|need| need.sizes()[0]).unwrap();
    assert_eq!(*enough, Budget::Shared { ram: 500 + 4000 / 64, disk: 0 });
    assert!(choose(job, enough, &Wish::default(), &mut meter).is_ok());
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
    let tiling = Tiling::new([64, 64], [16, 16], 8).unwrap();
    let wish = Wish { mode: Some(WishedMode::Blend(tiling)), slice: Some(8) };
    let all = chains(&job(65), &budget, &wish, 1000).unwrap().concat();
    assert!(all.iter().all(|c| c.mode == Mode::Blend(tiling) && c.slice == 8));
}

#[test]
fn modes_of_frames_do_not_reach_networks_of_tokens() {
    let mut tokens = job(17);
    (tokens.network.groups, tokens.network.levels, tokens.network.step) = (true, 0, None);
    let budget = Budget::Shared { ram: 1 << 30, disk: 0 };
    let tiling = crate::tiles::Tiling::new([256, 256], [64, 64], 8).unwrap();
    for mode in [WishedMode::Blend(tiling), WishedMode::SharedStats] {
        let wish = Wish { mode: Some(mode), slice: None };
        let mut meters = |_: usize, how: &Candidate, budget: Option<&Budget>| meter(how, budget);
        let turns: [&[Job]; 2] = [&[job(17)], &[tokens.clone()]];
        let plans = crate::joint::choose_joint(&turns, &budget, &wish, &mut meters).unwrap();
        assert_ne!(plans[0].how.mode, Mode::Whole);
        assert_eq!(plans[1].how.mode, Mode::Whole);
    }
}

#[test]
fn a_plan_survives_its_stored_form() {
    let budget = Budget::Apart { vram: 900, ram: 9000, disk: 9000 };
    let plan = choose(job(65), &budget, &Wish::default(), &mut meter).unwrap();
    assert!(plan.better.is_some());
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}
