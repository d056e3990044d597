//! Planning ends soon and in little memory, whatever the numbers, and a refusal names budgets that work.

use std::time::Duration;

use remaster_compute::{Backend, DType};
use remaster_engine::{EngineError, Planner, Task, device_sizing};
use remaster_model::NullVae;
use remaster_model::vae::{Direction, VaeConfig};
use remaster_plan::{Budget, Clip, Peaks, PlanError, Tiling, Wish, WishedMode};
use remaster_testkit::hostile::measured;
use remaster_testkit::{Rng, busy};
use remaster_weights::FormulaParams;

/// The most that planning may hold, and how long it may compute.
const MEMORY: usize = 64 << 20;
const TIME: Duration = Duration::from_secs(2);

/// More cases than CI has time for: `REMASTER_BOUNDS_CASES`.
fn cases(default: usize) -> usize {
    std::env::var("REMASTER_BOUNDS_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn task(identity: bool, direction: Direction, clip: Clip) -> Task {
    let network = match identity {
        true => Box::new(NullVae::from(direction)),
        false => direction.network(&VaeConfig::full(), &mut FormulaParams, DType::F32),
    };
    Task::new(network, clip.cells(), Backend::cpu_with(1), DType::F32)
}

/// A number of any size, small ones as often as large ones.
fn any(rng: &mut Rng, bits: usize) -> usize {
    let bits = rng.below(bits + 1) as u32;
    rng.bits() as usize & (1usize << bits).wrapping_sub(1)
}

fn wish(rng: &mut Rng, wild: bool) -> Result<Wish, PlanError> {
    let size = |rng: &mut Rng| if wild { any(rng, 63) } else { 8 * (1 + any(rng, 9)) };
    let mode = match rng.below(6) {
        0 => Some(WishedMode::Whole),
        1 => {
            let count = if wild { any(rng, 63) } else { any(rng, 8) };
            Some(WishedMode::Exact { stripes: rng.one_in(2).then_some(count) })
        }
        2 => Some(WishedMode::SharedStats),
        3 => {
            let (tile, overlap) = (size(rng), if rng.one_in(2) { 0 } else { size(rng) });
            Some(WishedMode::Blend(Tiling::new([tile; 2], [overlap; 2], 8)?))
        }
        _ => None,
    };
    let slice = match rng.below(4) {
        0 if wild => Some(any(rng, 63)),
        0 => Some(4 * any(rng, 8)),
        _ => None,
    };
    Ok(Wish { mode, slice })
}

fn budget(rng: &mut Rng) -> Budget {
    let (vram, ram, disk) = (any(rng, 63) as u64, any(rng, 63) as u64, any(rng, 63) as u64);
    if rng.one_in(3) { Budget::Apart { vram, ram, disk } } else { Budget::Shared { ram, disk } }
}

#[test]
fn any_numbers_are_planned_or_refused_in_two_seconds_and_64_mib() {
    let mut rng = Rng::new(11);
    let (mut slowest, mut largest, mut planned, mut refused) = (Duration::ZERO, 0, 0, 0);
    for case in 0..cases(60) {
        let wild = case % 4 == 0;
        let numbers: [usize; 3] = match wild {
            true => [any(&mut rng, 63), any(&mut rng, 63), any(&mut rng, 63)],
            false => [4 * any(&mut rng, 36) + 1, 8 * (1 + any(&mut rng, 15)), 8 * (1 + any(&mut rng, 15))],
        };
        let direction = if rng.one_in(2) { Direction::Encode } else { Direction::Decode };
        let (wish, budget, open) = (wish(&mut rng, wild), budget(&mut rng), rng.one_in(3));
        let identity = rng.one_in(4);
        let before = busy();
        let (result, held) = measured(|| -> Result<(), EngineError> {
            let mut task = task(identity, direction, Clip::new(numbers[0], numbers[1], numbers[2])?);
            task.job.open_ended = open;
            let sizing = task.settings.backend;
            let mut planner = match budget.is_apart() {
                true => task.planner_for(device_sizing),
                false => task.planner_for(move || sizing.sizing()),
            };
            planner.plan(&budget, &wish.clone()?).map(|_| ())
        });
        let took = busy() - before;
        let about = format!(
            "case {case}: {direction:?} {numbers:?} {wish:?} {budget:?} open {open} identity {identity}"
        );
        match result {
            Ok(()) => planned += 1,
            Err(EngineError::Plan(_)) => refused += 1,
            Err(error) => panic!("{about}: {error}"),
        }
        assert!(held < MEMORY, "{about}: {held} bytes");
        assert!(took < TIME, "{about}: {took:?}");
        (slowest, largest) = (slowest.max(took), largest.max(held));
    }
    println!("{planned} planned, {refused} refused, slowest {slowest:?}, largest {largest} bytes");
    assert!(planned > 0 && refused > 0);
}

#[test]
fn sizes_that_took_all_memory_are_refused_at_once() {
    let cases = [[65, 64, 1 << 30], [65, 1 << 20, 1 << 20], [65, 8, 8_388_608], [4_000_000_000_001, 64, 64]];
    for [frames, height, width] in cases {
        let result = Clip::new(frames, height, width);
        let typed = matches!(result, Err(PlanError::TooLarge { .. }));
        assert!(typed, "{frames} x {height} x {width}: {result:?}");
    }
    // A long clip costs no more than a short one.
    let clip = Clip::new((1 << 40) - 3, 480, 864).unwrap();
    let task = task(false, Direction::Decode, clip);
    let budget = Budget::Shared { ram: 32 << 30, disk: 0 };
    let (plan, held) = measured(|| task.planner().plan(&budget, &Wish::default()).unwrap());
    assert!(held < MEMORY && plan.work.macs > 1 << 60);
}

/// The budget that is a little smaller where the computation is.
fn nearly(budget: &Budget) -> Budget {
    match *budget {
        Budget::Shared { ram, disk } => Budget::Shared { ram: ram / 10 * 9, disk },
        Budget::Apart { vram, ram, disk } => Budget::Apart { vram: vram / 10 * 9, ram, disk },
    }
}

#[test]
fn a_refusal_names_the_least_that_works() {
    let mut rng = Rng::new(12);
    let (mut refusals, mut slack) = (0, 0);
    for _ in 0..cases(8) {
        let direction = if rng.one_in(2) { Direction::Encode } else { Direction::Decode };
        let clip =
            Clip::new(4 * rng.below(20) + 1, 8 * (1 + rng.below(140)), 8 * (1 + rng.below(240))).unwrap();
        let task = task(rng.one_in(5), direction, clip);
        let (vram, ram) = (rng.bits() >> rng.between(30, 40), rng.bits() >> rng.between(30, 44));
        let disk = if rng.one_in(2) { 0 } else { rng.bits() >> rng.between(28, 34) };
        let budget =
            if rng.one_in(3) { Budget::Apart { vram, ram, disk } } else { Budget::Shared { ram, disk } };
        let backend = task.settings.backend;
        let sizing = move || if budget.is_apart() { device_sizing() } else { backend.sizing() };
        let mut planner = task.planner_for(sizing);
        let Err(EngineError::Plan(PlanError::Budget { needs, .. })) = planner.plan(&budget, &Wish::default())
        else {
            continue;
        };
        refusals += 1;
        for need in &needs {
            let again = planner.plan(need, &Wish::default());
            assert!(again.is_ok(), "{} within {budget}: {need} was advised, but {again:?}", task.job);
        }
        let less = nearly(&needs[0]);
        let grew = budget.raised(&Peaks::default()) != needs[0];
        assert!(grew, "{} within {budget}: advised what was given", task.job);
        if planner.plan(&less, &Wish::default()).is_ok() && is_less(&budget, &less) {
            slack += 1;
            println!("{} within {budget}: {less} works too, {} was advised", task.job, needs[0]);
        }
    }
    println!("{refusals} refusals, {slack} not within 10 %");
    assert!(refusals > 3 && slack == 0);
}

/// Whether the memory near the computation is what was too small.
fn is_less(budget: &Budget, less: &Budget) -> bool {
    match (*budget, *less) {
        (Budget::Shared { ram, .. }, Budget::Shared { ram: least, .. }) => ram < least,
        (Budget::Apart { vram, .. }, Budget::Apart { vram: least, .. }) => vram < least,
        _ => false,
    }
}

#[test]
fn large_frames_are_refused_in_two_seconds() {
    for identity in [false, true] {
        for (height, width) in [(1088, 1920), (2160, 3840), (4320, 7680)] {
            let clip = Clip::new(65, height, width).unwrap();
            let (encoder, decoder) =
                (task(identity, Direction::Encode, clip), task(identity, Direction::Decode, clip));
            let budget = Budget::Shared { ram: 100 << 20, disk: 1 << 40 };
            let before = busy();
            let (result, held) = measured(|| {
                let planners: &mut [&mut Planner<'_>] = &mut [&mut encoder.planner(), &mut decoder.planner()];
                Planner::joint(&mut [planners], &budget, &Wish::default())
            });
            let took = busy() - before;
            println!("{height} x {width}, identity {identity}: refused in {took:?}, {held} bytes");
            assert!(matches!(result, Err(EngineError::Plan(PlanError::Budget { .. }))));
            assert!(took < 2 * TIME && held < MEMORY);
        }
    }
}
