//! Where the shots of a clip begin.

use std::path::PathBuf;

use remaster_media::{ffmpeg_memory, place};
use remaster_picture::Frame;
use remaster_scenes::{Detector, Shots};

use crate::control::Control;
use crate::destination::check_file;
use crate::error::Error;
use crate::event::{About, Reporter};
use crate::job::{Context, Job, Known, Prepare};
use crate::limits::{self, Amount, Room};
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

/// Opens the clip. The job finds its hard cuts; fades and dissolves are not listed.
impl Prepare for ScenesRequest {
    type Job = Job<Shots>;

    fn prepare(self, &Context { machine, control, report }: &Context<'_, '_>) -> Result<Self::Job, Error> {
        if let Some(path) = &self.output {
            check_file(path, "json", &[&self.input], self.overwrite)?;
        }
        let allowed = limits::allowed(self.ram, &Room::of_run(machine, None))?;
        let threads = ffmpeg_memory::threads(machine.cores, allowed);
        let mut tools = Lazy::new(&self.source, machine, control).with_threads(threads);
        report.started("frames", About::default());
        let opened = self.source.open(&self.input, allowed, &mut tools)?;
        let needed = needed(&opened, &self.source, threads);
        if needed > allowed {
            return Err(Error::Room { what: "reading frames of this size", needed });
        }
        let known = Known { output: self.output.clone(), notes: opened.notes.clone(), total: None };
        Ok(Job::new(known, move |report| {
            let shots = find(opened, tools.control(), report)?;
            if let Some(path) = &self.output {
                place::write(path, shots.to_json().as_bytes(), self.overwrite)?;
            }
            Ok(shots)
        }))
    }
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
