//! Frames through an upscaler: the same bits whole, by units and from anywhere in a unit.

use std::ops::Range;
use std::sync::Arc;

use remaster_compute::{Backend, DType};
use remaster_engine::Task;
use remaster_model::compact::{Compact, CompactConfig};
use remaster_model::{Params, Values, Wanted, computed};
use remaster_picture::Frame;
use remaster_plan::{Candidate, Cells, LookBack, Plan, Windows};
use remaster_testkit::Rng;
use remaster_weights::uniform;

use super::invariance::{film, plain, shots};
use super::{Kept, plenty, source, source_at};
use crate::cuts::Cuts;
use crate::decode_thread::Footage;
use crate::dispatch::{Networks, restore, restore_unit};
use crate::film::{Film, Recipe};
use crate::finish::Pool;
use crate::geometry::{Geometry, Resize};
use crate::planned::Planned;
use crate::sample::{Sampling, Start};
use crate::unit::{UnitWork, units_of};
use crate::upscale::Upscale;
use remaster_colour::Mode as Colour;
use remaster_picture::Edges;

const CONFIG: CompactConfig = CompactConfig { width: 8, depth: 2, scale: 2 };

/// Small weights, by the names of their tensors.
struct Weights;

impl Params for Weights {
    fn values(&mut self, wanted: &Wanted) -> Arc<dyn Values> {
        let name = wanted.param.name.clone();
        computed(move |i| 0.1 * uniform(&name, i as u64))
    }
}

struct Machine {
    recipe: Recipe,
    task: Task,
    plan: Plan,
}

impl Machine {
    fn new(source: [usize; 2], shown: [usize; 2], cuts: Cuts, pool: Pool, colour: Colour) -> Self {
        let geometry = Geometry::new(source, Resize::Exactly(shown), Edges::Black).unpadded();
        let windows = Windows::new(1).unwrap();
        let sampling = Sampling { start: Start::Seed(3), windows, scale: 1.0, latent_noise: 0.0 };
        let upscale = Upscale::new(source, shown, CONFIG.scale, 1);
        let recipe = Recipe { upscale: Some(upscale), ..plain(geometry, cuts, sampling, pool, colour) };
        let [columns, rows] = upscale.taken();
        let network = Compact::new(&CONFIG, &mut Weights, DType::F32);
        let cells = Cells { steps: 9, rows, columns };
        let mut task = Task::new(Box::new(network), cells, Backend::cpu_with(2), DType::F32);
        task.job.open_ended = true;
        let plan = task.exactly(Candidate { slice: 1, ..Candidate::WHOLE }).unwrap();
        Machine { recipe, task, plan }
    }

    fn networks(&self) -> Networks<'_> {
        Networks::Upscaler(Planned { task: &self.task, plan: &self.plan })
    }

    fn whole(&self, frames: &[Frame]) -> Vec<Frame> {
        let (frames, kept) = (Arc::new(frames.to_vec()), Kept::default());
        let footage = Footage::from(source(&frames));
        let film = Film { footage, input: None, sink: Box::new(kept.clone()), keep: None };
        let done = restore(film, &self.recipe, self.networks(), &plenty(), &mut |_| ()).unwrap();
        assert_eq!(done.frames, frames.len());
        kept.frames_from(0)
    }

    /// The frames of a unit from one of the film on.
    fn unit(&self, frames: &[Frame], unit: &crate::unit::Unit, from: usize) -> Vec<Frame> {
        let kept = Kept::default();
        let mut open = |range: Range<usize>| {
            let part = Arc::new(frames[range.clone()].to_vec());
            Ok(source_at(&part, range.start))
        };
        let work = UnitWork { unit, from, open: &mut open, sink: Box::new(kept.clone()), checkpoint: None };
        let back = LookBack::default();
        restore_unit(work, &self.recipe, self.networks(), back, &plenty(), &mut |_| ()).unwrap();
        kept.frames_from(from)
    }
}

#[test]
fn units_and_pieces_of_an_upscaled_film_have_its_bits() {
    let film = film();
    let lengths = [(40, None), (24, None), (33, None)];
    for (cuts, shots, pool, colour) in [
        (Cuts::None, vec![(film.len(), None)], Pool::Frame, Colour::None),
        (shots(), lengths.to_vec(), Pool::Shot, Colour::Lab),
    ] {
        let mut machine = Machine::new([40, 24], [60, 36], cuts, pool, colour);
        machine.recipe.input_noise = 0.5;
        machine.recipe.finish.dither = Some(8);
        let whole = machine.whole(&film);
        assert!(whole.iter().all(|frame| [frame.width, frame.height] == [60, 36]));
        let windows = machine.recipe.sampling.windows;
        for unit in units_of(&shots, 25, &windows, pool) {
            let range = unit.frames();
            assert!(machine.unit(&film, &unit, range.start) == whole[range.clone()], "{range:?}");
            for piece in unit.pieces(7, &windows, pool) {
                assert!(machine.unit(&film, &unit, piece.start) == whole[piece.start..range.end]);
            }
        }
    }
}

#[test]
fn frames_do_not_know_each_other_and_any_size_comes_out() {
    let mut rng = Rng::new(8);
    for (size, shown) in [([5, 3], [10, 6]), ([7, 9], [5, 4]), ([3, 2], [19, 11]), ([1, 1], [1, 1])] {
        let machine = Machine::new(size, shown, Cuts::None, Pool::Frame, Colour::None);
        let frame = |rng: &mut Rng| {
            let data = rng.values(size[0] * size[1] * 3).iter().map(|v| v.abs().min(1.0)).collect();
            Frame { width: size[0], height: size[1], channels: 3, data }
        };
        let frames: Vec<Frame> = (0..3).map(|_| frame(&mut rng)).collect();
        let made = machine.whole(&frames);
        for (alone, together) in frames.iter().zip(&made) {
            assert_eq!([together.width, together.height], shown);
            assert!(together.data.iter().all(|v| (0.0..=1.0).contains(v)));
            assert!(machine.whole(std::slice::from_ref(alone))[0] == *together);
        }
    }
}
