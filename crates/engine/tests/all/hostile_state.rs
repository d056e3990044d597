//! Saved states made to do harm: an error or a good state, never a panic and never much memory.

use crate::common::{Bench, WHOLE};
use remaster_model::vae::Direction;
use remaster_plan::{Candidate, Clip};
use remaster_testkit::hostile::attack;

/// With checksums that are right again: what is behind them must stand on its own.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    let Some(length) = file.get(8..16).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes) else {
        return file;
    };
    let end = usize::try_from(length).ok().and_then(|n| n.checked_add(16)).filter(|n| n + 4 <= file.len());
    if let Some(end) = end {
        let sum = crc32fast::hash(&file[16..end]);
        file[end..end + 4].copy_from_slice(&sum.to_le_bytes());
    }
    file
}

#[test]
fn no_state_panics_or_takes_memory_that_its_file_does_not_have() {
    let clip = Clip::new(9, 16, 16).unwrap();
    let mut bench = Bench::tiny(Direction::Encode, clip, 1);
    let how = Candidate { slice: 4, ..WHOLE };
    let (mut source, mut sink) = bench.ends();
    let mut good = Vec::new();
    let mut session = bench.task.start(&bench.plan(how)).unwrap();
    session.advance(&mut source, &mut sink, &mut |_| ()).unwrap();
    session.save(&mut good).unwrap();
    let seen = session.seen();
    drop(session);
    bench.task.job.start = seen;
    let mut session = bench.task.start(&bench.plan(how)).unwrap();
    session.restore(&mut &good[..]).unwrap();
    for (name, seal) in [("state", false), ("sealed state", true)] {
        attack(name, &[good.clone()], 1 << 20, |bytes| {
            let bytes = if seal { sealed(bytes) } else { bytes.to_vec() };
            if let Err(error) = session.restore(&mut &bytes[..]) {
                assert!(error.to_string().len() < 4000, "{error}");
            }
        });
    }
    // The session still takes a good one.
    session.restore(&mut &good[..]).unwrap();
}
