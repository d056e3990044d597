//! A session holds weights of its own: planning beside it, or a second session, changes nothing.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{Bench, WHOLE, build};
use remaster_compute::{Backend, DType};
use remaster_engine::MemoryClip;
use remaster_model::vae::{Direction, VaeConfig};
use remaster_plan::{Candidate, Clip};

fn bench(frames: usize) -> Bench {
    let clip = Clip::new(frames, 32, 40).unwrap();
    Bench::new(&VaeConfig::tiny(), Direction::Decode, clip, Backend::cpu_with(1), build(DType::F32, true))
}

#[test]
fn a_meter_and_a_second_session_beside_a_live_one_change_no_bit() {
    let bench = bench(17);
    let how = Candidate { slice: 4, ..WHOLE };
    let plan = bench.plan(how);
    let (alone, used) = bench.run(&plan).unwrap();

    let (mut source, mut sink) = (MemoryClip::source(bench.clip.clone()), MemoryClip::sink());
    let mut session = bench.task.start(&plan).unwrap();
    session.advance(&mut source, &mut sink, &mut |_| ()).unwrap();
    // The meter runs the same network, whole and streamed, and another session runs it to the end.
    bench.plan(Candidate { stream_weights: true, ..how });
    bench.plan(WHOLE);
    assert!(bench.run(&plan).unwrap().0.data == alone.data);
    bench.task.network.weights(&mut |w| assert_eq!(w.holders(), 1, "{w:?}"));
    while !session.is_done() {
        session.advance(&mut source, &mut sink, &mut |_| ()).unwrap();
    }
    assert!(sink.clip.data == alone.data);
    assert_eq!(session.summary().device_peak, used.device_peak);
    drop(session);
    bench.task.network.weights(&mut |w| assert_eq!(w.holders(), 0));
}
