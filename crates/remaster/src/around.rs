//! What a film takes beside its networks: programs that start, the look for shots, decoder, frames, encoder, check.
//!
//! What this program does to frames is timed on small ones, in some milliseconds. What ffmpeg does is known from tables, for
//! the speed of this machine: starting an encoder and filling it would take longer than many films.

use std::path::Path;
use std::time::{Duration, Instant};

use remaster_media::Format;
use remaster_picture::{Frame, resize};
use remaster_restore::frame_seconds;

use crate::media::Opened;
use crate::request::Cut;
use crate::restore::{Film, usual_piece};

/// Seconds of one thread for a million pixels that are decoded, by ffmpeg's name of the codec.
const DECODED: [(&str, f64); 14] = [
    ("h264", 0.011),
    ("hevc", 0.012),
    ("mpeg2video", 0.004),
    ("mpeg1video", 0.004),
    ("mpeg4", 0.004),
    ("dvvideo", 0.01),
    ("prores", 0.02),
    ("dnxhd", 0.01),
    ("ffv1", 0.03),
    ("mjpeg", 0.008),
    ("vp8", 0.006),
    ("vp9", 0.006),
    ("av1", 0.008),
    ("rawvideo", 0.0),
];

/// The same for other codecs.
const DECODED_OTHERWISE: f64 = 0.01;

/// Seconds of one thread for a million pixels that are encoded as usual, and that are decoded again to be counted, by the
/// encoder.
const ENCODED: [(&str, [f64; 2]); 10] = [
    ("libx264", [0.11, 0.012]),
    ("libx265", [0.32, 0.011]),
    ("libvpx-vp9", [0.36, 0.006]),
    ("libvpx", [0.33, 0.006]),
    ("libsvtav1", [0.11, 0.008]),
    ("ffv1", [0.035, 0.03]),
    ("prores_ks", [0.17, 0.02]),
    ("mpeg4", [0.01, 0.004]),
    ("mpeg2video", [0.01, 0.004]),
    ("mjpeg", [0.012, 0.008]),
];

/// The same for other encoders.
const ENCODED_OTHERWISE: [f64; 2] = [0.11, 0.012];

/// Seconds that the resize of [`slowness`] takes on the machine of the tables.
const RESIZED: f64 = 0.0008;

/// A film has shots that are looked for: this share of what it takes to read a frame.
const CUT: f64 = 0.3;

/// Bytes of a network that are loaded in a second.
const LOADED: f64 = 1.5e9;

/// Pixels of a frame whose samples are timed.
const AREA: f64 = 60_000.0;

/// Times that something is timed; the fastest counts, as others may be at work.
const TIMES: usize = 4;

/// What is known of a film's surroundings before anything is timed.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// When the run began to get ready.
    pub(crate) began: Instant,
    /// How long ffmpeg takes to start.
    pub(crate) start: Duration,
    /// What has to be read; nothing for pictures and raw frames.
    pub(crate) codec: Option<String>,
    /// What will be written; nothing for pictures and raw frames.
    pub(crate) encoder: Option<String>,
    /// It is restored by units.
    pub(crate) by_units: bool,
    /// Frames of a unit.
    pub(crate) unit_frames: usize,
}

impl Surroundings {
    /// Of a film that was opened just now.
    pub(crate) fn new(opened: &Opened, encoder: Option<String>, by_units: bool) -> Self {
        Surroundings {
            began: Instant::now(),
            start: Duration::ZERO,
            codec: opened.probe.as_ref().map(|probe| probe.video.codec.clone()),
            encoder,
            by_units,
            unit_frames: Cut::default().unit_frames as usize,
        }
    }
}

/// Seconds around the networks of a film.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    /// Before the first frame.
    ready: f64,
    /// Of each program that starts.
    start: f64,
    /// To load the networks once.
    load: f64,
    /// Of each frame in a pass of its own: the look for shots, and the check of what was written.
    apart: f64,
    /// Of each frame while networks compute, on all cores.
    shared: f64,
    /// Of each frame, on the thread that has the most to do.
    single: f64,
    /// Times that a film is read while it is restored.
    reads: f64,
    by_units: bool,
    unit_frames: usize,
    piece_frames: usize,
    /// The networks compute beside the processor.
    apart_from_cpu: bool,
}

impl Around {
    /// Times what is done to frames. `is_ready` says whether the run has done all that comes before its first frame.
    pub(crate) fn of(film: &Film, is_ready: bool) -> Self {
        let Surroundings { began, start, codec, encoder, by_units, unit_frames } = film.surroundings.clone();
        let cores = film.site.machine.cores.max(1) as f64;
        let shown = film.shown();
        let [read, written] = [&film.format, &shown].map(|format| millions([format.width, format.height]));
        let slow = slowness();
        let decode =
            slow * read * codec.as_deref().map_or(0.0, |codec| of(&DECODED, codec, DECODED_OTHERWISE));
        let coded = encoder.as_deref().map(|encoder| of(&ENCODED, encoder, ENCODED_OTHERWISE));
        let [encode, check] = coded.unwrap_or_default().map(|seconds| slow * written * seconds);
        let ([unpack, _], [_, pack]) = (samples(&film.format), samples(&shown));
        let [prepare, finish] = frame_seconds(&film.recipe, &film.format);
        let by_frame = film.networks.by_frame();
        let reads = if by_frame { 1.0 } else { 2.0 };
        let cut = unpack * (1.0 + CUT);
        let scan = if by_units { ((decode + cut) / cores).max(cut) } else { 0.0 };
        let behind = finish + pack + if by_frame { 0.0 } else { unpack };
        let once = start.as_secs_f64();
        // An encoder is asked for its options and tried before the work, that of pieces and that of the film, each with a decoder.
        let ahead = if is_ready { 0.0 } else { 5.0 * once };
        Around {
            ready: began.elapsed().as_secs_f64() + ahead,
            start: if codec.is_some() || encoder.is_some() { once } else { 0.0 },
            load: bytes_of(film) / LOADED,
            apart: scan + check / cores,
            shared: (reads * (decode + unpack) + prepare + finish + pack + encode) / cores,
            single: (unpack + prepare).max(behind),
            reads,
            by_units,
            unit_frames,
            piece_frames: usual_piece([shown.width, shown.height], by_frame),
            apart_from_cpu: film.apart,
        }
    }

