//! Times of a 1080p frame: `cargo test -p remaster-colour --test all speed:: -- --ignored --nocapture`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use std::time::Duration;

use remaster_colour::{Mode, correct};
use remaster_picture::Frame;
use remaster_testkit::busy;

/// A smooth picture with noise.
fn picture(width: usize, height: usize, gain: f32) -> Frame {
    let mut state = 1u32;
    let mut noise = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 * 0.1
    };
    let mut frame = Frame::new(width, height, 3);
    for (i, v) in frame.data.iter_mut().enumerate() {
        let (x, y, c) = (i / 3 % width, i / 3 / width, i % 3);
        *v = gain * (0.4 + 0.3 * (x as f32 / (90.0 + 40.0 * c as f32) + y as f32 / 130.0).sin() + noise());
    }
    frame
}

#[test]
#[ignore = "nightly: a limit of time"]
fn a_1080p_frame_takes_less_than_two_seconds_in_every_mode() {
    let reference = [picture(1920, 1080, 0.9)];
    for mode in Mode::ALL {
        let times = [(); 3].map(|()| {
            let mut frames = [picture(1920, 1080, 1.1)];
            let start = busy();
            correct(mode, &mut frames, &reference).unwrap();
            busy() - start
        });
        let least = times.iter().min().unwrap();
        println!("{mode:16} {:5} ms", least.as_millis());
        assert!(*least < Duration::from_secs(2), "{mode}: {least:?}");
    }
}
