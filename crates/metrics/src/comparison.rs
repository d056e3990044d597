//! The accumulator: pairs of frames go in, a report comes out.

use crate::ciede2000::LabTable;
use crate::drift::DriftSums;
use crate::error::{MetricsError, Side};
use crate::flicker::History;
use crate::picture::{Picture, check_frame, check_sides};
use crate::psnr::{decibel, mse};
use crate::report::{FrameScores, Metric, Pick, Pooled, Report, Stat};
use crate::sample::Keeper;
use crate::seams::{Borders, SeamSums, median};
use crate::ssim;
use crate::ssimulacra2::Scorer;

/// What is measured besides PSNR, flicker and drift, which cost next to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// SSIM.
    pub ssim: bool,
    /// SSIMULACRA2. For pictures in sRGB or close to it, not for PQ and HLG.
    pub ssimulacra2: bool,
    /// CIEDE2000. For pictures in sRGB or close to it, not for PQ and HLG.
    pub delta_e: bool,
    /// Pixels of a side of a block of the drift map, 4 to 1024.
    pub block: usize,
    /// Where tiles meet, if that is known.
    pub borders: Option<Borders>,
    /// Longest side of a picture on the sheet, 64 to 2048. `None`: no pictures are kept.
    pub cell: Option<usize>,
}

const BLOCK: usize = 32;
const CELL: usize = 480;

impl Default for Options {
    fn default() -> Self {
        Options {
            ssim: true,
            ssimulacra2: true,
            delta_e: true,
            block: BLOCK,
            borders: None,
            cell: Some(CELL),
        }
    }
}

/// Compares two clips, frame by frame. It holds a few frames, whatever the length of the clips, and about
/// 150 bytes per frame for its scores.
pub struct Comparison {
    size: (usize, usize),
    options: Options,
    scorer: Option<Scorer>,
    lab: LabTable,
    history: (History, History),
    drift: DriftSums,
    seams: SeamSums,
    keeper: Option<Keeper>,
    errors: (f64, f64),
    badness: Vec<f64>,
    frames: Vec<FrameScores>,
}

impl Comparison {
    /// For clips of this size.
    pub fn new(width: usize, height: usize, options: Options) -> Result<Self, MetricsError> {
        check_sides(width, height)?;
        let within = |name, value, low, high, default| match (low..=high).contains(&value) {
            true => Ok(()),
            false => Err(MetricsError::Setting { name, value, low, high, default }),
        };
        within("the block of the drift map", options.block, 4, 1024, BLOCK)?;
        if let Some(cell) = options.cell {
            within("the size of a picture on the sheet", cell, 64, 2048, CELL)?;
        }
        Ok(Comparison {
            size: (width, height),
            scorer: if options.ssimulacra2 { Scorer::new(width, height)? } else { None },
            lab: LabTable::new(),
            history: Default::default(),
            drift: DriftSums::new(width, height, options.block),
            seams: SeamSums::new(width, height),
            keeper: options.cell.map(Keeper::new),
            errors: (0.0, 0.0),
            badness: Vec::new(),
            frames: Vec::new(),
            options,
        })
    }

    /// Measures the next pair. After an error the pair counts as never given.
    pub fn push(&mut self, a: Picture<'_>, b: Picture<'_>) -> Result<FrameScores, MetricsError> {
        let frame = self.frames.len();
        check_frame(a, Side::A, frame, self.size)?;
        check_frame(b, Side::B, frame, self.size)?;
        let ssimulacra2 = self.scorer.as_mut().map(|s| s.score(a, b, frame)).transpose()?;

        let (luma_a, luma_b) = (a.luma(), b.luma());
        let (rgb, luma) = (mse(a.data, b.data), mse(&luma_a, &luma_b));
        self.errors.0 += rgb;
        self.errors.1 += luma;
        let ssim = self.options.ssim.then(|| ssim::of_luma(&luma_a, &luma_b, a.width, a.height)).flatten();
        let delta_e = self.options.delta_e.then(|| self.lab.delta_e(a, b));
        let (past_a, past_b) = &mut self.history;
        let flicker = past_a.against(&luma_a, past_b, &luma_b);
        let (flicker_a, flicker_b) = (past_a.reversal(&luma_a), past_b.reversal(&luma_b));
        past_a.push(luma_a);
        past_b.push(luma_b);
        let drift = self.drift.push(a, b);
        self.seams.push(a, b);

        let badness = ssimulacra2.or(ssim).map_or(rgb, |score| -score);
        self.badness.push(badness);
        if let Some(keeper) = &mut self.keeper {
            keeper.push(a, b, frame, badness);
        }
        let scores = FrameScores {
            frame,
            identical: a.data == b.data,
            psnr: decibel(rgb),
            psnr_luma: decibel(luma),
            ssim,
            ssimulacra2,
            delta_e,
            flicker,
            flicker_a,
            flicker_b,
            drift,
        };
        self.frames.push(scores.clone());
        Ok(scores)
    }

    /// Pairs so far.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// What was found. Without a frame most of it is empty.
    pub fn finish(mut self) -> Report {
        let frames = self.frames.len();
        let pooled = |sum: f64| decibel(sum / frames as f64);
        let summary = |metric| Some((metric, Stat::of(metric, &self.frames)?));
        let median = median(&mut self.badness).unwrap_or(0.0);
        let picks = self.keeper.map_or(Vec::new(), |k| k.finish(median));
        Report {
            width: self.size.0,
            height: self.size.1,
            frames,
            identical: frames > 0 && self.frames.iter().all(|s| s.identical),
            pooled: Pooled { psnr: pooled(self.errors.0), psnr_luma: pooled(self.errors.1) },
            summary: Metric::ALL.into_iter().filter_map(summary).collect(),
            drift: self.drift.finish(),
            seams: self.seams.finish(self.options.borders.as_ref()),
            picks: picks.into_iter().map(|(label, frame, sample)| Pick { label, frame, sample }).collect(),
            per_frame: self.frames,
        }
    }
}