    /// Seconds of a frame whose networks take so long.
    pub(crate) fn frame(&self, networks: f64) -> f64 {
        // Where the processor computes everything waits for it.
        let together = if self.apart_from_cpu { networks.max(self.shared) } else { networks + self.shared };
        self.apart + together.max(self.single)
    }

    /// Seconds of so many frames, each of which takes the networks so long.
    pub(crate) fn film(&self, frames: usize, networks: f64) -> f64 {
        let units = if self.by_units { frames.div_ceil(self.unit_frames.max(1)).max(1) } else { 1 };
        let pieces = if self.by_units { frames.div_ceil(self.piece_frames.max(1)).max(units) } else { 1 };
        // A piece has an encoder and is checked; a film is joined, and checked once more.
        let programs =
            units as f64 * self.reads + if self.by_units { 2.0 * pieces as f64 + 3.0 } else { 2.0 };
        let work = frames as f64 * self.frame(networks);
        self.ready + self.start * programs + self.load * units as f64 + work
    }

    /// Seconds of a unit of so many frames in a process of its own.
    pub(crate) fn unit(&self, frames: usize, networks: f64) -> f64 {
        let pieces = frames.div_ceil(self.piece_frames.max(1)) as f64;
        let programs = self.reads + 2.0 * pieces;
        self.ready + self.start * programs + self.load + frames as f64 * self.frame(networks)
    }
}

/// Millions of pixels.
fn millions([width, height]: [usize; 2]) -> f64 {
    width as f64 * height as f64 / 1e6
}

/// The entry of a name, or what others take.
fn of<T: Copy>(table: &[(&str, T)], name: &str, otherwise: T) -> T {
    table.iter().find(|(known, _)| *known == name).map_or(otherwise, |(_, found)| *found)
}

/// Bytes of the files of networks.
fn bytes_of(film: &Film) -> f64 {
    let size = |name: &String| Path::new(name).metadata().map_or(0, |about| about.len());
    film.networks.names.iter().map(size).sum::<u64>() as f64
}

/// The fastest of a few.
fn fastest(mut work: impl FnMut()) -> f64 {
    let timed = (0..TIMES).map(|_| {
        let began = Instant::now();
        work();
        began.elapsed()
    });
    timed.min().unwrap_or_default().as_secs_f64()
}

/// How many times slower this machine is than that of the tables.
fn slowness() -> f64 {
    let mut frame = Frame::new(192, 144, 3);
    frame.data.iter_mut().enumerate().for_each(|(i, value)| *value = (i % 253) as f32 / 253.0);
    (fastest(|| drop(std::hint::black_box(resize(&frame, 288, 216)))) / RESIZED).clamp(0.1, 20.0)
}

/// Seconds to make a frame of samples, and samples of a frame.
fn samples(format: &Format) -> [f64; 2] {
    let (width, height) = (format.width, format.height);
    let factor = (width as f64 * height as f64 / AREA).sqrt().max(1.0);
    let less = |n: usize| ((n as f64 / factor) as usize).next_multiple_of(4).max(4);
    let mut frame = Frame::new(less(width), less(height), format.channels());
    let (Some(size), Ok(coding)) = (format.layout.bytes(frame.width, frame.height), format.colour.coding())
    else {
        return [0.0; 2];
    };
    let (bytes, mut packed) = (vec![64; size], Vec::new());
    let times = millions([width, height]) / millions([frame.width, frame.height]);
    let unpacked = fastest(|| drop(format.layout.unpack(&bytes, &coding, &mut frame)));
    [unpacked, fastest(|| drop(format.layout.pack(&frame, &coding, &mut packed)))].map(|took| took * times)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(apart_from_cpu: bool) -> Around {
        Around {
            ready: 1.0,
            start: 0.1,
            load: 2.0,
            apart: 0.01,
            shared: 0.05,
            single: 0.02,
            reads: 1.0,
            by_units: true,
            unit_frames: 100,
            piece_frames: 50,
            apart_from_cpu,
        }
    }

    #[test]
    fn a_frame_waits_for_the_processor_or_for_what_takes_longest() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(around(false).frame(0.2), 0.26);
        close(around(true).frame(0.2), 0.21);
        close(around(true).frame(0.01), 0.06);
        close(Around { shared: 0.0, ..around(true) }.frame(0.0), 0.03);
    }

    #[test]
    fn a_film_has_a_start_units_pieces_and_an_end() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        // Three units and five pieces: 16 programs.
        close(around(false).film(250, 0.0), 1.0 + 1.6 + 6.0 + 15.0);
        close(around(false).film(1, 0.0), 1.0 + 0.6 + 2.0 + 0.06);
        close(Around { by_units: false, ..around(false) }.film(250, 0.0), 1.0 + 0.3 + 2.0 + 15.0);
        close(around(false).unit(100, 0.0), 1.0 + 0.5 + 2.0 + 6.0);
    }

    #[test]
    fn this_machine_is_timed_in_a_moment() {
        let began = Instant::now();
        assert!((0.1..=20.0).contains(&slowness()));
        assert!(began.elapsed() < Duration::from_secs(2));
    }
}
