//! Times of a 1080p frame, for people: `cargo test -p remaster-colour --test speed -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use remaster_colour::{Mode, correct};
use remaster_picture::Frame;

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

/// Time of this thread on a CPU in ns, which other programs disturb less than the clock. Linux only.
fn busy() -> u64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    said.split(' ').next().unwrap().parse().unwrap()
}

#[test]
#[ignore = "prints times; checks nothing"]
fn a_1080p_frame() {
    let reference = [picture(1920, 1080, 0.9)];
    for mode in Mode::ALL {
        let mut times = Vec::new();
        for _ in 0..3 {
            let mut frames = [picture(1920, 1080, 1.1)];
            let start = busy();
            correct(mode, &mut frames, &reference).unwrap();
            times.push(busy() - start);
        }
        println!("{mode:16} {:5} ms", times.iter().min().unwrap() / 1_000_000);
    }
}
