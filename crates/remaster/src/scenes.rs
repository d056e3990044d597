//! Where the shots of a clip begin.

use std::path::PathBuf;

use remaster_media::{ffmpeg_memory, place};
use remaster_picture::Frame;
use remaster_scenes::{Detector, Shots};

use crate::control::Control;
use crate::destination::check_file;
use crate::error::Error;
use crate::event::{About, Event, Reporter};
use crate::limits::{self, Amount, Room};
use crate::machine::host::Machine;
use crate::media::{Lazy, Opened, Source};

/// A clip whose shots are wanted.
#[derive(Clone, Debug)]
pub struct ScenesRequest {
    /// Video, folder of images, or `-` for y4m on stdin.
    pub input: PathBuf,
    /// A file for the list (.json).
    pub output: Option<PathBuf>,
    /// Replace a file that exists.
    pub overwrite: bool,
    /// How the input is read.
    pub source: Source,
    /// Memory, ffmpeg included.
    pub ram: Amount,
}

/// Bytes per pixel that reading holds: a frame of 12 or 16, its raw samples, and the pipe.
const PIXEL: u64 = 32;

/// Finds hard cuts. Fades and dissolves are not listed.
pub fn scenes(
    request: &ScenesRequest,
    machine: &Machine,
    control: &Control,
    events: &mut dyn FnMut(Event),
) -> Result<Shots, Error> {
    let report = &Reporter::new(events);
    if let Some(path) = &request.output {
        check_file(path, "json", &[&request.input], request.overwrite)?;
    }
    let allowed = limits::allowed(request.ram, &Room::of_run(machine, None))?;
    let threads = ffmpeg_memory::threads(machine.cores, allowed);
    let mut tools = Lazy::new(&request.source, machine, control).with_threads(threads);
    report.started("frames", About::default());
    let opened = request.source.open(&request.input, allowed, &mut tools)?;
    let needed = needed(&opened, &request.source, threads);
    if needed > allowed {
        return Err(Error::Room { what: "reading frames of this size", needed });
    }
    let shots = find(opened, control, report)?;
    if let Some(path) = &request.output {
        place::write(path, shots.to_json().as_bytes(), request.overwrite)?;
    }
    Ok(shots)
}

/// Reads a clip to its end and says where its shots begin.
pub(crate) fn find(mut opened: Opened, control: &Control, report: &Reporter<'_>) -> Result<Shots, Error> {
    report.phase_about("scenes", opened.source.format().frames, false);
    report.enter("scenes");
    let (mut detector, mut shots) = (Detector::new(), Shots::default());
    let mut frame = Frame::new(0, 0, 3);
    loop {
        let started = std::time::Instant::now();
        if opened.source.next(&mut frame)?.is_none() {
            break;
        }
        detector.push(&frame).into_iter().for_each(|verdict| shots.record(verdict));
        report.advance("scenes", 1, started.elapsed());
        control.check()?;
    }
    detector.finish().into_iter().for_each(|verdict| shots.record(verdict));
    Ok(shots)
}

/// Bytes of memory that reading takes, whatever the length of the clip.
fn needed(opened: &Opened, source: &Source, threads: usize) -> u64 {
    let format = opened.source.format();
    let pixels = (format.width as u64).saturating_mul(format.height as u64);
    let child = source.ffmpeg_memory(opened, threads);
    [limits::process(false), pixels.saturating_mul(PIXEL), child].into_iter().fold(0, u64::saturating_add)
}
