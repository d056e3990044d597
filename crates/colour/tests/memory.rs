//! What corrections allocate: no more than was said, and not much less.

use remaster_colour::alpha::{self, AlphaKind, Border};
use remaster_colour::{Mode, correct, working_bytes};
use remaster_picture::Frame;
use remaster_testkit::held::{Counting, held};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Shades of one hue, which is what hsv needs most for.
fn shades(width: usize, height: usize, channels: usize) -> Frame {
    let mut frame = Frame::new(width, height, channels);
    for (i, v) in frame.data.iter_mut().enumerate() {
        *v = [0.3, 0.4, 0.8][i % channels] + 0.1 * (i / channels % 97) as f32 / 97.0;
    }
    frame
}

// One test: another one at the same time would be counted, too.
#[test]
fn corrections_hold_no_more_than_they_say() {
    for (count, w, h) in [(1, 1, 1), (1, 1, 50), (1, 640, 360), (3, 320, 200), (2, 1000, 9)] {
        for mode in Mode::ALL {
            let references = vec![shades(w, h, 3); count];
            // The least of three: the thread of the test program allocates now and then, too.
            let runs = (0..3).map(|_| {
                let mut frames = references.clone();
                held(|| correct(mode, &mut frames, &references).unwrap())
            });
            let bytes = runs.min().unwrap();
            let said = working_bytes(mode, count, w, h);
            println!("{count} x {w} x {h}, {mode}: {bytes} of {said} bytes");
            assert!(bytes <= said, "{count} x {w} x {h}, {mode}: {bytes} of {said} bytes");
            if w * h > 100 {
                assert!(
                    bytes as f64 >= 0.75 * said as f64,
                    "{count} x {w} x {h}, {mode}: {bytes} of {said} bytes"
                );
            }
        }
    }
    for (source, [w, h]) in
        [([320, 200], [640, 400]), ([1, 1], [3, 3]), ([700, 500], [70, 50]), ([9, 400], [300, 20])]
    {
        for kind in [AlphaKind::Binary, AlphaKind::Soft] {
            let (plane, rgb) = (shades(source[0], source[1], 1), shades(w, h, 3));
            let runs = (0..3).map(|_| held(|| drop(alpha::restore(kind, &plane, &rgb, Border::Inside))));
            let bytes = runs.min().unwrap();
            let said = alpha::working_bytes(source, [w, h]);
            println!("alpha {kind:?} {source:?} to {w} x {h}: {bytes} of {said} bytes");
            assert!(bytes <= said, "{kind:?} {source:?} to {w} x {h}: {bytes} of {said} bytes");
        }
    }
    for mode in Mode::ALL {
        assert!(working_bytes(mode, usize::MAX, usize::MAX, usize::MAX) >= working_bytes(mode, 1, 1, 1));
    }
    assert_eq!(alpha::working_bytes([usize::MAX; 2], [usize::MAX; 2]), u64::MAX);
}
