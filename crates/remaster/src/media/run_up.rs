//! Films that can only be read from their start, or from far before a unit: what that costs where units are done apart.

use std::time::{Duration, Instant};

use remaster_media::{Decoder, FrameSource, Probe, ReadOptions};
use remaster_picture::Frame;

use super::Source;
use super::tools::Lazy;
use crate::error::Error;
use crate::numbers::{count, grouped};
use crate::outcome::words;

/// Seconds of a film that may be decoded before a unit without a word about it.
const SHORT: f64 = 60.0;

/// What the speed of a decoder is measured over at most.
const MEASURED_FRAMES: u32 = 250;
const MEASURED: Duration = Duration::from_millis(500);

/// Frames that a new decoder may read before those that are wanted without others waiting for the units to come: 20 s at 60
/// frames a second, as far as a jump goes back.
pub(crate) const MAX_LEAD: usize = 1200;

/// Where a unit begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitStart {
    /// The frame that it reads first.
    pub(crate) frame: usize,
    /// When that one is shown, from the first one on.
    pub(crate) seconds: f64,
}

impl Source {
    /// Whether a decoder for a unit in the middle of the film begins so far before it that one that waits there is worth its
    /// memory. A film of one unit has no such unit. What cannot be found out counts as no.
    pub(crate) fn has_long_run_ups(
        &self,
        probe: Option<&Probe>,
        units: &[UnitStart],
        tools: &mut Lazy,
    ) -> Result<bool, Error> {
        let (Some(probe), [_, .., last]) = (probe, units) else { return Ok(false) };
        let rate = last.frame as f64 / last.seconds.max(1e-3);
        let middle = units[units.len() / 2].seconds;
        if !probe.is_seekable() {
            return Ok(true);
        }
        let options = ReadOptions { threads: tools.threads, ..self.read_options() };
        match Decoder::run_up(tools.get()?, probe, options, middle).map_err(Error::from) {
            Ok(seconds) => Ok(seconds * rate > MAX_LEAD as f64),
            Err(error) if error.is_stop() => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Returns what a person should know of a film whose units begin there, if decoding cannot begin near them. Nothing that
    /// goes wrong here ends a run.
    pub(crate) fn run_up_note(
        &self,
        probe: Option<&Probe>,
        units: &[UnitStart],
        tools: &mut Lazy,
    ) -> Result<Option<String>, Error> {
        match self.look_for_run_up(probe, units, tools) {
            Err(error) if !error.is_stop() => Ok(None),
            note => note,
        }
    }

    /// Two of the units are tried.
    fn look_for_run_up(
        &self,
        probe: Option<&Probe>,
        units: &[UnitStart],
        tools: &mut Lazy,
    ) -> Result<Option<String>, Error> {
        let later = units.get(1..).unwrap_or_default();
        let (Some(probe), Some(last)) = (probe, later.last()) else { return Ok(None) };
        let options = ReadOptions { threads: tools.threads, ..self.read_options() };
        let mut longest = 0f64;
        for unit in [later[later.len() / 2], *last] {
            if longest <= SHORT {
                let run_up = Decoder::run_up(tools.get()?, probe, options.clone(), unit.seconds)?;
                longest = longest.max(run_up);
            }
        }
        if longest <= SHORT {
            return Ok(None);
        }
        let rate = last.frame as f64 / last.seconds.max(1e-3);
        let each = |unit: &UnitStart| (unit.frame as f64).min(longest * rate) as usize;
        let extra = later.iter().map(each).fold(0, usize::saturating_add);
        let time = match seconds_per_frame(Decoder::open(tools.get()?, probe, options)?)? {
            Some(seconds) => format!(", about {} of decoding", words(seconds * extra as f64)),
            None => String::new(),
        };
        Ok(Some(format!(
            "decoding cannot begin near the middle of this film, so it is read from its start: once on one device; on \
             several devices or machines once for each of {}, {} frames more in all{time}",
            count(units.len(), "unit"),
            grouped(extra)
        )))
    }
}

/// How long a decoder takes for a frame; `None` for one that gives a single frame.
fn seconds_per_frame(mut decoder: Decoder) -> Result<Option<f64>, Error> {
    let mut frame = Frame::new(0, 0, 3);
    decoder.next(&mut frame)?;
    let (began, mut frames) = (Instant::now(), 0);
    while frames < MEASURED_FRAMES && began.elapsed() < MEASURED && decoder.next(&mut frame)?.is_some() {
        frames += 1;
    }
    Ok((frames > 0).then(|| began.elapsed().as_secs_f64() / f64::from(frames)))
}
