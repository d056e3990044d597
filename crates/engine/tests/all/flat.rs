//! Memory does not grow with the length of the video, as the system counts it.

use std::process::Command;

use remaster_compute::{Backend, DType, HostTensor, Shape};
use remaster_engine::{Sink, SinkError, Source, SourceError, Task};
use remaster_model::vae::{Direction, VaeConfig};
use remaster_plan::{Candidate, Clip};
use remaster_testkit::nightly;
use remaster_weights::{FormulaParams, fill_uniform};

/// Says in a process of its own how many frames to run.
const FRAMES: &str = "REMASTER_TEST_FRAMES";

struct Noise;

impl Source for Noise {
    fn read(&mut self, shape: Shape, out: &mut [f32]) -> Result<usize, SourceError> {
        fill_uniform("input/flat", 0, out);
        Ok(shape.t)
    }
}

struct Count(usize);

impl Sink for Count {
    fn write(&mut self, first: usize, frames: HostTensor) -> Result<(), SinkError> {
        assert_eq!(first, self.0);
        self.0 += frames.shape.t;
        Ok(())
    }
}

fn run(frames: usize) {
    for direction in [Direction::Encode, Direction::Decode] {
        let clip = Clip::new(frames, 128, 128).unwrap();
        let network = direction.network(&VaeConfig::tiny(), &mut FormulaParams, DType::F32);
        let task = Task::new(network, clip.cells(), Backend::cpu_with(2), DType::F32);
        let plan = task.exactly(Candidate { slice: 4, ..Candidate::WHOLE }).unwrap();
        let mut sink = Count(0);
        task.run(&plan, &mut Noise, &mut sink, &mut |_| ()).unwrap();
        assert_eq!(sink.0, if direction == Direction::Decode { frames } else { frames / 4 + 1 });
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    println!("resident {} kB", line.trim().trim_end_matches("kB").trim());
}

#[test]
fn resident_memory_is_the_same_for_few_and_many_frames() {
    if let Ok(frames) = std::env::var(FRAMES) {
        return run(frames.parse().unwrap());
    }
    let counts: &[usize] = nightly(&[17, 65], &[17, 65, 257]);
    let resident = counts.iter().map(|frames| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "flat::resident_memory_is_the_same_for_few_and_many_frames", "--nocapture"])
            .env(FRAMES, frames.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line =
            text.lines().find_map(|l| l.split("resident ").nth(1)).unwrap_or_else(|| unreachable!("{text}"));
        line.trim_end_matches(" kB").parse::<f64>().unwrap()
    });
    let resident: Vec<f64> = resident.collect();
    println!("resident memory of {counts:?} frames: {resident:?} kB");
    let (low, high) = resident.iter().fold((f64::MAX, 0.0f64), |(l, h), r| (l.min(*r), h.max(*r)));
    assert!(high <= 1.02 * low, "{resident:?}");
}
