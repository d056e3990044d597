//! Linear layers and attention in bf16 on the tile unit, at sizes that need every loop of its blocking, against
//! the vector kernels.
#![expect(clippy::unwrap_used, reason = "tests")]

use remaster_compute::{Backend, CancelToken, CpuPath, DType, Ops, Shape};
use remaster_testkit::no_tiles;
use remaster_testkit::op_cases::{Case, Op, bits, distance, rows_one_by_one, whole};

fn open(threads: usize, path: CpuPath) -> Box<dyn Ops> {
    Backend::Cpu { threads, path }.open(256 << 20, CancelToken::default()).unwrap()
}

fn cases() -> impl Iterator<Item = Case> {
    let ops = [
        // Two sections of input channels, and more panels than wait at a time.
        Op::Linear { shape: Shape::new(1, 2, 20, 3500), cout: 4200, accumulate: false, groups: 0 },
        // Three sections that do not end with a step, blocks of pixels across frames, half a line of output.
        Op::Linear { shape: Shape::new(3, 3, 43, 7001), cout: 50, accumulate: true, groups: 5 },
        // Several chunks of one section; fewer pixels than a tile has.
        Op::Linear { shape: Shape::new(1, 1, 9, 1300), cout: 200, accumulate: true, groups: 0 },
        // Several blocks of queries and of keys; the last ones are not whole.
        Op::Attention { shape: Shape::new(1, 20, 31, 256), heads: 2 },
        // Heads that are no whole step wide.
        Op::Attention { shape: Shape::new(2, 9, 30, 123), heads: 3 },
        // As many keys as a block has.
        Op::Attention { shape: Shape::new(1, 16, 16, 40), heads: 1 },
    ];
    let seeds = 90_000..;
    ops.into_iter().zip(seeds).map(|(op, seed)| Case { seed, dtype: DType::Bf16, op, poison: None })
}

#[test]
fn tiles_agree_with_vectors_and_cutting_changes_no_bit() {
    let (Ok(tiles), Ok(vectors)) = ("amx".parse(), "avx512".parse()) else {
        return no_tiles("tiles_agree_with_vectors_and_cutting_changes_no_bit");
    };
    let mut vectors = open(2, vectors);
    let [mut one, mut two] = [1, 2].map(|threads| open(threads, tiles));
    for case in cases() {
        let ours = whole(two.as_mut(), &case);
        for (a, b) in ours.iter().zip(&whole(vectors.as_mut(), &case)) {
            let d = distance(a, b);
            assert!(d <= 1.0, "{case:?}\n{} is {d} tolerances away", a.name);
        }
        assert_eq!(bits(&ours), bits(&whole(one.as_mut(), &case)), "{case:?}");
        rows_one_by_one(two.as_mut(), &case);
    }
}
