//! A session holds weights of its own: planning beside it, or a second session, changes nothing.

use crate::common::{Bench, WHOLE};
use remaster_model::vae::Direction;
use remaster_plan::{Candidate, Clip};

#[test]
fn a_meter_and_a_second_session_beside_a_live_one_change_no_bit() {
    let bench = Bench::tiny(Direction::Decode, Clip::new(17, 32, 40).unwrap(), 1);
    let how = Candidate { slice: 4, ..WHOLE };
    let plan = bench.plan(how);
    let (alone, used) = bench.run(&plan).unwrap();

    let (mut source, mut sink) = bench.ends();
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
